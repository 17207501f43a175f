"""Tensors from a file's description of them, checked against the bytes that are there."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from halon.dispatcher import hot
from halon.dispatcher.structures import Storage, make_meta
from halon.hal.dtypes import DType
from halon.nn.parameter import Parameter
from halon.tensor.tensor import Tensor

_MOST_DIMENSIONS: Final = 64
_LARGEST: Final = 1 << 59


class Stored:
    """Part of a storage, as the tensors of a file refer to it."""

    __slots__ = ("dtype", "nbytes", "start", "storage")

    def __init__(self, storage: Storage, dtype: DType | None, start: int, nbytes: int) -> None:
        self.storage = storage
        self.dtype = dtype
        self.start = start
        self.nbytes = nbytes


def _tensor_v1(stored: Any, offset: Any, size: Any, stride: Any) -> Tensor:
    return _tensor(stored, offset, size, stride, None)


def _tensor_v2(
    stored: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any,
    metadata: Any = None,
) -> Tensor:  # fmt: skip
    _check_extras(hooks, metadata)
    return _with_grad(_tensor(stored, offset, size, stride, None), requires_grad)


def _tensor_v3(
    stored: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any,
    metadata: Any = None,
) -> Tensor:  # fmt: skip
    _check_extras(hooks, metadata)
    if not isinstance(dtype, DType):
        raise ValueError("a tensor without a dtype")
    return _with_grad(_tensor(stored, offset, size, stride, dtype), requires_grad)


def _parameter(data: Any, requires_grad: Any, hooks: Any) -> Parameter:
    if type(data) is not Tensor or type(requires_grad) is not bool:
        raise ValueError("a parameter of something else than a tensor")
    _check_extras(hooks, None)
    return Tensor._make_subclass(Parameter, data, requires_grad)


#: a file's name of each function → the function.
REBUILDERS: Final[dict[str, Callable[..., Any]]] = {
    "torch._utils._rebuild_tensor": _tensor_v1,
    "torch._utils._rebuild_tensor_v2": _tensor_v2,
    "torch._utils._rebuild_tensor_v3": _tensor_v3,
    "torch._utils._rebuild_parameter": _parameter,
}


def _tensor(stored: Any, offset: Any, size: Any, stride: Any, dtype: DType | None) -> Tensor:
    if type(stored) is not Stored:
        raise ValueError("a tensor without a storage")
    dtype = dtype or stored.dtype
    if dtype is None:
        raise ValueError("a tensor of plain bytes without a dtype")
    shape, strides = _counts(size, "size"), _counts(stride, "stride")
    if len(shape) != len(strides):
        raise ValueError(f"a tensor with {len(shape)} sizes and {len(strides)} strides")
    if math.prod(n for n in shape if n) >= _LARGEST:
        raise ValueError(f"a tensor of size {list(shape)}")
    (first,) = _counts((offset,), "offset")
    if 0 not in shape:
        last = first + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        if (last + 1) * dtype.itemsize > stored.nbytes:
            raise ValueError(
                f"a tensor of size {list(shape)}, strides {list(strides)} and offset {first} in a "
                f"storage of {stored.nbytes} bytes"
            )
    start = stored.start + (first * dtype.itemsize if 0 not in shape else 0)
    if start % dtype.itemsize and start % 8:
        raise ValueError(f"a tensor of {dtype} that begins at byte {start} of its storage")
    meta = make_meta(shape, strides, dtype, stored.storage.device)
    return hot.wrap((stored.storage, start), meta)


def _counts(values: Any, what: str) -> tuple[int, ...]:
    if type(values) not in (tuple, list) and type(values).__name__ != "Size":
        raise ValueError(f"a tensor whose {what} is a {type(values).__name__}")
    if len(values) > _MOST_DIMENSIONS:
        raise ValueError(f"a tensor of {len(values)} dimensions")
    if any(type(n) is not int or not 0 <= n < _LARGEST for n in values):
        raise ValueError(f"a tensor with a bad {what}")
    return tuple(values)


def _with_grad(t: Tensor, requires_grad: Any) -> Tensor:
    if type(requires_grad) is not bool:
        raise ValueError("a tensor whose requires_grad is no bool")
    if requires_grad and t.dtype.category < 2:
        raise ValueError(f"a tensor of {t.dtype} that requires grad")
    t.wants_grad = requires_grad
    return t


def _check_extras(hooks: Any, metadata: Any) -> None:
    if hooks:
        raise ValueError("a tensor with hooks")
    if metadata:
        raise ValueError(
            "a tensor with a conjugate or negative bit; call .resolve_conj().resolve_neg() before "
            "saving it"
        )
