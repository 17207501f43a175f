"""The caching allocator above every driver: size classes, one free list per stream, statistics.

A block freed while another stream may still use it waits for that stream's event. Out of memory
flushes the cache, synchronises, tries once more, then raises with the statistics.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass, field

from halon.hal.config import config, log
from halon.hal.driver import Device, Event, Stream
from halon.hal.errors import NotProvided, OutOfMemoryError
from halon.hal.properties import Caps

SMALLEST = 64


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


class CachingAllocator:
    """Allocates for one open device. Thread-safe.

    ``cap`` bounds what the free lists keep (bytes); what is in use is bounded by the device alone.
    """

    def __init__(self, device: Device, where: str) -> None:
        self.device = device
        self.where = where
        self.stats = Statistics()
        total = device.props.mem_total
        self.cap = int(total * config.memory_fraction) if total else 1 << 62
        self.caches = not device.props.caps & Caps.OWN_ALLOCATOR
        self._free: dict[tuple[Stream | None, int], list[Block]] = defaultdict(list)
        # Re-entrant: a collection inside alloc() may run Storage.__del__, which frees a block.
        self._lock = threading.RLock()
        self._live: dict[int, Block] = {}

    def alloc(self, nbytes: int, stream: Stream | None = None) -> Block:
        """A block of at least ``nbytes`` for use on ``stream``."""
        size = size_class(nbytes)
        with self._lock:
            self.stats.requests += 1
            block = self._take(stream, size) or self._from_driver(size, nbytes, stream)
            self._live[id(block)] = block
            self.stats.allocated_bytes += block.nbytes
            if self.stats.allocated_bytes > self.stats.peak_bytes:
                self.stats.peak_bytes = self.stats.allocated_bytes
        return block

    def free(self, block: Block) -> None:
        """Give a block back; it stays cached up to the cap."""
        with self._lock:
            del self._live[id(block)]
            self.stats.allocated_bytes -= block.nbytes
            cached = self.stats.reserved_bytes - self.stats.allocated_bytes
            if self.caches and cached <= self.cap:
                self._free[block.stream, block.nbytes].append(block)
            else:
                self._to_driver(block)

    def record_stream(self, block: Block, stream: Stream | None) -> None:
        """Say that ``stream`` uses the block too: it is reused only after that work."""
        if stream is block.stream:
            return
        try:
            event = self.device.create_event()
        except NotProvided:
            self.device.synchronize(stream)
            return
        event.record(stream)
        with self._lock:
            block.waits.append(event)

    def empty_cache(self) -> None:
        """Return every cached block to the driver."""
        with self._lock:
            blocks = [b for blocks in self._free.values() for b in blocks]
            self._free.clear()
            if blocks:
                self.device.synchronize()
            for block in blocks:
                self._to_driver(block)

    def reset_peak(self) -> None:
        self.stats.peak_bytes = self.stats.allocated_bytes

    def largest(self, count: int = 3) -> list[int]:
        """Sizes in bytes of the largest blocks in use."""
        return sorted((b.nbytes for b in self._live.values()), reverse=True)[:count]

    def _take(self, stream: Stream | None, size: int) -> Block | None:
        cached = self._free.get((stream, size))
        if not cached:
            return None
        busy = []
        found = None
        for _ in range(len(cached)):  # pop first: a collection may free blocks meanwhile
            block = cached.pop()
            if not block.waits or all(e.query() for e in block.waits):
                block.waits.clear()
                found = block
                break
            busy.append(block)
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
        return Block(handle, request, stream)

    def _to_driver(self, block: Block) -> None:
        for event in block.waits:
            event.synchronize()
        self.device.free(block.handle)
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
