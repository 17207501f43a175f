"""Sorting and what follows from it: largest values, medians, quantiles, searching."""

from __future__ import annotations

import math
from typing import Any

from halon.dispatcher.op import COMPOSE, KernelCall, op
from halon.dispatcher.ops.creation import full
from halon.dispatcher.ops.elementwise import (
    eq,
    floor,
    ge,
    gt,
    isnan,
    lerp,
    logical_not,
    lt,
    maximum,
    minimum,
    ne,
    round,
    where,
)
from halon.dispatcher.ops.indexing import gather, scatter_add
from halon.dispatcher.ops.movement import cast, cat, clone
from halon.dispatcher.ops.reduction import argmax, sum
from halon.dispatcher.ops.scan import _positions, cummax
from halon.dispatcher.ops.transcendental import ceil
from halon.dispatcher.ops.views import expand, narrow, reshape, squeeze, unsqueeze
from halon.dispatcher.shapes import wrap_dim
from halon.hal import dtypes as dt

_PUBLIC = ("function", "method")


def _sort_grad(g: Any, out: Any, x: Any, dim: int, *_: Any) -> Any:
    zeros = full(x.meta.shape, 0, g[0].meta.dtype, g[0].meta.device)
    return scatter_add(zeros, dim, out[1], g[0]) if x.meta.ndim else g[0]


sort_stable = op(
    "sort_stable(input: Tensor, dim: int, descending: bool) -> Tensor", outputs=2,
    doc="Values in order along ``dim`` and where they were; equal ones keep their order, NaN "
    "counts as largest.",
    shape=lambda x, *_: (x.shape, x.shape), dtype=lambda x, *_: (x.dtype, dt.int64),
    kernel=lambda x, dim, descending: KernelCall(
        "sort", (x,), {"dim": wrap_dim(dim, x.ndim), "descending": descending}
    ),
    grad=_sort_grad, samples=lambda t: [],
)  # fmt: skip

sort = op(
    "sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor",
    outputs=2, methods=_PUBLIC, grad=COMPOSE,
    doc="Values in order along ``dim`` and their indices; always stable, NaN counts as largest.",
    decompose=lambda x, dim, descending, stable: sort_stable(x, dim, descending),
    kernel=lambda x, *_: KernelCall("sort_by_flag", (x,)),  # not the primitive: sort_stable is
    samples=lambda t: [(t.distinct(3, 4),), (t.distinct(3, 4), 0, True), (t.distinct(2, 3, 4), 1),
                       (t(),), (t.distinct(4, 3).t(), -1, True)],
)  # fmt: skip
argsort = op(
    "argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False)"
    " -> Tensor",
    methods=_PUBLIC, grad=None, doc="The indices that sort along ``dim``.",
    decompose=lambda x, dim, descending, stable: sort_stable(x, dim, descending)[1],
    samples=lambda t: [(t.distinct(3, 4),), (t.distinct(3, 4), 0, True)],
)  # fmt: skip
msort = op(
    "msort(input: Tensor) -> Tensor", methods=_PUBLIC, grad=COMPOSE,
    doc="Values in order along the first dimension.",
    decompose=lambda x: sort_stable(x, 0, False)[0], samples=lambda t: [(t(4, 3),), (t(5),)],
)  # fmt: skip


def _topk(x: Any, k: int, dim: int, largest: bool, sorted: bool) -> Any:
    n = x.meta.shape[wrap_dim(dim, x.meta.ndim)] if x.meta.ndim else 1
    if not 0 <= k <= n:
        raise RuntimeError("selected index k out of range")
    values, index = sort_stable(x, dim, largest)
    if not x.meta.ndim:
        return values, index
    return clone(narrow(values, dim, 0, k)), clone(narrow(index, dim, 0, k))


topk = op(
    "topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True)"
    " -> Tensor",
    outputs=2, methods=_PUBLIC, decompose=_topk, grad=COMPOSE,
    doc="The ``k`` largest (or smallest) values along ``dim``, in order, and their indices.",
    samples=lambda t: [(t.distinct(3, 5), 2), (t.distinct(3, 5), 2, 0, False), (t.distinct(6), 6)],
)  # fmt: skip


def _one_of(x: Any, dim: int, values: Any, index: Any, at: int, keepdim: bool) -> Any:
    """Position ``at`` of sorted values and indices."""
    if not x.meta.ndim:
        return values, index
    picked = clone(narrow(values, dim, at, 1)), clone(narrow(index, dim, at, 1))
    return picked if keepdim else (squeeze(picked[0], dim), squeeze(picked[1], dim))


def _kthvalue(x: Any, k: int, dim: int, keepdim: bool) -> Any:
    n = x.meta.shape[wrap_dim(dim, x.meta.ndim)] if x.meta.ndim else 1
    if not 1 <= k <= n:
        raise RuntimeError("kthvalue(): selected number k out of range for dimension "
                           f"{wrap_dim(dim, x.meta.ndim)}")  # fmt: skip
    values, index = sort_stable(x, dim, False)
    return _one_of(x, dim, values, index, k - 1, keepdim)


kthvalue = op(
    "kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Tensor", outputs=2,
    methods=_PUBLIC, decompose=_kthvalue, grad=COMPOSE,
    doc="The k-th smallest value (from 1) along ``dim`` and its index.",
    samples=lambda t: [(t.distinct(3, 4), 2), (t.distinct(3, 4), 1, 0, True)],
)  # fmt: skip


def _median(ignore_nan: bool) -> Any:
    def run(x: Any, dim: int, keepdim: bool) -> Any:
        d = wrap_dim(dim, x.meta.ndim)
        values, index = sort_stable(x, dim, False)
        if not x.meta.ndim:
            return values, index
        n = x.meta.shape[d]
        if not n:
            raise IndexError(f"median(): Expected reduction dim {d} to have non-zero size.")
        missing = sum(cast(isnan(x), dt.int64), d, True)
        if ignore_nan:
            at = maximum((n - 1 - missing) // 2, 0)
        else:  # the first NaN, if there is one
            at = where(eq(missing, 0), (n - 1) // 2, n - missing)
        picked = gather(values, d, at), gather(index, d, at)
        return picked if keepdim else (squeeze(picked[0], d), squeeze(picked[1], d))

    return run


median_along = op(
    "median_along(input: Tensor, dim: int, keepdim: bool) -> Tensor", outputs=2,
    decompose=_median(False), grad=COMPOSE, samples=lambda t: [],
    doc="The lower median along ``dim`` and its index; NaN if there is one.",
)  # fmt: skip
nanmedian_along = op(
    "nanmedian_along(input: Tensor, dim: int, keepdim: bool) -> Tensor", outputs=2,
    decompose=_median(True), grad=COMPOSE, samples=lambda t: [],
    doc="The lower median of what is not NaN along ``dim``, and its index.",
)  # fmt: skip


def _whole_or_along(along: Any) -> Any:
    def run(x: Any, dim: int | None, keepdim: bool) -> Any:
        if dim is not None:
            return along(x, dim, keepdim)
        if not x.meta.numel:
            return full((), math.nan, x.meta.dtype, x.meta.device)
        return along(reshape(x, (-1,)), 0, False)[0]

    return run


median = op(
    "median(input: Tensor, dim: int = None, keepdim: bool = False) -> Tensor", methods=_PUBLIC,
    eager=_whole_or_along(median_along),
    doc="The lower median of all elements; with ``dim``, (values, indices) along it.",
    samples=lambda t: [(t.distinct(3, 4),), (t.distinct(3, 4), 0), (t.distinct(3, 5), 1, True)],
)  # fmt: skip
nanmedian = op(
    "nanmedian(input: Tensor, dim: int = None, keepdim: bool = False) -> Tensor", methods=_PUBLIC,
    eager=_whole_or_along(nanmedian_along),
    doc="As ``median``, of what is not NaN.",
    samples=lambda t: [(t.distinct(3, 4),), (t.distinct(3, 4), 0), (t.distinct(3, 5), 1, True)],
)  # fmt: skip


def _mode(x: Any, dim: int, keepdim: bool) -> Any:
    """The longest run of equal sorted values, the first of equally long ones."""
    if not x.meta.ndim:
        return clone(x), full((), 0, dt.int64, x.meta.device)
    d = wrap_dim(dim, x.meta.ndim)
    n = x.meta.shape[d]
    values, index = sort_stable(x, d, False)
    place = _positions(x, d)
    begins = cat(
        (
            eq(narrow(place, d, 0, 1), 0),
            ne(narrow(values, d, 1, n - 1), narrow(values, d, 0, n - 1)),
        ),
        d,
    )
    start = cummax(where(begins, place, 0), d)[0]
    at = argmax(place - start, d, True)
    picked = gather(values, d, at), gather(index, d, at)
    return picked if keepdim else (squeeze(picked[0], d), squeeze(picked[1], d))


mode = op(
    "mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> Tensor", outputs=2,
    methods=_PUBLIC, decompose=_mode, grad=COMPOSE,
    doc="The most frequent value along ``dim`` (the smallest of equals) and the last index of it.",
    samples=lambda t: [(t(3, 4),), (t(5, 3), 0, True)],
)  # fmt: skip


# -- quantiles -------------------------------------------------------------------------------------
def _quantile(ignore_nan: bool) -> Any:
    def run(x: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str) -> Any:
        if x.meta.dtype not in (dt.float32, dt.float64):
            raise RuntimeError(
                f"quantile() input tensor must be either float or double dtype, got {x.meta}"
            )
        if q.meta.dtype is not x.meta.dtype:
            raise RuntimeError(
                f"quantile() q tensor must be same dtype as the input tensor, got {q.meta}"
            )
        shape = x.meta.shape
        if dim is None:
            x, d, kept = reshape(x, (-1,)), 0, (1,) * len(shape)
        else:
            d = wrap_dim(dim, len(shape))
            kept = (*shape[:d], 1, *shape[d + 1 :])
        values, _ = sort_stable(x, d, False)
        n = x.meta.shape[d] if x.meta.ndim else 1
        missing = sum(cast(isnan(x), x.meta.dtype), d, True)
        last = (n - 1.0) - missing if ignore_nan else missing * 0.0 + (n - 1.0)
        rows = reshape(q, (-1,) + (1,) * max(x.meta.ndim, 1))
        rank = maximum(rows * unsqueeze(last, 0), 0.0)
        if not ignore_nan:  # a NaN anywhere is the answer
            rank = where(unsqueeze(missing, 0) > 0, n - 1.0, rank)
        low, high = _neighbours(rank, interpolation)
        wide = expand(unsqueeze(values, 0), (q.meta.numel, *values.meta.shape))
        axis = d + 1

        def pick(at: Any) -> Any:
            return gather(wide, axis, cast(at, dt.int64))

        result = pick(low) if high is None else lerp(pick(low), pick(high), rank - low)
        tail = kept if keepdim else () if dim is None else (*shape[:d], *shape[d + 1 :])
        return reshape(result, (*((q.meta.numel,) if q.meta.ndim else ()), *tail))

    return run


def _neighbours(rank: Any, interpolation: str) -> tuple[Any, Any]:
    if interpolation == "linear":
        return floor(rank), ceil(rank)
    single = {"lower": floor, "higher": ceil, "nearest": round}.get(interpolation)
    if single is not None:
        return single(rank), None
    if interpolation != "midpoint":
        raise RuntimeError(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {interpolation}"
        )
    raise NotImplementedError("quantile(): midpoint interpolation is not supported yet")


def _quantile_op(name: str, ignore_nan: bool, doc: str) -> Any:
    return op(
        f"{name}_of(input: Tensor, q: Tensor, dim: int, keepdim: bool, interpolation: str)"
        " -> Tensor",
        decompose=_quantile(ignore_nan), grad=COMPOSE, doc=doc, samples=lambda t: [],
    )  # fmt: skip


quantile_of = _quantile_op("quantile", False, "Quantiles along ``dim``; NaN if there is one.")
nanquantile_of = _quantile_op("nanquantile", True, "Quantiles of what is not NaN along ``dim``.")


def _with_number(record: Any) -> Any:
    def run(x: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str) -> Any:
        if isinstance(q, (int, float)):
            if not 0 <= q <= 1:
                raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {q}")
            q = full((), float(q), x.meta.dtype, x.meta.device)
        return record(x, q, dim, keepdim, interpolation)

    return run


quantile = op(
    "quantile(input: Tensor, q: Tensor, dim: int = None, keepdim: bool = False, *, "
    'interpolation: str = "linear") -> Tensor',
    methods=_PUBLIC, eager=_with_number(quantile_of),
    doc="The ``q``-quantiles (a number or a 1-D tensor of [0, 1]) along ``dim``.",
    samples=lambda t: [(t.floats(3, 5), 0.3), (t.floats(3, 5), 0.7, 1), (t.floats(3, 5), 0.5, 0, True, "lower")],
)  # fmt: skip
nanquantile = op(
    "nanquantile(input: Tensor, q: Tensor, dim: int = None, keepdim: bool = False, *, "
    'interpolation: str = "linear") -> Tensor',
    methods=_PUBLIC, eager=_with_number(nanquantile_of),
    doc="As ``quantile``, of what is not NaN.",
    samples=lambda t: [(t.floats(3, 5), 0.3), (t.floats(3, 5), 0.7, 1)],
)  # fmt: skip


# -- searching -------------------------------------------------------------------------------------
def _searchsorted(sequence: Any, values: Any, right: bool) -> Any:
    """A binary search of every value at once."""
    one_row = sequence.meta.ndim == 1
    shape = values.meta.shape
    if not one_row and sequence.meta.shape[:-1] != shape[:-1]:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
            f"dimensions of boundaries tensor and input value tensor must match, but we got "
            f"{sequence.meta} and {values.meta}"
        )
    rows = reshape(values, (-1,)) if one_row else values
    n = sequence.meta.shape[-1]
    at = cast(ne(rows, rows), dt.int64) * 0
    step = 1 << max(n.bit_length() - 1, 0)
    while step and n:
        probe = at + (step - 1)
        found = gather(sequence, -1, minimum(probe, n - 1))
        # written so that NaN, on either side, sends the search right, as torch's does
        past = logical_not(gt(found, rows) if right else ge(found, rows))
        at = where(lt(probe, n) & past, at + step, at)
        step >>= 1
    return reshape(at, shape)


searchsorted_of = op(
    "searchsorted_of(sequence: Tensor, values: Tensor, right: bool) -> Tensor", grad=None,
    decompose=_searchsorted, samples=lambda t: [],
    doc="Where values go in rows sorted along the last dimension.",
)  # fmt: skip


def _find(sorted_sequence: Any, input: Any, out_int32: bool, right: bool, side: Any) -> Any:
    if side is not None and side not in ("left", "right"):
        raise RuntimeError(
            f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}"
        )
    if side == "left" and right:
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left "
            "while right was True"
        )
    if isinstance(input, (int, float)):
        input = full((), input, sorted_sequence.meta.dtype, sorted_sequence.meta.device)
    found = searchsorted_of(sorted_sequence, input, right or side == "right")
    return cast(found, dt.int32) if out_int32 else found


searchsorted = op(
    "searchsorted(sorted_sequence: Tensor, input: Tensor, *, out_int32: bool = False, "
    "right: bool = False, side: str = None) -> Tensor",
    methods=("function",), eager=_find,
    doc="Where ``input`` goes in rows sorted along the last dimension, before or (right) after "
    "equal values.",
    samples=lambda t: [(t.increasing(6), t(3, 4)), (t.increasing(6), t(5), True, True),
                       (t.increasing(2, 6), t(2, 3)), (t.increasing(5), 1)],
)  # fmt: skip
bucketize = op(
    "bucketize(input: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False)"
    " -> Tensor",
    methods=("function",),
    eager=lambda input, boundaries, out_int32, right: _find(
        boundaries, input, out_int32, right, None
    ),
    doc="The bucket of each element between sorted ``boundaries``.",
    samples=lambda t: [(t(3, 4), t.increasing(6)), (t(5), t.increasing(3), False, True)],
)  # fmt: skip
