"""The caching allocator: size classes, reuse, exact statistics, the cap, streams, no memory."""

from __future__ import annotations

import gc
import random
import re
import threading
import weakref

import pytest

import halon
from halon.hal.allocator import Block, CachingAllocator, size_class
from halon.hal.driver import Event, Stream
from halon.hal.errors import OutOfMemoryError
from halon.hal.properties import Caps
from tests.hal.fakes import FakeDevice

MIB = 1 << 20


def allocator(device: FakeDevice) -> CachingAllocator:
    return CachingAllocator(device, "fake:0")


def assert_exact(a: CachingAllocator, device: FakeDevice) -> None:
    """The statistics agree with what the device sees and what the blocks say."""
    assert a.stats.reserved_bytes == device.held
    assert a.stats.driver_allocations - a.stats.driver_frees == len(device.memory)
    assert a.stats.driver_frees == device.calls["free"]
    assert a.stats.allocated_bytes == sum(a.largest(1 << 30))


# -- size classes --------------------------------------------------------------------------------
def test_a_class_holds_its_sizes_and_wastes_at_most_an_eighth() -> None:
    for n in [*range(1, 5000), *(10**k + d for k in range(4, 12) for d in (-1, 0, 1))]:
        size = size_class(n)
        assert size >= n
        assert size % 64 == 0
        assert n <= 512 or size - n <= n / 8, n


def test_classes_grow_with_the_request_and_are_their_own_class() -> None:
    sizes = [size_class(n) for n in range(10_000)]
    assert sizes == sorted(sizes)
    assert all(size_class(s) == s for s in set(sizes))
    assert len(set(sizes)) < 60


def test_no_bytes_get_a_buffer_of_their_own() -> None:
    device = FakeDevice()
    a = allocator(device)
    first, second = a.alloc(0), a.alloc(0)
    assert first.handle != second.handle
    assert first.handle > 0


# -- reuse and statistics ------------------------------------------------------------------------
def test_a_freed_block_serves_the_next_request_of_its_class() -> None:
    device = FakeDevice()
    a = allocator(device)
    first = a.alloc(1000)
    a.free(first)
    assert a.alloc(1024) is first
    assert device.calls["alloc"] == 1
    assert a.alloc(1000) is not first


def test_a_block_of_another_class_is_not_used() -> None:
    device = FakeDevice()
    a = allocator(device)
    a.free(a.alloc(1000))
    a.alloc(2000)
    assert device.calls["alloc"] == 2


def test_statistics_count_every_byte() -> None:
    device = FakeDevice()
    a = allocator(device)
    x, y = a.alloc(100), a.alloc(1000)
    assert (a.stats.allocated_bytes, a.stats.reserved_bytes) == (128 + 1024, 128 + 1024)
    a.free(x)
    assert (a.stats.allocated_bytes, a.stats.reserved_bytes) == (1024, 128 + 1024)
    a.alloc(70)
    assert a.stats.requests == 3
    assert a.stats.driver_allocations == 2
    assert a.stats.peak_bytes == 128 + 1024
    a.free(y)
    a.reset_peak()
    assert a.stats.peak_bytes == 128
    assert_exact(a, device)


def test_statistics_stay_exact_over_a_random_program() -> None:
    device = FakeDevice(capacity=40 * MIB)
    a = allocator(device)
    rng = random.Random(1)
    live: list[Block] = []
    for _ in range(3000):
        if live and rng.random() < 0.5:
            a.free(live.pop(rng.randrange(len(live))))
        elif rng.random() < 0.01:
            a.empty_cache()
        else:
            live.append(a.alloc(rng.choice([0, 7, 600, 5000, 60_000])))
        assert a.stats.allocated_bytes == sum(b.nbytes for b in live)
    assert_exact(a, device)


def test_an_emptied_cache_gives_every_free_block_back_and_no_other() -> None:
    device = FakeDevice()
    a = allocator(device)
    kept = a.alloc(5000)
    for block in [a.alloc(n) for n in (10, 10, 3000)]:
        a.free(block)
    a.empty_cache()
    assert list(device.memory) == [kept.handle]
    assert a.stats.driver_frees == 3
    assert_exact(a, device)


def test_the_cap_bounds_what_is_kept_not_what_is_used() -> None:
    device = FakeDevice(capacity=8 * MIB)
    a = allocator(device)
    assert a.cap == 2 * MIB  # HALON_MEMORY_FRACTION is a quarter
    blocks = [a.alloc(MIB) for _ in range(6)]
    assert a.stats.allocated_bytes == 6 * MIB
    for block in blocks:
        a.free(block)
    assert a.stats.reserved_bytes == 2 * MIB
    assert_exact(a, device)


def test_a_device_with_its_own_allocator_gets_every_request_as_it_is() -> None:
    device = FakeDevice(flags=Caps.OWN_ALLOCATOR)
    a = allocator(device)
    block = a.alloc(1001)
    assert device.held == block.nbytes == 1001
    a.free(block)
    assert device.held == 0
    assert_exact(a, device)


# -- out of memory -------------------------------------------------------------------------------
def test_a_full_device_is_flushed_and_asked_once_more() -> None:
    device = FakeDevice(capacity=4 * MIB)
    a = allocator(device)
    a.free(a.alloc(MIB))
    held = a.alloc(2 * MIB)
    device.calls.clear()
    block = a.alloc(2 * MIB)
    assert device.calls["alloc"] == 2
    assert device.calls["synchronize"] >= 1
    assert set(device.memory) == {held.handle, block.handle}
    assert a.stats.out_of_memory == 0


def test_without_room_the_error_has_the_statistics_and_the_largest_holders() -> None:
    device = FakeDevice(capacity=8 * MIB)
    a = allocator(device)
    blocks = [a.alloc(n * MIB) for n in (1, 3, 2)]
    a.free(a.alloc(MIB))
    device.calls.clear()
    with pytest.raises(OutOfMemoryError) as caught:
        a.alloc(4 * MIB)
    assert device.calls["alloc"] == 2  # exactly one retry
    text = str(caught.value)
    assert f"fake:0: out of memory: {4 * MIB} bytes asked for, {6 * MIB} in use, 0 cached" in text
    assert f"device total {8 * MIB}" in text
    assert f"largest in use: [{3 * MIB}, {2 * MIB}, {MIB}]" in text
    assert isinstance(caught.value.__cause__, MemoryError)
    assert a.stats.out_of_memory == 1
    assert a.stats.allocated_bytes == sum(b.nbytes for b in blocks)
    assert_exact(a, device)


def test_after_out_of_memory_the_device_works_on() -> None:
    device = FakeDevice(capacity=4 * MIB)
    a = allocator(device)
    block = a.alloc(3 * MIB)
    with pytest.raises(MemoryError):
        a.alloc(2 * MIB)
    a.free(block)
    assert a.alloc(4 * MIB).nbytes == 4 * MIB


# -- streams -------------------------------------------------------------------------------------
class Flag(Event):
    done = False

    def query(self) -> bool:
        return self.done

    def synchronize(self) -> None:
        self.done = True


class Asynchronous(FakeDevice):
    """Its events complete when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Flag] = []

    def create_event(self, timing: bool = False) -> Flag:
        self.events.append(Flag())
        return self.events[-1]


def test_blocks_of_one_stream_are_not_reused_on_another() -> None:
    a = allocator(Asynchronous())
    one, two = Stream(), Stream()
    block = a.alloc(100, one)
    a.free(block)
    assert a.alloc(100, two) is not block
    assert a.alloc(100, one) is block


def test_a_block_another_stream_uses_waits_for_that_streams_event() -> None:
    device = Asynchronous()
    a = allocator(device)
    block = a.alloc(100)
    a.record_stream(block, Stream())
    a.free(block)
    other = a.alloc(100)
    assert other is not block
    device.events[0].done = True
    assert a.alloc(100) is block
    assert block.waits == []


def test_the_latest_free_block_that_nobody_waits_for_is_taken() -> None:
    device = Asynchronous()
    a = allocator(device)
    blocks = [a.alloc(100) for _ in range(3)]
    a.record_stream(blocks[1], Stream())
    a.record_stream(blocks[2], Stream())
    for b in blocks:
        a.free(b)
    assert a.alloc(100) is blocks[0]
    device.events[1].done = True
    assert a.alloc(100) is blocks[2]
    assert a.alloc(100) not in blocks


def test_two_streams_are_both_waited_for() -> None:
    device = Asynchronous()
    a = allocator(device)
    block = a.alloc(100)
    a.record_stream(block, Stream())
    a.record_stream(block, Stream())
    a.free(block)
    device.events[0].done = True
    assert a.alloc(100) is not block
    device.events[1].done = True
    assert a.alloc(100) is block


def test_its_own_stream_needs_no_event() -> None:
    device = Asynchronous()
    a = allocator(device)
    stream = Stream()
    a.record_stream(a.alloc(100, stream), stream)
    assert device.events == []


def test_memory_goes_back_to_the_driver_only_after_the_event() -> None:
    device = Asynchronous()
    a = allocator(device)
    block = a.alloc(100)
    a.record_stream(block, Stream())
    a.free(block)
    a.empty_cache()
    assert device.events[0].done
    assert device.held == 0


def test_without_events_the_stream_is_waited_for() -> None:
    device = FakeDevice()
    a = allocator(device)
    block = a.alloc(100)
    a.record_stream(block, Stream())
    assert device.calls["synchronize"] == 1
    a.free(block)
    assert a.alloc(100) is block


# -- threads and collections ---------------------------------------------------------------------
def test_eight_threads_share_an_allocator() -> None:
    device = FakeDevice(capacity=64 * MIB)
    a = allocator(device)
    failures: list[str] = []
    owners: dict[int, int] = {}

    def work(me: int) -> None:
        rng = random.Random(me)
        live: list[Block] = []
        for _ in range(1500):
            if live and rng.random() < 0.5:
                block = live.pop(rng.randrange(len(live)))
                if owners.pop(block.handle) != me:
                    failures.append("a block was given to two threads")
                a.free(block)
            else:
                block = a.alloc(rng.choice([0, 100, 3000]))
                if owners.setdefault(block.handle, me) != me:
                    failures.append("a block in use was given away")
                live.append(block)
            if rng.random() < 0.005:
                a.empty_cache()
                a.largest()
        for block in live:
            owners.pop(block.handle)
            a.free(block)

    def guarded(me: int) -> None:
        try:
            work(me)
        except Exception as error:
            failures.append(repr(error))

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []
    assert a.stats.allocated_bytes == 0
    assert_exact(a, device)


class Holder:
    """Garbage in a cycle whose collection frees a block and makes the next piece of garbage."""

    kept: list[object] = []

    def __init__(self, a: CachingAllocator, blocks: list[Block]) -> None:
        self.me, self.a, self.blocks = self, a, blocks

    def __del__(self) -> None:
        if self.__dict__.get("blocks"):
            self.a.free(self.blocks.pop())
            Holder(self.a, self.blocks)
            # two more containers than were freed: the next one made collects again
            self.kept.extend(Holder.__new__(Holder) for _ in range(2))


def collecting_all_the_time(a: CachingAllocator, blocks: list[Block], work: object) -> None:
    """Run ``work`` while every allocation of a container collects garbage that frees a block."""
    before = gc.get_threshold()
    gc.collect()
    Holder(a, blocks)
    gc.set_threshold(1)
    try:
        work()  # type: ignore[operator]
    finally:
        gc.set_threshold(*before)
        Holder.kept.clear()
    while blocks:
        gc.collect()


def test_a_collection_inside_alloc_may_free() -> None:
    class Collects(FakeDevice):
        def alloc(self, nbytes: int, kind: object = 0) -> int:
            gc.collect()
            return super().alloc(nbytes)

    device = Collects()
    a = allocator(device)

    class Owner:
        def __init__(self) -> None:
            self.block, self.me = a.alloc(100), self

        def __del__(self) -> None:
            a.free(self.block)

    gone = weakref.ref(Owner())
    a.alloc(5000)  # collects the owner while the allocator is locked
    assert gone() is None
    assert a.stats.allocated_bytes == size_class(5000)
    assert_exact(a, device)


def test_collections_inside_empty_cache_lose_no_block() -> None:
    device = FakeDevice()
    a = allocator(device)
    blocks = [a.alloc(64 * (i % 90 + 1)) for i in range(400)]
    for _ in range(40):
        a.free(blocks.pop())
    collecting_all_the_time(a, blocks, lambda: [a.empty_cache() for _ in range(20)])
    assert a.stats.allocated_bytes == 0
    a.empty_cache()
    assert a.stats.reserved_bytes == 0
    assert device.memory == {}


def test_collections_during_allocation_keep_the_statistics_exact() -> None:
    device = FakeDevice()
    a = allocator(device)
    blocks = [a.alloc(64 * (i % 8 + 1)) for i in range(300)]
    made: list[Block] = []
    collecting_all_the_time(
        a, blocks, lambda: made.extend(a.alloc(64 * (i % 8 + 1)) for i in range(100))
    )
    assert len({b.handle for b in made}) == 100
    assert a.stats.allocated_bytes == sum(b.nbytes for b in made)
    assert_exact(a, device)


# -- through tensors -----------------------------------------------------------------------------
def test_a_program_that_repeats_itself_allocates_nothing_new() -> None:
    from halon.hal.registry import host

    def step() -> float:
        x = halon.ones(100, 100)
        return (x @ x + 1).sum().item()

    step()
    before = host().allocator.stats.driver_allocations
    for _ in range(5):
        step()
    assert host().allocator.stats.driver_allocations == before


def test_a_tensor_gives_its_memory_back_when_it_dies() -> None:
    from halon.hal.registry import host

    gc.collect()
    before = host().allocator.stats.allocated_bytes
    x = halon.empty(1 << 18)
    assert host().allocator.stats.allocated_bytes == before + MIB
    view = x[5:]
    del x
    assert host().allocator.stats.allocated_bytes == before + MIB
    del view
    assert host().allocator.stats.allocated_bytes == before


def test_a_user_sees_out_of_memory_as_either_builtin() -> None:
    for builtin in (RuntimeError, MemoryError, halon.OutOfMemoryError):
        with pytest.raises(builtin, match=re.escape("cpu: out of memory: 4611686018427387904")):
            halon.empty(1 << 60)
