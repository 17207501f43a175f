"""Operators that show the same memory under another shape: metadata on every device."""

from __future__ import annotations

from typing import Any

from halon.dispatcher.op import Window, Windows, op
from halon.dispatcher.ops.creation import full
from halon.dispatcher.ops.movement import dense
from halon.dispatcher.shapes import Shape, infer_size, view_strides, wrap_dim
from halon.dispatcher.structures import contiguous_strides

Seen = tuple[Shape, Shape, int]
_PUBLIC = ("function", "method")


def _view(input: Any, size: Shape) -> Seen:
    shape = infer_size(tuple(size), input.numel)
    strides = view_strides(input.shape, input.strides, shape)
    if strides is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return shape, strides, 0


view = op(
    "view(input: Tensor, size: Ints) -> Tensor", view=_view,
    doc="The same memory in another shape; RuntimeError where strides do not allow it.",
    grad=lambda g, out, x, size: reshape(g, x.meta.shape),
    samples=lambda t: [(t(3, 4), (2, 6)), (t(3, 4), (-1,)), (t(), (1, 1))],
)  # fmt: skip


def _reshape(input: Any, size: Shape) -> Seen | None:
    shape = infer_size(tuple(size), input.numel)
    strides = view_strides(input.shape, input.strides, shape)
    return None if strides is None else (shape, strides, 0)


reshape = op(
    "reshape(input: Tensor, shape: Ints) -> Tensor", view=_reshape,
    doc="Another shape of the same elements: a view where strides allow it, else a copy.",
    decompose=lambda x, shape: view(dense(x), infer_size(tuple(shape), x.meta.numel)),
    grad=lambda g, out, x, shape: reshape(g, x.meta.shape),
    samples=lambda t: [(t(3, 4), (2, 6)), (t(4, 3).t(), (12,)), (t(0, 2), (2, 0))],
)  # fmt: skip


def _expand(input: Any, size: Shape) -> Seen:
    lead = len(size) - input.ndim
    if lead < 0:
        raise RuntimeError(
            f"expand: the number of sizes provided ({len(size)}) must be greater or equal to the "
            f"number of dimensions in the tensor ({input.ndim})"
        )
    shape, strides = [], []
    for i, n in enumerate(size):
        have = input.shape[i - lead] if i >= lead else 1
        if n == -1 and i < lead:
            raise RuntimeError("expand: -1 is not allowed in a leading, non-existing dimension")
        n = have if n == -1 else n
        if have not in (1, n):
            raise RuntimeError(
                f"The expanded size of the tensor ({n}) must match the existing size ({have}) at "
                f"non-singleton dimension {i}.  Target sizes: {list(size)}.  Tensor sizes: "
                f"{list(input.shape)}"
            )
        shape.append(n)
        strides.append(input.strides[i - lead] if i >= lead and have == n else 0)
    return tuple(shape), tuple(strides), 0


expand = op(
    "expand(input: Tensor, size: Ints) -> Tensor", view=_expand,
    doc="Repeat dimensions of size 1 without copying; -1 keeps a size.",
    grad=lambda g, out, x, size: g, samples=lambda t: [(t(3, 1), (3, 4)), (t(), (2, 2))],
)  # fmt: skip


def _permute(input: Any, dims: Shape) -> Seen:
    order = [wrap_dim(d, input.ndim) for d in dims]
    if sorted(order) != list(range(input.ndim)):
        raise RuntimeError(
            f"permute(sparse_coo): dims {list(dims)} are not a permutation of the "
            f"{input.ndim} dimensions"
        )
    return tuple(input.shape[d] for d in order), tuple(input.strides[d] for d in order), 0


def _inverse(dims: Shape, ndim: int) -> Shape:
    order = [wrap_dim(d, ndim) for d in dims]
    return tuple(order.index(d) for d in range(ndim))


permute = op(
    "permute(input: Tensor, dims: Ints) -> Tensor", view=_permute,
    doc="Dimensions in another order.",
    grad=lambda g, out, x, dims: permute(g, _inverse(dims, x.meta.ndim)),
    samples=lambda t: [(t(2, 3, 4), (2, 0, 1))],
)  # fmt: skip


def _transpose(input: Any, dim0: int, dim1: int) -> Seen:
    order = list(range(input.ndim))
    a, b = wrap_dim(dim0, input.ndim), wrap_dim(dim1, input.ndim)
    if order:
        order[a], order[b] = order[b], order[a]
    return _permute(input, tuple(order))


transpose = op(
    "transpose(input: Tensor, dim0: int, dim1: int) -> Tensor", view=_transpose, methods=_PUBLIC,
    doc="Two dimensions exchanged.",
    grad=lambda g, out, x, dim0, dim1: transpose(g, dim0, dim1),
    samples=lambda t: [(t(2, 3, 4), 0, -1)],
)  # fmt: skip


def _slice(input: Any, dim: int, start: int, end: int, step: int) -> Seen:
    d = wrap_dim(dim, input.ndim)
    if step <= 0:
        raise ValueError("step must be greater than zero")
    start, end, _ = slice(start, end, step).indices(input.shape[d])
    length = max(0, -(-(end - start) // step))
    shape = (*input.shape[:d], length, *input.shape[d + 1 :])
    strides = (*input.strides[:d], input.strides[d] * step, *input.strides[d + 1 :])
    return shape, strides, (start if length else 0) * input.strides[d] * input.dtype.itemsize


slice_ = op(
    "slice_(input: Tensor, dim: int, start: int, end: int, step: int) -> Tensor", view=_slice,
    doc="``input[start:end:step]`` along ``dim``, clipped as Python slices are.",
    grad=lambda g, out, x, dim, start, end, step: slice_backward(
        g, x.meta.shape, dim, slice(start, end, step).indices(x.meta.shape[dim])[0], step
    ),
    samples=lambda t: [(t(5, 4), 0, 1, 4, 2)],
)  # fmt: skip


def _slice_windows(grad: Any, size: Shape, dim: int, start: int, step: int) -> Windows:
    d = wrap_dim(dim, len(size))
    strides = list(contiguous_strides(size))
    offset = start * strides[d]
    strides[d] *= step
    return Windows(0, [Window(grad.shape, tuple(strides), offset)])


slice_backward = op(
    "slice_backward(grad: Tensor, size: Ints, dim: int, start: int, step: int) -> Tensor",
    doc="Zeros of a size with ``grad`` in a slice.", windows=_slice_windows,
    shape=lambda grad, size, dim, start, step: tuple(size),
    dtype=lambda grad, *_: grad.dtype,
    grad=lambda g, out, grad, size, dim, start, step: slice_(
        g, dim, start, start + grad.meta.shape[dim] * step, step
    ),
    samples=lambda t: [(t(2, 4), (5, 4), 0, 1, 2)],
)  # fmt: skip


def _select(input: Any, dim: int, index: int) -> Seen:
    if not input.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d = wrap_dim(dim, input.ndim)
    n = input.shape[d]
    if not -n <= index < n:
        raise IndexError(f"index {index} is out of bounds for dimension {d} with size {n}")
    offset = (index % n) * input.strides[d] * input.dtype.itemsize
    return (
        input.shape[:d] + input.shape[d + 1 :],
        input.strides[:d] + input.strides[d + 1 :],
        offset,
    )


def _select_grad(g: Any, out: Any, x: Any, dim: int, index: int) -> Any:
    d = wrap_dim(dim, x.meta.ndim)
    return slice_backward(unsqueeze(g, d), x.meta.shape, d, index % x.meta.shape[d], 1)


select = op(
    "select(input: Tensor, dim: int, index: int) -> Tensor", view=_select, methods=_PUBLIC,
    doc="One index along ``dim``, which is dropped.", grad=_select_grad,
    samples=lambda t: [(t(3, 4), 1, -1)],
)  # fmt: skip


def _narrow(input: Any, dim: int, start: int, length: int) -> Seen:
    d = wrap_dim(dim, input.ndim)
    n = input.shape[d]
    begin = start + n if start < 0 else start
    if length < 0 or begin < 0 or begin + length > n:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    return _slice(input, d, begin, begin + length, 1)


narrow = op(
    "narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor", view=_narrow,
    methods=_PUBLIC, doc="``length`` elements from ``start`` along ``dim``.",
    grad=lambda g, out, x, dim, start, length: slice_backward(
        g, x.meta.shape, wrap_dim(dim, x.meta.ndim), start % max(x.meta.shape[dim], 1), 1
    ),
    samples=lambda t: [(t(5, 3), 0, 1, 2)],
)  # fmt: skip


def _unsqueeze(input: Any, dim: int) -> Seen:
    d = wrap_dim(dim, input.ndim + 1)
    step = input.shape[d] * input.strides[d] if d < input.ndim else 1
    return (
        (*input.shape[:d], 1, *input.shape[d:]),
        (*input.strides[:d], step, *input.strides[d:]),
        0,
    )


unsqueeze = op(
    "unsqueeze(input: Tensor, dim: int) -> Tensor", view=_unsqueeze, methods=_PUBLIC,
    doc="A new dimension of size 1.", grad=lambda g, out, x, dim: reshape(g, x.meta.shape),
    samples=lambda t: [(t(3, 4), 1), (t(), 0)],
)  # fmt: skip


def _squeeze(input: Any, dim: Any) -> Seen:
    dims = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    drop = {wrap_dim(d, input.ndim) for d in dims if input.ndim}
    keep = [d for d in range(input.ndim) if d not in drop or input.shape[d] != 1]
    return tuple(input.shape[d] for d in keep), tuple(input.strides[d] for d in keep), 0


squeeze = op(
    "squeeze(input: Tensor, dim: Ints = None) -> Tensor", view=_squeeze, methods=_PUBLIC,
    doc="Dimensions of size 1 dropped (all of them, or those named).",
    grad=lambda g, out, x, dim: reshape(g, x.meta.shape),
    samples=lambda t: [(t(3, 1, 4, 1),), (t(3, 1), 1), (t(3, 1), 0)],
)  # fmt: skip

alias = op(
    "alias(input: Tensor) -> Tensor", view=lambda input: (input.shape, input.strides, 0),
    doc="The same memory and shape: a new tensor for ``detach`` and ``view_as``.",
    grad=lambda g, out, x: g, samples=lambda t: [(t(3, 4),)],
)  # fmt: skip


# -- any strides -----------------------------------------------------------------------------------
def _strided(input: Any, size: Shape, stride: Shape, offset: int) -> Seen:
    return size, stride, offset * input.dtype.itemsize


def _strided_backward(g: Any, meta_shape: Shape, meta_strides: Shape, size: Shape, stride: Shape,
                      offset: int) -> Any:  # fmt: skip
    """Gradients of the memory, added up where elements repeat, then seen as the input sees it."""
    from halon.dispatcher.ops.creation import iota
    from halon.dispatcher.ops.indexing import scatter_add
    from halon.hal.dtypes import int64

    span = 1 + max(
        sum((n - 1) * s for n, s in zip(meta_shape, meta_strides, strict=True)),
        offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)),
    )
    memory = full((span,), 0, g.meta.dtype, g.meta.device)
    if g.meta.numel:
        at: Any = offset
        for d, (n, s) in enumerate(zip(size, stride, strict=True)):
            steps = iota(n, 0, s, int64, g.meta.device)
            at = at + reshape(steps, (n,) + (1,) * (len(size) - d - 1))
        if not size:
            at = full((1,), offset, int64, g.meta.device)
        at = reshape(expand(at, size) if size else at, (-1,))
        memory = scatter_add(memory, 0, at, reshape(g, (-1,)))
    return dense(window(memory, meta_shape, meta_strides, 0))


strided_backward = op(
    "strided_backward(grad: Tensor, shape: Ints, strides: Ints, size: Ints, stride: Ints, "
    "offset: int) -> Tensor",
    doc="The gradient of ``strided`` to an input of a shape and strides, all distinct elements.",
    decompose=_strided_backward,
    grad=lambda gg, out, g, shape, strides, size, stride, offset: strided(
        _laid_out(gg, strides), size, stride, offset
    ),
    samples=lambda t: [],
)  # fmt: skip


def _laid_out(x: Any, strides: Shape) -> Any:
    """A copy of ``x`` with the strides of a dense input, which may be permuted."""
    order = sorted(range(x.meta.ndim), key=lambda d: -strides[d])
    inverse = tuple(order.index(d) for d in range(x.meta.ndim))
    return permute(dense(permute(x, tuple(order))), inverse)


strided = op(
    "strided(input: Tensor, size: Ints, stride: Ints, offset: int) -> Tensor", view=_strided,
    doc="Memory from ``offset`` elements after the first, at any strides; elements may repeat.",
    grad=lambda g, out, x, size, stride, offset: strided_backward(
        g, x.meta.shape, x.meta.strides, size, stride, offset
    ),
    samples=lambda t: [],
)  # fmt: skip


def _as_strided(x: Any, size: Shape, stride: Shape, storage_offset: int | None) -> Any:
    if len(size) != len(stride):
        raise RuntimeError(
            f"mismatch in length of strides and shape: size {list(size)}, stride {list(stride)}"
        )
    if any(s < 0 for s in stride):
        raise RuntimeError(f"as_strided: Negative strides are not supported: {list(stride)}")
    item = x.meta.dtype.itemsize
    start = x.offset // item if storage_offset is None else storage_offset
    reach = start + 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if start < 0 or (0 not in size and reach * item > x.storage.nbytes):
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {start}, and "
            f"itemsize {item} requiring a storage size of {reach * item} are out of bounds for "
            f"storage of size {x.storage.nbytes}"
        )
    return strided(x, tuple(size), tuple(stride), start - x.offset // item)


as_strided = op(
    "as_strided(input: Tensor, size: Ints, stride: Ints, storage_offset: int = None) -> Tensor",
    eager=_as_strided, methods=_PUBLIC,
    doc="A view of the storage at any shape, strides and offset, in elements.",
    samples=lambda t: [(t(3, 4), (2, 2), (1, 2)), (t(3, 4), (2, 3), (4, 1), 1), (t(6), (3, 2), (1, 1))],
)  # fmt: skip


# -- another dtype ---------------------------------------------------------------------------------
def _view_dtype(input: Any, dtype: Any) -> tuple[Any, ...]:
    old, new = input.dtype.itemsize, dtype.itemsize
    if old == new:
        return input.shape, input.strides, 0, dtype
    if not input.ndim:
        raise RuntimeError(
            f"self.dim() cannot be 0 to view {input.dtype.name} as {dtype.name} (different element "
            "sizes)"
        )
    if input.strides[-1] != 1 and input.shape[-1] != 1:
        raise RuntimeError(
            f"self.stride(-1) must be 1 to view {input.dtype.name} as {dtype.name} (different "
            f"element sizes), but got {input.strides[-1]}"
        )
    if old > new:
        ratio = old // new
        return (
            (*input.shape[:-1], input.shape[-1] * ratio),
            (*(s * ratio for s in input.strides[:-1]), 1), 0, dtype,
        )  # fmt: skip
    ratio = new // old
    if input.shape[-1] % ratio or any(s % ratio for s in input.strides[:-1]):
        raise RuntimeError(
            f"self.size(-1) and the other strides must be divisible by {ratio} to view "
            f"{input.dtype.name} as {dtype.name} (different element sizes), but got {input}"
        )
    return (
        (*input.shape[:-1], input.shape[-1] // ratio),
        (*(s // ratio for s in input.strides[:-1]), 1), 0, dtype,
    )  # fmt: skip


view_dtype = op(
    "view_dtype(input: Tensor, dtype: DType) -> Tensor", view=_view_dtype, grad=None,
    doc="The same bytes as elements of another dtype.", samples=lambda t: [],
)  # fmt: skip


# -- windows of a row-major tensor, for dispatcher/rewrite.py --------------------------------------
window = op(
    "window(input: Tensor, size: Ints, stride: Ints, offset: int) -> Tensor",
    doc="Elements of a row-major tensor at strides from an offset, all distinct.",
    view=lambda input, size, stride, offset: (size, stride, offset * input.dtype.itemsize),
    grad=lambda g, out, x, size, stride, offset: window_backward(
        g, x.meta.shape, size, stride, offset
    ),
    samples=lambda t: [],
)  # fmt: skip

window_backward = op(
    "window_backward(grad: Tensor, base: Ints, size: Ints, stride: Ints, offset: int) -> Tensor",
    doc="Zeros of a size with ``grad`` in a window.",
    windows=lambda grad, base, size, stride, offset: Windows(
        0, [Window(size, stride, offset)]
    ),
    shape=lambda grad, base, *_: base, dtype=lambda grad, *_: grad.dtype,
    grad=lambda g, out, grad, base, size, stride, offset: window(
        dense(g), size, stride, offset
    ),
    samples=lambda t: [],
)  # fmt: skip

window_assign = op(
    "window_assign(input: Tensor, src: Tensor, size: Ints, stride: Ints, offset: int) -> Tensor",
    doc="A copy of ``input`` with ``src`` in a window.",
    windows=lambda input, src, size, stride, offset: Windows(
        None,
        [Window(input.shape, contiguous_strides(input.shape), 0), Window(size, stride, offset)],
    ),
    shape=lambda input, *_: input.shape, dtype=lambda input, *_: input.dtype,
    grad=lambda g, out, x, src, size, stride, offset: (
        window_assign(
            g, full(size, 0, g.meta.dtype, g.meta.device), size, stride, offset
        ),
        window(dense(g), size, stride, offset),
    ),
    samples=lambda t: [],
)  # fmt: skip
