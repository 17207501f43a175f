"""Sizes that may be given as one int for both image dimensions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

Pair = tuple[int, int]


def pair(value: int | Iterable[int]) -> Pair:
    """pair(value) -> (int, int); ValueError unless one or two numbers were given.

    >>> pair(3), pair([1, 2])
    ((3, 3), (1, 2))
    """
    if isinstance(value, int):
        return value, value
    found = tuple(value)
    if len(found) == 1:
        return found[0], found[0]
    if len(found) != 2:
        raise ValueError(f"expected an int or a pair of ints, got {found}")
    return cast(Pair, found)
