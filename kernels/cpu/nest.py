"""Loop nests for the tile machine: the order of the dimensions and the box of each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from halon.kernels.loops import coalesce

#: From this extent on, rows are walked one by one and need no packing.
LONG_ROW: Final = 128
#: Side of the blocks in which a transposed operand is read.
BLOCK: Final = 32


@dataclass(frozen=True)
class Nest:
    """``strides`` has one row of element strides per operand, in the order they were given."""

    shape: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    transposed: bool  # some operand runs along the second-innermost dimension

    def permuted(self, order: Sequence[int], transposed: bool) -> Nest:
        return Nest(
            tuple(self.shape[d] for d in order),
            tuple(tuple(s[d] for d in order) for s in self.strides),
            transposed,
        )


def order_dims(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> Nest:
    """Dimensions by falling stride of the last operand (the output), merged where possible; a
    dimension along which an input is dense comes second-innermost.

    >>> order_dims((2, 3), [(1, 2), (3, 1)])
    Nest(shape=(2, 3), strides=((1, 2), (3, 1)), transposed=True)
    """
    out = strides[-1]
    order = sorted(range(len(shape)), key=lambda d: -out[d])
    nest = Nest(
        *coalesce([shape[d] for d in order], [[s[d] for d in order] for s in strides]), False
    )
    inner = len(nest.shape) - 1
    for s in nest.strides[:-1]:
        if s[inner] > 1 and 1 in s:
            dense = s.index(1)
            rest = [d for d in range(inner) if d != dense]
            return nest.permuted([*rest, dense, inner], True)
    return nest


def greedy_box(shape: Sequence[int], limit: int) -> tuple[int, ...]:
    """The largest box of whole inner dimensions with at most ``limit`` elements.

    >>> greedy_box((100, 30, 3), 1000)
    (11, 30, 3)
    """
    box = [1] * len(shape)
    for d in reversed(range(len(shape))):
        box[d] = max(1, min(shape[d], limit))
        limit //= box[d]
        if box[d] < shape[d]:
            break
    return tuple(box)


def choose_box(nest: Nest, limit: int) -> tuple[int, ...]:
    """The box of one step, of at most ``limit`` elements (at least one block)."""
    *outer, inner = nest.shape
    if nest.transposed:
        columns = min(inner, BLOCK)
        return (*(1 for _ in outer[:-1]), min(outer[-1], limit // columns), columns)
    if inner >= LONG_ROW or not outer:
        return (*(1 for _ in outer), min(inner, limit))
    return greedy_box(nest.shape, limit)


def is_dense(strides: Sequence[int], box: Sequence[int]) -> bool:
    """Whether a box of an operand is contiguous memory, also when clipped at its outer edge."""
    expected = 1
    for n, s in zip(reversed(box), reversed(strides), strict=True):
        if n > 1 and s != expected:
            return False
        expected *= n
    return True
