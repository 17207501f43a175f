"""Open devices: emulation, lost devices, failing kernels, threads, forks, empty buffers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import halon
from halon.hal.errors import DeviceLost, DriverInternalError
from halon.hal.open_device import OpenDevice
from halon.hal.properties import Caps
from halon.hal.registry import registry
from tests.hal.fakes import FakeDevice, cap, output, register

ARITHMETIC = (cap("add", "f32"), cap("mul", "f32"), cap("copy", "f32"), cap("fill", "f32"))


def opened(device: FakeDevice) -> OpenDevice:
    return OpenDevice("fake", 0, device, False)


def filled(device: OpenDevice, data: bytes) -> int:
    handle = device.impl.alloc(len(data))
    device.write(handle, 0, memoryview(data))
    return handle


def content(device: OpenDevice, handle: int, nbytes: int, offset: int = 0) -> bytes:
    into = bytearray(nbytes)
    device.read(handle, offset, memoryview(into))
    return bytes(into)


# -- emulation -----------------------------------------------------------------------------------
def test_a_copy_inside_a_device_without_d2d_goes_through_the_host_and_is_counted() -> None:
    device = opened(FakeDevice())
    source, target = filled(device, b"0123456789"), filled(device, b"..........")
    device.copy(target, 2, source, 5, 4)
    assert content(device, target, 10) == b"..5678...."
    assert device.staged_bytes == 8


def test_a_copy_inside_a_device_with_d2d_is_its_own() -> None:
    class Copies(FakeDevice):
        def d2d(
            self, dst: int, doff: int, src: int, soff: int, nbytes: int, stream: Any = None
        ) -> None:
            self.calls["d2d"] += 1
            self.memory[dst][doff : doff + nbytes] = self.memory[src][soff : soff + nbytes]

    device = opened(Copies())
    source, target = filled(device, b"0123456789"), filled(device, b"..........")
    device.impl.calls.clear()
    device.copy(target, 0, source, 1, 9)
    assert dict(device.impl.calls) == {"d2d": 1}
    assert device.staged_bytes == 0
    assert content(device, target, 10) == b"123456789."


def test_tensors_between_two_devices_are_staged_and_counted_on_both() -> None:
    here, there = register(FakeDevice(), FakeDevice()), ""
    there = here[:-1] + "1"
    x = halon.arange(10, dtype=halon.int32).to(here)
    moved = x.to(there)
    assert moved.tolist() == list(range(10))
    assert str(moved.device) == there
    assert [registry.open(d).staged_bytes for d in (here, there)] == [40, 40]


def test_a_peer_copy_is_asked_of_the_source_with_the_destination_as_argument() -> None:
    class Peer(FakeDevice):
        def peer_copy(
            self, dst_dev: Any, dst: int, doff: int, src: int, soff: int, nbytes: int,
            stream: Any = None,
        ) -> None:  # fmt: skip
            self.calls["peer_copy"] += 1
            data = self.memory[src][soff : soff + nbytes]
            dst_dev.memory[dst][doff : doff + nbytes] = data

    one, two = Peer(), Peer()
    one.keys = iter(range(100, 200))  # handles of the two never agree by chance
    here = register(one, two)
    x = halon.arange(6, dtype=halon.float32).to(here)[2:]
    moved = x.to(here[:-1] + "1")
    assert moved.tolist() == [2, 3, 4, 5]
    assert (one.calls["peer_copy"], two.calls["peer_copy"]) == (1, 0)
    assert registry.open(here).staged_bytes == 0


# -- empty buffers -------------------------------------------------------------------------------
def test_no_bytes_are_never_copied() -> None:
    device = opened(FakeDevice())
    handle = device.impl.alloc(0)
    device.write(handle, 0, memoryview(b""))
    device.read(handle, 0, memoryview(bytearray(0)))
    device.copy(handle, 0, handle, 0, 0)
    assert device.impl.calls["h2d"] == device.impl.calls["d2h"] == 0


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0, 3)])
def test_empty_tensors_move_and_compute(shape: tuple[int, ...]) -> None:
    name = register(FakeDevice(ARITHMETIC))
    x = halon.empty(*shape).to(name)
    y = (x + x) * x
    assert tuple(y.cpu().shape) == shape
    assert y.tolist() == np.empty(shape).tolist()
    assert x.to("cpu").to(name).numel() == 0


def test_an_empty_tensor_falls_back_too() -> None:
    name = register(FakeDevice())
    with halon.fallback("silent"):
        x = halon.empty(0, 3).to(name)
        assert x.sum(0).tolist() == [0, 0, 0]
        assert x.exp().tolist() == []


# -- failures ------------------------------------------------------------------------------------
class Failing(FakeDevice):
    """Raises what the test puts into ``fault``, in every call but ``free``."""

    fault: Exception | None = None

    def _fail(self) -> None:
        if self.fault is not None:
            self.calls["failed"] += 1
            raise self.fault

    def op_run(self, op: Any, stream: Any = None) -> None:
        self._fail()
        super().op_run(op)

    def h2d(self, dst: int, off: int, src: memoryview, stream: Any = None) -> None:
        self._fail()
        super().h2d(dst, off, src)

    def d2h(self, dst: memoryview, src: int, off: int, stream: Any = None) -> None:
        self._fail()
        super().d2h(dst, src, off)

    def synchronize(self, stream: Any = None) -> None:
        self._fail()


@pytest.mark.parametrize("error", [DriverInternalError, ValueError, KeyError])
def test_a_kernel_that_raises_leaves_the_device_usable(error: type[Exception]) -> None:
    device = Failing(ARITHMETIC)
    x = halon.ones(3).to(register(device))
    live = registry.open(x.device).allocator.stats.allocated_bytes
    device.fault = error("E42")
    with pytest.raises(error, match="E42"):
        x + x
    with pytest.raises(error, match="E42"):
        x.cpu()
    device.fault = None
    assert (x + x).tolist() == [2, 2, 2]
    assert registry.open(x.device).allocator.stats.allocated_bytes == live


def test_an_in_place_kernel_that_raises_counts_no_write() -> None:
    device = Failing(ARITHMETIC)
    x = halon.ones(3).to(register(device))
    device.fault = DriverInternalError("E42")
    with pytest.raises(DriverInternalError):
        x.add_(x)
    device.fault = None
    x.add_(x)
    assert x.tolist() == [2, 2, 2]


CALLS: dict[str, Callable[[Any], Any]] = {
    "an operation": lambda x: x + x, "a write in place": lambda x: x.add_(x),
    "a read": lambda x: x.cpu(), "a copy in": lambda x: halon.ones(2).to(x.device),
}  # fmt: skip


@pytest.mark.parametrize("first", CALLS)
@pytest.mark.parametrize("later", CALLS)
def test_a_lost_device_stays_lost_and_is_not_called_again(first: str, later: str) -> None:
    device = Failing(ARITHMETIC)
    x = halon.ones(3).to(register(device))
    x.add_(x)
    device.fault = DeviceLost("fell off the bus")
    with pytest.raises(DeviceLost, match="fell off the bus"):
        CALLS[first](x)
    device.fault = None
    before = dict(device.calls)
    with pytest.raises(DeviceLost, match="fell off the bus"):
        CALLS[later](x)
    assert {k: v for k, v in device.calls.items() if k not in ("alloc", "free")} == {
        k: v for k, v in before.items() if k not in ("alloc", "free")
    }


def test_losing_one_device_leaves_the_others() -> None:
    lost, well = Failing(ARITHMETIC), FakeDevice(ARITHMETIC)
    name = register(lost, well)
    x, y = halon.ones(2).to(name), halon.ones(2).to(name[:-1] + "1")
    lost.fault = DeviceLost("gone")
    with pytest.raises(DeviceLost):
        x + x
    assert (y + y).tolist() == [2, 2]


# -- forks ---------------------------------------------------------------------------------------
FORK = """
import os
import sys
import warnings
warnings.simplefilter("ignore")
import halon
from halon.hal.properties import Caps
from tests.hal.fakes import FakeDevice, cap, register
device = FakeDevice(
    [cap("add", "f32"), cap("copy", "f32")], flags=Caps.THREADSAFE | Caps.{flag}
)
x = halon.ones(3).to(register(device))
y = x + x
x.add_(x)
sys.stdout.flush()
child = os.fork()
if child == 0:
    for name, call in (("op", lambda: x + x), ("in place", lambda: x.add_(x)),
                       ("read", lambda: y.tolist()),
                       ("copy in", lambda: halon.ones(1).to(x.device))):
        try:
            call()
            print(name, "worked")
        except halon.DeviceLost as error:
            print(name, "lost:", error)
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
print("parent", (x + y).tolist())
"""


def forked(flag: str) -> list[str]:
    import os
    from pathlib import Path

    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    return output(FORK.replace("{flag}", flag), PYTHONPATH=path).splitlines()


def test_a_device_is_dead_in_a_forked_child_which_is_told_to_spawn() -> None:
    lines = forked("DETERMINISTIC")
    assert [line.split(" lost:")[0] for line in lines[:4]] == ["op", "in place", "read", "copy in"]
    assert all("was opened before fork()" in line for line in lines[:4])
    assert all('multiprocessing.get_context("spawn")' in line for line in lines[:4])


def test_a_fork_leaves_the_parents_device_alive() -> None:
    assert forked("DETERMINISTIC")[-1] == "parent [4.0, 4.0, 4.0]"


def test_a_fork_safe_device_works_in_the_child() -> None:
    lines = forked("FORK_SAFE")
    assert lines[:4] == ["op worked", "in place worked", "read worked", "copy in worked"]


# -- threads -------------------------------------------------------------------------------------
class Alone(FakeDevice):
    """Notices any two calls that overlap."""

    def __init__(self, flags: Caps) -> None:
        super().__init__(ARITHMETIC, flags)
        self.inside: list[tuple[int, str]] = []
        self.overlaps: set[tuple[str, ...]] = set()

    @contextmanager
    def _alone(self, what: str) -> Iterator[None]:
        me = threading.get_ident(), what
        self.inside.append(me)
        time.sleep(1e-5)  # lets another thread in
        for thread, other in list(self.inside):
            if thread != me[0]:
                self.overlaps.add(tuple(sorted((what, other))))
        try:
            yield
        finally:
            self.inside.remove(me)

    def op_run(self, op: Any, stream: Any = None) -> None:
        with self._alone("op_run"):
            super().op_run(op)

    def h2d(self, dst: int, off: int, src: memoryview, stream: Any = None) -> None:
        with self._alone("h2d"):
            super().h2d(dst, off, src)

    def d2h(self, dst: memoryview, src: int, off: int, stream: Any = None) -> None:
        with self._alone("d2h"):
            super().d2h(dst, src, off)

    def alloc(self, nbytes: int, kind: Any = 0) -> int:
        with self._alone("alloc"):
            return super().alloc(nbytes)

    def synchronize(self, stream: Any = None) -> None:
        with self._alone("synchronize"):
            pass


def in_threads(count: int, work: Callable[[int], Any]) -> None:
    failures: list[BaseException] = []

    def guarded(i: int) -> None:
        try:
            work(i)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures


def test_a_thousand_operations_of_eight_threads_never_overlap_on_a_device_that_takes_one() -> None:
    device = Alone(Caps(0))
    name = register(device)
    x = halon.ones(4).to(name)
    results: list[Any] = [None] * 8

    def work(i: int) -> None:
        y = x
        for _ in range(125):
            y = y + x
        results[i] = y

    in_threads(8, work)
    assert device.calls["op_run"] >= 1000
    assert ("op_run", "op_run") not in device.overlaps
    assert [r.tolist() for r in results] == [[126.0] * 4] * 8


def test_no_two_calls_of_any_kind_overlap_on_a_device_that_takes_one() -> None:
    device = Alone(Caps(0))
    name = register(device)

    def work(i: int) -> None:
        for n in range(30):
            x = halon.full((n + 1,), float(i)).to(name)
            assert (x + x).tolist() == [2.0 * i] * (n + 1)

    in_threads(8, work)
    assert device.overlaps == set()


def test_calls_on_a_thread_safe_device_may_overlap() -> None:
    device = Alone(Caps.THREADSAFE)
    x = halon.ones(4).to(register(device))
    in_threads(8, lambda i: [x + x for _ in range(100)])
    assert ("op_run", "op_run") in device.overlaps


def test_two_devices_of_a_kind_run_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=20)

    class Meets(FakeDevice):
        def op_run(self, op: Any, stream: Any = None) -> None:
            if op.op == "add":
                both.wait()  # breaks unless the other device is running too
            super().op_run(op)

    name = register(Meets(ARITHMETIC, Caps(0)), Meets(ARITHMETIC, Caps(0)))
    xs = [halon.ones(2).to(name[:-1] + str(i)) for i in range(2)]
    in_threads(2, lambda i: xs[i] + xs[i])


def test_threads_may_fall_back_at_once_and_every_call_is_counted() -> None:
    name = register(FakeDevice())
    x = halon.ones(4).to(name)
    with halon.fallback("silent"):
        x.exp()
        in_threads(8, lambda i: [x.exp() for _ in range(50)])
    (stat,) = halon.fallback_counters(name).values()
    assert stat.calls == 401
    assert stat.d2h_bytes == stat.h2d_bytes == 401 * 16
