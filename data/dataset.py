"""Data sets: anything with ``__getitem__`` and ``__len__``."""

from __future__ import annotations

import itertools
import math
import operator
import warnings
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from halon.tensor.random import Generator, randperm
from halon.tensor.tensor import Tensor

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Dataset(), the base class: a subclass defines ``__getitem__`` and usually ``__len__``.

    >>> from halon.data import Dataset
    >>> class Squares(Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, i):
    ...         return i * i
    >>> Squares()[3]
    9
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """TensorDataset(*tensors), rows of tensors that agree in their first dimension.

    Raises ValueError if they do not.

    >>> import halon
    >>> from halon.data import TensorDataset
    >>> TensorDataset(halon.arange(3), halon.arange(3) * 10)[2]
    (tensor(2), tensor(20))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(t.shape[0] != tensors[0].shape[0] for t in tensors):
            sizes = [tuple(t.shape) for t in tensors]
            raise ValueError(f"Size mismatch between tensors: {sizes}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]


class Subset(Dataset[T_co]):
    """Subset(dataset, indices), the items at ``indices`` in that order.

    >>> from halon.data import Subset
    >>> list(Subset("abcd", [3, 0]))
    ['d', 'a']
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> T_co:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[T_co]:
        chosen = [self.indices[i] for i in indices]
        fetch: Any = getattr(self.dataset, "__getitems__", None)
        return fetch(chosen) if fetch is not None else [self.dataset[i] for i in chosen]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: Generator | None = None
) -> list[Subset[Any]]:
    """random_split(dataset, lengths, generator=None) -> list of Subset, disjoint and complete.

    ``lengths`` are counts that sum to the size, or fractions that sum to one; what rounding leaves
    over goes to the parts in turn.

    Raises:
        ValueError: the lengths do not sum up, or a fraction is outside [0, 1].

    >>> import halon
    >>> from halon.data import random_split
    >>> parts = random_split(range(10), [0.8, 0.2], halon.Generator().manual_seed(0))
    >>> [len(part) for part in parts]
    [8, 2]
    """
    size, total = len(dataset), sum(lengths)
    if math.isclose(total, 1) and total <= 1:
        lengths = _from_fractions(lengths, size)
    if sum(lengths) != size:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    wanted: Sequence[Any] = lengths
    counts = [operator.index(length) for length in wanted]
    order = randperm(size, generator=generator).tolist()
    ends = itertools.accumulate(counts)
    return [
        Subset(dataset, order[end - count : end]) for end, count in zip(ends, counts, strict=True)
    ]


def _from_fractions(fractions: Sequence[float], size: int) -> list[int]:
    for i, fraction in enumerate(fractions):
        if fraction < 0 or fraction > 1:
            raise ValueError(f"Fraction at index {i} is not between 0 and 1")
    counts = [math.floor(size * fraction) for fraction in fractions]
    for i in range(size - sum(counts)):
        counts[i % len(counts)] += 1
    for i, count in enumerate(counts):
        if count == 0:
            warnings.warn(
                f"Length of split at index {i} is 0. This might result in an empty dataset.",
                stacklevel=3,
            )
    return counts
