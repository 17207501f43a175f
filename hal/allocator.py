"""The caching allocator above every driver: size classes, one free list per stream, statistics.

A block freed while another stream may still use it waits for that stream's event. Out of memory
flushes the cache, synchronises, tries once more, then raises with the statistics.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from halon.hal.config import config, log
from halon.hal.driver import Device, Event, Stream
from halon.hal.errors import NotProvided, OutOfMemoryError
from halon.hal.properties import Caps

SMALLEST = 64
_REMEMBERED_SIZES = 4096


def size_class(nbytes: int) -> int:
    """The block size for a request: eight classes per doubling, so at most 12.5 % is wasted.

    >>> size_class(1), size_class(64), size_class(65), size_class(1000)
    (64, 64, 128, 1024)
    """
    if nbytes <= 512:
        return max(SMALLEST, (nbytes + 63) & ~63)
    step = 1 << ((nbytes - 1).bit_length() - 4)
    return (nbytes + step - 1) & ~(step - 1)


@dataclass(slots=True)
class Statistics:
    """Bytes and counts of one device; ``peak_bytes`` is since the last ``reset_peak``."""

    allocated_bytes: int = 0
    reserved_bytes: int = 0
    peak_bytes: int = 0
    requests: int = 0
    driver_allocations: int = 0
    driver_frees: int = 0
    out_of_memory: int = 0


@dataclass(slots=True, eq=False)
class Block:
    """A buffer of a size class; ``waits`` are events of other streams that used it."""

    handle: int
    nbytes: int
    stream: Stream | None
    waits: list[Event] = field(default_factory=list)
    in_use: bool = False


class CachingAllocator:
    """Allocates for one open device. Thread-safe.

    ``cap`` bounds what the free lists keep (bytes); what is in use is bounded by the device alone.
    """

    def __init__(self, device: Device, where: str, lock: Any = None) -> None:
        self.device = device
        self.where = where
        self.stats = Statistics()
        total = device.props.mem_total
        self.cap = int(total * config.memory_fraction) if total else 1 << 62
        self.caches = not device.props.caps & Caps.OWN_ALLOCATOR
        self._free: dict[tuple[Stream | None, int], list[Block]] = defaultdict(list)
        # Re-entrant: a collection inside alloc() may run Storage.__del__, which frees a block.
        # A device that takes one call at a time shares its lock: alloc and free are calls too.
        self._lock = lock or threading.RLock()
        self._blocks: set[Block] = set()
        self._sizes: dict[int, int] = {}

    def alloc(self, nbytes: int, stream: Stream | None = None) -> Block:
        """A block of at least ``nbytes`` for use on ``stream``."""
        size = self._sizes.get(nbytes) or self._size(nbytes)
        stats = self.stats
        with self._lock:
            stats.requests += 1
            cached = self._free.get((stream, size))
            block = self._take(cached) if cached else None
            if block is None:
                block = self._from_driver(size, nbytes, stream)
            block.in_use = True
            stats.allocated_bytes += block.nbytes
            if stats.allocated_bytes > stats.peak_bytes:
                stats.peak_bytes = stats.allocated_bytes
        return block

    def free(self, block: Block) -> None:
        """Give a block back; it stays cached up to the cap."""
        stats = self.stats
        with self._lock:
            block.in_use = False
            stats.allocated_bytes -= block.nbytes
            if self.caches and stats.reserved_bytes - stats.allocated_bytes <= self.cap:
                self._free[block.stream, block.nbytes].append(block)
            else:
                self._to_driver(block)

    def record_stream(self, block: Block, stream: Stream | None) -> None:
        """Say that ``stream`` uses the block too: it is reused only after that work."""
        if stream is block.stream:
            return
        with self._lock:
            try:
                event = self.device.create_event()
            except NotProvided:
                self.device.synchronize(stream)
                return
            event.record(stream)
            block.waits.append(event)

    def empty_cache(self) -> None:
        """Return every cached block to the driver."""
        with self._lock:
            free, self._free = self._free, defaultdict(list)  # a collection may free more
            blocks = [b for blocks in free.values() for b in blocks]
            if blocks:
                self.device.synchronize()
            for block in blocks:
                self._to_driver(block)

    def reset_peak(self) -> None:
        self.stats.peak_bytes = self.stats.allocated_bytes

    def largest(self, count: int = 3) -> list[int]:
        """Sizes in bytes of the largest blocks in use."""
        with self._lock:
            blocks = list(self._blocks)
        return sorted((b.nbytes for b in blocks if b.in_use), reverse=True)[:count]

    def _size(self, nbytes: int) -> int:
        """The size class, remembered for the sizes a program keeps asking for."""
        size = size_class(nbytes)
        if len(self._sizes) < _REMEMBERED_SIZES:
            self._sizes[nbytes] = size
        return size

    def _take(self, cached: list[Block]) -> Block | None:
        """A cached block that no other stream still uses."""
        block = cached.pop()
        if not block.waits:
            return block
        busy = [block]
        found = None
        while cached and found is None:
            block = cached.pop()
            if all(e.query() for e in block.waits):
                block.waits.clear()
                found = block
            else:
                busy.append(block)
        if found is None and all(e.query() for e in busy[0].waits):
            found = busy.pop(0)
            found.waits.clear()
        cached.extend(busy)
        return found

    def _from_driver(self, size: int, nbytes: int, stream: Stream | None) -> Block:
        request = size if self.caches else nbytes
        try:
            handle = self.device.alloc(request)
        except MemoryError:
            self.empty_cache()
            self.device.synchronize()
            try:
                handle = self.device.alloc(request)
            except MemoryError as error:
                self.stats.out_of_memory += 1
                raise OutOfMemoryError(self._explain(nbytes)) from error
        log("alloc", f"{self.where}: {request} bytes from the driver")
        self.stats.driver_allocations += 1
        self.stats.reserved_bytes += request
        block = Block(handle, request, stream)
        self._blocks.add(block)
        return block

    def _to_driver(self, block: Block) -> None:
        for event in block.waits:
            event.synchronize()
        self.device.free(block.handle)
        self._blocks.discard(block)
        self.stats.driver_frees += 1
        self.stats.reserved_bytes -= block.nbytes

    def _explain(self, nbytes: int) -> str:
        s = self.stats
        return (
            f"{self.where}: out of memory: {nbytes} bytes asked for, {s.allocated_bytes} in use, "
            f"{s.reserved_bytes - s.allocated_bytes} cached, device total "
            f"{self.device.props.mem_total}; largest in use: {self.largest()}. The cache was "
            "flushed and the request tried again."
        )
