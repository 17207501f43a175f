"""Operators that make tensors from numbers alone."""

from __future__ import annotations

from halon.dispatcher.op import KernelCall, op

full = op(
    "full(size: Ints, value: Number, dtype: DType, device: Device) -> Tensor", expr="value",
    doc="Every element ``value``.", shape=lambda size, value, dtype, device: size,
    grad=None, samples=lambda t: [],
)  # fmt: skip

iota = op(
    "iota(size: int, start: Number, step: Number, dtype: DType, device: Device) -> Tensor",
    doc="start, start + step, …, ``size`` of them.",
    shape=lambda size, start, step, dtype, device: (size,),
    dtype=lambda size, start, step, dtype, device: dtype,
    kernel=lambda size, start, step, dtype, device: KernelCall(
        "iota", (), {}, (("start", dtype.short), ("step", dtype.short))
    ),
    grad=None, samples=lambda t: [],
)  # fmt: skip
