"""Samplers: in which order a loader visits a data set."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from halon.tensor.random import Generator, randint, randperm

T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co]):
    """Sampler(), the base class: a subclass defines ``__iter__`` and usually ``__len__``."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")


class SequentialSampler(Sampler[int]):
    """SequentialSampler(data_source), every index in order.

    >>> from halon.data import SequentialSampler
    >>> list(SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """RandomSampler(data_source, replacement=False, num_samples=None, generator=None)

    A new permutation at every pass, from ``generator`` or else from the default one. Without
    replacement, more samples than items means several permutations in a row.

    Raises:
        TypeError: ``replacement`` is no bool.
        ValueError: ``num_samples`` is not a positive int.

    >>> import halon
    >>> from halon.data import RandomSampler
    >>> sorted(RandomSampler(range(4), generator=halon.Generator().manual_seed(1)))
    [0, 1, 2, 3]
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got {replacement=}")
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(
                "num_samples should be a positive integer value, but got "
                f"num_samples={self.num_samples}"
            )

    @property
    def num_samples(self) -> int:
        """How many indices one pass gives; the data set may grow between passes."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        size, wanted = len(self.data_source), self.num_samples
        if size == 0:
            raise ValueError("RandomSampler: the data set is empty")
        if self.replacement:
            yield from randint(0, size, (wanted,), generator=self.generator).tolist()
            return
        while wanted > 0:
            order = randperm(size, generator=self.generator).tolist()
            yield from order[:wanted]
            wanted -= size

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """BatchSampler(sampler, batch_size, drop_last), lists of ``batch_size`` indices.

    Raises ValueError if ``batch_size`` is not a positive int or ``drop_last`` no bool.

    >>> from halon.data import BatchSampler
    >>> list(BatchSampler(range(5), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        full, rest = divmod(len(self.sampler), self.batch_size)  # type: ignore[arg-type]
        return full + (rest > 0 and not self.drop_last)
