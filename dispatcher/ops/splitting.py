"""Views of parts of a tensor: split, chunked, unbound, and dimensions taken apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from halon.dispatcher.op import op
from halon.dispatcher.ops.views import expand, reshape, select, slice_
from halon.dispatcher.shapes import broadcast_shapes, wrap_dim

_PUBLIC = ("function", "method")


def _pieces(x: Any, bounds: Sequence[tuple[int, int]], d: int) -> tuple[Any, ...]:
    return tuple(slice_(x, d, a, b, 1) for a, b in bounds)


def _dimension(x: Any, dim: int, name: str) -> int:
    if not x.meta.ndim:
        raise RuntimeError(f"{name} expects at least a 1-dimensional tensor")
    return wrap_dim(dim, x.meta.ndim)


def _split(x: Any, split_size: Any, dim: int) -> tuple[Any, ...]:
    d = _dimension(x, dim, "split")
    n = x.meta.shape[d]
    if not isinstance(split_size, int):
        sizes = [int(s) for s in split_size]
        if sum(sizes) != n or any(s < 0 for s in sizes):
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size "
                f"at dimension {d}), but got split_sizes={sizes}"
            )
    else:
        if split_size < 0 or (split_size == 0 and n):
            raise RuntimeError(f"split expects split_size be non-negative, but got {split_size}")
        count = max(-(-n // split_size), 1) if split_size else 1
        sizes = [min(split_size, n - i * split_size) for i in range(count)]
    ends = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    return _pieces(x, [(e - s, e) for s, e in zip(sizes, ends, strict=True)], d)


def _chunk(x: Any, chunks: int, dim: int) -> tuple[Any, ...]:
    d = _dimension(x, dim, "chunk")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = -(-x.meta.shape[d] // chunks)
    return _split(x, (0,) * chunks, d) if not size else _split(x, size, d)


def _tensor_split(x: Any, indices_or_sections: Any, dim: int) -> tuple[Any, ...]:
    if not x.meta.ndim:
        raise RuntimeError(f"tensor_split expected at least a 1-dimensional tensor, got {x.meta}")
    d = wrap_dim(dim, x.meta.ndim)
    n = x.meta.shape[d]
    if hasattr(indices_or_sections, "tolist"):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        k = indices_or_sections
        if k <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {k}")
        sizes = [n // k + (i < n % k) for i in range(k)]
        ends = [sum(sizes[: i + 1]) for i in range(k)]
        return _pieces(x, [(e - s, e) for s, e in zip(sizes, ends, strict=True)], d)
    starts = [0, *indices_or_sections]
    stops = [*indices_or_sections, n]
    return _pieces(
        x, [(a, max(a, b) if b >= 0 else b) for a, b in zip(starts, stops, strict=True)], d
    )


def _along(name: str, least: int, dim: Any) -> Any:
    """``hsplit`` and kin: a ``tensor_split`` along a dimension that the rank decides."""

    def run(x: Any, indices_or_sections: Any) -> tuple[Any, ...]:
        if x.meta.ndim < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor "
                f"with {x.meta.ndim} dimensions!"
            )
        d = dim(x.meta.ndim)
        n = x.meta.shape[d]
        if isinstance(indices_or_sections, int) and (
            not indices_or_sections or n % indices_or_sections
        ):
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {d}, but the size of the "
                f"dimension {n} is not divisible by the split_size {indices_or_sections}!"
            )
        return _tensor_split(x, indices_or_sections, d)

    return run


def _unbind(x: Any, dim: int) -> tuple[Any, ...]:
    if not x.meta.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    d = wrap_dim(dim, x.meta.ndim)
    return tuple(select(x, d, i) for i in range(x.meta.shape[d]))


split = op(
    "split(tensor: Tensor, split_size_or_sections: Ints, dim: int = 0) -> Tensor", eager=_split,
    methods=_PUBLIC, doc="Views of consecutive parts of equal size, or of the sizes given.",
    samples=lambda t: [(t(5, 2), 2), (t(5, 2), (1, 4)), (t(2, 6), 4, 1), (t(0, 2), 3)],
)  # fmt: skip
chunk = op(
    "chunk(input: Tensor, chunks: int, dim: int = 0) -> Tensor", eager=_chunk, methods=_PUBLIC,
    doc="Views of at most ``chunks`` parts, all but the last of one size.",
    samples=lambda t: [(t(5, 2), 2), (t(2, 7), 3, 1), (t(0, 2), 3), (t(3), 5)],
)  # fmt: skip
tensor_split = op(
    "tensor_split(input: Tensor, indices_or_sections: Ints, dim: int = 0) -> Tensor",
    eager=_tensor_split, methods=_PUBLIC,
    doc="Views of parts as even as possible, or cut at the indices given.",
    samples=lambda t: [(t(7, 2), 3), (t(2, 7), (1, 3, 9), 1), (t(5), (2, -1)), (t(5), (4, 2))],
)  # fmt: skip
hsplit = op(
    "hsplit(input: Tensor, indices_or_sections: Ints) -> Tensor", methods=_PUBLIC,
    eager=_along("hsplit", 1, lambda ndim: 0 if ndim == 1 else 1), doc="Parts column by column.",
    samples=lambda t: [(t(4), 2), (t(2, 6), 3), (t(2, 6), (1, 4))],
)  # fmt: skip
vsplit = op(
    "vsplit(input: Tensor, indices_or_sections: Ints) -> Tensor", methods=_PUBLIC,
    eager=_along("vsplit", 2, lambda ndim: 0), doc="Parts row by row.",
    samples=lambda t: [(t(4, 2), 2), (t(6, 2), (1, 4))],
)  # fmt: skip
dsplit = op(
    "dsplit(input: Tensor, indices_or_sections: Ints) -> Tensor", methods=_PUBLIC,
    eager=_along("dsplit", 3, lambda ndim: 2), doc="Parts along the third dimension.",
    samples=lambda t: [(t(2, 2, 4), 2), (t(1, 2, 6), (1, 4))],
)  # fmt: skip
unbind = op(
    "unbind(input: Tensor, dim: int = 0) -> Tensor", eager=_unbind, methods=_PUBLIC,
    doc="Views of every index along ``dim``, which is dropped.",
    samples=lambda t: [(t(3, 2),), (t(3, 2), 1), (t(0, 2),)],
)  # fmt: skip


# -- dimensions taken apart or broadcast -----------------------------------------------------------
def _unflatten(x: Any, dim: int, sizes: Sequence[int]) -> Any:
    d = wrap_dim(dim, x.meta.ndim)
    n = x.meta.shape[d]
    parts = [int(s) for s in sizes]
    if -1 in parts:
        known = -math.prod(parts)
        parts[parts.index(-1)] = n // known if known and n % known == 0 else -1
    if not parts or math.prod(parts) != n or any(s < 0 for s in parts):
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {d} "
            f"({n}) in the input tensor"
        )
    return reshape(x, (*x.meta.shape[:d], *parts, *x.meta.shape[d + 1 :]))


unflatten = op(
    "unflatten(input: Tensor, dim: int, sizes: Ints) -> Tensor", eager=_unflatten, methods=_PUBLIC,
    doc="One dimension as several; one size may be -1.",
    samples=lambda t: [(t(6, 2), 0, (2, 3)), (t(2, 6), -1, (3, -1))],
)  # fmt: skip
broadcast_to = op(
    "broadcast_to(input: Tensor, size: Sizes) -> Tensor", methods=_PUBLIC,
    eager=lambda x, size: expand(x, tuple(size)), doc="A view expanded to a shape.",
    samples=lambda t: [(t(3, 1), (2, 3, 4)), (t(), (2,))],
)  # fmt: skip


def _broadcast_tensors(tensors: Any) -> tuple[Any, ...]:
    shape = broadcast_shapes(*(x.meta.shape for x in tensors))
    return tuple(expand(x, shape) for x in tensors)


broadcast_tensors = op(
    "broadcast_tensors(tensors: TensorArgs) -> Tensor", methods=("function",),
    eager=_broadcast_tensors, doc="Views of every tensor expanded to the common shape.",
    samples=lambda t: [((t(3, 1), t(4)),), ((t(),),)],
)  # fmt: skip


def _at_least(n: int) -> Any:
    from halon.dispatcher.ops.arrangement import _raised

    def run(tensors: Any) -> Any:
        raised = tuple(_raised(x, n) for x in tensors)
        return raised[0] if len(raised) == 1 else raised

    return run


# fmt: off
atleast_1d = op("atleast_1d(tensors: TensorArgs) -> Tensor", methods=("function",),
                eager=_at_least(1), doc="Views with at least one dimension.",
                samples=lambda t: [((t(),),), ((t(), t(3)),)])
atleast_2d = op("atleast_2d(tensors: TensorArgs) -> Tensor", methods=("function",),
                eager=_at_least(2), doc="Views with at least two dimensions.",
                samples=lambda t: [((t(3),),), ((t(), t(3, 2)),)])
atleast_3d = op("atleast_3d(tensors: TensorArgs) -> Tensor", methods=("function",),
                eager=_at_least(3), doc="Views with at least three dimensions.",
                samples=lambda t: [((t(3),),), ((t(), t(3, 2)),)])
# fmt: on


def _meshgrid(tensors: Any, indexing: str | None) -> tuple[Any, ...]:
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    if any(x.meta.ndim > 1 for x in tensors):
        raise RuntimeError("torch.meshgrid: Expected 0D or 1D tensor in the tensor list")
    swap = indexing == "xy" and len(tensors) > 1
    rows = [tensors[1], tensors[0], *tensors[2:]] if swap else list(tensors)
    shape = tuple(x.meta.numel for x in rows)
    grids = [
        expand(reshape(x, (1,) * i + (-1,) + (1,) * (len(rows) - i - 1)), shape)
        for i, x in enumerate(rows)
    ]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


meshgrid = op(
    "meshgrid(tensors: TensorArgs, *, indexing: str = None) -> Tensor", methods=("function",),
    eager=_meshgrid, doc="Coordinates of the grid that 1-D tensors span.",
    samples=lambda t: [((t(3), t(4)), "ij"), ((t(3), t(4), t(2)), "xy"), ((t(),), "ij")],
)  # fmt: skip
