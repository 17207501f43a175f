"""Reductions over dimensions."""

from __future__ import annotations

import math
from typing import Any

from halon.dispatcher.op import COMPOSE, KernelCall, Op, op
from halon.dispatcher.ops.complex import conjugate, imag_part, linear_by_parts, real_part
from halon.dispatcher.ops.creation import iota
from halon.dispatcher.ops.elementwise import eq, isnan, mul, ne, square, where
from halon.dispatcher.ops.families import reduction_shape
from halon.dispatcher.ops.movement import cast, cat
from halon.dispatcher.ops.views import expand, narrow, permute, reshape, unsqueeze
from halon.dispatcher.shapes import Shape, reduced_shape, wrap_dim, wrap_dims
from halon.hal import dtypes as dt

_PUBLIC = ("function", "method")


def _axes_call(name: str) -> Any:
    """The kernel rule of a reduction over a set of axes."""

    def kernel(input: Any, dim: Any = None, keepdim: bool = False) -> KernelCall:
        return KernelCall(name, (input,), {"axes": wrap_dims(dim, input.ndim), "keepdim": keepdim})

    return kernel


def _accumulated(input: Any, *_: Any) -> dt.DType:
    return input.dtype if input.dtype.category >= 2 else dt.int64


def spread(g: Any, like: Any, dim: Any, keepdim: bool) -> Any:
    """A reduced tensor expanded back to the shape it was reduced from."""
    shape = like.meta.shape
    kept = reduced_shape(shape, wrap_dims(dim, len(shape)), True)
    return expand(g if keepdim else reshape(g, kept), shape)


def _samples(t: Any) -> list[tuple[Any, ...]]:
    return [(t(3, 4),), (t(3, 4), 0), (t(2, 3, 4), (0, 2), True), (t(),), (t(4, 3).t(), -1)]


def reduction(
    name: str, kernel: str, doc: str, empty: Any, grad: Any, dtype: Any, **rules: Any
) -> Op:
    """A reduction over any set of dimensions by one primitive."""
    rules.setdefault("samples", _samples)
    rules.setdefault("methods", _PUBLIC)
    return op(
        f"{name}(input: Tensor, dim: Ints = None, keepdim: bool = False) -> Tensor", doc=doc,
        shape=reduction_shape, dtype=dtype, kernel=_axes_call(kernel), empty=empty, grad=grad,
        **rules,
    )  # fmt: skip


sum = reduction(
    "sum", "sum", "Sum over ``dim`` (all by default); integers in int64, half in float32.", 0,
    lambda g, out, x, dim, keepdim: spread(g, x, dim, keepdim), _accumulated,
    decompose=lambda x, dim, keepdim: linear_by_parts(
        lambda part: sum(part, dim, keepdim), x
    ),
)  # fmt: skip


def _halving_product(x: Any, dim: Any, keepdim: bool) -> Any:
    """A product of complex numbers by halves, dimension after dimension."""
    if not x.meta.dtype.is_complex:
        return NotImplemented
    shape = x.meta.shape
    dims = wrap_dims(dim, len(shape))
    for d in dims:
        while x.meta.shape[d] > 1:
            half = x.meta.shape[d] // 2
            rest = narrow(x, d, 2 * half, x.meta.shape[d] - 2 * half)
            x = narrow(x, d, 0, half) * narrow(x, d, half, half)
            if rest.meta.numel:
                x = cat((x, rest), d)
    return reshape(x, reduced_shape(shape, dims, keepdim))


prod = reduction(
    "prod", "prod", "Product over ``dim`` (all by default).", 1,
    lambda g, out, x, dim, keepdim: prod_backward(g, x, dim, keepdim), _accumulated,
    decompose=_halving_product,
)  # fmt: skip


def _prod_backward(g: Any, x: Any, dim: Any, keepdim: bool) -> Any:
    """The product of the other elements: by division, except where one of them is 0."""
    zero = eq(x, 0)
    rest = where(zero, 1.0, x)
    product = spread(prod(rest, dim, True), x, dim, True)
    zeros = spread(sum(zero, dim, True), x, dim, True)
    others = where(eq(zeros, 0), product / rest, where(zero & eq(zeros, 1), product, 0.0))
    return spread(g, x, dim, keepdim) * conjugate(others)


prod_backward = op(
    "prod_backward(grad: Tensor, input: Tensor, dim: Ints, keepdim: bool) -> Tensor",
    doc="The gradient of ``prod``, also where elements are 0.", decompose=_prod_backward, grad=None,
    samples=lambda t: [(t(4), t(3, 4), 0, False)],
)  # fmt: skip


@prod_backward.grad
def _prod_backward_grad(gg: Any, out: Any, g: Any, x: Any, dim: Any, keepdim: bool) -> Any:
    """By the matrix of factors that leaves out one element per row: exact, n squared in memory."""
    ndim = x.meta.ndim
    axes = wrap_dims(dim, ndim)
    order = tuple(d for d in range(ndim) if d not in axes) + axes
    moved = tuple(x.meta.shape[d] for d in order)
    n = count(x.meta.shape, dim)

    def rows(t: Any) -> Any:
        return reshape(permute(t, order), (-1, n))

    index = iota(n, 0, 1, dt.int64, x.meta.device)
    own = eq(reshape(index, (n, 1)), reshape(index, (1, n)))
    factors = where(own, 1.0, unsqueeze(rows(x), 1))
    weight = rows(gg) * reshape(g, (-1, 1))
    dfactors = prod_backward(weight, factors, (2,), False)
    dx = reshape(sum(where(own, 0.0, dfactors), (1,), False), moved)
    dg = sum(rows(gg) * prod(factors, (2,), False), (1,), False)
    return reshape(dg, g.meta.shape), permute(dx, tuple(order.index(d) for d in range(ndim)))


def _extremum_grad(g: Any, out: Any, x: Any, dim: Any, keepdim: bool) -> Any:
    best = spread(out, x, dim, keepdim)
    ties = eq(x, best) | (isnan(x) & isnan(best))
    share = cast(ties, x.meta.dtype)
    total = sum(share, wrap_dims(dim, x.meta.ndim), True)
    return spread(g, x, dim, keepdim) * (share / total)


_NO_IDENTITY = "Expected reduction dim to be specified for input.numel() == 0: it has no identity"

amax = reduction(
    "amax", "max_reduce", "The largest element over ``dim``; NaN wins; ties share the gradient.",
    _NO_IDENTITY, _extremum_grad, lambda input, *_: input.dtype,
)  # fmt: skip
amin = reduction(
    "amin", "min_reduce", "The smallest element over ``dim``; NaN wins; ties share the gradient.",
    _NO_IDENTITY, _extremum_grad, lambda input, *_: input.dtype,
)  # fmt: skip
any_of = reduction(
    "any_of", "max_reduce", "``any`` of a bool tensor.", False, None, lambda *_: dt.bool_,
    methods=(), samples=lambda t: [(t.mask(3, 4), 1)],
)  # fmt: skip
all_of = reduction(
    "all_of", "min_reduce", "``all`` of a bool tensor.", True, None, lambda *_: dt.bool_,
    methods=(), samples=lambda t: [(t.mask(3, 4), 1)],
)  # fmt: skip


def _index_reduction(name: str, doc: str) -> Op:
    """The position of an extremum along one dimension, or in the flattened operand."""

    def kernel(input: Any, dim: int | None = None, keepdim: bool = False) -> KernelCall:
        axes = tuple(range(input.ndim)) if dim is None else wrap_dims(dim, input.ndim)
        return KernelCall(name, (input,), {"axes": axes, "keepdim": keepdim})

    return op(
        f"{name}(input: Tensor, dim: Int = None, keepdim: bool = False) -> Tensor", doc=doc,
        methods=_PUBLIC, shape=reduction_shape, dtype=lambda *_: dt.int64, kernel=kernel,
        empty=_NO_IDENTITY, grad=None,
        samples=lambda t: [(t(3, 4),), (t(3, 4), 0), (t(2, 3, 4), 2, True), (t(),)],
    )  # fmt: skip


argmax = _index_reduction(
    "argmax", "Index of the largest element (the first of equals; NaN counts as largest)."
)
argmin = _index_reduction(
    "argmin", "Index of the smallest element (the first of equals; NaN counts as smallest)."
)


def _as_truth(result: Any, x: Any) -> Any:
    """torch answers uint8 for uint8, bool otherwise."""
    return cast(result, dt.uint8) if x.meta.dtype is dt.uint8 else result


any = op(
    "any(input: Tensor, dim: Ints = None, keepdim: bool = False) -> Tensor", methods=_PUBLIC,
    doc="Whether any element over ``dim`` is non-zero.",
    decompose=lambda x, dim, keepdim: _as_truth(any_of(ne(x, 0), dim, keepdim), x),
    grad=None, samples=_samples,
)  # fmt: skip

all = op(
    "all(input: Tensor, dim: Ints = None, keepdim: bool = False) -> Tensor", methods=_PUBLIC,
    doc="Whether all elements over ``dim`` are non-zero.",
    decompose=lambda x, dim, keepdim: _as_truth(all_of(ne(x, 0), dim, keepdim), x),
    grad=None, samples=_samples,
)  # fmt: skip


def count(shape: Shape, dim: Any) -> int:
    """How many elements a reduction over ``dim`` sees per result."""
    return math.prod(shape[d] for d in wrap_dims(dim, len(shape)))


def _mean(x: Any, dim: Any, keepdim: bool) -> Any:
    dtype = x.meta.dtype
    if dtype.category < 2:
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or "
            f"complex dtype. Got: {dtype.name}"
        )
    wide = cast(x, dt.float32) if dtype.itemsize == 2 else x  # the sum may exceed half's range
    n = count(x.meta.shape, dim)
    # a product with 1 / n would round twice; 0 elements give NaN, as torch
    return cast(sum(wide, dim, keepdim) / float(n), dtype)


mean = op(
    "mean(input: Tensor, dim: Ints = None, keepdim: bool = False) -> Tensor", methods=_PUBLIC,
    doc="Arithmetic mean over ``dim`` (all by default) of a floating tensor.", decompose=_mean,
    grad=lambda g, out, x, dim, keepdim: (
        spread(g, x, dim, keepdim) / float(max(count(x.meta.shape, dim), 1))
    ),
    samples=_samples,
)  # fmt: skip


def _var(x: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    return cast(variance(widened(x), dim, correction, keepdim), x.meta.dtype.real)


def widened(x: Any) -> Any:
    """Half precision in float32, for intermediate results that exceed its range."""
    return (
        cast(x, dt.float32) if x.meta.dtype.is_floating_point and x.meta.dtype.itemsize == 2 else x
    )


def variance(x: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    """``var`` in the operand's own dtype."""
    centred = x - mean(x, dim, True)
    free = max(0.0, count(x.meta.shape, dim) - correction)
    if x.meta.dtype.is_complex:
        parts = square(real_part(centred)) + square(imag_part(centred))
    else:
        parts = square(centred)
    total = sum(parts, dim, keepdim)
    return total / free if free else mul(total, float("nan"))


var = op(
    "var(input: Tensor, dim: Ints = None, correction: float = 1, keepdim: bool = False) -> Tensor",
    methods=_PUBLIC, decompose=_var, grad=COMPOSE,
    doc="Variance over ``dim``: squared deviations divided by (n - correction).",
    samples=lambda t: [(t(3, 4),), (t(3, 4), 1), (t(2, 3, 4), (0, 2), 0, True)],
)  # fmt: skip


def _sum_to(x: Any, size: Shape) -> Any:
    shape = x.meta.shape
    lead = len(shape) - len(size)
    dims = tuple(range(lead)) + tuple(
        lead + i for i, n in enumerate(size) if n == 1 and shape[lead + i] != 1
    )
    return reshape(sum(x, dims, True), size) if dims else reshape(x, size)


sum_to = op(
    "sum_to(input: Tensor, size: Ints) -> Tensor", decompose=_sum_to, may_alias=True,
    doc="Sum a broadcast tensor back to the shape it came from.",
    grad=lambda g, out, x, size: expand(g, x.meta.shape), samples=lambda t: [(t(2, 3, 4), (3, 1))],
)  # fmt: skip


def single_dim(dim: int, ndim: int) -> int:
    """A dimension of a tensor that may be 0-d."""
    return wrap_dim(dim, ndim) if ndim else 0
