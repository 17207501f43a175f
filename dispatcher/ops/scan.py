"""Running sums, products and extrema along a dimension."""

from __future__ import annotations

from typing import Any

from halon.dispatcher.op import COMPOSE, KernelCall, Op, op
from halon.dispatcher.ops.complex import conjugate, linear_by_parts
from halon.dispatcher.ops.creation import full, iota
from halon.dispatcher.ops.elementwise import eq, isnan, where
from halon.dispatcher.ops.indexing import scatter_add
from halon.dispatcher.ops.movement import cast, cat
from halon.dispatcher.ops.reduction import sum
from halon.dispatcher.ops.transcendental import logaddexp
from halon.dispatcher.ops.views import expand, narrow, reshape
from halon.dispatcher.shapes import wrap_dim
from halon.dispatcher.structures import Meta
from halon.hal import dtypes as dt

_PUBLIC = ("function", "method")


def _samples(t: Any) -> list[tuple[Any, ...]]:
    return [(t(3, 4), 1), (t(2, 3, 4), 0), (t(4, 3).t(), -1), (t(), 0), (t(3, 0), 1)]


def _scan(name: str, doc: str, **rules: Any) -> Op:
    def kernel(x: Meta, dim: int, reverse: bool) -> KernelCall:
        return KernelCall(name, (x,), {"dim": wrap_dim(dim, x.ndim), "reverse": reverse})

    return op(
        f"{name}_of(input: Tensor, dim: int, reverse: bool) -> Tensor", doc=doc,
        shape=lambda x, dim, reverse: x.shape, dtype=lambda x, *_: x.dtype, kernel=kernel,
        samples=lambda t: [], **rules,
    )  # fmt: skip


def _running_products(x: Any, dim: int, reverse: bool) -> Any:
    if not x.meta.dtype.is_complex or reverse:
        return NotImplemented
    return _doubling(x, dim, lambda a, b: a * b)


cumsum_of = _scan(
    "cumsum", "Running sums from one end, in the operand's dtype.",
    decompose=lambda x, dim, reverse: linear_by_parts(lambda p: cumsum_of(p, dim, reverse), x),
    grad=lambda g, out, x, dim, reverse: cumsum_of(g, dim, not reverse),
)  # fmt: skip
cumprod_of = _scan(
    "cumprod", "Running products from one end, in the operand's dtype.",
    decompose=_running_products, grad=None,
)  # fmt: skip


@cumprod_of.grad
def _cumprod_grad(g: Any, out: Any, x: Any, dim: int, reverse: bool) -> Any:
    """Exact also at zeros: a gradient reaches only up to the first zero, and that zero itself."""
    zero = eq(x, 0)
    seen = cumsum_of(cast(zero, dt.int64), dim, reverse)
    before, first = eq(seen, 0), zero & eq(seen, 1)
    head = cumsum_of(where(before, g * conjugate(out), 0), dim, not reverse)
    head = head / where(zero, 1, conjugate(x))
    rest = where(eq(seen, 1), g * conjugate(cumprod_of(where(first, 1, x), dim, reverse)), 0)
    return where(before, head, where(first, sum(rest, dim, True), 0))


def _accumulated(x: Any, dtype: Any) -> Any:
    if dtype is None and x.meta.dtype.category < 2:
        dtype = dt.int64
    return x if dtype is None else cast(x, dtype)


cumsum = op(
    "cumsum(input: Tensor, dim: int, *, dtype: DType = None) -> Tensor", grad=COMPOSE,
    methods=_PUBLIC, doc="Running sums along ``dim``; integers in int64.",
    decompose=lambda x, dim, dtype: cumsum_of(_accumulated(x, dtype), dim, False),
    kernel=lambda x, *_: KernelCall("cumsum_of_cast", (x,)),  # not the primitive, which is cumsum_of
    samples=_samples,
)  # fmt: skip
cumprod = op(
    "cumprod(input: Tensor, dim: int, *, dtype: DType = None) -> Tensor", grad=COMPOSE,
    methods=_PUBLIC, doc="Running products along ``dim``; integers in int64.",
    decompose=lambda x, dim, dtype: cumprod_of(_accumulated(x, dtype), dim, False),
    kernel=lambda x, *_: KernelCall("cumprod_of_cast", (x,)),  # not the primitive, which is cumprod_of
    samples=_samples,
)  # fmt: skip


# -- by doubling: each round joins runs of twice the length (Hillis and Steele, CACM 29(12), 1986) --
def _doubling(x: Any, dim: int, join: Any) -> Any:
    if not x.meta.ndim:
        return x
    d = wrap_dim(dim, x.meta.ndim)
    n, step = x.meta.shape[d], 1
    while step < n:
        joined = join(narrow(x, d, 0, n - step), narrow(x, d, step, n - step))
        x = cat((narrow(x, d, 0, step), joined), d)
        step *= 2
    return x


logcumsumexp = op(
    "logcumsumexp(input: Tensor, dim: int) -> Tensor", methods=_PUBLIC, grad=COMPOSE,
    doc="log of the running sums of exp(input) along ``dim``, without overflow.",
    decompose=lambda x, dim: _doubling(x, dim, logaddexp), samples=_samples,
)  # fmt: skip


def _positions(x: Any, d: int) -> Any:
    n = x.meta.shape[d]
    row = iota(n, 0, 1, dt.int64, x.meta.device)
    return expand(reshape(row, (n,) + (1,) * (x.meta.ndim - d - 1)), x.meta.shape)


def _running(name: str, later_wins: Any, doc: str) -> Op:
    def decompose(x: Any, dim: int) -> Any:
        if not x.meta.ndim:
            return x, full((), 0, dt.int64, x.meta.device)
        d = wrap_dim(dim, x.meta.ndim)
        n, step = x.meta.shape[d], 1
        index = _positions(x, d)
        while step < n:
            m = n - step
            a, b = narrow(x, d, 0, m), narrow(x, d, step, m)
            take = later_wins(a, b) | isnan(b)
            values = where(take, b, a)
            places = where(take, narrow(index, d, step, m), narrow(index, d, 0, m))
            x = cat((narrow(x, d, 0, step), values), d)
            index = cat((narrow(index, d, 0, step), places), d)
            step *= 2
        return x, index

    def grad(g: Any, out: Any, x: Any, dim: int) -> Any:
        zeros = full(x.meta.shape, 0, g[0].meta.dtype, g[0].meta.device)
        return scatter_add(zeros, dim, out[1], g[0]) if x.meta.ndim else g[0]

    return op(f"{name}(input: Tensor, dim: int) -> Tensor", outputs=2, decompose=decompose,
              grad=grad, doc=doc, methods=_PUBLIC,
              samples=lambda t: [(t(3, 4), 1), (t(2, 3, 4), 0), (t(), 0)])  # fmt: skip


cummax = _running("cummax", lambda a, b: b >= a,
                  "Running maxima along ``dim`` and where each was found last; NaN wins.")  # fmt: skip
cummin = _running("cummin", lambda a, b: b <= a,
                  "Running minima along ``dim`` and where each was found last; NaN wins.")  # fmt: skip
