"""Elements in another arrangement: repeated, rolled, flipped, stacked, on diagonals, in triangles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from halon.dispatcher.op import COMPOSE, Window, Windows, op
from halon.dispatcher.ops.creation import full, iota
from halon.dispatcher.ops.elementwise import ge, le, where
from halon.dispatcher.ops.indexing import index_select
from halon.dispatcher.ops.movement import cat, dense
from halon.dispatcher.ops.views import (
    expand,
    narrow,
    permute,
    reshape,
    select,
    strided,
    transpose,
    unsqueeze,
    window_assign,
)
from halon.dispatcher.shapes import Shape, wrap_dim
from halon.dispatcher.structures import Meta, contiguous_strides
from halon.hal import dtypes as dt

_PUBLIC = ("function", "method")


# -- repetition ------------------------------------------------------------------------------------
def _repeat(x: Any, repeats: Sequence[int]) -> Any:
    if len(repeats) < x.meta.ndim:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            f"tensor: {list(repeats)} for {x.meta}"
        )
    if any(r < 0 for r in repeats):
        raise RuntimeError(f"Trying to create tensor with negative dimension: {list(repeats)}")
    shape = (1,) * (len(repeats) - x.meta.ndim) + x.meta.shape
    between = [n for s in shape for n in (1, s)]
    wide = [n for r, s in zip(repeats, shape, strict=True) for n in (r, s)]
    final = tuple(r * s for r, s in zip(repeats, shape, strict=True))
    return reshape(expand(reshape(x, tuple(between)), tuple(wide)), final)


repeat = op(
    "repeat(input: Tensor, repeats: Sizes) -> Tensor", methods=("method",), decompose=_repeat,
    grad=COMPOSE, doc="Copies side by side, ``repeats`` times along each dimension.",
    samples=lambda t: [(t(3, 4), (2, 1)), (t(3), (2, 2)), (t(), (3,)), (t(2, 3), (0, 1))],
)  # fmt: skip


def _tile(x: Any, dims: Sequence[int]) -> Any:
    return _repeat(x, (1,) * (x.meta.ndim - len(dims)) + tuple(dims))


tile = op(
    "tile(input: Tensor, dims: Sizes) -> Tensor", methods=_PUBLIC, decompose=_tile, grad=COMPOSE,
    doc="As ``repeat``, with missing leading counts as 1.",
    samples=lambda t: [(t(3, 4), (2,)), (t(3), (2, 2))],
)  # fmt: skip


def _interleave(x: Any, repeats: int, dim: int | None) -> Any:
    if dim is None:
        x, dim = reshape(x, (-1,)), 0
    d = wrap_dim(dim, x.meta.ndim)
    shape = x.meta.shape
    wide = expand(unsqueeze(x, d + 1), (*shape[: d + 1], repeats, *shape[d + 1 :]))
    return reshape(wide, (*shape[:d], shape[d] * repeats, *shape[d + 1 :]))


interleave = op(
    "interleave(input: Tensor, repeats: int, dim: int = None) -> Tensor", decompose=_interleave,
    grad=COMPOSE, doc="Each slice along ``dim`` repeated the same number of times.",
    samples=lambda t: [],
)  # fmt: skip


def _repeat_interleave(x: Any, repeats: Any, dim: int | None, output_size: int | None) -> Any:
    from halon.dispatcher.ops.order import searchsorted_of
    from halon.dispatcher.ops.scan import cumsum

    if isinstance(repeats, int):
        return interleave(x, repeats, dim)
    if dim is None:
        x, dim = reshape(x, (-1,)), 0
    d = wrap_dim(dim, x.meta.ndim)
    if repeats.meta.numel == 1:
        return interleave(x, int(repeats.item()), d)
    if repeats.meta.shape != (x.meta.shape[d],):
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got {repeats.meta} for "
            f"{x.meta} along {d}"
        )
    ends = cumsum(repeats, 0)
    total = output_size if output_size is not None else int(ends[-1].item())
    places = iota(total, 0, 1, dt.int64, x.meta.device)
    return index_select(x, d, searchsorted_of(ends, places, True))


repeat_interleave = op(
    "repeat_interleave(input: Tensor, repeats: Tensor, dim: int = None, *, output_size: int = None)"
    " -> Tensor",
    methods=_PUBLIC, eager=_repeat_interleave,
    doc="Each slice along ``dim`` (each element without it) repeated: by a number, or by one number "
    "per slice.",
    samples=lambda t: [(t(3, 4), 2), (t(3, 4), 2, 1), (t(3, 4), t.index(4, 3), 0)],
)  # fmt: skip


# -- order -----------------------------------------------------------------------------------------
def _flip(x: Any, dims: Sequence[int]) -> Any:
    wrapped = [wrap_dim(d, x.meta.ndim) for d in ((dims,) if isinstance(dims, int) else dims)]
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError(f"dim {wrapped[0]} appears multiple times in the list of dims")
    for d in wrapped if x.meta.ndim else ():
        n = x.meta.shape[d]
        x = index_select(x, d, iota(n, n - 1, -1, dt.int64, x.meta.device))
    return x


flip = op(
    "flip(input: Tensor, dims: Sizes) -> Tensor", methods=_PUBLIC, decompose=_flip, grad=COMPOSE,
    doc="Reversed along ``dims``.",
    samples=lambda t: [(t(3, 4), (0,)), (t(2, 3, 4), (0, -1)), (t(3, 4), ()), (t(0, 2), (0, 1))],
)  # fmt: skip
fliplr = op("fliplr(input: Tensor) -> Tensor", methods=_PUBLIC, grad=COMPOSE,
            decompose=lambda x: flip(_at_least(x, 2, "fliplr"), (1,)), doc="Reversed columns.",
            samples=lambda t: [(t(3, 4),)])  # fmt: skip
flipud = op("flipud(input: Tensor) -> Tensor", methods=_PUBLIC, grad=COMPOSE,
            decompose=lambda x: flip(_at_least(x, 1, "flipud"), (0,)), doc="Reversed rows.",
            samples=lambda t: [(t(3, 4),)])  # fmt: skip


def _at_least(x: Any, ndim: int, name: str) -> Any:
    if x.meta.ndim < ndim:
        raise RuntimeError(f"Input must be >= {ndim}-d, but got {x.meta} in {name}")
    return x


def _roll(x: Any, shifts: Any, dims: Any) -> Any:
    shifts = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    dims = () if dims is None else (dims,) if isinstance(dims, int) else tuple(dims)
    if not dims:
        if len(shifts) != 1:
            raise RuntimeError("shifts and dimensions must align")
        return reshape(_roll(reshape(x, (-1,)), shifts, (0,)), x.meta.shape)
    if len(shifts) != len(dims):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}"
        )
    for s, dim in zip(shifts, dims, strict=True):
        d = wrap_dim(dim, x.meta.ndim)
        n = x.meta.shape[d]
        k = s % n if n else 0
        if k:
            x = cat((narrow(x, d, n - k, k), narrow(x, d, 0, n - k)), d)
    return x


roll = op(
    "roll(input: Tensor, shifts: Ints, dims: Ints = None) -> Tensor", methods=_PUBLIC,
    decompose=_roll, grad=COMPOSE, doc="Elements moved along ``dims``, those that fall off return.",
    samples=lambda t: [(t(3, 4), 1), (t(3, 4), 1, 0), (t(3, 4), (2, -1), (0, 1)), (t(0, 2), 1, 0)],
)  # fmt: skip


def _rot90(x: Any, k: int, dims: Sequence[int]) -> Any:
    a, b = (wrap_dim(d, x.meta.ndim) for d in dims)
    if a == b:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {a}")
    turns = k % 4
    if turns == 0:
        return x
    if turns == 2:
        return flip(x, (a, b))
    return transpose(flip(x, (b if turns == 1 else a,)), a, b)


rot90 = op(
    "rot90(input: Tensor, k: int = 1, dims: Ints = (0, 1)) -> Tensor", methods=_PUBLIC,
    decompose=_rot90, grad=COMPOSE, doc="Rotated by ``k`` quarter turns from the first of ``dims``.",
    samples=lambda t: [(t(3, 4),), (t(3, 4), 2), (t(2, 3, 4), 3, (1, 2)), (t(3, 4), -1)],
)  # fmt: skip


def _moved(ndim: int, source: Any, destination: Any) -> Shape:
    source = (source,) if isinstance(source, int) else tuple(source)
    destination = (destination,) if isinstance(destination, int) else tuple(destination)
    if len(source) != len(destination):
        raise RuntimeError(
            "movedim: Invalid source or destination dims: source "
            f"({list(source)}) should contain the same number of dims as destination "
            f"({list(destination)})"
        )
    from_, to = [wrap_dim(d, ndim) for d in source], [wrap_dim(d, ndim) for d in destination]
    if len(set(from_)) != len(from_) or len(set(to)) != len(to):
        raise RuntimeError("movedim: repeated dim in `source` or `destination`")
    order = [-1] * ndim
    for s, d in zip(from_, to, strict=True):
        order[d] = s
    rest = iter([d for d in range(ndim) if d not in from_])
    return tuple(next(rest) if d < 0 else d for d in order)


movedim = op(
    "movedim(input: Tensor, source: Ints, destination: Ints) -> Tensor", methods=_PUBLIC,
    eager=lambda x, source, destination: permute(x, _moved(x.meta.ndim, source, destination)),
    doc="Dimensions moved to other places: a view.",
    samples=lambda t: [(t(2, 3, 4), 0, -1), (t(2, 3, 4), (0, 1), (2, 0))],
)  # fmt: skip


# -- joining ---------------------------------------------------------------------------------------
def _stack(tensors: Any, dim: int) -> Any:
    shapes = {x.meta.shape for x in tensors}
    if len(shapes) > 1:
        raise RuntimeError(
            f"stack expects each tensor to be equal size, but got {sorted(map(list, shapes))}"
        )
    return cat(tuple(unsqueeze(x, dim) for x in tensors), dim)


stack = op(
    "stack(tensors: Tensors, dim: int = 0) -> Tensor", methods=("function",), decompose=_stack,
    grad=COMPOSE, doc="Equal shapes joined along a new dimension.",
    samples=lambda t: [((t(3, 4), t(3, 4)), 0), ((t(3), t(3), t(3)), -1), ((t(),), 0)],
)  # fmt: skip


def _raised(x: Any, ndim: int) -> Any:
    """At least this many dimensions, as NumPy's atleast functions place them."""
    if x.meta.ndim >= ndim:
        return x
    if ndim == 3 and x.meta.ndim:
        return reshape(x, (1, x.meta.shape[0], 1) if x.meta.ndim == 1 else (*x.meta.shape, 1))
    return reshape(x, (1,) * (ndim - x.meta.ndim) + x.meta.shape)


def _joined(ndim: int, dim: int) -> Any:
    def run(tensors: Any) -> Any:
        rows = tuple(_raised(x, ndim) for x in tensors)
        return cat(rows, 0 if dim == 1 and rows[0].meta.ndim == 1 else dim)

    return run


def _pairs(t: Any) -> list[tuple[Any, ...]]:
    return [((t(3), t(3)),), ((t(3, 4), t(3, 4)),), ((t(), t()),)]


# fmt: off
hstack = op("hstack(tensors: Tensors) -> Tensor", methods=("function",), decompose=_joined(1, 1),
            grad=COMPOSE, doc="Joined side by side.", samples=_pairs)
vstack = op("vstack(tensors: Tensors) -> Tensor", methods=("function",), decompose=_joined(2, 0),
            grad=COMPOSE, doc="Joined as rows.", samples=_pairs)
dstack = op("dstack(tensors: Tensors) -> Tensor", methods=("function",), decompose=_joined(3, 2),
            grad=COMPOSE, doc="Joined in the third dimension.", samples=_pairs)
column_stack = op(
    "column_stack(tensors: Tensors) -> Tensor", methods=("function",), grad=COMPOSE,
    decompose=lambda tensors: cat(tuple(
        reshape(x, (x.meta.numel, 1)) if x.meta.ndim < 2 else x for x in tensors
    ), 1),
    doc="Vectors as columns, joined side by side with matrices.", samples=_pairs,
)
# fmt: on


# -- diagonals and triangles -----------------------------------------------------------------------
def _diagonal(input: Meta, offset: int, dim1: int, dim2: int) -> tuple[Any, ...]:
    a, b = wrap_dim(dim1, input.ndim), wrap_dim(dim2, input.ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rows, columns = input.shape[a], input.shape[b]
    n = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
    start = max(offset, 0) * input.strides[b] + max(-offset, 0) * input.strides[a]
    rest = [d for d in range(input.ndim) if d not in (a, b)]
    return (
        (*(input.shape[d] for d in rest), n),
        (*(input.strides[d] for d in rest), input.strides[a] + input.strides[b]),
        (start if n else 0) * input.dtype.itemsize,
    )


diagonal = op(
    "diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor",
    view=_diagonal, methods=_PUBLIC, doc="A view of a diagonal, as the last dimension.",
    grad=lambda g, out, x, offset, dim1, dim2: diagonal_backward(
        g, x.meta.shape, offset, dim1, dim2
    ),
    samples=lambda t: [(t(3, 4),), (t(3, 4), 1), (t(2, 3, 4), -1, 0, 2), (t(3, 3), 5)],
)  # fmt: skip


def _diagonal_windows(g: Meta, size: Shape, offset: int, dim1: int, dim2: int) -> Windows:
    whole = Meta(size, contiguous_strides(size), g.dtype, g.device)
    shape, strides, start = _diagonal(whole, offset, dim1, dim2)
    return Windows(0, [Window(shape, strides, start // g.dtype.itemsize)])


diagonal_backward = op(
    "diagonal_backward(grad: Tensor, size: Ints, offset: int, dim1: int, dim2: int) -> Tensor",
    doc="Zeros of a size with ``grad`` on a diagonal.", windows=_diagonal_windows,
    shape=lambda g, size, *_: tuple(size), dtype=lambda g, *_: g.dtype,
    grad=lambda gg, out, g, size, offset, dim1, dim2: diagonal(gg, offset, dim1, dim2),
    samples=lambda t: [],
)  # fmt: skip


def _diag_embed(x: Any, offset: int, dim1: int, dim2: int) -> Any:
    n, ndim = x.meta.shape[-1] + abs_int(offset), x.meta.ndim + 1
    a, b = wrap_dim(dim1, ndim), wrap_dim(dim2, ndim)
    rest = iter(x.meta.shape[:-1])
    size = tuple(n if d in (a, b) else next(rest) for d in range(ndim))
    return diagonal_backward(x, size, offset, a, b)


def abs_int(n: int) -> int:
    return n if n >= 0 else -n


diag_embed = op(
    "diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor",
    methods=_PUBLIC, decompose=_diag_embed, grad=COMPOSE,
    doc="Matrices with the last dimension on a diagonal.",
    samples=lambda t: [(t(2, 3),), (t(3), 1), (t(2, 3), -1, 0, 2)],
)  # fmt: skip


def _diag(x: Any, diagonal_: int) -> Any:
    if x.meta.ndim not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {x.meta.ndim}D")
    if x.meta.ndim == 1:
        return _diag_embed(x, diagonal_, 0, 1)
    return dense(diagonal(x, diagonal_, 0, 1))


diag = op(
    "diag(input: Tensor, diagonal: int = 0) -> Tensor", methods=_PUBLIC, decompose=_diag,
    grad=COMPOSE, doc="The diagonal of a matrix, or a matrix with a vector on its diagonal.",
    samples=lambda t: [(t(3),), (t(3), -1), (t(3, 4), 1)],
)  # fmt: skip
diagflat = op(
    "diagflat(input: Tensor, offset: int = 0) -> Tensor", methods=_PUBLIC, grad=COMPOSE,
    decompose=lambda x, offset: _diag_embed(reshape(x, (-1,)), offset, 0, 1),
    doc="A matrix with all elements on its diagonal.", samples=lambda t: [(t(2, 2),), (t(3), 1)],
)  # fmt: skip


def _triangle(lower: bool) -> Any:
    def run(x: Any, diagonal_: int) -> Any:
        if x.meta.ndim < 2:
            raise RuntimeError(f"{'tril' if lower else 'triu'}: input tensor must have at least 2 "
                               f"dimensions, got {x.meta}")  # fmt: skip
        rows, columns = x.meta.shape[-2:]
        row = reshape(iota(rows, diagonal_, 1, dt.int64, x.meta.device), (rows, 1))
        column = iota(columns, 0, 1, dt.int64, x.meta.device)
        inside = le(column, row) if lower else ge(column, row)
        zero = full((), 0, x.meta.dtype, x.meta.device)
        return where(inside, x, zero)

    return run


# fmt: off
tril = op("tril(input: Tensor, diagonal: int = 0) -> Tensor", decompose=_triangle(True),
          methods=(*_PUBLIC, "inplace"), grad=COMPOSE,
          doc="The lower triangle of matrices, 0 elsewhere.",
          samples=lambda t: [(t(3, 4),), (t(2, 3, 3), 1), (t(4, 3).t(), -1)])
triu = op("triu(input: Tensor, diagonal: int = 0) -> Tensor", decompose=_triangle(False),
          methods=(*_PUBLIC, "inplace"), grad=COMPOSE,
          doc="The upper triangle of matrices, 0 elsewhere.",
          samples=lambda t: [(t(3, 4),), (t(2, 3, 3), 1), (t(4, 3).t(), -1)])
trace = op("trace(input: Tensor) -> Tensor", methods=_PUBLIC, grad=COMPOSE,
           decompose=lambda x: _trace(x), doc="The sum of a matrix's diagonal.",
           samples=lambda t: [(t(3, 4),), (t(4, 3).t(),)])
# fmt: on


def _trace(x: Any) -> Any:
    from halon.dispatcher.ops.reduction import sum

    if x.meta.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {x.meta.ndim}")
    return sum(diagonal(x, 0, 0, 1), None, False)


# -- a tensor with a part replaced -----------------------------------------------------------------
def _replaced(x: Any, part: Any, src: Any, name: str) -> Any:
    """``x`` row-major with ``src`` in the place that ``part`` (shape, strides, offset) describes."""
    shape, strides, start = part
    if src.meta.shape != tuple(shape):
        raise RuntimeError(
            f"{name}: expected src to have a size equal to the slice of self. src size = "
            f"{list(src.meta.shape)}, slice size = {list(shape)}"
        )
    base = dense(x)
    return window_assign(base, src, shape, strides, start // base.meta.dtype.itemsize)


def _part_of(x: Any, view: Any, *args: Any) -> Any:
    meta = x.meta
    return view(Meta(meta.shape, contiguous_strides(meta.shape), meta.dtype, meta.device), *args)


def _select_scatter(x: Any, src: Any, dim: int, index: int) -> Any:
    return _replaced(x, _part_of(x, select.view, dim, index), src, "select_scatter")


select_scatter = op(
    "select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor", methods=_PUBLIC,
    decompose=_select_scatter, grad=COMPOSE, doc="``input`` with ``src`` at an index along ``dim``.",
    samples=lambda t: [(t(3, 4), t(4), 0, 1), (t(3, 4), t(3), 1, -1)],
)  # fmt: skip


def _slice_scatter(x: Any, src: Any, dim: int, start: Any, end: Any, step: int) -> Any:
    from halon.dispatcher.ops.views import slice_

    n = x.meta.shape[wrap_dim(dim, x.meta.ndim)]
    first, last, _ = slice(start, end, step).indices(n)
    part = _part_of(x, slice_.view, dim, first, max(first, last), step)
    return _replaced(x, part, src, "slice_scatter")


slice_scatter = op(
    "slice_scatter(input: Tensor, src: Tensor, dim: int = 0, start: int = None, end: int = None, "
    "step: int = 1) -> Tensor",
    methods=_PUBLIC, decompose=_slice_scatter, grad=COMPOSE,
    doc="``input`` with ``src`` in a slice along ``dim``.",
    samples=lambda t: [(t(5, 4), t(2, 4), 0, 1, 4, 2), (t(3, 4), t(3, 2), 1, 2)],
)  # fmt: skip
diagonal_scatter = op(
    "diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1)"
    " -> Tensor",
    methods=_PUBLIC, grad=COMPOSE, doc="``input`` with ``src`` on a diagonal.",
    decompose=lambda x, src, offset, dim1, dim2: _replaced(
        x, _part_of(x, _diagonal, offset, dim1, dim2), src, "diagonal_scatter"
    ),
    samples=lambda t: [(t(3, 4), t(3)), (t(3, 4), t(2), -1)],
)  # fmt: skip


# -- sliding windows -------------------------------------------------------------------------------
def _unfold(x: Any, dimension: int, size: int, step: int) -> Any:
    ndim = x.meta.ndim
    d = wrap_dim(dimension, ndim)
    shape, strides = x.meta.shape or (1,), x.meta.strides or (1,)
    if not 0 <= size <= shape[d]:
        raise RuntimeError(
            f"maximum size for tensor at dimension {d} is {shape[d]} but size is {size}"
        )
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    count = (shape[d] - size) // step + 1
    if not ndim:
        return strided(x, (size,), (1,), 0)
    return strided(
        x, (*shape[:d], count, *shape[d + 1 :], size),
        (*strides[:d], strides[d] * step, *strides[d + 1 :], strides[d]), 0,
    )  # fmt: skip


unfold = op(
    "unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor", methods=("method",),
    eager=_unfold, doc="A view of the slices of ``size`` along a dimension, ``step`` apart.",
    samples=lambda t: [(t(5, 4), 0, 3, 1), (t(2, 6), 1, 2, 2), (t(4, 3).t(), -1, 2, 1)],
)  # fmt: skip
