"""Seeded random numbers: one generator per device, the same numbers on every device."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from halon.dispatcher.ops import random as ops
from halon.dispatcher.promote import default_dtype
from halon.hal import dtypes as dt
from halon.hal.dtypes import DType
from halon.hal.open_device import OpenDevice
from halon.hal.registry import host
from halon.tensor.creation import open_device, tensor
from halon.tensor.tensor import Tensor, ints

_MASK = (1 << 63) - 1


class Generator:
    """A seed and a position in its sequence (a Philox key and counter).

    >>> import halon
    >>> g = halon.Generator().manual_seed(1)
    >>> a = halon.rand(3, generator=g)
    >>> halon.rand(3, generator=g.manual_seed(1)).equal(a)
    True
    """

    def __init__(self, device: Any = None) -> None:
        self.device = open_device(device).device
        self._lock = threading.Lock()
        self._seed, self._offset = _DEFAULT_SEED, 0

    def manual_seed(self, seed: int) -> Generator:
        """Start the sequence of ``seed`` (any Python int; its low 63 bits count)."""
        with self._lock:
            self._seed, self._offset = int(seed) & _MASK, 0
        return self

    def seed(self) -> int:
        """Start a sequence from the operating system's entropy; returns its seed."""
        fresh = int.from_bytes(os.urandom(8), "little") & _MASK
        self.manual_seed(fresh)
        return fresh

    def initial_seed(self) -> int:
        """The seed of the current sequence."""
        return self._seed

    def take(self, words: int) -> tuple[int, int]:
        """Reserve ``words`` 32-bit words; returns (key, offset in blocks of four words)."""
        with self._lock:
            offset = self._offset
            self._offset += -(-words // 4)
            return self._seed, offset

    def get_state(self) -> Tensor:
        """Seed and position as an int64 tensor of two."""
        return tensor([self._seed, self._offset])

    def set_state(self, state: Tensor) -> Generator:
        """Continue from what ``get_state`` returned."""
        with self._lock:
            self._seed, self._offset = state.tolist()
        return self


_DEFAULT_SEED = 67280421310721
_generators: dict[OpenDevice, Generator] = {}
_seed = [_DEFAULT_SEED]


def default_generator(where: Any = None) -> Generator:
    """The generator a device uses when none is given."""
    return generator_of(open_device(where), None)


def generator_of(device: OpenDevice, given: Generator | None) -> Generator:
    """``given``, or the device's own."""
    if given is not None:
        return given
    found = _generators.get(device)
    if found is None:
        found = _generators[device] = Generator(device.device).manual_seed(_seed[0])
    return found


def manual_seed(seed: int) -> Generator:
    """Seed every device's generator; returns the host's.

    >>> import halon
    >>> _ = halon.manual_seed(0)
    >>> a = halon.rand(2)
    >>> _ = halon.manual_seed(0)
    >>> halon.rand(2).equal(a)
    True
    """
    _seed[0] = int(seed) & _MASK
    for g in _generators.values():
        g.manual_seed(seed)
    return default_generator()


def initial_seed() -> int:
    """The seed of the host's generator."""
    return default_generator().initial_seed()


def _float_dtype(name: str, dtype: DType | None) -> DType:
    dtype = dtype or default_dtype()
    if not dtype.is_floating_point:
        raise NotImplementedError(f'"{name}" not implemented for {dtype.name!r}')
    return dtype


def rand(
    *size: Any, generator: Generator | None = None, dtype: DType | None = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Uniform on [0, 1); equal on every device for one seed."""
    where, shape, dtype = open_device(device), ints(size), _float_dtype("rand", dtype)
    key, offset = generator_of(where, generator).take(ops.words(shape, dtype))
    return ops.uniform(shape, key, offset, dtype, where).requires_grad_(requires_grad)


def randn(
    *size: Any, generator: Generator | None = None, dtype: DType | None = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Standard normal; equal on every device to a few units in the last place."""
    where, shape, dtype = open_device(device), ints(size), _float_dtype("randn", dtype)
    key, offset = generator_of(where, generator).take(2 * ops.words(shape, dtype))
    return ops.normal(shape, key, offset, dtype, where).requires_grad_(requires_grad)


def randint(
    low: int, high: int | None = None, size: Any = None, *, generator: Generator | None = None,
    dtype: DType | None = None, device: Any = None,
) -> Tensor:  # fmt: skip
    """Integers of [low, high); ``randint(high, size)`` starts at 0. Equal on every device."""
    if size is None:
        low, high, size = 0, low, high
    assert high is not None
    if high <= low:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got {low} >= {high}")
    if high - low > 1 << 32:
        raise NotImplementedError(f"randint: a range of {high - low} needs more than 32 bits")
    where, shape = open_device(device), ints((size,))
    n = int(np.prod(shape))
    key, offset = generator_of(where, generator).take(n)
    words = ops.philox(n, key, offset, where).to(dt.int64) & 0xFFFFFFFF
    return (words % (high - low) + low).reshape(*shape).to(dtype or dt.int64)


def randperm(
    n: int, *, generator: Generator | None = None, dtype: DType | None = None, device: Any = None
) -> Tensor:
    """A random permutation of 0 … n - 1: the order that sorts n random 64-bit words.

    The words are drawn and sorted on the host, so the result is equal on every device.
    """
    where = open_device(device)
    key, offset = generator_of(where, generator).take(2 * n)
    words = ops.philox(2 * n, key, offset, host()).numpy().view(np.uint64)
    order = np.argsort(words, kind="stable")
    return tensor(order.astype(np.int64), dtype=dtype, device=device)


def rand_like(input: Tensor, generator: Generator | None = None, **kwargs: Any) -> Tensor:
    """Uniform numbers in the shape of ``input``."""
    kwargs.setdefault("dtype", input.dtype)
    if not kwargs["dtype"].is_floating_point:
        kwargs["dtype"] = default_dtype()
    return rand(*input.shape, generator=generator, device=input.device, **kwargs)


def randn_like(input: Tensor, *, generator: Generator | None = None, **kwargs: Any) -> Tensor:
    """Normal numbers in the shape of ``input``."""
    kwargs.setdefault("dtype", input.dtype)
    return randn(*input.shape, generator=generator, device=input.device, **kwargs)


def bernoulli(input: Tensor, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability each element gives, else 0; equal on every device."""
    return (rand_like(input, generator) < input).to(input.dtype)


def get_rng_state() -> Tensor:
    """The host generator's state."""
    return default_generator().get_state()


def set_rng_state(state: Tensor) -> None:
    """Restore the host generator."""
    default_generator().set_state(state)


@contextmanager
def fork_rng(devices: Any = (), enabled: bool = True) -> Iterator[None]:
    """Inside the block draws do not move the host's generator, nor those of ``devices``.

    >>> import halon
    >>> before = halon.get_rng_state()
    >>> with halon.random.fork_rng():
    ...     _ = halon.rand(3)
    >>> halon.get_rng_state().equal(before)
    True
    """
    generators = [default_generator(), *map(default_generator, devices)] if enabled else []
    states = [g.get_state() for g in generators]
    try:
        yield
    finally:
        for g, state in zip(generators, states, strict=True):
            g.set_state(state)
