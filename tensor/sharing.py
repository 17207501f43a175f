"""Pickling and deep copies: tensors that share memory share it afterwards too.

A tensor is pickled as its storage and where it lies in it, so the pickle module's own bookkeeping
keeps shared storages shared. Importing this module tells it how storages and generators pickle.
"""

from __future__ import annotations

import copy
import copyreg
from typing import Any

from halon.dispatcher import hot
from halon.dispatcher.structures import Storage, make_meta, new_storage
from halon.hal.dtypes import DType
from halon.hal.registry import host, registry
from halon.tensor.random import Generator
from halon.tensor.tensor import Tensor
from halon.tensor.transfer import host_bytes


def reduce(t: Tensor) -> tuple[Any, ...]:
    """What ``Tensor.__reduce_ex__`` returns: the storage, the place in it, dtype and attributes.

    History, hooks and ``grad`` stay behind, as in torch.
    """
    state = t.__dict__ or None
    meta = t.meta
    place = (t.offset, meta.shape, meta.strides, meta.dtype)
    return _rebuilt, (type(t), t.storage, *place, t.wants_grad), state


def _rebuilt(
    cls: type, storage: Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...],
    dtype: DType, requires_grad: bool,
) -> Tensor:  # fmt: skip
    meta = make_meta(shape, strides, dtype, storage.device)
    return Tensor._make_subclass(cls, hot.wrap((storage, offset), meta), requires_grad)


def deepcopy(t: Tensor, memo: dict[int, Any]) -> Tensor:
    """A leaf with storage, ``grad`` and attributes of its own; RuntimeError for other tensors."""
    if t.node is not None:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment.  If you were attempting to deepcopy a module, this may be "
            "because of a parametrisation such as weight_norm. Use .detach().clone()."
        )
    found = memo.get(id(t))
    if found is not None:
        return found
    storage = memo.get(id(t.storage))
    if storage is None:
        storage = memo[id(t.storage)] = _copied(t.storage)
    place = hot.wrap((storage, t.offset), t.meta)
    twin = memo[id(t)] = Tensor._make_subclass(type(t), place, t.wants_grad)
    if t.grad is not None:
        twin.grad_value = copy.deepcopy(t.grad, memo)
    twin.__dict__.update(copy.deepcopy(t.__dict__, memo))
    return twin


def _copied(storage: Storage) -> Storage:
    twin = new_storage(storage.device, storage.nbytes)
    storage.device.copy(twin.handle, 0, storage.handle, 0, storage.nbytes)
    return twin


def storage_bytes(storage: Storage) -> memoryview:
    """All bytes of a storage: a view on the host, a copy from elsewhere."""
    if storage.device.is_host:
        return host_bytes(storage, 0, storage.nbytes)
    content = memoryview(bytearray(storage.nbytes))
    storage.device.read(storage.handle, 0, content)
    return content


def storage_of(content: memoryview | bytes, where: Any) -> Storage:
    """A new storage on an open device with these bytes."""
    storage = new_storage(where, len(content))
    if len(content):
        where.write(storage.handle, 0, memoryview(content))
    return storage


def _reduce_storage(storage: Storage) -> tuple[Any, ...]:
    name = None if storage.device.is_host else storage.device.name
    return _storage_from, (name, bytes(storage_bytes(storage)))


def _storage_from(name: str | None, content: bytes) -> Storage:
    return storage_of(content, host() if name is None else registry.open(name))


def _reduce_generator(generator: Generator) -> tuple[Any, ...]:
    return _generator_from, (generator.device, generator.get_state())


def _generator_from(device: Any, state: Tensor) -> Generator:
    return Generator(device).set_state(state)


copyreg.pickle(Storage, _reduce_storage)  # type: ignore[arg-type]
copyreg.pickle(Generator, _reduce_generator)  # type: ignore[arg-type]
