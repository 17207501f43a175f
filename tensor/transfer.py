"""Moving tensors between devices and to and from NumPy."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from halon.dispatcher import hot
from halon.dispatcher.ops import movement
from halon.dispatcher.structures import (
    Meta,
    Node,
    Storage,
    TensorBase,
    make_meta,
    modes,
    new_storage,
)
from halon.hal import dtypes as dt
from halon.hal.device_name import device
from halon.hal.dtypes import DType
from halon.hal.errors import NotProvided
from halon.hal.open_device import OpenDevice
from halon.hal.properties import Layout
from halon.hal.registry import host


def parse_to(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, DType | None, bool]:
    """(device or None, dtype or None, copy) from the arguments of ``Tensor.to``."""
    names = ["device", "dtype", "non_blocking", "copy"]
    if args and isinstance(args[0], DType):
        names = ["dtype", "non_blocking", "copy"]
    elif args and isinstance(args[0], TensorBase):
        other = args[0]
        args = (other.meta.device.device, other.meta.dtype, *args[1:])
    given = dict(zip(names, args, strict=False))
    if len(args) > len(names):
        raise TypeError(f"to() takes at most {len(names)} positional arguments, got {len(args)}")
    for name, value in kwargs.items():
        if name not in ("device", "dtype", "non_blocking", "copy", "memory_format"):
            raise TypeError(f"to() got an unexpected keyword argument '{name}'")
        given[name] = value
    target, dtype = given.get("device"), given.get("dtype")
    if target is not None and not isinstance(target, (str, device)):
        raise TypeError(f"to(): expected a device or dtype, got {type(target).__name__}")
    if dtype is not None and not isinstance(dtype, DType):
        raise TypeError(f"to(): dtype must be a halon dtype, got {type(dtype).__name__}")
    return target, dtype, bool(given.get("copy", False))


class _TransferRow:
    """The derivative of a move: the gradient moves back."""

    saved: tuple[Any, ...] = ()

    def __init__(self, source: OpenDevice) -> None:
        self.source = source

    def backward(self, node: Node, grads: Sequence[Any], create_graph: bool) -> list[Any]:
        return [to_device(grads[0], self.source)]


def to_device(t: Any, target: OpenDevice) -> Any:
    """The tensor's elements on another device; differentiable. The device must differ."""
    with_history = modes.grad and t.wants_grad
    source = t if _dense(t.meta) else movement.dense(t)
    meta = make_meta(source.meta.shape, source.meta.strides, source.meta.dtype, target)
    storage = new_storage(target, meta.span)
    _copy_across(source.storage, source.offset, storage, meta.span)
    moved = hot.wrap((storage, 0), meta)
    if with_history:
        edge = t if t.node is None else (t.node, t.node_index)
        row = _TransferRow(t.meta.device)
        moved.node = Node("ToCopyBackward0", row, (edge,), (), [], (meta,), None)
        moved.wants_grad = True
    return moved


def _dense(meta: Meta) -> bool:
    """Whether the elements fill their span: then bytes can be copied with the strides kept."""
    return meta.span == meta.numel * meta.dtype.itemsize and meta.layout != Layout.BROADCAST


def _copy_across(src: Storage, offset: int, dst: Storage, nbytes: int) -> None:
    if not nbytes:
        return
    here, there = src.device, dst.device
    if there.is_host:
        here.read(src.handle, offset, host_bytes(dst, 0, nbytes))
    elif here.is_host:
        there.write(dst.handle, 0, host_bytes(src, offset, nbytes))
    else:
        try:
            here.check()
            here.impl.peer_copy(there.impl, dst.handle, 0, src.handle, offset, nbytes)
        except NotProvided:
            bounce = memoryview(bytearray(nbytes))
            here.read(src.handle, offset, bounce)
            there.write(dst.handle, 0, bounce)
            here.staged_bytes += nbytes
            there.staged_bytes += nbytes


def host_bytes(storage: Storage, offset: int, nbytes: int) -> memoryview:
    """A writable byte view of a host storage."""
    return storage.device.impl.host_view(storage.handle, storage.nbytes)[offset : offset + nbytes]


def to_array(t: Any) -> np.ndarray:
    """A NumPy copy of any tensor's elements."""
    t = t.detach()
    if not t.meta.device.is_host:
        t = to_device(t, host())
    return shared_array(t).copy()


def shared_array(t: Any) -> np.ndarray:
    """A NumPy view of a host tensor's memory, which stays alive as long as the array."""
    meta = t.meta
    if not meta.device.is_host:
        raise TypeError(
            f"can't convert {meta.device.name} device type tensor to numpy. Use Tensor.cpu() to "
            "copy the tensor to host memory first."
        )
    dtype = meta.dtype.numpy
    strides = tuple(s * dtype.itemsize for s in meta.strides)
    if not meta.numel:
        return np.empty(meta.shape, dtype)
    memory = kept(host_bytes(t.storage, t.offset, meta.span), t.storage)
    return np.ndarray(meta.shape, dtype, memory, 0, strides)


def kept(view: memoryview, storage: Storage) -> np.ndarray:
    """The bytes of a view as an array that keeps the storage alive."""
    memory = np.frombuffer(view, np.uint8)
    keeper = weakref.finalize(memory, _keep, storage)
    keeper.atexit = False  # at exit the array may be used longer than finalizers run
    return memory


def _keep(storage: Storage) -> None:
    """Nothing: the finalizer's argument kept the storage alive until now."""


def from_array(array: np.ndarray) -> Any:
    """A host tensor that shares an array's memory; a copy of one that is read-only or misaligned.

    Raises TypeError for dtypes halon does not have and ValueError for negative strides.
    """
    dtype = dt.from_numpy(array.dtype)
    if any(s < 0 for s in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative "
            "strides are not supported. (You can work around this by making a copy of your array "
            "with array.copy().)"
        )
    odd = any(s % array.itemsize for s in array.strides)
    if odd or not (array.flags.writeable and array.flags.aligned and array.dtype.isnative):
        array = np.ascontiguousarray(array, dtype.numpy).reshape(array.shape).copy()
    strides = tuple(s // max(array.itemsize, 1) for s in array.strides)
    meta = make_meta(tuple(array.shape), strides, dtype, host())
    if not array.size:
        return hot.wrap((new_storage(host(), 0), 0), meta)
    # NumPy has no buffer format for the types of ml_dtypes: their bytes are looked at as integers
    plain = array if array.dtype.isbuiltin == 1 else array.view(f"u{array.itemsize}")
    raw = np.lib.stride_tricks.as_strided(
        plain, (meta.span // array.itemsize,), (array.itemsize,), writeable=True
    )
    return adopt(raw.view(np.uint8).data, meta, array)


def adopt(memory: memoryview, meta: Meta, owner: Any) -> Any:
    """A host tensor over writable bytes that ``owner`` keeps alive."""
    storage = Storage(host(), memory.nbytes, None, host().impl.adopt(memory), owner=owner)
    return hot.wrap((storage, 0), meta)
