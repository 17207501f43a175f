"""Making tensors: from Python and NumPy data, filled, ranges."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from halon.dispatcher import hot
from halon.dispatcher.ops import creation
from halon.dispatcher.promote import default_dtype, number_dtype
from halon.dispatcher.structures import TensorBase, dense_meta, new_storage
from halon.hal import dtypes as dt
from halon.hal.dtypes import DType
from halon.hal.open_device import OpenDevice
from halon.hal.registry import host, registry
from halon.tensor import transfer
from halon.tensor.tensor import Tensor, ints


def open_device(where: Any) -> OpenDevice:
    """The open device of a name; the host for None."""
    return host() if where is None else registry.open(where)


def tensor(
    data: Any, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A new tensor with a copy of ``data``.

    Args:
        data: a number, nested sequences of numbers, a NumPy array or a tensor. Python floats take
            the default dtype, ints int64.

    Raises:
        TypeError: data that is not numeric. ValueError: ragged sequences.

    >>> import halon
    >>> halon.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if isinstance(data, TensorBase):
        t: Any = data.detach().clone()  # type: ignore[attr-defined]
    else:
        t = transfer.from_array(_array(data, dtype))
    t = t.to(device=device, dtype=dtype) if device is not None or dtype is not None else t
    return t.requires_grad_(requires_grad)


def _array(data: Any, dtype: DType | None) -> np.ndarray:
    if isinstance(data, (np.ndarray, np.generic)):
        return np.array(data)
    data = _plain(data)
    try:
        array = np.array(data)
    except ValueError as error:
        raise ValueError(f"expected sequences of equal length: {error}") from error
    if array.dtype == object or array.dtype.kind in "USM":
        raise TypeError(f"could not infer dtype of {type(data).__name__}")
    if array.size == 0 or array.dtype.kind == "f":
        wanted = default_dtype() if dtype is None or not dtype.is_floating_point else dtype
        if wanted.short != "bf16":
            array = array.astype(wanted.numpy) if array.dtype.kind == "f" else array
    return array


def _plain(data: Any) -> Any:
    """Nested data with tensors as Python numbers or lists."""
    if isinstance(data, TensorBase):
        return data.tolist()  # type: ignore[attr-defined]
    if isinstance(data, (list, tuple)) and any(
        isinstance(d, (TensorBase, list, tuple)) for d in data
    ):
        return [_plain(d) for d in data]
    return data


def as_tensor(data: Any, dtype: DType | None = None, device: Any = None) -> Tensor:
    """``data`` as a tensor, sharing memory where dtype and device allow it."""
    if isinstance(data, Tensor):
        return data.to(device=device, dtype=dtype) if device is not None or dtype else data
    if isinstance(data, np.ndarray):
        t = from_numpy(data)
        return t.to(device=device, dtype=dtype) if device is not None or dtype else t
    return tensor(data, dtype=dtype, device=device)


def from_numpy(array: np.ndarray) -> Tensor:
    """A host tensor over the memory of a NumPy array.

    >>> import halon, numpy as np
    >>> a = np.zeros(2, np.float32)
    >>> t = halon.from_numpy(a)
    >>> a[0] = 1
    >>> t
    tensor([1., 0.])
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    return transfer.from_array(array)


def full(
    size: Any, fill_value: Any, *, dtype: DType | None = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Every element ``fill_value``; its dtype unless given.

    >>> import halon
    >>> halon.full((2,), 7)
    tensor([7, 7])
    """
    dtype = dtype or number_dtype(fill_value)
    shape = _shape((size,) if isinstance(size, int) else size)
    return creation.full(shape, fill_value, dtype, open_device(device)).requires_grad_(
        requires_grad
    )


def zeros(
    *size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Zeros of a shape."""
    return full(ints(size), 0, dtype=dtype or default_dtype(), device=device,
                requires_grad=requires_grad)  # fmt: skip


def ones(
    *size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Ones of a shape."""
    return full(ints(size), 1, dtype=dtype or default_dtype(), device=device,
                requires_grad=requires_grad)  # fmt: skip


def empty(
    *size: Any, dtype: DType | None = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Memory of a shape, its values undefined."""
    where = open_device(device)
    meta = dense_meta(_shape(ints(size)), dtype or default_dtype(), where)
    return hot.wrap((new_storage(where, meta.span), 0), meta).requires_grad_(requires_grad)


def _shape(size: Any) -> tuple[int, ...]:
    shape = tuple(int(n) for n in size)
    if any(n < 0 for n in shape):
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}"
        )
    return shape


def zeros_like(input: Tensor, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Zeros in the shape of ``input``."""
    return zeros(*input.shape, dtype=dtype or input.dtype, device=device or input.device)


def ones_like(input: Tensor, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Ones in the shape of ``input``."""
    return ones(*input.shape, dtype=dtype or input.dtype, device=device or input.device)


def full_like(
    input: Tensor, fill_value: Any, *, dtype: DType | None = None, device: Any = None
) -> Tensor:
    """``fill_value`` in the shape of ``input``."""
    return full(input.shape, fill_value, dtype=dtype or input.dtype, device=device or input.device)


def empty_like(input: Tensor, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Undefined memory in the shape of ``input``."""
    return empty(*input.shape, dtype=dtype or input.dtype, device=device or input.device)


def arange(
    start: Any, end: Any = None, step: Any = 1, *, dtype: DType | None = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Numbers from ``start`` (0 if one argument) up to but not including ``end``.

    >>> import halon
    >>> halon.arange(1, 7, 2)
    tensor([1, 3, 5])
    """
    if end is None:
        start, end = 0, start
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) / step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if dtype is None:
        floating = any(isinstance(v, float) for v in (start, end, step))
        dtype = default_dtype() if floating else dt.int64
    if all(isinstance(v, int) for v in (start, end, step)):
        size = -(-(end - start) // step)
    else:
        size = math.ceil((end - start) / step)
    kind = float if dtype.is_floating_point else int
    where = open_device(device)
    return creation.iota(size, kind(start), kind(step), dtype, where).requires_grad_(requires_grad)


def linspace(
    start: float, end: float, steps: int, *, dtype: DType | None = None, device: Any = None
) -> Tensor:
    """``steps`` numbers from ``start`` to ``end`` inclusive."""
    if steps < 0:
        raise RuntimeError(f"number of steps must be non-negative, got {steps}")
    dtype = dtype or default_dtype()
    return tensor(np.linspace(start, end, steps).astype(dtype.numpy), device=device)


def eye(n: int, m: int | None = None, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """Ones on the diagonal of an [n, m] matrix."""
    dtype = dtype or default_dtype()
    rows = arange(n, device=device).reshape(n, 1)
    return (rows == arange(n if m is None else m, device=device)).to(dtype)
