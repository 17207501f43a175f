"""Reading and writing at several index tensors, by masks, and with a reduction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from halon.dispatcher.op import COMPOSE, UNCHANGED, op
from halon.dispatcher.ops.creation import full, iota
from halon.dispatcher.ops.elementwise import eq, where
from halon.dispatcher.ops.indexing import (
    _along,
    _scatter_call,
    _scatter_dtype,
    _scatter_shape,
    gather,
    index_select,
    scatter,
    scatter_add,
)
from halon.dispatcher.ops.movement import cast
from halon.dispatcher.ops.reduction import sum
from halon.dispatcher.ops.scan import cumsum_of
from halon.dispatcher.ops.views import expand, narrow, permute, reshape, unsqueeze
from halon.dispatcher.promote import Types
from halon.dispatcher.shapes import Shape, broadcast_shapes, wrap_dim
from halon.hal import dtypes as dt
from halon.hal.errors import marked_index

_PUBLIC = ("function", "method")
_WRITES = ("function", "method", "inplace")

# -- positions -------------------------------------------------------------------------------------
checked_index = op(
    "checked_index(index: Tensor, size: Number, mark: Number) -> Tensor",
    expr="where((index >= -size) & (index < size), where(index < 0, index + size, index), "
    "mark + max(min(index, 268435455), -268435456))",
    dtype=lambda index, size, mark: Types((dt.int64,) * 3, dt.int64), grad=None,
    doc="A position counted from either end, or the mark of one outside (see hal.errors.bad_index).",
    samples=lambda t: [],
)  # fmt: skip
joined_index = op(
    "joined_index(outer: Tensor, inner: Tensor, size: Number) -> Tensor",
    expr="where(outer < 0, outer, where(inner < 0, inner, outer * size + inner))",
    dtype=lambda a, b, size: Types((dt.int64,) * 3, dt.int64), grad=None,
    doc="The flat position of two; a mark of either stays.", samples=lambda t: [],
)  # fmt: skip


def flat_index(indices: Sequence[Any], sizes: Shape, dims: Sequence[int]) -> Any:
    """Positions in the row-major space of ``sizes``; ``dims`` name the dimensions in errors."""
    result = None
    for index, n, d in zip(indices, sizes, dims, strict=True):
        one = checked_index(index, n, marked_index(d, n))
        result = one if result is None else joined_index(result, one, n)
    return result


def _front(x: Any, dims: Sequence[int]) -> tuple[Any, tuple[int, ...]]:
    """``x`` with the indexed dimensions first, and the order that did it."""
    order = (*dims, *(d for d in range(x.meta.ndim) if d not in dims))
    return permute(x, order), order


def _rows(x: Any, dims: Sequence[int]) -> tuple[Any, Shape, Shape]:
    """[positions, rest] of ``x``, the sizes of the indexed dimensions and of the rest."""
    moved, _ = _front(x, dims)
    k = len(dims)
    sizes, rest = moved.meta.shape[:k], moved.meta.shape[k:]
    count = 1
    for n in sizes:
        count *= n
    width = 1
    for n in rest:
        width *= n
    return reshape(moved, (count, width)), sizes, rest


def _where_the_result_goes(dims: Sequence[int], ndim: int) -> int:
    """Torch's rule: the index dimensions replace adjacent indexed ones, else come first."""
    adjacent = list(dims) == list(range(dims[0], dims[0] + len(dims)))
    return dims[0] if adjacent else 0


def _index(x: Any, indices: Any, dims: Sequence[int]) -> Any:
    rows, sizes, rest = _rows(x, dims)
    shape = broadcast_shapes(*(i.meta.shape for i in indices))
    at = reshape(expand(flat_index(indices, sizes, dims), shape), (-1,))
    taken = reshape(index_select(rows, 0, at), (*shape, *rest))
    k = _where_the_result_goes(dims, x.meta.ndim)
    n = len(shape)
    order = (*range(n, n + k), *range(n), *range(n + k, n + len(rest)))
    return permute(taken, order)


index_at = op(
    "index_at(input: Tensor, indices: Tensors, dims: Ints) -> Tensor", decompose=_index,
    doc="Elements at broadcast int64 positions of ``dims``, as ``x[i, :, j]`` takes them.",
    grad=lambda g, out, x, indices, dims: (
        index_put_at(
            full(x.meta.shape, 0, g.meta.dtype, g.meta.device), indices, g, dims, True
        ),
        [None] * len(indices),
    ),
    samples=lambda t: [],
)  # fmt: skip


def _index_put(x: Any, indices: Any, values: Any, dims: Sequence[int], accumulate: bool) -> Any:
    if values.meta.dtype is not x.meta.dtype:
        raise RuntimeError(
            "Index put requires the source and destination dtypes match, got "
            f"{x.meta.dtype.name} for the destination and {values.meta.dtype.name} for the source."
        )
    rows, sizes, rest = _rows(x, dims)
    shape = broadcast_shapes(*(i.meta.shape for i in indices))
    k, n = _where_the_result_goes(dims, x.meta.ndim), len(shape)
    target = (*rest[:k], *shape, *rest[k:])
    values = expand(values, target) if values.meta.shape != target else values
    values = permute(values, (*range(k, k + n), *range(k), *range(k + n, n + len(rest))))
    at = reshape(expand(flat_index(indices, sizes, dims), shape), (-1, 1))
    width = rows.meta.shape[1]
    source = reshape(values, (-1, width))
    at = expand(at, source.meta.shape)
    written = (scatter_add if accumulate else scatter)(rows, 0, at, source)
    moved = reshape(written, (*sizes, *rest))
    _, order = _front(x, dims)
    return permute(moved, tuple(order.index(d) for d in range(x.meta.ndim)))


index_put_at = op(
    "index_put_at(input: Tensor, indices: Tensors, values: Tensor, dims: Ints, accumulate: bool)"
    " -> Tensor",
    decompose=_index_put, shape=lambda x, *_: x.shape, dtype=lambda x, *_: x.dtype,
    doc="``input`` with broadcast ``values`` written (or added) at positions of ``dims``.",
    grad=lambda g, out, x, indices, values, dims, accumulate: (
        g if accumulate else index_put_at(
            g, indices, full((), 0, g.meta.dtype, g.meta.device), dims, False
        ),
        [None] * len(indices), index_at(g, indices, dims),
    ),
    samples=lambda t: [],
)  # fmt: skip


# -- one index tensor ------------------------------------------------------------------------------
def _int64(index: Any, name: str) -> Any:
    if index.meta.dtype not in (dt.int32, dt.int64):
        raise RuntimeError(f"{name}(): Expected dtype int32 or int64 for index, got {index.meta}")
    return cast(index, dt.int64)


def _index_add(x: Any, dim: int, index: Any, source: Any, alpha: Any) -> Any:
    d = wrap_dim(dim, x.meta.ndim) if x.meta.ndim else 0
    if x.meta.dtype is not source.meta.dtype:
        raise RuntimeError(f"index_add_(): self ({x.meta}) and source ({source.meta}) must have the "
                           "same scalar type")  # fmt: skip
    scaled = source if alpha.__class__ is int and alpha == 1 else cast(source * alpha, x.meta.dtype)
    at = _along(_int64(reshape(index, (-1,)), "index_add"), source.meta.shape or (1,), d)
    return reshape(
        scatter_add(reshape(x, x.meta.shape or (1,)), d, at, reshape(scaled, at.meta.shape)),
        x.meta.shape,
    )


index_add = op(
    "index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1)"
    " -> Tensor",
    methods=_WRITES, decompose=_index_add, grad=COMPOSE,
    doc="``input`` with ``alpha * source`` added in slices at ``index`` along ``dim``.",
    samples=lambda t: [(t(5, 3), 0, t.index(5, 2), t(2, 3)), (t(2, 4), 1, t.index(4, 6), t(2, 6))],
)  # fmt: skip


def _index_copy(x: Any, dim: int, index: Any, source: Any) -> Any:
    d = wrap_dim(dim, x.meta.ndim) if x.meta.ndim else 0
    if x.meta.dtype is not source.meta.dtype:
        raise RuntimeError(f"index_copy_(): self and source expected to have the same dtype, but got "
                           f"(self) {x.meta} and (source) {source.meta}")  # fmt: skip
    at = _along(_int64(reshape(index, (-1,)), "index_copy"), source.meta.shape or (1,), d)
    return reshape(
        scatter(reshape(x, x.meta.shape or (1,)), d, at, reshape(source, at.meta.shape)),
        x.meta.shape,
    )


index_copy = op(
    "index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor",
    methods=_WRITES, decompose=_index_copy, grad=COMPOSE,
    doc="``input`` with slices of ``source`` at ``index`` along ``dim``.",
    samples=lambda t: [(t(5, 3), 0, t.order(5, 2), t(2, 3)), (t(2, 4), 1, t.order(4, 3), t(2, 3))],
)  # fmt: skip


def _index_fill(x: Any, dim: int, index: Any, value: Any) -> Any:
    shape = x.meta.shape or (1,)
    d = wrap_dim(dim, len(shape))
    hit = full((shape[d],), False, dt.bool_, x.meta.device)
    at = checked_index(reshape(index, (-1,)), shape[d], marked_index(d, shape[d]))
    hit = scatter(hit, 0, at, full(at.meta.shape, True, dt.bool_, x.meta.device))
    mask = reshape(hit, (shape[d],) + (1,) * (len(shape) - d - 1))
    return reshape(masked(reshape(x, shape), mask, value), x.meta.shape)


masked = op(
    "masked(input: Tensor, mask: Tensor, value: Tensor) -> Tensor",
    expr="where(mask, value, input)",
    dtype=lambda x, mask, value: Types((x.dtype, dt.bool_, x.dtype), x.dtype),
    doc="``input`` with ``value`` (a number or a 0-d tensor) where ``mask`` is set.",
    grad=lambda g, out, x, mask, value: (where(mask, 0, g), None, where(mask, g, 0)),
    samples=lambda t: [],
)  # fmt: skip
index_fill = op(
    "index_fill(input: Tensor, dim: int, index: Tensor, value: Tensor) -> Tensor",
    methods=_WRITES, eager=_index_fill,
    doc="``input`` with ``value`` in the slices at ``index`` along ``dim``.",
    samples=lambda t: [(t(5, 3), 0, t.index(5, 2), 2), (t(2, 4), 1, t.index(4, 2), 1)],
)  # fmt: skip


def _take(x: Any, index: Any) -> Any:
    n = x.meta.numel
    at = checked_index(reshape(index, (-1,)), n, marked_index(0, n))
    return reshape(index_select(reshape(x, (-1,)), 0, at), index.meta.shape)


take = op(
    "take(input: Tensor, index: Tensor) -> Tensor", methods=_PUBLIC, decompose=_take, grad=COMPOSE,
    doc="Elements at positions of the flattened ``input``.",
    samples=lambda t: [(t(3, 4), t.index(12, 2, 5)), (t(4, 3).t(), t.index(12, 3, low=-12))],
)  # fmt: skip


def _put(x: Any, index: Any, source: Any, accumulate: bool) -> Any:
    n = x.meta.numel
    at = checked_index(reshape(index, (-1,)), n, marked_index(0, n))
    write = scatter_add if accumulate else scatter
    return reshape(write(reshape(x, (-1,)), 0, at, reshape(source, (-1,))), x.meta.shape)


put = op(
    "put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor",
    methods=_WRITES, decompose=_put, grad=COMPOSE,
    doc="``input`` with ``source`` at positions of the flattened tensor.",
    samples=lambda t: [(t(3, 4), t.order(12, 5), t(5)), (t(3, 4), t.index(12, 5), t(5), True)],
)  # fmt: skip


def _take_along(x: Any, index: Any, dim: int | None) -> Any:
    if dim is None:
        return gather(reshape(x, (-1,)), 0, reshape(index, (-1,)))
    d = wrap_dim(dim, x.meta.ndim)
    shape = broadcast_shapes(
        (*x.meta.shape[:d], 1, *x.meta.shape[d + 1 :]),
        (*index.meta.shape[:d], 1, *index.meta.shape[d + 1 :]),
    )
    return gather(
        expand(x, (*shape[:d], x.meta.shape[d], *shape[d + 1 :])), d,
        expand(index, (*shape[:d], index.meta.shape[d], *shape[d + 1 :])),
    )  # fmt: skip


take_along_dim = op(
    "take_along_dim(input: Tensor, indices: Tensor, dim: int = None) -> Tensor", methods=_PUBLIC,
    decompose=_take_along, grad=COMPOSE,
    doc="As ``gather``, with the other dimensions broadcast.",
    samples=lambda t: [(t(3, 4), t.index(4, 3, 2), 1), (t(3, 4), t.index(3, 1, 4), 0), (t(3, 4), t.index(12, 5))],
)  # fmt: skip


# -- scatter with a reduction ----------------------------------------------------------------------
_MODES = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _scatter_reduced(mode: str) -> Any:
    return op(
        f"scatter_{mode}(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor",
        doc=f"``input`` combined with ``src`` at ``index`` along ``dim`` by {mode}.",
        shape=_scatter_shape, dtype=_scatter_dtype, kernel=_scatter_call(mode), empty=UNCHANGED,
        grad=lambda g, out, x, dim, index, src: _reduced_grad(mode, g, out, x, dim, index, src),
        samples=lambda t: [],
    )  # fmt: skip


def _reduced_grad(mode: str, g: Any, out: Any, x: Any, dim: int, index: Any, src: Any) -> Any:
    window = _window(src, index)
    if mode == "mul":
        total = g * out
        dsrc = gather(total, dim, index) / window
        return total / x, None, _padded_like(dsrc, src)
    dtype = x.meta.dtype
    mine = cast(eq(x, out), dtype)
    theirs = cast(eq(window, gather(out, dim, index)), dtype)
    share = g / scatter_add(mine, dim, index, theirs)  # equal extrema share the gradient
    return share * mine, None, _padded_like(gather(share, dim, index) * theirs, src)


def _window(src: Any, index: Any) -> Any:
    for d, n in enumerate(index.meta.shape):
        src = narrow(src, d, 0, n)
    return src


def _padded_like(g: Any, src: Any) -> Any:
    from halon.dispatcher.ops.indexing import _same_window

    return _same_window(g, src)


_BY_MODE = {m: _scatter_reduced(m) for m in ("mul", "max", "min")}


def _identity(reduce: str, dtype: Any) -> Any:
    if reduce in ("sum", "mean"):
        return 0
    if reduce == "prod":
        return 1
    if dtype is dt.bool_:
        return reduce == "amin"
    if dtype.category == 2:
        return float("-inf") if reduce == "amax" else float("inf")
    bits = 8 * dtype.itemsize
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype.is_signed else (0, (1 << bits) - 1)
    return low if reduce == "amax" else high


def _scatter_reduce(x: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool) -> Any:
    if reduce not in (*_MODES, "mean"):
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    dtype = x.meta.dtype
    ones = full(index.meta.shape, 1, dtype, x.meta.device)
    base = x
    if not include_self:
        start = full(index.meta.shape, _identity(reduce, dtype), dtype, x.meta.device)
        base = scatter(x, dim, index, start)
    mode = _MODES.get(reduce, "add")
    if mode != "add":
        return _BY_MODE[mode](base, dim, index, src)
    total = scatter_add(base, dim, index, src)
    if reduce == "sum":
        return total
    count = scatter_add(
        full(x.meta.shape, int(include_self), dtype, x.meta.device), dim, index, ones
    )
    count = where(eq(count, 0), 1, count)
    return total // count if dtype.category < 2 else total / count


scatter_reduce = op(
    "scatter_reduce(input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, "
    "include_self: bool = True) -> Tensor",
    methods=_WRITES, decompose=_scatter_reduce, grad=COMPOSE,
    doc="``input`` combined with ``src`` at ``index``: sum, prod, mean, amax or amin.",
    samples=lambda t: [
        (t(4, 3), 0, t.index(4, 5, 3), t(5, 3), how, keep)
        for how in ("sum", "prod", "mean", "amax", "amin") for keep in (True, False)
    ],
)  # fmt: skip


def _index_reduce(
    x: Any, dim: int, index: Any, source: Any, reduce: str, include_self: bool
) -> Any:
    d = wrap_dim(dim, x.meta.ndim)
    at = _along(_int64(index, "index_reduce"), source.meta.shape, d)
    return _scatter_reduce(x, d, at, source, reduce, include_self)


index_reduce = op(
    "index_reduce(input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, "
    "include_self: bool = True) -> Tensor",
    methods=_WRITES, decompose=_index_reduce, grad=COMPOSE,
    doc="``input`` combined with slices of ``source`` at ``index``: prod, mean, amax or amin.",
    samples=lambda t: [(t(4, 3), 0, t.index(4, 5), t(5, 3), how) for how in ("prod", "mean", "amax")],
)  # fmt: skip


# -- masks -----------------------------------------------------------------------------------------
def mask_positions(mask: Any) -> Any:
    """Flat int64 positions of a mask's set elements; their number is read back to the host."""
    flat = cast(reshape(mask, (-1,)), dt.int64)
    n = flat.meta.numel
    count = int(sum(flat, None, False).item()) if n else 0
    if not count:
        return full((0,), 0, dt.int64, mask.meta.device)
    rank = cumsum_of(flat, 0, False)
    place = where(eq(flat, 1), rank - 1, count)  # the rest goes where nothing reads
    room = full((count + 1,), 0, dt.int64, mask.meta.device)
    return narrow(scatter(room, 0, place, iota(n, 0, 1, dt.int64, mask.meta.device)), 0, 0, count)


def coordinates(flat: Any, shape: Shape) -> tuple[Any, ...]:
    """Per dimension, the index of flat positions in a shape."""
    parts = []
    for n in reversed(shape):
        parts.append(flat % n)
        flat = flat // n
    return tuple(reversed(parts))


def _nonzero(x: Any, as_tuple: bool) -> Any:
    from halon.dispatcher.ops.arrangement import stack
    from halon.dispatcher.ops.elementwise import ne

    shape = x.meta.shape
    flat = mask_positions(ne(x, 0))
    if as_tuple:
        return coordinates(flat, shape or (1,))
    if not shape:
        return full((flat.meta.numel, 0), 0, dt.int64, x.meta.device)
    return stack(coordinates(flat, shape), 1)


nonzero = op(
    "nonzero(input: Tensor, *, as_tuple: bool = False) -> Tensor", methods=_PUBLIC, eager=_nonzero,
    doc="The indices of elements that are not 0, one row each (or one tensor per dimension).",
    samples=lambda t: [(t.mask(3, 4),), (t(3, 4),), (t.mask(2, 3, 2), True), (t(),)],
)  # fmt: skip
argwhere = op(
    "argwhere(input: Tensor) -> Tensor", methods=_PUBLIC, eager=lambda x: _nonzero(x, False),
    doc="The indices of elements that are not 0, one row each.",
    samples=lambda t: [(t.mask(3, 4),)],
)  # fmt: skip


def _masked_select(x: Any, mask: Any) -> Any:
    if mask.meta.dtype is not dt.bool_:
        raise RuntimeError(f"masked_select: expected BoolTensor for mask, got {mask.meta}")
    shape = broadcast_shapes(x.meta.shape, mask.meta.shape)
    at = mask_positions(expand(mask, shape))
    return index_select(reshape(expand(x, shape), (-1,)), 0, at)


masked_select = op(
    "masked_select(input: Tensor, mask: Tensor) -> Tensor", methods=_PUBLIC, eager=_masked_select,
    doc="The elements where the broadcast bool ``mask`` is set, in row-major order.",
    samples=lambda t: [(t(3, 4), t.mask(3, 4)), (t(3, 4), t.mask(4)), (t(), t.mask())],
)  # fmt: skip


def _masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    shape = broadcast_shapes(x.meta.shape, mask.meta.shape)
    at = mask_positions(expand(mask, shape))
    n = at.meta.numel
    if source.meta.numel < n:
        raise RuntimeError(
            f"masked_scatter: expected source to have at least {n} elements, got {source.meta}"
        )
    values = narrow(reshape(source, (-1,)), 0, 0, n)
    return reshape(scatter(reshape(expand(x, shape), (-1,)), 0, at, values), shape)


masked_scatter = op(
    "masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor", methods=_PUBLIC,
    eager=_masked_scatter,
    doc="``input`` with the first elements of ``source`` where the mask is set.",
    samples=lambda t: [(t(3, 4), t.mask(3, 4), t(12)), (t(3, 4), t.mask(4), t(12))],
)  # fmt: skip


# -- classes ---------------------------------------------------------------------------------------
def _embedding(weight: Any, index: Any) -> Any:
    at = checked_index(reshape(index, (-1,)), weight.meta.shape[0], 0)
    return reshape(index_select(weight, 0, at), (*index.meta.shape, weight.meta.shape[1]))


embedding_rows = op(
    "embedding_rows(weight: Tensor, index: Tensor) -> Tensor", decompose=_embedding, grad=COMPOSE,
    doc="Rows of a matrix at positions of any shape.", samples=lambda t: [],
)  # fmt: skip


def _one_hot(x: Any, num_classes: int) -> Any:
    if x.meta.dtype is not dt.int64:
        raise RuntimeError(
            f"one_hot is only applicable to index tensor of type LongTensor: {x.meta}"
        )
    if num_classes < 0:
        if not x.meta.numel:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        num_classes = int(x.max().item()) + 1
    at = checked_index(x, num_classes, marked_index(0, num_classes))
    zeros = full((*x.meta.shape, num_classes), 0, dt.int64, x.meta.device)
    ones = full((*x.meta.shape, 1), 1, dt.int64, x.meta.device)
    return scatter(zeros, -1, unsqueeze(at, -1), ones)


one_hot = op(
    "one_hot(input: Tensor, num_classes: int = -1) -> Tensor", methods=("function",),
    eager=_one_hot, doc="1 at each class of a new last dimension, 0 elsewhere.",
    samples=lambda t: [(t.index(5, 3, 4),), (t.index(5, 3), 7), (t.index(3),)],
)  # fmt: skip
