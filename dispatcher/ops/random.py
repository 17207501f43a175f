"""Counter-based random numbers (Philox4x32-10: Salmon et al., SC11): equal on every device."""

from __future__ import annotations

import math
from typing import Any

from halon.dispatcher.op import KernelCall, op
from halon.dispatcher.ops.elementwise import cos, log, lt, sqrt, where
from halon.dispatcher.ops.movement import cast
from halon.dispatcher.ops.views import reshape, select
from halon.dispatcher.shapes import Shape
from halon.hal import dtypes as dt

philox = op(
    "philox(size: int, key: Number, offset: Number, device: Device) -> Tensor",
    doc="``size`` random 32-bit words as int32; ``offset`` counts blocks of four words.",
    shape=lambda size, key, offset, device: (size,), dtype=lambda *_: dt.int32,
    kernel=lambda size, key, offset, device: KernelCall(
        "philox", (), {}, (("key", "i64"), ("offset", "i64"))
    ),
    grad=None, samples=lambda t: [],
)  # fmt: skip


def words(size: Shape, dtype: dt.DType) -> int:
    """How many words ``uniform`` draws: one per element, two in float64."""
    return math.prod(size) * (2 if dtype is dt.float64 else 1)


def _bits(w: Any, count: int) -> Any:
    """The top ``count`` bits of each word as a non-negative integer."""
    return (w >> (32 - count)) & ((1 << count) - 1)


def _uniform(size: Shape, key: Any, offset: Any, dtype: dt.DType, device: Any) -> Any:
    w = philox(words(size, dtype), key, offset, device)
    if dtype is dt.float64:
        pairs = reshape(w, (math.prod(size), 2))
        high = cast(_bits(select(pairs, 1, 0), 27), dtype)
        low = cast(_bits(select(pairs, 1, 1), 26), dtype)
        return reshape((high * 2.0**26 + low) * 2.0**-53, size)
    digits = {"f16": 11, "bf16": 8}.get(dtype.short, 24)  # what the significand holds exactly
    unit = cast(_bits(w, digits), dt.float32) * 2.0**-digits
    return reshape(cast(unit, dtype), size)


uniform = op(
    "uniform(size: Ints, key: Number, offset: Number, dtype: DType, device: Device) -> Tensor",
    doc="Uniform on [0, 1): multiples of the significand's last place, equal on every device.",
    decompose=_uniform, grad=None, samples=lambda t: [],
)  # fmt: skip


def _normal(size: Shape, key: Any, offset: Any, dtype: dt.DType, device: Any) -> Any:
    work = dt.float64 if dtype is dt.float64 else dt.float32
    n = math.prod(size)
    pairs = _uniform((n, 2), key, offset, work, device)
    radius = sqrt(log(1.0 - select(pairs, 1, 0)) * -2.0)
    return reshape(cast(radius * cos(select(pairs, 1, 1) * (2.0 * math.pi)), dtype), size)


normal = op(
    "normal(size: Ints, key: Number, offset: Number, dtype: DType, device: Device) -> Tensor",
    doc="Standard normal by the Box-Muller transform, two uniforms per element.",
    decompose=_normal, grad=None, samples=lambda t: [],
)  # fmt: skip


def _dropout(x: Any, p: Any, key: Any, offset: Any) -> Any:
    u = _uniform(x.meta.shape, key, offset, dt.float32, x.meta.device)
    drop = lt(u, p)
    return where(drop, 0.0, x * (1.0 / (1.0 - p))), drop


dropout_train = op(
    "dropout_train(input: Tensor, p: Number, key: Number, offset: Number) -> Tensor", outputs=2,
    doc="Elements zeroed with probability p < 1, the rest divided by 1 - p; and what was zeroed.",
    decompose=_dropout,
    grad=lambda g, out, x, p, key, offset: where(out[1], 0.0, g[0] * (1.0 / (1.0 - p))),
    samples=lambda t: [],
)  # fmt: skip
