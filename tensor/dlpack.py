"""DLPack 1.1 both ways: tensors exchanged with other libraries without copying their memory.

This is the one file above the devices that handles addresses, because an address is what the
protocol hands over. Leaving, it is given to NumPy, whose array makes the capsule: its destructor
and deleter are C, and so may run while an exception is in flight, on any thread and at interpreter
exit, none of which a callback written in Python survives. What NumPy cannot say (bfloat16, float8,
another device) is written into the finished structure. Arriving, the structure is read here and
the capsule's deleter is called once, when the last tensor over the memory is gone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from halon.dispatcher import hot
from halon.dispatcher.structures import Meta, Storage, TensorBase, make_meta, new_storage
from halon.hal import dtypes as dt
from halon.hal.dtypes import DType
from halon.hal.errors import NotProvided
from halon.hal.open_device import OpenDevice
from halon.hal.registry import host, registry
from halon.tensor import transfer

#: kDLCPU: ordinary memory, the device every library shares.
HOST_DEVICE: Final = (1, 0)
#: kinds of memory a processor may read: kDLCPU, kDLCUDAHost, kDLROCMHost.
_HOST_KINDS: Final = frozenset({1, 3, 11})
READ_ONLY: Final = 1
IS_COPIED: Final = 2
_LEGACY, _LEGACY_USED = b"dltensor", b"used_dltensor"
_VERSIONED, _VERSIONED_USED = b"dltensor_versioned", b"used_dltensor_versioned"
_NEWEST: Final = (1, 1)

#: halon's short name → (DLPack type code, bits).
_CODES: Final[dict[str, tuple[int, int]]] = {
    "bool": (6, 8),
    "i8": (0, 8), "i16": (0, 16), "i32": (0, 32), "i64": (0, 64),
    "u8": (1, 8), "u16": (1, 16), "u32": (1, 32), "u64": (1, 64),
    "f16": (2, 16), "f32": (2, 32), "f64": (2, 64), "bf16": (4, 16),
    "c64": (5, 64), "c128": (5, 128),
    "f8e4m3": (10, 8), "f8e5m2": (12, 8),
}  # fmt: skip
_DTYPES: Final = {code: dt.SHORT[short] for short, code in _CODES.items()}


class _Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("index", ctypes.c_int32)]


class _Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Legacy(ctypes.Structure):
    _fields_ = [
        ("tensor", _Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


_DELETER: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _python(name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_is_capsule = _python("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_pointer = _python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_rename = _python("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_keep_for_ever = _python("Py_IncRef", None, ctypes.py_object)
for _name in (_LEGACY_USED, _VERSIONED_USED):
    _keep_for_ever(_name)  # a capsule points at its name and may outlive this module


# -- leaving ---------------------------------------------------------------------------------------
def device_of(t: Any) -> tuple[int, int]:
    """``Tensor.__dlpack_device__``: (device type, index) as DLPack numbers them.

    Raises BufferError for a device whose memory DLPack cannot name.
    """
    where = t.meta.device
    if where.host_visible:
        return HOST_DEVICE
    try:
        kind, index, _ = where.impl.dlpack_export(t.storage.handle, -1)
    except NotProvided:
        raise BufferError(
            f"{where.name} has no DLPack device type; export a copy with "
            f"__dlpack__(dl_device={HOST_DEVICE}) or use .cpu()"
        ) from None
    return kind, index


def export(
    t: Any, stream: Any, max_version: tuple[int, int] | None, dl_device: Any, copy: bool | None
) -> Any:
    """``Tensor.__dlpack__``: a capsule over the tensor's memory, or over a copy.

    Raises BufferError for what cannot be exported and TypeError for a stream that is no integer.
    """
    if t.wants_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if stream is not None and type(stream) is not int:
        raise TypeError("stream must be ``int`` or ``none``")
    wanted = None if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
    copied = False
    if wanted is not None and wanted != _device_or_none(t):
        if wanted != HOST_DEVICE:
            raise BufferError(f"cannot export a tensor on {t.device} to DLPack device {wanted}")
        if copy is False:
            raise BufferError(f"copy=False, and {t.device} to host memory takes a copy")
        t, stream, copied = transfer.to_device(t, host()), None, True
    elif copy:
        t, copied = _copied(t), True
    capsule = _capsule(t, stream, max_version)
    if copied and _is_capsule(capsule, _VERSIONED):
        _Versioned.from_address(_pointer(capsule, _VERSIONED)).flags |= IS_COPIED
    return capsule


def _device_or_none(t: Any) -> tuple[int, int] | None:
    try:
        return device_of(t)
    except BufferError:
        return None


def _copied(t: Any) -> Any:
    from halon.dispatcher.ops import movement

    return movement.clone(t.detach())


def _capsule(t: Any, stream: int | None, max_version: tuple[int, int] | None) -> Any:
    meta, where = t.meta, t.meta.device
    kind, index = HOST_DEVICE
    if where.is_host or not meta.numel:
        _no_stream(where, stream)
        kind, index = device_of(t)
        array = transfer.shared_array(t) if where.is_host else np.empty(meta.shape, _plain(meta))
    elif where.host_visible:
        _no_stream(where, stream)
        where.synchronize()
        view = where.impl.host_view(t.storage.handle, t.storage.nbytes)
        array = _array_at(_address(view) + t.offset, t)
    else:
        device_of(t)  # says what to do where the driver has no export
        kind, index, address = where.impl.dlpack_export(t.storage.handle, stream)
        array = _array_at(address + t.offset, t)  # never read here: NumPy only computes with it
    return _described(array.view(_plain(meta)), meta.dtype, (kind, index), max_version)


def _no_stream(where: OpenDevice, stream: int | None) -> None:
    if stream not in (None, -1):
        raise BufferError(f"stream should be None on {where.name}, not {stream}")


def _plain(meta: Meta) -> Any:
    """A NumPy dtype of the same size that NumPy itself can export."""
    short = meta.dtype.short
    return {"bf16": np.uint16, "f8e4m3": np.uint8, "f8e5m2": np.uint8}.get(short, meta.dtype.numpy)


def _array_at(address: int, t: Any) -> np.ndarray:
    """An array over the tensor's memory that keeps its storage alive."""
    meta = t.meta
    memory = transfer.kept(_memory_at(address, meta.span), t.storage)
    strides = tuple(s * meta.dtype.itemsize for s in meta.strides)
    return np.ndarray(meta.shape, _plain(meta), memory, 0, strides)


def _described(
    array: np.ndarray, dtype: DType, where: tuple[int, int], max_version: tuple[int, int] | None
) -> Any:
    """NumPy's capsule of the array, with halon's dtype and device written into it."""
    if max_version is None or max_version[0] < 1:
        capsule = array.__dlpack__()
    else:
        try:
            capsule = array.__dlpack__(max_version=max_version)  # type: ignore[call-arg]
        except TypeError:  # NumPy before 2.1 makes legacy capsules, which every consumer takes
            capsule = array.__dlpack__()
    if _is_capsule(capsule, _VERSIONED):
        tensor = _Versioned.from_address(_pointer(capsule, _VERSIONED)).tensor
    else:
        tensor = _Legacy.from_address(_pointer(capsule, _LEGACY)).tensor
    tensor.dtype.code, tensor.dtype.bits = _CODES[dtype.short]
    tensor.device.kind, tensor.device.index = where
    return capsule


def to_dlpack(tensor: Any) -> Any:
    """to_dlpack(tensor) -> capsule, an unversioned DLPack capsule over the tensor's memory.

    A capsule can be consumed once. New code passes the tensor itself to ``from_dlpack``.

    Raises:
        BufferError: the tensor requires grad, or its device has no DLPack device type.

    >>> import halon
    >>> halon.from_dlpack(halon.to_dlpack(halon.arange(3)))
    tensor([0, 1, 2])
    """
    return tensor.__dlpack__()


# -- arriving --------------------------------------------------------------------------------------
class _Incoming(NamedTuple):
    """A capsule's structure, read and checked, not yet taken over."""

    capsule: Any
    managed: int
    versioned: bool
    flags: int
    device: tuple[int, int]
    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    address: int


class _Owner:
    """Calls the deleter of a consumed capsule, once, when nothing uses its memory any more."""

    def __init__(self, incoming: _Incoming) -> None:
        kind = _Versioned if incoming.versioned else _Legacy
        deleter = kind.from_address(incoming.managed).deleter
        self._delete = _DELETER(deleter) if deleter else None
        self._managed = incoming.managed
        name = _VERSIONED_USED if incoming.versioned else _LEGACY_USED
        _rename(incoming.capsule, name)  # from here on the memory is ours to give back

    def __del__(self) -> None:
        delete, self._delete = getattr(self, "_delete", None), None
        if delete is not None:
            delete(self._managed)


def from_dlpack(x: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """from_dlpack(x, *, device=None, copy=None) -> Tensor, over the memory of another library's.

    Args:
        x: an object with ``__dlpack__`` (a NumPy array, a torch tensor, …) or a DLPack capsule,
            which is consumed.
        device: where the tensor shall be; by default where ``x`` is.
        copy: True always copies, False never does, None only if needed: to another device, from
            memory that is read-only or misaligned, and where a stride is negative.

    Raises:
        BufferError: the memory or its dtype has no counterpart here, or ``copy=False`` and a copy
            is needed.
        RuntimeError: the capsule was consumed before.
        TypeError: ``x`` is neither.

    >>> import halon, numpy as np
    >>> a = np.zeros(3, np.float32)
    >>> t = halon.from_dlpack(a)
    >>> a[1] = 5
    >>> t
    tensor([0., 5., 0.])
    """
    target = None if device is None else registry.open(device)
    if isinstance(x, TensorBase) and not x.meta.device.host_visible:
        t = _own(x)  # halon itself needs no DLPack number for the device
    else:
        t = _received(x, copy) if hasattr(x, "__dlpack__") else _adopted(_read(x), copy)
    if target is not None and target is not t.meta.device:
        if copy is False:
            raise BufferError(f"copy=False, and {t.device} to {target.name} takes a copy")
        return transfer.to_device(t, target)
    shared = isinstance(t.storage.owner, _Owner) or isinstance(x, TensorBase)
    return _copied(t) if copy and shared else t


def _own(x: Any) -> Any:
    if x.wants_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    return x.detach()


def _received(x: Any, copy: bool | None) -> Any:
    """The producer's memory where it lies, or through the host if no open device takes it."""
    kind, _ = x.__dlpack_device__()
    if int(kind) in _HOST_KINDS:
        return _adopted(_read(_requested(x)), copy)
    try:
        return _adopted(_read(_requested(x, stream=_stream_of(int(kind)))), copy)
    except BufferError:
        if copy is False:
            raise
    return _adopted(_read(_requested(x, dl_device=HOST_DEVICE)), copy)


def _requested(x: Any, **wishes: Any) -> Any:
    """The producer's capsule, of the newest version it knows."""
    try:
        return x.__dlpack__(max_version=_NEWEST, **wishes)
    except TypeError:  # a producer of an older protocol does not know the argument
        return x.__dlpack__(**wishes)


def _stream_of(kind: int) -> int | None:
    """The stream on which the memory will be used: the default one, by its DLPack number."""
    cuda, rocm = 2, 10
    return 1 if kind == cuda else 0 if kind == rocm else None


def _read(capsule: Any) -> _Incoming:
    if type(capsule).__name__ != "PyCapsule":
        raise TypeError(
            f"from_dlpack: {type(capsule).__name__} has no __dlpack__ and is no DLPack capsule"
        )
    versioned = bool(_is_capsule(capsule, _VERSIONED))
    if not versioned and not _is_capsule(capsule, _LEGACY):
        raise RuntimeError(
            "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed "
            "only once, so you might have already constructed a tensor from it once."
        )
    managed = _pointer(capsule, _VERSIONED if versioned else _LEGACY)
    flags = 0
    if versioned:
        header = _Versioned.from_address(managed)
        if header.major > 1:
            raise BufferError(f"DLPack version {header.major}.{header.minor} is newer than 1.x")
        flags, tensor = header.flags, header.tensor
    else:
        tensor = _Legacy.from_address(managed).tensor
    dtype, shape, strides = _checked(tensor)
    where = (tensor.device.kind, tensor.device.index)
    address = (tensor.data or 0) + tensor.byte_offset
    return _Incoming(capsule, managed, versioned, flags, where, dtype, shape, strides, address)


def _checked(tensor: _Tensor) -> tuple[DType, tuple[int, ...], tuple[int, ...]]:
    kind = tensor.dtype
    dtype = _DTYPES.get((kind.code, kind.bits))
    if dtype is None or kind.lanes != 1:
        raise BufferError(
            f"DLPack type code {kind.code} of {kind.bits} bits and {kind.lanes} lanes has no "
            "halon dtype"
        )
    n = tensor.ndim
    shape = tuple(tensor.shape[:n]) if n else ()
    if not 0 <= n <= 64 or any(size < 0 for size in shape):
        raise BufferError(f"DLPack tensor of {n} dimensions with shape {list(shape)}")
    if n and tensor.strides:
        return dtype, shape, tuple(tensor.strides[:n])
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return dtype, shape, tuple(reversed(strides))


def _adopted(seen: _Incoming, copy: bool | None) -> Any:
    """A tensor over the capsule's memory, or a copy where the memory cannot be used as it is."""
    if 0 in seen.shape:
        _Owner(seen)
        meta = make_meta(seen.shape, seen.strides, seen.dtype, host())
        return hot.wrap((new_storage(host(), 0), 0), meta)
    if seen.device[0] not in _HOST_KINDS:
        return _adopted_on_device(seen)
    reason = _why_copy(seen)
    if copy is False and seen.flags & IS_COPIED:
        raise BufferError("copy=False, but the producer made a copy")
    if reason and copy is False:
        raise BufferError(f"copy=False, but {reason}")
    owner = _Owner(seen)
    if reason:
        return transfer.from_array(_gathered(seen))
    meta = make_meta(seen.shape, seen.strides, seen.dtype, host())
    return transfer.adopt(_memory_at(seen.address, meta.span), meta, owner)


def _adopted_on_device(seen: _Incoming) -> Any:
    if min(seen.strides, default=0) < 0:
        raise BufferError(f"negative strides {seen.strides} are not supported")
    owner = _Owner(seen)
    for target in registry.opened():
        meta = make_meta(seen.shape, seen.strides, seen.dtype, target)
        try:
            handle = target.impl.dlpack_adopt(*seen.device, seen.address, meta.span, owner)
        except NotProvided:
            continue
        return hot.wrap((Storage(target, meta.span, None, handle, owner=owner), 0), meta)
    raise BufferError(
        f"no open device takes memory of DLPack device {seen.device}; bring the data to host "
        "memory first"
    )


def _why_copy(seen: _Incoming) -> str:
    """Why the memory cannot be used as it is, or empty."""
    if seen.flags & READ_ONLY:
        return "the memory is read-only"
    if min(seen.strides, default=0) < 0:
        return f"strides {seen.strides} are negative"
    if seen.address % min(seen.dtype.itemsize, 8):
        return f"the memory is not aligned to {seen.dtype}"
    return ""


def _gathered(seen: _Incoming) -> np.ndarray:
    """A dense copy of the capsule's elements."""
    size = seen.dtype.itemsize
    reach = [(n - 1) * s * size for n, s in zip(seen.shape, seen.strides, strict=True)]
    low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
    memory = np.frombuffer(_memory_at(seen.address + low, high - low + size), np.uint8)
    strides = tuple(s * size for s in seen.strides)
    return np.ndarray(seen.shape, seen.dtype.numpy, memory.data, -low, strides).copy()


def _memory_at(address: int, nbytes: int) -> memoryview:
    return memoryview((ctypes.c_ubyte * nbytes).from_address(address)).cast("B")


def _address(view: memoryview) -> int:
    return np.frombuffer(view, np.uint8).ctypes.data
