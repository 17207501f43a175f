"""Products of vectors, matrices and tensors beyond ``matmul``, all by the matrix product."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from halon.dispatcher.op import COMPOSE, op
from halon.dispatcher.ops.complex import conjugate
from halon.dispatcher.ops.contraction import bmm, matmul, mm
from halon.dispatcher.ops.elementwise import abs, pow, sqrt, square, where
from halon.dispatcher.ops.indexing import index_select
from halon.dispatcher.ops.movement import cast
from halon.dispatcher.ops.reduction import amax, sum
from halon.dispatcher.ops.views import (
    narrow,
    permute,
    reshape,
    squeeze,
    unsqueeze,
)
from halon.dispatcher.shapes import broadcast_shapes, wrap_dim

_PUBLIC = ("function", "method")


def _need(name: str, what: str, ok: bool, *operands: Any) -> None:
    if not ok:
        shown = ", ".join(str(x.meta) for x in operands)
        raise RuntimeError(f"{name}: {what}, but got {shown}")


def _same_dtype(name: str, *operands: Any) -> None:
    kinds = {x.meta.dtype for x in operands}
    _need(name, "expected all operands to have the same dtype", len(kinds) == 1, *operands)


# -- of vectors ------------------------------------------------------------------------------------
def _mv(a: Any, v: Any) -> Any:
    _need("mv", "expected a matrix and a vector", (a.meta.ndim, v.meta.ndim) == (2, 1), a, v)
    return squeeze(mm(a, unsqueeze(v, 1)), 1)


def _dot(a: Any, b: Any) -> Any:
    _need("dot", "1D tensors expected", a.meta.ndim == b.meta.ndim == 1, a, b)
    _same_dtype("dot", a, b)
    _need("dot", "inconsistent tensor size, expected equally many elements",
          a.meta.numel == b.meta.numel, a, b)  # fmt: skip
    return reshape(mm(unsqueeze(a, 0), unsqueeze(b, 1)), ())


def _outer(a: Any, b: Any) -> Any:
    _need("outer", "expected 1-D operands", a.meta.ndim == b.meta.ndim == 1, a, b)
    return unsqueeze(a, 1) * unsqueeze(b, 0)


def _inner(a: Any, b: Any) -> Any:
    if not a.meta.ndim or not b.meta.ndim:
        return a * b
    _need("inner", "the last dimension must match", a.meta.shape[-1] == b.meta.shape[-1], a, b)
    return tensordot(a, b, ((-1,), (-1,)))


def _vectors(t: Any) -> list[tuple[Any, ...]]:
    return [(t(4), t(4)), (t(0), t(0))]


mv = op(
    "mv(input: Tensor, vec: Tensor) -> Tensor", methods=_PUBLIC, decompose=_mv, grad=COMPOSE,
    doc="Product of a matrix and a vector.",
    samples=lambda t: [(t(3, 4), t(4)), (t(4, 3).t(), t(4)), (t(2, 0), t(0))],
)  # fmt: skip
dot = op(
    "dot(input: Tensor, tensor: Tensor) -> Tensor", methods=_PUBLIC, decompose=_dot, grad=COMPOSE,
    doc="The sum of products of two vectors; complex ones are not conjugated.", samples=_vectors,
)  # fmt: skip
vdot = op(
    "vdot(input: Tensor, other: Tensor) -> Tensor", methods=_PUBLIC, grad=COMPOSE,
    decompose=lambda a, b: _dot(conjugate(a), b),
    doc="``dot`` with the first operand conjugated.", samples=_vectors,
)  # fmt: skip
outer = op(
    "outer(input: Tensor, vec2: Tensor) -> Tensor", methods=_PUBLIC, decompose=_outer,
    grad=COMPOSE, doc="All products of the elements of two vectors.",
    samples=lambda t: [(t(3), t(4)), (t(0), t(2))],
)  # fmt: skip
inner = op(
    "inner(input: Tensor, other: Tensor) -> Tensor", methods=_PUBLIC, decompose=_inner,
    grad=COMPOSE, doc="Sums of products over the last dimensions.",
    samples=lambda t: [(t(4), t(4)), (t(2, 3, 4), t(5, 4)), (t(), t(3))],
)  # fmt: skip


# -- with an addend --------------------------------------------------------------------------------
def _fused(name: str, product: Any) -> Any:
    """``beta * input + alpha * product``; with ``beta`` 0 the input is not looked at."""

    def run(x: Any, a: Any, b: Any, beta: float, alpha: float) -> Any:
        _same_dtype(name, x, a, b)
        result = product(a, b)
        if x.meta.dtype.category < 2 and not (
            float(alpha).is_integer() and float(beta).is_integer()
        ):
            raise RuntimeError(
                f"{name}: For integral input tensors, beta and alpha must be integers"
            )
        shape = result.meta.shape
        if broadcast_shapes(x.meta.shape, shape) != shape:
            raise RuntimeError(
                f"{name}: The expanded size of the tensor {list(shape)} must match the existing "
                f"size {list(x.meta.shape)}"
            )
        if alpha != 1:
            result = cast(result * alpha, result.meta.dtype)
        if not beta:
            return result
        return result + (x if beta == 1 else cast(x * beta, x.meta.dtype))

    return run


def _fused_op(name: str, operands: str, product: Any, doc: str, samples: Any) -> Any:
    return op(
        f"{name}(input: Tensor, {operands}, *, beta: float = 1, alpha: float = 1) -> Tensor",
        methods=(*_PUBLIC, "inplace"), decompose=_fused(name, product), grad=COMPOSE, doc=doc,
        samples=samples,
    )  # fmt: skip


addmm = _fused_op(
    "addmm", "mat1: Tensor, mat2: Tensor", mm, "``beta * input + alpha * mat1 @ mat2``.",
    lambda t: [(t(3, 5), t(3, 4), t(4, 5)), (t(3, 5), t(4, 3).t(), t(4, 5), 2, 3)],
)  # fmt: skip
addmv = _fused_op(
    "addmv", "mat: Tensor, vec: Tensor", _mv, "``beta * input + alpha * mat @ vec``.",
    lambda t: [(t(3), t(3, 4), t(4)), (t(3), t(3, 4), t(4), 0, 2)],
)  # fmt: skip
addr = _fused_op(
    "addr", "vec1: Tensor, vec2: Tensor", _outer, "``beta * input + alpha * outer(vec1, vec2)``.",
    lambda t: [(t(3, 4), t(3), t(4)), (t(3, 4), t(3), t(4), 2, 3)],
)  # fmt: skip
baddbmm = _fused_op(
    "baddbmm", "batch1: Tensor, batch2: Tensor", bmm,
    "``beta * input + alpha * batch1 @ batch2`` over a batch.",
    lambda t: [(t(2, 3, 5), t(2, 3, 4), t(2, 4, 5)), (t(2, 3, 5), t(2, 3, 4), t(2, 4, 5), 2, 3)],
)  # fmt: skip


def _summed_batch(a: Any, b: Any) -> Any:
    product = bmm(a, b)
    return cast(sum(product, 0, False), product.meta.dtype)


addbmm = _fused_op(
    "addbmm", "batch1: Tensor, batch2: Tensor", _summed_batch,
    "``beta * input`` plus ``alpha`` times the sum of a batch of products.",
    lambda t: [(t(3, 5), t(2, 3, 4), t(2, 4, 5)), (t(3, 5), t(2, 3, 4), t(2, 4, 5), 2, 3)],
)  # fmt: skip


# -- of tensors ------------------------------------------------------------------------------------
def _tensordot(a: Any, b: Any, dims: Any) -> Any:
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        mine = tuple(range(a.meta.ndim - dims, a.meta.ndim))
        theirs = tuple(range(dims))
    else:
        mine, theirs = ((d,) if isinstance(d, int) else tuple(d) for d in dims)
    mine = tuple(wrap_dim(d, a.meta.ndim) for d in mine)
    theirs = tuple(wrap_dim(d, b.meta.ndim) for d in theirs)
    sizes = [a.meta.shape[d] for d in mine]
    _need("tensordot", "contracted dimensions need to match",
          sizes == [b.meta.shape[d] for d in theirs], a, b)  # fmt: skip
    free_a = tuple(d for d in range(a.meta.ndim) if d not in mine)
    free_b = tuple(d for d in range(b.meta.ndim) if d not in theirs)
    shape_a = tuple(a.meta.shape[d] for d in free_a)
    shape_b = tuple(b.meta.shape[d] for d in free_b)
    n = math.prod(sizes)
    product = mm(
        reshape(permute(a, free_a + mine), (math.prod(shape_a), n)),
        reshape(permute(b, theirs + free_b), (n, math.prod(shape_b))),
    )
    return reshape(product, shape_a + shape_b)


tensordot = op(
    "tensordot(a: Tensor, b: Tensor, dims: Ints = 2) -> Tensor", methods=("function",),
    decompose=_tensordot, grad=COMPOSE,
    doc="Sums of products over ``dims``: the last and first so many, or a pair of lists.",
    samples=lambda t: [(t(2, 3, 4), t(3, 4, 5)), (t(2, 3), t(4, 3), ((1,), (1,))),
                       (t(2, 3), t(4), 0)],
)  # fmt: skip


def _kron(a: Any, b: Any) -> Any:
    ndim = max(a.meta.ndim, b.meta.ndim)
    left = (1,) * (ndim - a.meta.ndim) + a.meta.shape
    right = (1,) * (ndim - b.meta.ndim) + b.meta.shape
    wide = tuple(n for pair in zip(left, (1,) * ndim, strict=True) for n in pair)
    tall = tuple(n for pair in zip((1,) * ndim, right, strict=True) for n in pair)
    blocks = reshape(a, wide) * reshape(b, tall)
    return reshape(blocks, tuple(m * n for m, n in zip(left, right, strict=True)))


kron = op(
    "kron(input: Tensor, other: Tensor) -> Tensor", methods=_PUBLIC, decompose=_kron, grad=COMPOSE,
    doc="The Kronecker product: every element of ``input`` times the whole of ``other``.",
    samples=lambda t: [(t(2, 3), t(3, 2)), (t(3), t(2, 2)), (t(), t(3))],
)  # fmt: skip


def _cross(a: Any, b: Any, dim: int | None) -> Any:
    shape = broadcast_shapes(a.meta.shape, b.meta.shape)
    if dim is None:
        found = next((d for d, n in enumerate(shape) if n == 3), None)
        if found is None:
            raise RuntimeError(f"no dimension of size 3 in input: {a.meta}")
        dim = found
    d = wrap_dim(dim, len(shape))
    _need("cross", f"inputs dimension {dim} must have length 3",
          a.meta.ndim == b.meta.ndim and a.meta.shape[d] == b.meta.shape[d] == 3, a, b)  # fmt: skip

    def turned(x: Any, first: int) -> Any:
        from halon.dispatcher.ops.movement import cat

        return cat(tuple(narrow(x, d, (first + i) % 3, 1) for i in range(3)), d)

    return turned(a, 1) * turned(b, 2) - turned(a, 2) * turned(b, 1)


cross = op(
    "cross(input: Tensor, other: Tensor, dim: int = None) -> Tensor", methods=_PUBLIC,
    decompose=_cross, grad=COMPOSE, doc="Vector products along a dimension of size 3.",
    samples=lambda t: [(t(3), t(3)), (t(4, 3), t(4, 3), 1), (t(3, 5), t(3, 5))],
)  # fmt: skip


def _chain(matrices: Sequence[Any]) -> Any:
    """The cheapest order of products (Cormen et al., Introduction to Algorithms, section 15.2)."""
    sizes = [m.meta.shape[0] for m in matrices] + [matrices[-1].meta.shape[1]]
    n = len(matrices)
    cost = [[0] * n for _ in range(n)]
    cut = [[0] * n for _ in range(n)]
    for span in range(1, n):
        for i in range(n - span):
            j = i + span
            options = [
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            ]
            cost[i][j], cut[i][j] = min(options)

    def multiplied(i: int, j: int) -> Any:
        if i == j:
            return matrices[i]
        return mm(multiplied(i, cut[i][j]), multiplied(cut[i][j] + 1, j))

    return multiplied(0, n - 1)


chain_matmul = op(
    "chain_matmul(matrices: TensorArgs) -> Tensor", methods=("function",), decompose=_chain,
    grad=COMPOSE, doc="The product of several matrices, in the order that costs least.",
    samples=lambda t: [((t(2, 5), t(5, 3), t(3, 4)),), ((t(2, 3),),)],
)  # fmt: skip


def _matrix_power(x: Any, n: int) -> Any:
    from halon.dispatcher.ops.arrangement import diag_embed
    from halon.dispatcher.ops.creation import full

    _need("matrix_power", "expected square matrices",
          x.meta.ndim >= 2 and x.meta.shape[-1] == x.meta.shape[-2], x)  # fmt: skip
    if n < 0:
        raise NotImplementedError(
            f"matrix_power({x.meta}, {n}): negative powers need an inverse, which is not built yet"
        )
    ones = full(x.meta.shape[:-1], 1, x.meta.dtype, x.meta.device)
    result = diag_embed(ones)
    square_ = x
    first = True
    while n:
        if n & 1:
            result = square_ if first else matmul(result, square_)
            first = False
        n >>= 1
        if n:
            square_ = matmul(square_, square_)
    return result


matrix_power = op(
    "matrix_power(input: Tensor, n: int) -> Tensor", methods=_PUBLIC, decompose=_matrix_power,
    grad=COMPOSE, doc="Square matrices multiplied by themselves, by repeated squaring.",
    samples=lambda t: [(t(3, 3), 3), (t(2, 3, 3), 2), (t(2, 2), 0), (t(2, 2), 1)], may_alias=True,
)  # fmt: skip


# -- distances -------------------------------------------------------------------------------------
def _cdist(a: Any, b: Any, p: float) -> Any:
    _need("cdist", "X1 and X2 must have the same number of columns",
          a.meta.ndim > 1 and b.meta.ndim > 1 and a.meta.shape[-1] == b.meta.shape[-1], a, b)  # fmt: skip
    if a.meta.dtype.category != 2:
        raise RuntimeError(f"cdist only supports floating-point dtypes, X1 got: {a.meta}")
    gap = abs(unsqueeze(a, -2) - unsqueeze(b, -3))
    if p == 2:
        total = sum(square(gap), -1, False)
        at_zero = total == 0  # where the root has no derivative torch's is 0
        return where(at_zero, 0.0, sqrt(where(at_zero, 1.0, total)))
    if p == 0:
        return sum(cast(gap != 0, a.meta.dtype), -1, False)
    if p == 1:
        return sum(gap, -1, False)
    if math.isinf(p):
        return amax(gap, -1, False)
    return pow(sum(pow(gap, p), -1, False), 1 / p)


cdist = op(
    "cdist(x1: Tensor, x2: Tensor, p: float = 2.0) -> Tensor", methods=("function",),
    decompose=_cdist, grad=COMPOSE, doc="The p-norm distance of every pair of rows.",
    samples=lambda t: [(t(3, 4), t(5, 4)), (t(2, 3, 4), t(2, 5, 4), 1.0),
                       (t(3, 4), t(2, 4), float("inf")), (t(3, 4), t(2, 4), 3.0)],
)  # fmt: skip


def _pdist(x: Any, p: float) -> Any:
    from halon.dispatcher.ops.creation import iota
    from halon.hal import dtypes as dt

    _need("pdist", "only supports 2D tensors", x.meta.ndim == 2, x)
    n = x.meta.shape[0]
    flat = reshape(_cdist(x, x, p), (-1,))
    places = [i * n + j for i in range(n) for j in range(i + 1, n)]
    if not places:
        return narrow(flat, 0, 0, 0)
    from halon.dispatcher.ops.movement import cat

    runs = [iota(n - i - 1, i * n + i + 1, 1, dt.int64, x.meta.device) for i in range(n - 1)]
    return index_select(flat, 0, cat(tuple(runs), 0) if len(runs) > 1 else runs[0])


pdist = op(
    "pdist(input: Tensor, p: float = 2.0) -> Tensor", methods=("function",), decompose=_pdist,
    grad=COMPOSE, doc="The p-norm distances of every pair of different rows.",
    samples=lambda t: [(t.floats(4, 3),), (t.floats(4, 3), 1.0)],
)  # fmt: skip
