"""``x[…]``, read and written: basic indices as views, tensors and masks as positions.

Integers, slices, None and Ellipsis are applied first and give a view; what is left are index
tensors, each on a dimension of that view. This is torch's order, which differs from NumPy's where
an integer stands beside index tensors.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from halon.dispatcher.ops import elementwise, index_writes, movement, views
from halon.dispatcher.shapes import broadcast_shapes
from halon.dispatcher.structures import TensorBase
from halon.hal import dtypes as dt
from halon.tensor.inplace import update


@dataclass(frozen=True)
class _Advanced:
    """An int64 tensor of positions, or a mask over as many dimensions as it has from ``dim``."""

    index: Any
    dim: int

    @property
    def mask(self) -> bool:
        return self.index.meta.dtype is dt.bool_


def get(x: Any, index: Any) -> Any:
    """``x[index]``: a view for basic indices, a copy for tensor indices.

    Raises IndexError for too many indices, for a mask of another shape, and for a position out of
    bounds (on asynchronous devices at the next synchronisation).
    """
    seen, advanced = _view(x, index)
    if not advanced:
        return views.alias(seen) if seen is x else seen
    if len(advanced) == 1 and advanced[0].mask and advanced[0].index.meta.ndim:
        return _masked(seen, advanced[0])
    positions, dims = _positions(seen, advanced)
    return index_writes.index_at(seen, positions, dims)


def set(x: Any, index: Any, value: Any) -> None:
    """``x[index] = value`` in place; the value is broadcast and converted.

    Raises as ``get``, and RuntimeError for a value whose shape does not fit.
    """
    target, advanced = _view(x, index)
    value = _converted(value, target)
    if not advanced:
        if isinstance(value, TensorBase):
            target.copy_(_without_leading_ones(value, target.meta.ndim))
        else:
            target.fill_(value)
        return
    single = not isinstance(value, TensorBase) or not value.meta.ndim
    if single and len(advanced) == 1 and advanced[0].mask:
        update(index_writes.masked, target, (target, _spread(target, advanced[0]), value))
        return
    positions, dims = _positions(target, advanced)
    if not isinstance(value, TensorBase):
        from halon.tensor.creation import full

        value = full((), value, dtype=target.meta.dtype, device=target.device)
    write(target, positions, value, dims, False)


def write(
    x: Any, positions: Sequence[Any], value: Any, dims: Sequence[int], accumulate: bool
) -> Any:
    """``index_put_``: values at broadcast positions, the last of equals or their sum."""
    shape = broadcast_shapes(*(p.meta.shape for p in positions))
    ndim = x.meta.ndim - len(dims) + len(shape)
    value = _without_leading_ones(value, ndim)
    return update(
        index_writes.index_put_at, x, (x, tuple(positions), value, tuple(dims), accumulate)
    )


def from_list(x: Any, indices: Any) -> tuple[Any, list[Any], list[int]]:
    """The positions and dimensions of ``index_put``'s tuple, whose entries may be None."""
    parts = [slice(None) if i is None else i for i in indices]
    seen, advanced = _view(x, tuple(parts))
    return seen, *_positions(seen, advanced)


# -- basic indices ---------------------------------------------------------------------------------
def _view(x: Any, index: Any) -> tuple[Any, list[_Advanced]]:
    """The view that basic indices make, and the index tensors left to apply to it."""
    parts = _expanded(x, index)
    seen, dim = x, 0
    advanced: list[_Advanced] = []
    for part in parts:
        if part is None:
            seen = views.unsqueeze(seen, dim)
            dim += 1
        elif isinstance(part, slice):
            seen = _sliced(seen, dim, part)
            dim += 1
        elif isinstance(part, TensorBase):
            mask = part.meta.dtype is dt.bool_
            if mask and not part.meta.ndim:  # a new dimension that is kept or emptied
                seen = views.unsqueeze(seen, dim)
            advanced.append(_Advanced(_placed(part, x), dim))
            dim += max(part.meta.ndim, 1) if mask else 1
        else:
            seen = views.select(seen, dim, part)
    for a in advanced:
        _check_mask(seen, a)
    return seen, advanced


def _expanded(x: Any, index: Any) -> list[Any]:
    """One entry per indexed dimension: Ellipsis filled in, sequences made tensors."""
    raw = list(index) if isinstance(index, tuple) else [index]
    parts = [_part(x, p) for p in raw]
    used = sum(_consumed(p) for p in parts)
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


def _consumed(part: Any) -> int:
    """How many dimensions of the operand an index stands for."""
    if part is None or part is Ellipsis:
        return 0
    if isinstance(part, TensorBase) and part.meta.dtype is dt.bool_:
        return part.meta.ndim
    return 1


def _part(x: Any, p: Any) -> Any:
    if p is None or p is Ellipsis or isinstance(p, slice):
        return p
    if isinstance(p, (bool, np.bool_, list, tuple, np.ndarray, range)):
        return _listed(x, p)
    if isinstance(p, TensorBase):
        return _index_tensor(p)
    if hasattr(p, "__index__"):
        return p.__index__()
    raise TypeError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
        f"indices (got {type(p).__name__})"
    )


def _listed(x: Any, p: Any) -> Any:
    from halon.tensor.creation import tensor

    if isinstance(p, (list, tuple, range)) and not len(p):
        return tensor([], dtype=dt.int64, device=x.device)
    return _index_tensor(tensor(list(p) if isinstance(p, range) else p, device=x.device))


def _index_tensor(p: Any) -> Any:
    dtype = p.meta.dtype
    if dtype is dt.uint8:
        warnings.warn(
            "indexing with dtype uint8 is deprecated, please use a dtype bool instead.",
            stacklevel=4,
        )
        return elementwise.ne(p, 0)
    if dtype not in (dt.bool_, dt.int32, dt.int64):
        raise IndexError(
            f"tensors used as indices must be long, int, byte or bool tensors, not {p.meta}"
        )
    if dtype is not dt.bool_ and not p.meta.ndim:
        return p.item()
    return p


def _placed(index: Any, x: Any) -> Any:
    """An index on the operand's device; one from the host is moved there."""
    if index.meta.device is x.meta.device:
        return index
    if not index.meta.device.is_host:
        raise RuntimeError(
            "indices should be either on the host or on the same device as the indexed tensor "
            f"({x.device}), not on {index.device}"
        )
    return index.to(x.device)


def _sliced(x: Any, dim: int, s: slice) -> Any:
    if s == slice(None):
        return x
    step = 1 if s.step is None else s.step.__index__()
    if step <= 0:
        raise ValueError("step must be greater than zero")
    start, stop, _ = slice(s.start, s.stop, step).indices(x.meta.shape[dim])
    return views.slice_(x, dim, start, max(start, stop), step)


# -- index tensors ---------------------------------------------------------------------------------
def _check_mask(x: Any, a: _Advanced) -> None:
    k = a.index.meta.ndim
    if a.mask and k and a.index.meta.shape != x.meta.shape[a.dim : a.dim + k]:
        raise IndexError(
            f"The shape of the mask {list(a.index.meta.shape)} at index {a.dim} does not match the "
            f"shape of the indexed tensor {list(x.meta.shape)} at index {a.dim}"
        )


def _masked(x: Any, a: _Advanced) -> Any:
    """The elements (or slices) where one mask is set."""
    k = a.index.meta.ndim
    shape = x.meta.shape
    flat = views.reshape(x, (*shape[: a.dim], a.index.meta.numel, *shape[a.dim + k :]))
    return index_writes.index_at(flat, (index_writes.mask_positions(a.index),), (a.dim,))


def _spread(x: Any, a: _Advanced) -> Any:
    """A mask with the dimensions it lacks, so that it broadcasts over the operand."""
    shape = a.index.meta.shape or (1,)
    after = x.meta.ndim - a.dim - len(shape)
    return views.reshape(a.index, (*shape, *(1,) * after))


def _positions(x: Any, advanced: Sequence[_Advanced]) -> tuple[list[Any], list[int]]:
    """int64 positions, one per indexed dimension; a mask gives the coordinates of what it sets."""
    positions: list[Any] = []
    dims: list[int] = []
    for a in advanced:
        if a.mask:
            flat = index_writes.mask_positions(a.index)
            found = index_writes.coordinates(flat, a.index.meta.shape or (1,))
            positions += found
            dims += range(a.dim, a.dim + len(found))
        else:
            positions.append(movement.cast(a.index, dt.int64))
            dims.append(a.dim)
    try:
        broadcast_shapes(*(p.meta.shape for p in positions))
    except RuntimeError:
        shapes = ", ".join(str(list(p.meta.shape)) for p in positions)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}"
        ) from None
    return positions, dims


# -- values ----------------------------------------------------------------------------------------
def _converted(value: Any, target: Any) -> Any:
    """A value to be stored: a number, or a tensor in the target's dtype and on its device."""
    if isinstance(value, (np.ndarray, list, tuple)):
        from halon.tensor.creation import tensor

        value = tensor(value)
    if not isinstance(value, TensorBase):
        return value
    if value.meta.device is not target.meta.device:
        if value.meta.ndim and not value.meta.device.is_host:
            raise RuntimeError(
                f"cannot store a tensor on {value.device} in one on {target.device}"  # type: ignore[attr-defined]
            )
        value = value.to(target.device)  # type: ignore[attr-defined]
    return movement.cast(value, target.meta.dtype)


def _without_leading_ones(value: Any, ndim: int) -> Any:
    """A value without the leading dimensions of size 1 that its target lacks."""
    while value.meta.ndim > ndim and value.meta.shape[0] == 1:
        value = views.select(value, 0, 0)
    return value
