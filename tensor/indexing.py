"""``x[…]``: integers, slices, None, Ellipsis, and one tensor of positions or a mask."""

from __future__ import annotations

from typing import Any

import numpy as np

from halon.dispatcher.ops import elementwise, indexing, views
from halon.dispatcher.structures import TensorBase
from halon.hal import dtypes as dt
from halon.hal.errors import IndexOutOfRange


def get(x: Any, index: Any) -> Any:
    """``x[index]``: a view for basic indices, a copy for tensor indices."""
    parts = _expanded(x, index)
    if sum(isinstance(p, TensorBase) for p in parts) > 1:
        raise NotImplementedError(
            f"indexing {x.meta} with several index tensors is not supported yet; use gather or one "
            "index at a time"
        )
    dim = 0
    for part in parts:
        if part is None:
            x = views.unsqueeze(x, dim)
            dim += 1
        elif isinstance(part, slice):
            x = _sliced(x, dim, part)
            dim += 1
        elif isinstance(part, TensorBase):
            x, gained = _taken(x, dim, part)
            dim += gained
        else:
            x = views.select(x, dim, part)
    if not parts or all(isinstance(p, slice) and p == slice(None) for p in parts):
        x = views.alias(x)
    return x


def set(x: Any, index: Any, value: Any) -> None:
    """``x[index] = value`` in place; a bool mask takes a number or 0-d tensor."""
    parts = _expanded(x, index)
    tensors = [p for p in parts if isinstance(p, TensorBase)]
    if not tensors:
        target = get(x, index)
        if isinstance(value, TensorBase):
            value = _droppable(value, target)
        target.copy_(value) if isinstance(value, TensorBase) else target.fill_(value)
        return
    if len(parts) == 1 and tensors[0].meta.dtype is dt.bool_ and not (
        isinstance(value, TensorBase) and value.meta.numel > 1
    ):  # fmt: skip
        mask = tensors[0]
        spread = views.reshape(mask, (*mask.meta.shape, *(1,) * (x.meta.ndim - mask.meta.ndim)))
        x.copy_(elementwise.where(spread, value, x))
        return
    raise NotImplementedError(
        f"assigning to {x.meta} through index tensors is not supported yet; use scatter_ or a mask "
        "with a single value"
    )


def _droppable(value: Any, target: Any) -> Any:
    """A value without the leading dimensions of size 1 that its target lacks."""
    while value.meta.ndim > target.meta.ndim and value.meta.shape[0] == 1:
        value = views.select(value, 0, 0)
    return value


def _expanded(x: Any, index: Any) -> list[Any]:
    """One entry per indexed dimension: Ellipsis filled in, sequences made tensors."""
    raw = list(index) if isinstance(index, tuple) else [index]
    parts = [_part(x, p) for p in raw]
    used = sum(
        p.meta.ndim if isinstance(p, TensorBase) and p.meta.dtype is dt.bool_ else 1
        for p in parts
        if p is not None and p is not Ellipsis
    )
    if used > x.meta.ndim:
        raise IndexError(
            f"too many indices for tensor of dimension {x.meta.ndim}: {used} in {x.meta}"
        )
    dots = [i for i, p in enumerate(parts) if p is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if dots:
        parts[dots[0] : dots[0] + 1] = [slice(None)] * (x.meta.ndim - used)
    return parts


def _part(x: Any, p: Any) -> Any:
    if p is None or p is Ellipsis or isinstance(p, slice):
        return p
    if isinstance(p, (bool, np.bool_, list, np.ndarray)):
        from halon.tensor.creation import tensor

        return tensor(p, device=x.device)
    if isinstance(p, TensorBase):
        if p.meta.dtype.category > 1:
            raise IndexError(
                f"tensors used as indices must be long, int, byte or bool tensors, not {p.meta}"
            )
        is_number = p.meta.ndim == 0 and p.meta.dtype is not dt.bool_
        return p.item() if is_number else p  # type: ignore[attr-defined]
    if hasattr(p, "__index__"):
        return p.__index__()
    raise TypeError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
        f"indices (got {type(p).__name__})"
    )


def _sliced(x: Any, dim: int, s: slice) -> Any:
    if s == slice(None):
        return x
    step = 1 if s.step is None else s.step.__index__()
    if step <= 0:
        raise ValueError("step must be greater than zero")
    start, stop, _ = slice(s.start, s.stop, step).indices(x.meta.shape[dim])
    return views.slice_(x, dim, start, max(start, stop), step)


def _taken(x: Any, dim: int, index: Any) -> tuple[Any, int]:
    """Positions along one dimension (or a mask over several), and how many dimensions result."""
    if index.meta.dtype is dt.bool_:
        k = index.meta.ndim
        shape = x.meta.shape
        if index.meta.shape != shape[dim : dim + k]:
            raise IndexError(
                f"The shape of the mask {list(index.meta.shape)} at index 0 does not match the "
                f"shape of the indexed tensor {list(shape)} at index {dim}"
            )
        flat = views.reshape(x, (*shape[:dim], index.meta.numel, *shape[dim + k :]))
        return indexing.index_select(flat, dim, _positions(index, flat)), 1
    wide = index.to(dt.int64)
    n = x.meta.shape[dim]
    wrapped = elementwise.where(wide < 0, wide + n, wide)
    if index.meta.device.is_host:
        _check(index, n, dim)
    flat = views.reshape(wrapped, (-1,))
    taken = indexing.index_select(x, dim, flat)
    shape = (*x.meta.shape[:dim], *index.meta.shape, *x.meta.shape[dim + 1 :])
    return views.reshape(taken, shape), index.meta.ndim


def _check(index: Any, n: int, dim: int) -> None:
    array = index.detach().numpy()
    bad = array[(array < -n) | (array >= n)]
    if bad.size:
        raise IndexOutOfRange(
            f"index {bad.flat[0]} is out of bounds for dimension {dim} with size {n}"
        )


def _positions(mask: Any, like: Any) -> Any:
    """Flat int64 positions of a mask's set elements: their number is known only on the host."""
    from halon.tensor.creation import tensor

    found = np.flatnonzero(mask.detach().cpu().numpy())
    return tensor(found, device=like.device)
