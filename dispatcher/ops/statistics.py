"""Norms, moments and summaries: reductions made of other reductions."""

from __future__ import annotations

import math
from typing import Any

from halon.dispatcher.op import COMPOSE, op
from halon.dispatcher.ops.complex import conjugate, real_part
from halon.dispatcher.ops.elementwise import (
    abs,
    eq,
    exp,
    isnan,
    log,
    maximum,
    minimum,
    mul,
    ne,
    sgn,
    sqrt,
    where,
)
from halon.dispatcher.ops.elementwise import pow as power
from halon.dispatcher.ops.movement import cast, cat
from halon.dispatcher.ops.reduction import (
    amax,
    amin,
    mean,
    reduced_shape,
    spread,
    sum,
    var,
    variance,
    widened,
)
from halon.dispatcher.ops.transcendental import isfinite
from halon.dispatcher.ops.views import narrow, reshape, select
from halon.dispatcher.promote import default_dtype
from halon.dispatcher.shapes import wrap_dim, wrap_dims
from halon.hal import dtypes as dt

_PUBLIC = ("function", "method")


def _reductions(t: Any) -> list[tuple[Any, ...]]:
    return [(t.floats(3, 4),), (t.floats(3, 4), 0), (t.floats(2, 3, 4), (0, 2), True)]


# -- norms -----------------------------------------------------------------------------------------
def _vector_norm(x: Any, ord: float, dim: Any, keepdim: bool) -> Any:
    if x.meta.dtype.category < 2:
        raise RuntimeError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {x.meta}"
        )
    size = abs(x)
    dtype = size.meta.dtype
    if ord in (math.inf, -math.inf):
        return (amax if ord > 0 else amin)(size, dim, keepdim)
    if ord == 0:
        return sum(cast(ne(x, 0), dtype), dim, keepdim)
    if ord == 1:
        return sum(size, dim, keepdim)
    wide = cast(size, dt.float32) if dtype.itemsize == 2 else size
    if ord == 2:
        return cast(sqrt(sum(wide * wide, dim, keepdim)), dtype)
    return cast(power(sum(power(wide, float(ord)), dim, keepdim), 1.0 / ord), dtype)


def _vector_norm_grad(g: Any, out: Any, x: Any, ord: float, dim: Any, keepdim: bool) -> Any:
    """Zero at the origin, as torch's; ties of a maximum share."""
    grad, norm = spread(g, x, dim, keepdim), spread(out, x, dim, keepdim)
    if ord in (math.inf, -math.inf):
        ties = eq(abs(x), norm)
        share = cast(ties, norm.meta.dtype)
        return sgn(x) * (grad * share / sum(share, wrap_dims(dim, x.meta.ndim), True))
    if ord == 0:
        return x * 0
    if ord == 1:
        return sgn(x) * grad
    if ord == 2:
        return x * (grad / where(eq(norm, 0), 1.0, norm))
    size = abs(x)
    still = eq(size, 0) | eq(norm, 0)
    scale = power(where(still, 1.0, size), ord - 1.0) / power(where(still, 1.0, norm), ord - 1.0)
    return sgn(x) * where(still, 0.0, grad * scale)


vector_norm = op(
    "vector_norm(input: Tensor, ord: float = 2, dim: Ints = None, keepdim: bool = False) -> Tensor",
    doc="(sum |x|**ord)**(1 / ord) over ``dim``: also inf, -inf and 0 (how many are not 0).",
    decompose=_vector_norm, grad=_vector_norm_grad,
    samples=lambda t: [
        (t.floats(3, 4),), (t.floats(3, 4), 1, 0), (t.floats(2, 3, 4), 3, (0, 2), True), (t.floats(3, 4), math.inf, 1),
        (t.floats(3, 4), -math.inf), (t.floats(3, 4), 0, 1), (t.floats(3, 4), 0.5, 1),
    ],
)  # fmt: skip


def _norm(x: Any, p: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    if dtype is not None:
        x = cast(x, dtype)
    if p == "nuc":
        raise NotImplementedError("norm: the nuclear norm needs a singular value decomposition")
    return vector_norm(x, 2 if p in ("fro", None) else p, dim, keepdim)


norm = op(
    'norm(input: Tensor, p: float = "fro", dim: Ints = None, keepdim: bool = False, '
    "dtype: DType = None) -> Tensor",
    methods=_PUBLIC, decompose=_norm, grad=COMPOSE,
    doc="The p-norm over ``dim``; Frobenius by default.",
    samples=lambda t: [(t.floats(3, 4),), (t.floats(3, 4), 1, 0), (t.floats(2, 3, 4), 3, 2, True)],
)  # fmt: skip

dist = op(
    "dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor", methods=_PUBLIC,
    decompose=lambda a, b, p: vector_norm(a - b, p, None, False), grad=COMPOSE,
    doc="The p-norm of ``input - other``.",
    samples=lambda t: [(t.floats(3, 4), t.floats(4)), (t.floats(3), t.floats(3), 1)],
)  # fmt: skip


def _renorm(x: Any, p: float, dim: int, maxnorm: float) -> Any:
    d = wrap_dim(dim, x.meta.ndim)
    others = tuple(i for i in range(x.meta.ndim) if i != d)
    size = vector_norm(widened(x), p, others, True)
    return x * cast(where(size > maxnorm, maxnorm / (size + 1e-7), 1.0), x.meta.dtype)


renorm = op(
    "renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor", methods=_PUBLIC,
    decompose=_renorm, grad=COMPOSE,
    doc="Slices along ``dim`` scaled down to a p-norm of at most ``maxnorm``.",
    samples=lambda t: [(t.floats(3, 4), 2, 0, 1.5), (t.floats(2, 3, 4), 1, 1, 2.0)],
)  # fmt: skip


# -- exponentials ----------------------------------------------------------------------------------
def _logsumexp(x: Any, dim: Any, keepdim: bool) -> Any:
    if x.meta.dtype.category < 2:
        x = cast(x, default_dtype())
    top = amax(real_part(x) if x.meta.dtype.is_complex else x, dim, True)
    shift = where(isfinite(top), top, 0.0)
    total = log(sum(exp(x - shift), dim, True)) + shift
    return reshape(total, reduced_shape(x.meta.shape, wrap_dims(dim, x.meta.ndim), keepdim))


logsumexp = op(
    "logsumexp(input: Tensor, dim: Ints, keepdim: bool = False) -> Tensor", methods=_PUBLIC,
    doc="log(sum(exp(input))) over ``dim`` without overflow.", decompose=_logsumexp,
    grad=lambda g, out, x, dim, keepdim: spread(g, x, dim, keepdim)
    * conjugate(exp(x - spread(out, x, dim, keepdim))),
    samples=lambda t: [(t(3, 4), 1), (t.floats(2, 3, 4), (0, 2), True), (t.floats(3), 0)],
)  # fmt: skip


# -- moments ---------------------------------------------------------------------------------------
def _std(x: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    if x.meta.dtype.category < 2:
        raise RuntimeError(
            f"std and var only support floating point and complex dtypes, got {x.meta}"
        )
    return cast(sqrt(variance(widened(x), dim, correction, keepdim)), x.meta.dtype.real)


std_of = op(
    "std_of(input: Tensor, dim: Ints = None, correction: float = 1, keepdim: bool = False)"
    " -> Tensor",
    doc="Standard deviation over ``dim``.", grad=COMPOSE,
    decompose=lambda x, dim, correction, keepdim: _std(x, dim, correction, keepdim),
    samples=lambda t: [(t.floats(3, 4),), (t.floats(3, 4), 1), (t.floats(2, 3, 4), (0, 2), 0, True)],
)  # fmt: skip
var_mean = op(
    "var_mean(input: Tensor, dim: Ints = None, correction: float = 1, keepdim: bool = False)"
    " -> Tensor",
    doc="Variance and mean over ``dim``.", grad=COMPOSE, outputs=2, methods=("function",),
    decompose=lambda x, dim, correction, keepdim: (
        var(x, dim, correction, keepdim), mean(x, dim, keepdim)
    ),
    samples=lambda t: [(t.floats(3, 4),), (t.floats(2, 3, 4), (0, 2), 0, True)],
)  # fmt: skip
std_mean = op(
    "std_mean(input: Tensor, dim: Ints = None, correction: float = 1, keepdim: bool = False)"
    " -> Tensor",
    doc="Standard deviation and mean over ``dim``.", grad=COMPOSE, outputs=2,
    methods=("function",),
    decompose=lambda x, dim, correction, keepdim: (
        _std(x, dim, correction, keepdim), mean(x, dim, keepdim)
    ),
    samples=lambda t: [(t.floats(3, 4),), (t.floats(2, 3, 4), (0, 2), 0, True)],
)  # fmt: skip


def _without_nan(x: Any) -> Any:
    return where(isnan(x), 0, x) if x.meta.dtype.category >= 2 else x


nansum = op(
    "nansum(input: Tensor, dim: Ints = None, keepdim: bool = False, *, dtype: DType = None)"
    " -> Tensor",
    methods=_PUBLIC, doc="Sum over ``dim`` with NaN as 0.", grad=COMPOSE,
    decompose=lambda x, dim, keepdim, dtype: sum(
        _without_nan(x if dtype is None else cast(x, dtype)), dim, keepdim
    ),
    samples=lambda t: [(t(3, 4),), (t(3, 4), 0), (t(2, 3, 4), (0, 2), True)],
)  # fmt: skip
nanmean = op(
    "nanmean(input: Tensor, dim: Ints = None, keepdim: bool = False, *, dtype: DType = None)"
    " -> Tensor",
    methods=_PUBLIC, doc="Mean over ``dim`` of what is not NaN.", grad=COMPOSE,
    decompose=lambda x, dim, keepdim, dtype: _nanmean(
        x if dtype is None else cast(x, dtype), dim, keepdim
    ),
    samples=_reductions,
)  # fmt: skip


def _nanmean(x: Any, dim: Any, keepdim: bool) -> Any:
    if x.meta.dtype.category < 2:
        raise RuntimeError(f"nanmean(): expected input to have floating point dtype, got {x.meta}")
    kept = sum(cast(ne(isnan(x), True), dt.int64), dim, keepdim)
    return sum(_without_nan(x), dim, keepdim) / cast(kept, x.meta.dtype)


count_nonzero = op(
    "count_nonzero(input: Tensor, dim: Ints = None) -> Tensor", methods=_PUBLIC, grad=None,
    decompose=lambda x, dim: sum(cast(ne(x, 0), dt.int64), dim, False),
    doc="How many elements over ``dim`` are not 0.",
    samples=lambda t: [(t(3, 4),), (t(3, 4), 0), (t(2, 3, 4), (0, 2))],
)  # fmt: skip
aminmax = op(
    "aminmax(input: Tensor, *, dim: Ints = None, keepdim: bool = False) -> Tensor", outputs=2,
    methods=_PUBLIC, doc="The smallest and the largest element over ``dim``.", grad=COMPOSE,
    decompose=lambda x, dim, keepdim: (amin(x, dim, keepdim), amax(x, dim, keepdim)),
    samples=lambda t: [(t(3, 4),), (t(3, 4), 0), (t(3, 4), 1, True)],
)  # fmt: skip


# -- differences -----------------------------------------------------------------------------------
def _diff(x: Any, n: int, dim: int, prepend: Any, append: Any) -> Any:
    d = wrap_dim(dim, x.meta.ndim)
    if not x.meta.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    ends = [t for t in (prepend, x, append) if t is not None]
    x = cat(ends, d) if len(ends) > 1 else x
    for _ in range(min(n, x.meta.shape[d])):
        m = x.meta.shape[d] - 1
        later, earlier = narrow(x, d, 1, m), narrow(x, d, 0, m)
        x = ne(later, earlier) if x.meta.dtype is dt.bool_ else later - earlier
    return x


diff = op(
    "diff(input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, "
    "append: Tensor | None = None) -> Tensor",
    methods=_PUBLIC, decompose=_diff, grad=COMPOSE, doc="The n-th difference along ``dim``.",
    samples=lambda t: [(t(3, 4),), (t(3, 4), 2, 0), (t(3, 4), 1, 1, t(3, 1), t(3, 2))],
)  # fmt: skip


def _trapezoid(y: Any, x: Any, dx: float, dim: int) -> Any:
    d = wrap_dim(dim, y.meta.ndim)
    n = y.meta.shape[d]
    if not n:
        return sum(y * 1.0, d, False)
    if x is None:
        ends = select(y, d, 0) + select(y, d, n - 1)
        return (sum(y, d, False) - ends * 0.5) * dx
    pairs = narrow(y, d, 1, n - 1) + narrow(y, d, 0, n - 1)
    if x.meta.ndim == 1:
        x = reshape(x, (-1,) + (1,) * (y.meta.ndim - d - 1))
    e = x.meta.ndim - y.meta.ndim + d
    steps = narrow(x, e, 1, n - 1) - narrow(x, e, 0, n - 1)
    return sum(pairs * steps, d, False) / 2.0


trapezoid = op(
    "trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1.0, dim: int = -1) -> Tensor",
    methods=("function",), decompose=_trapezoid, grad=COMPOSE,
    doc="The integral along ``dim`` by the trapezoidal rule.",
    samples=lambda t: [(t(3, 4),), (t(3, 4), t(4)), (t(3, 4), None, 0.5, 0)],
)  # fmt: skip


# -- covariance ------------------------------------------------------------------------------------
def _cov(x: Any, correction: int) -> Any:
    from halon.dispatcher.ops.contraction import mm
    from halon.dispatcher.ops.views import transpose

    if x.meta.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got {x.meta}"
        )
    rows = reshape(x, (1, -1)) if x.meta.ndim < 2 else x
    if rows.meta.dtype.category < 2:
        rows = cast(rows, default_dtype())
    centred = rows - mean(rows, 1, True)
    free = max(rows.meta.shape[1] - correction, 0)
    product = mm(centred, conjugate(transpose(centred, 0, 1)))
    result = product / float(free) if free else mul(product, float("nan"))
    return reshape(result, ()) if x.meta.ndim < 2 else result


cov = op(
    "cov(input: Tensor, *, correction: int = 1) -> Tensor", methods=_PUBLIC, decompose=_cov,
    grad=COMPOSE, doc="The covariance matrix of rows that are variables.",
    samples=lambda t: [(t(3, 5),), (t(5),), (t(3, 5), 0)],
)  # fmt: skip


def _corrcoef(x: Any) -> Any:
    from halon.dispatcher.ops.arrangement import diagonal

    c = cov(x, 1)
    if not c.meta.ndim:
        return c / c
    scale = sqrt(diagonal(c, 0, 0, 1))
    limited = c / reshape(scale, (-1, 1)) / scale
    return limited if limited.meta.dtype.is_complex else maximum(minimum(limited, 1.0), -1.0)


corrcoef = op(
    "corrcoef(input: Tensor) -> Tensor", methods=_PUBLIC, decompose=_corrcoef, grad=COMPOSE,
    doc="Pearson correlations of rows that are variables.",
    samples=lambda t: [(t.floats(3, 5),)],
)  # fmt: skip
