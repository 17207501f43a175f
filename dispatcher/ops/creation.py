"""Operators that make tensors from numbers alone."""

from __future__ import annotations

from typing import Any

from halon.dispatcher.op import KernelCall, op
from halon.dispatcher.ops.movement import cast
from halon.hal import dtypes as dt

full = op(
    "full(size: Ints, value: Number, dtype: DType, device: Device) -> Tensor", expr="value",
    doc="Every element ``value``.", shape=lambda size, value, dtype, device: size,
    grad=None, samples=lambda t: [],
)  # fmt: skip


def _by_conversion(size: int, start: Any, step: Any, dtype: Any, device: Any) -> Any:
    """Devices count in a few dtypes; the others are converted from one that holds their values."""
    wide = dt.int64
    if dtype.is_complex or dtype.is_floating_point:
        wide = dt.float64 if dtype is dt.complex128 else dt.float32
    return NotImplemented if wide is dtype else cast(iota(size, start, step, wide, device), dtype)


iota = op(
    "iota(size: int, start: Number, step: Number, dtype: DType, device: Device) -> Tensor",
    doc="start, start + step, …, ``size`` of them.",
    shape=lambda size, start, step, dtype, device: (size,),
    dtype=lambda size, start, step, dtype, device: dtype,
    kernel=lambda size, start, step, dtype, device: KernelCall(
        "iota", (), {}, (("start", dtype.short), ("step", dtype.short))
    ),
    decompose=_by_conversion, grad=None, samples=lambda t: [],
)  # fmt: skip
