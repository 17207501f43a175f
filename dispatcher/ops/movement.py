"""Operators that move or convert elements: copies, casts, concatenation."""

from __future__ import annotations

from typing import Any

from halon.dispatcher.op import Window, Windows, op
from halon.dispatcher.promote import Types, result_type
from halon.dispatcher.shapes import wrap_dim
from halon.dispatcher.structures import Meta, contiguous_strides

cast = op(
    "cast(input: Tensor, dtype: DType) -> Tensor", expr="input",
    doc="Convert to another dtype: floating to integer truncates, anything to bool is ``!= 0``.",
    grad=lambda g, out, x, dtype: cast(g, x.meta.dtype),
    samples=lambda t: [],
)  # fmt: skip

clone = op(
    "clone(input: Tensor) -> Tensor", expr="input", doc="A copy with memory of its own.",
    dtype=lambda x: Types((x.dtype,), x.dtype), grad=lambda g, out, x: g,
    samples=lambda t: [(t(3, 4),), (t(),), (t(4, 3).t(),), (t(0, 2),)],
    methods=("function", "method"),
)  # fmt: skip

dense = op(
    "dense(input: Tensor) -> Tensor", expr="input", doc="A row-major copy.",
    shape=lambda x: x.shape,
    dtype=lambda x: Types((x.dtype,), x.dtype), grad=lambda g, out, x: g,
    samples=lambda t: [(t(4, 3).t(),)],
)  # fmt: skip


def _copied(x: Any, src: Any) -> Types:
    source = src.dtype if isinstance(src, Meta) else x.dtype  # a number fits the target
    return Types((x.dtype, source), x.dtype)


copy = op(
    "copy(input: Tensor, src: Tensor) -> Tensor", expr="src", methods=("inplace",),
    doc="``src`` broadcast to ``input`` and converted to its dtype.", dtype=_copied,
    grad=lambda g, out, x, src: (None, g), samples=lambda t: [(t(3, 4), t(4))],
)  # fmt: skip


def _cat_shape(tensors: Any, dim: int) -> tuple[int, ...]:
    tensors = [m for m in tensors if m.shape != (0,)] or list(tensors[:1])  # torch's legacy empty
    first = tensors[0]
    d = wrap_dim(dim, first.ndim)
    for m in tensors[1:]:
        if m.ndim != first.ndim or any(
            i != d and a != b for i, (a, b) in enumerate(zip(first.shape, m.shape, strict=True))
        ):
            raise RuntimeError(
                "Sizes of tensors must match except in dimension "
                f"{d}: cat got {', '.join(map(str, tensors))}"
            )
    if not first.ndim:
        raise RuntimeError("zero-dimensional tensor (at position 0) cannot be concatenated")
    return (*first.shape[:d], sum(m.shape[d] for m in tensors), *first.shape[d + 1 :])


def _cat_windows(tensors: Any, dim: int) -> Windows:
    shape = _cat_shape(tensors, dim)
    d = wrap_dim(dim, len(shape))
    strides = contiguous_strides(shape)
    places: list[Window | None] = []
    at = 0
    for m in tensors:
        if m.ndim != len(shape):
            places.append(None)  # a legacy empty operand
            continue
        places.append(Window(m.shape, strides, at * strides[d]))
        at += m.shape[d]
    return Windows(None, places)


def _cat_grad(g: Any, out: Any, tensors: Any, dim: int) -> Any:
    from halon.dispatcher.ops.views import narrow

    d = wrap_dim(dim, g.meta.ndim)
    grads, at = [], 0
    for t in tensors:
        if t.meta.shape == (0,) and g.meta.ndim != 1:
            grads.append(None)
            continue
        grads.append(narrow(g, d, at, t.meta.shape[d]))
        at += t.meta.shape[d]
    return [grads]


cat = op(
    "cat(tensors: Tensors, dim: int = 0) -> Tensor", methods=("function",),
    doc="Concatenate along ``dim``; every other size must agree.", shape=_cat_shape,
    dtype=lambda tensors, dim: result_type(*tensors), windows=_cat_windows, grad=_cat_grad,
    samples=lambda t: [((t(2, 3), t(4, 3)), 0), ((t(2, 3), t(2, 1), t(2, 0)), -1)],
)  # fmt: skip
