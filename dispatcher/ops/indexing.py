"""Operators that read or write by index tensors."""

from __future__ import annotations

from typing import Any

from halon.dispatcher import deterministic
from halon.dispatcher.op import UNCHANGED, KernelCall, op
from halon.dispatcher.ops.creation import full
from halon.dispatcher.ops.elementwise import where
from halon.dispatcher.ops.views import expand, reshape
from halon.dispatcher.promote import Types
from halon.dispatcher.shapes import Shape, wrap_dim
from halon.dispatcher.structures import Meta
from halon.hal import dtypes as dt

_PUBLIC = ("function", "method")


def _check_index(name: str, index: Meta) -> None:
    if index.dtype is not dt.int64:
        raise RuntimeError(f"{name}(): Expected dtype int64 for index, got {index}")


def _gather_shape(input: Meta, dim: int, index: Meta) -> Shape:
    _check_index("gather", index)
    d = wrap_dim(dim, input.ndim)
    if index.ndim != input.ndim and index.numel:
        raise RuntimeError(
            "Index tensor must have the same number of dimensions as input tensor, got "
            f"{input} and {index}"
        )
    for i, (n, m) in enumerate(zip(index.shape, input.shape, strict=False)):
        if i != d and n > m:
            raise RuntimeError(
                f"Size does not match at dimension {i} expected index {list(index.shape)} to be no "
                f"larger than self {list(input.shape)} apart from dimension {d}"
            )
    return index.shape


gather = op(
    "gather(input: Tensor, dim: int, index: Tensor) -> Tensor", methods=_PUBLIC,
    doc="``out[i][j] = input[index[i][j]][j]`` for ``dim`` 0; indices are int64 and checked.",
    shape=_gather_shape, dtype=lambda input, dim, index: input.dtype,
    kernel=lambda input, dim, index: KernelCall(
        "gather", (input, index), {"dim": wrap_dim(dim, input.ndim)}
    ),
    grad=lambda g, out, x, dim, index: (
        scatter_add(full(x.meta.shape, 0, x.meta.dtype, x.meta.device), dim, index, g), None
    ),
    samples=lambda t: [],
)  # fmt: skip


def _scatter_shape(input: Meta, dim: int, index: Meta, src: Meta) -> Shape:
    _check_index("scatter", index)
    d = wrap_dim(dim, input.ndim)
    if index.ndim != input.ndim or src.ndim != input.ndim:
        raise RuntimeError(
            "scatter: index, src and input must have as many dimensions, got "
            f"{input}, {index}, {src}"
        )
    for i, (n, m, s) in enumerate(zip(index.shape, input.shape, src.shape, strict=True)):
        if n > s or (i != d and n > m):
            raise RuntimeError(
                f"Expected index {list(index.shape)} to be no larger than self "
                f"{list(input.shape)} apart from dimension {d} and to be no larger than src "
                f"{list(src.shape)}"
            )
    return input.shape


def _scatter_dtype(input: Meta, dim: int, index: Meta, src: Meta) -> dt.DType:
    if input.dtype is not src.dtype:
        raise RuntimeError(
            f"scatter(): Expected self.dtype to be equal to src.dtype: {input}, {src}"
        )
    return input.dtype


def _scatter_call(mode: str) -> Any:
    def kernel(input: Meta, dim: int, index: Meta, src: Meta) -> KernelCall:
        window = src if src.shape == index.shape else _top_left(src, index.shape)
        return KernelCall(
            "scatter",
            (input, index, window),
            {"dim": wrap_dim(dim, input.ndim), "mode": mode, **deterministic.attributes()},
        )

    return kernel


def _top_left(meta: Meta, shape: Shape) -> Meta:
    from halon.dispatcher.structures import make_meta

    return make_meta(shape, meta.strides, meta.dtype, meta.device)


scatter_add = op(
    "scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor",
    methods=("function", "method", "inplace"), shape=_scatter_shape, dtype=_scatter_dtype,
    doc="``input`` with ``src`` added at ``index`` along ``dim``.", kernel=_scatter_call("add"), empty=UNCHANGED,
    grad=lambda g, out, x, dim, index, src: (g, None, _same_window(gather(g, dim, index), src)),
    samples=lambda t: [],
)  # fmt: skip

scatter = op(
    "scatter(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor",
    methods=("function", "method", "inplace"), shape=_scatter_shape, dtype=_scatter_dtype,
    doc="``input`` with ``src`` written at ``index`` along ``dim``.", kernel=_scatter_call("set"), empty=UNCHANGED,
    grad=lambda g, out, x, dim, index, src: (
        scatter(g, dim, index, full(index.meta.shape, 0.0, g.meta.dtype, g.meta.device)), None,
        _same_window(gather(g, dim, index), src),
    ),
    samples=lambda t: [],
)  # fmt: skip


def _same_window(g: Any, src: Any) -> Any:
    """A gradient of the part of ``src`` that the index covered, in the shape of ``src``."""
    from halon.dispatcher.ops.views import slice_backward

    for d, n in enumerate(src.meta.shape):
        if g.meta.shape[d] != n:
            size = (*g.meta.shape[:d], n, *g.meta.shape[d + 1 :])
            g = slice_backward(g, size, d, 0, 1)
    return g


def _along(index: Any, shape: Shape, d: int) -> Any:
    """A 1-D index repeated over every other dimension."""
    column = (1,) * d + (index.meta.numel,) + (1,) * (len(shape) - d - 1)
    return expand(reshape(index, column), (*shape[:d], index.meta.numel, *shape[d + 1 :]))


def _index_select(x: Any, dim: int, index: Any) -> Any:
    if index.meta.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    shape = x.meta.shape or (1,)
    d = wrap_dim(dim, len(shape))
    taken = gather(reshape(x, shape), d, _along(index, shape, d))
    return reshape(taken, ()) if not x.meta.ndim else taken


index_select = op(
    "index_select(input: Tensor, dim: int, index: Tensor) -> Tensor", methods=_PUBLIC,
    doc="Slices of ``input`` at the int64 positions of a 1-D ``index`` along ``dim``.",
    decompose=_index_select,
    grad=lambda g, out, x, dim, index: (
        scatter_add(
            full(x.meta.shape, 0, x.meta.dtype, x.meta.device), dim,
            _along(index, x.meta.shape, wrap_dim(dim, x.meta.ndim)), g,
        ),
        None,
    ),
    samples=lambda t: [],
)  # fmt: skip

masked_fill = op(
    "masked_fill(input: Tensor, mask: Tensor, value: Number) -> Tensor",
    methods=("function", "method", "inplace"),
    doc="``input`` with ``value`` where the bool ``mask`` is set.",
    expr="where(mask, value, input)",
    dtype=lambda x, mask, value: Types((x.dtype, dt.bool_, x.dtype), x.dtype),
    grad=lambda g, out, x, mask, value: (where(mask, 0.0, g), None),
    samples=lambda t: [(t(3, 4), t.mask(4), 2.0)],
)  # fmt: skip
