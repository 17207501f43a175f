"""Loop nests: dropping and merging dimensions so that kernels loop over as few as possible."""

from __future__ import annotations

from collections.abc import Sequence


def coalesce(
    shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Merge adjacent dimensions that every operand walks without a gap.

    Args:
        shape: extent of each dimension, outermost first; no zero.
        strides: one list per operand, in elements, as long as ``shape``.

    Returns:
        The merged shape (at least one dimension) and strides.

    >>> coalesce((2, 3, 4), [(12, 4, 1), (12, 4, 1)])
    ((24,), ((1,), (1,)))
    >>> coalesce((2, 1, 4), [(4, 9, 1), (0, 9, 1)])
    ((2, 4), ((4, 1), (0, 1)))
    """
    dims = [d for d in range(len(shape)) if shape[d] != 1]
    if not dims:
        return (1,), tuple((1,) for _ in strides)
    out_shape = [shape[dims[-1]]]
    out_strides = [[s[dims[-1]]] for s in strides]
    for d in reversed(dims[:-1]):
        if all(s[d] == o[-1] * out_shape[-1] for s, o in zip(strides, out_strides, strict=True)):
            out_shape[-1] *= shape[d]
        else:
            out_shape.append(shape[d])
            for s, o in zip(strides, out_strides, strict=True):
                o.append(s[d])
    return tuple(reversed(out_shape)), tuple(tuple(reversed(o)) for o in out_strides)
