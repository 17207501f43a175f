"""Distinct values, membership and counting: what sorting and scattering make of a tensor."""

from __future__ import annotations

from typing import Any

from halon.dispatcher.op import op
from halon.dispatcher.ops.creation import full, iota
from halon.dispatcher.ops.elementwise import eq, floor, ge, le, logical_not, lt, ne, where
from halon.dispatcher.ops.index_writes import mask_positions
from halon.dispatcher.ops.indexing import index_select, scatter, scatter_add
from halon.dispatcher.ops.movement import cast, cat
from halon.dispatcher.ops.order import sort_stable
from halon.dispatcher.ops.reduction import amax, amin, any
from halon.dispatcher.ops.scan import cumsum_of
from halon.dispatcher.ops.views import narrow, permute, reshape, unsqueeze
from halon.dispatcher.shapes import wrap_dim
from halon.hal import dtypes as dt

_PUBLIC = ("function", "method")


# -- unique ----------------------------------------------------------------------------------------
def _sorted_rows(rows: Any) -> Any:
    """An order of a [n, width] matrix that puts rows in lexicographic order: last column first."""
    n, width = rows.meta.shape
    order = iota(n, 0, 1, dt.int64, rows.meta.device)
    for column in range(width - 1, -1, -1):
        key = index_select(reshape(narrow(rows, 1, column, 1), (-1,)), 0, order)
        order = index_select(order, 0, sort_stable(key, 0, False)[1])
    return order


def _begins(rows: Any) -> Any:
    """Which of consecutive rows differ from the one before."""
    n = rows.meta.shape[0]
    first = full((min(n, 1),), True, dt.bool_, rows.meta.device)
    if n < 2:
        return first
    differ = any(ne(narrow(rows, 0, 1, n - 1), narrow(rows, 0, 0, n - 1)), 1, False)
    return cat((first, differ), 0)


def _runs(rows: Any) -> tuple[Any, Any, Any]:
    """Where runs of equal rows begin, the run of each row, and the length of each run."""
    begins = _begins(rows)
    at = mask_positions(begins)
    run = cumsum_of(cast(begins, dt.int64), 0, False) - 1
    n = rows.meta.shape[0]
    counts = full((at.meta.numel,), 0, dt.int64, rows.meta.device)
    ones = full((n,), 1, dt.int64, rows.meta.device)
    return at, run, scatter_add(counts, 0, run, ones) if n else counts


def _results(values: Any, inverse: Any, counts: Any, give: tuple[bool, bool]) -> Any:
    wanted = [values, *([inverse] if give[0] else []), *([counts] if give[1] else [])]
    return tuple(wanted) if len(wanted) > 1 else values


def _rows_of(x: Any, dim: int | None) -> tuple[Any, Any, tuple[int, ...]]:
    """[n, width] rows to compare, the tensor they index along 0, and the shape of inverses."""
    if dim is None:
        flat = reshape(x, (-1,))
        return unsqueeze(flat, 1), flat, x.meta.shape
    d = wrap_dim(dim, x.meta.ndim)
    moved = permute(x, (d, *(i for i in range(x.meta.ndim) if i != d)))
    n = moved.meta.shape[0]
    width = moved.meta.numel // n if n else 0
    return reshape(moved, (n, width)), moved, (n,)


def _back(values: Any, dim: int | None, ndim: int) -> Any:
    if dim is None:
        return values
    d = wrap_dim(dim, ndim)
    return permute(values, (*range(1, d + 1), 0, *range(d + 1, ndim)))


def _unique(
    x: Any, sorted: bool, return_inverse: bool, return_counts: bool, dim: int | None
) -> Any:
    rows, data, shape = _rows_of(x, dim)
    order = _sorted_rows(rows)
    n = rows.meta.shape[0]
    at, run, counts = _runs(index_select(rows, 0, order))
    values = index_select(data, 0, index_select(order, 0, at))
    inverse = scatter(full((n,), 0, dt.int64, x.meta.device), 0, order, run) if n else run
    return _results(
        _back(values, dim, x.meta.ndim), reshape(inverse, shape), counts,
        (return_inverse, return_counts),
    )  # fmt: skip


def _unique_consecutive(x: Any, return_inverse: bool, return_counts: bool, dim: int | None) -> Any:
    rows, data, shape = _rows_of(x, dim)
    at, run, counts = _runs(rows)
    values = _back(index_select(data, 0, at), dim, x.meta.ndim)
    return _results(values, reshape(run, shape), counts, (return_inverse, return_counts))


unique = op(
    "unique(input: Tensor, sorted: bool = True, return_inverse: bool = False, "
    "return_counts: bool = False, dim: int = None) -> Tensor",
    methods=_PUBLIC, eager=_unique,
    doc="The distinct elements in ascending order (or slices along ``dim``); with them, where each "
    "element went and how often each occurs.",
    samples=lambda t: [(t.between(0, 4, 3, 4),), (t.between(0, 3, 5), True, True, True), (t(0),),
                       (t.between(0, 2, 5, 2), True, True, True, 0), (t(),)],
)  # fmt: skip
unique_consecutive = op(
    "unique_consecutive(input: Tensor, return_inverse: bool = False, return_counts: bool = False, "
    "dim: int = None) -> Tensor",
    methods=_PUBLIC, eager=_unique_consecutive,
    doc="The first element (or slice along ``dim``) of every run of equal ones.",
    samples=lambda t: [(t.between(0, 2, 9),), (t.between(0, 2, 3, 4), True, True),
                       (t.between(0, 2, 6, 1), True, True, 0)],
)  # fmt: skip


# -- membership ------------------------------------------------------------------------------------
def _isin(elements: Any, test: Any, assume_unique: bool, invert: bool) -> Any:
    """By comparison with every test element: exact for every dtype, quadratic in memory."""
    if not test.meta.numel:
        return full(elements.meta.shape, invert, dt.bool_, elements.meta.device)
    hit = any(eq(unsqueeze(elements, -1), reshape(test, (-1,))), -1, False)
    return logical_not(hit) if invert else hit


isin_of = op(
    "isin_of(elements: Tensor, test_elements: Tensor, assume_unique: bool, invert: bool) -> Tensor",
    decompose=_isin, grad=None, doc="``isin`` of tensors.", samples=lambda t: [],
)  # fmt: skip


def _isin_numbers(elements: Any, test: Any, assume_unique: bool, invert: bool) -> Any:
    like = elements if hasattr(elements, "meta") else test
    if not hasattr(like, "meta"):
        raise TypeError("isin(): one of elements and test_elements must be a Tensor")

    def tensor(v: Any) -> Any:
        return v if hasattr(v, "meta") else full((), v, like.meta.dtype, like.meta.device)

    return isin_of(tensor(elements), tensor(test), assume_unique, invert)


isin = op(
    "isin(elements: Tensor, test_elements: Tensor, *, assume_unique: bool = False, "
    "invert: bool = False) -> Tensor",
    methods=("function",), eager=_isin_numbers,
    doc="Whether each element is among ``test_elements``; either may be a number.",
    samples=lambda t: [(t.between(0, 5, 3, 4), t.between(0, 3, 3)), (t.between(0, 5, 4), 2),
                       (t.between(0, 5, 4), t(0)), (t.between(0, 5, 4), t.between(0, 3, 2), False, True)],
)  # fmt: skip


# -- counting --------------------------------------------------------------------------------------
def _bincount(x: Any, weights: Any, minlength: int) -> Any:
    if x.meta.ndim != 1 or x.meta.dtype.category != 1:
        raise RuntimeError(f"bincount only supports 1-d non-negative integral inputs, got {x.meta}")
    if weights is not None and weights.meta.shape != x.meta.shape:
        raise RuntimeError(
            f"bincount: weights should have the same shape as input, got {weights.meta}"
        )
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    at = cast(x, dt.int64)
    n = minlength
    if x.meta.numel:
        if int(amin(at).item()) < 0:
            raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
        n = max(minlength, int(amax(at).item()) + 1)
    if weights is None:
        source = full(x.meta.shape, 1, dt.int64, x.meta.device)
    else:
        narrow_float = weights.meta.dtype is dt.float32
        source = weights if narrow_float else cast(weights, dt.float64)
    zeros = full((n,), 0, source.meta.dtype, x.meta.device)
    return scatter_add(zeros, 0, at, source) if x.meta.numel else zeros


bincount = op(
    "bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor",
    methods=_PUBLIC, eager=_bincount,
    doc="How often each non-negative integer occurs (or the sum of ``weights`` there).",
    samples=lambda t: [(t.index(5, 9),), (t.index(5, 4), t.floats(4), 8), (t.index(5, 0),)],
)  # fmt: skip


def _histc(x: Any, bins: int, min: float, max: float) -> Any:
    if bins <= 0:
        raise RuntimeError(f"torch.histc(): bins must be > 0, but got {bins}")
    if x.meta.dtype.category != 2:
        raise NotImplementedError(f'"histc" not implemented for {x.meta.dtype.name!r}')
    flat = reshape(x, (-1,))
    low, high = float(min), float(max)
    if low == high and x.meta.numel:
        low, high = float(amin(flat).item()), float(amax(flat).item())
    if low == high:
        low, high = low - 1, high + 1
    if not (low < high):
        raise RuntimeError("torch.histc(): max must be larger than min")
    counts = full((bins + 1,), 0, x.meta.dtype, x.meta.device)
    if not x.meta.numel:
        return narrow(counts, 0, 0, bins)
    inside = ge(flat, low) & le(flat, high)
    place = floor((flat - low) * bins / (high - low))
    place = where(inside, where(lt(place, bins), place, bins - 1.0), float(bins))
    ones = full(flat.meta.shape, 1, x.meta.dtype, x.meta.device)
    return narrow(scatter_add(counts, 0, cast(place, dt.int64), ones), 0, 0, bins)


histc = op(
    "histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor",
    methods=_PUBLIC, eager=_histc,
    doc="Counts of elements in ``bins`` equal parts of [min, max] (of their range if both are 0).",
    samples=lambda t: [(t.floats(3, 40), 7), (t.floats(40), 5, -1, 1)],
)  # fmt: skip
