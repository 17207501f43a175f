"""DataLoader: batches of a data set, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from halon.data.collate import default_collate, default_convert
from halon.data.dataset import TensorDataset
from halon.data.sampler import BatchSampler, RandomSampler, SequentialSampler
from halon.hal.errors import HalonError
from halon.tensor.creation import tensor
from halon.tensor.random import Generator


class WorkersNotAvailable(HalonError, NotImplementedError):
    """A loader option that needs worker processes or pinned memory, which halon does not have."""


class DataLoader:
    """DataLoader(dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None,
    num_workers=0, collate_fn=None, pin_memory=False, drop_last=False, …, generator=None)

    Args:
        dataset: has ``__getitem__`` and ``__len__``, perhaps ``__getitems__``.
        batch_size: samples of a batch; None loads samples one by one, without a batch dimension.
        shuffle: a new order at every pass, from ``generator`` or the default one.
        sampler: gives indices; excludes ``shuffle``.
        batch_sampler: gives lists of indices; excludes all of the above.
        collate_fn: makes a batch from a list of samples; ``default_collate`` if None.
        drop_last: leave out an incomplete last batch.

    Raises:
        ValueError: options that exclude each other.
        TypeError: the data set cannot be indexed.
        WorkersNotAvailable: ``num_workers`` above 0 or ``pin_memory``.

    >>> import halon
    >>> from halon.data import DataLoader
    >>> [batch.tolist() for batch in DataLoader(range(5), batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        if not hasattr(dataset, "__getitem__"):
            raise TypeError(
                f"DataLoader: {type(dataset).__name__} has no __getitem__ to index it by"
            )
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, pin_memory)
        _check_exclusive(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.dataset = dataset
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.prefetch_factor = prefetch_factor
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.generator = generator
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        if sampler is None:
            sampler = (
                RandomSampler(dataset, generator=generator)
                if shuffle
                else SequentialSampler(dataset)
            )
        if batch_sampler is None and batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)  # type: ignore[arg-type]
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        if collate_fn is None:
            collate_fn = default_convert if batch_sampler is None else default_collate
        self.collate_fn = collate_fn

    def __iter__(self) -> Iterator[Any]:
        if self.batch_sampler is None:
            for index in self.sampler:
                yield self.collate_fn(self.dataset[index])
            return
        for indices in self.batch_sampler:
            yield self._batch(indices)

    def _batch(self, indices: list[Any]) -> Any:
        dataset = self.dataset
        if type(dataset) is TensorDataset and self.collate_fn is default_collate:
            # one gather per tensor gives what indexing each row and stacking would
            rows = tensor(indices)
            return [t[rows] for t in dataset.tensors]
        fetch: Any = getattr(dataset, "__getitems__", None)
        samples = fetch(indices) if fetch is not None else [dataset[i] for i in indices]
        return self.collate_fn(samples)

    def __len__(self) -> int:
        counted: Any = self.sampler if self.batch_sampler is None else self.batch_sampler
        return len(counted)


def _check_workers(
    num_workers: int,
    timeout: float,
    prefetch_factor: int | None,
    persistent_workers: bool,
    pin_memory: bool,
) -> None:
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable "
            "multiprocessing."
        )
    if num_workers > 0:
        raise WorkersNotAvailable(
            f"DataLoader: num_workers={num_workers}, but halon has no worker processes yet; with "
            "num_workers=0 samples are loaded in this process"
        )
    if pin_memory:
        raise WorkersNotAvailable(
            "DataLoader: pin_memory=True, but halon has no pinned host memory yet; leave it out"
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing. let num_workers > "
            "0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if persistent_workers:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_exclusive(
    batch_size: int | None,
    shuffle: bool | None,
    sampler: Any,
    batch_sampler: Any,
    drop_last: bool,
) -> None:
    if shuffle not in (None, False, True):
        raise ValueError(f"DataLoader: shuffle is {shuffle!r}; give a bool")
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (
        batch_size != 1 or shuffle or sampler is not None or drop_last
    ):
        raise ValueError(
            "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
            "drop_last"
        )
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None option disables auto-batching and is mutually exclusive with drop_last"
        )
