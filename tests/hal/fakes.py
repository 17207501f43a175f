"""Devices made up for the tests: memory behind keys, operations by name, faults on demand."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import halon
from halon.devices.reference import kernels
from halon.hal.dtypes import SHORT
from halon.hal.op_desc import OpCap, OpDesc, TensorRef
from halon.hal.properties import ANY, Caps, DeviceProps, Layout
from halon.hal.registry import registry

_numbers = itertools.count()


class FakeDevice(halon.Device):
    """Runs the operations of ``caps`` with reference's functions; counts every call it gets.

    Args:
        caps: capability rows, as ``op_caps`` returns them.
        flags: capability bits of the device.
        capacity: bytes it can hold; allocating more raises MemoryError.
    """

    def __init__(
        self, caps: Iterable[OpCap] = (), flags: Caps = Caps.THREADSAFE, capacity: int = 1 << 40
    ) -> None:
        self.listed = tuple(caps)
        compute = frozenset(d for row in self.listed for d in row.in_dtypes)
        self.props = DeviceProps(
            name="Fake", mem_total=capacity, compute_dtypes=compute, caps=flags
        )
        self.capacity = capacity
        self.memory: dict[int, np.ndarray] = {}
        self.keys = itertools.count(1)
        self.calls: Counter[str] = Counter()
        self.ran: list[str] = []

    @property
    def held(self) -> int:
        """Bytes allocated and not freed."""
        return sum(block.size for block in list(self.memory.values()))

    def alloc(self, nbytes: int, kind: Any = 0) -> int:
        self.calls["alloc"] += 1
        if self.held + nbytes > self.capacity:
            raise MemoryError(f"{nbytes} bytes do not fit")
        key = next(self.keys)
        self.memory[key] = np.full(nbytes, 0xA5, np.uint8)
        return key

    def free(self, h: int) -> None:
        self.calls["free"] += 1
        del self.memory[h]

    def h2d(self, dst: int, off: int, src: memoryview, stream: Any = None) -> None:
        self.calls["h2d"] += 1
        self.memory[dst][off : off + len(src)] = np.frombuffer(src, np.uint8)

    def d2h(self, dst: memoryview, src: int, off: int, stream: Any = None) -> None:
        self.calls["d2h"] += 1
        np.frombuffer(dst, np.uint8)[:] = self.memory[src][off : off + len(dst)]

    def synchronize(self, stream: Any = None) -> None:
        self.calls["synchronize"] += 1

    def op_caps(self) -> Sequence[OpCap]:
        return self.listed

    def op_run(self, op: OpDesc, stream: Any = None) -> None:
        self.calls["op_run"] += 1
        self.ran.append(op.op)
        ins, outs = [self.array(t) for t in op.ins], [self.array(t) for t in op.outs]
        kernels.run(op.op, ins, outs, op.attrs)

    def array(self, t: TensorRef) -> np.ndarray:
        dtype = SHORT[t.dtype].numpy
        strides = tuple(s * dtype.itemsize for s in t.strides)
        return np.ndarray(t.shape, dtype, self.memory[t.buf].data, t.byte_offset, strides)


class FakeDriver(halon.DeviceDriver):
    """A driver of devices that exist already."""

    name = "fake"

    def __init__(self, *devices: halon.Device) -> None:
        self.devices = devices

    def device_count(self) -> int:
        return len(self.devices)

    def open(self, index: int) -> halon.Device:
        return self.devices[index]


def cap(
    op: str, dtypes: str, result: str | None = None, layouts: Layout = ANY,
    rank: tuple[int, int] = (0, 8),
) -> OpCap:  # fmt: skip
    """A capability row; dtypes are written ``"f32 i32"``, ``result`` defaults to the same."""
    outs = dtypes if result is None else result
    return OpCap(op, frozenset(dtypes.split()), frozenset(outs.split()), layouts, rank)


def register(*devices: halon.Device) -> str:
    """Register devices under a name no test used before; returns ``"name:0"``."""
    name = f"fake{next(_numbers)}"
    registry.register(name, FakeDriver(*devices))
    return f"{name}:0"


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, with no HALON_ variable but the given ones."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HALON_")}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120,
        env={**clean, **environment},
    )  # fmt: skip


def output(code: str, **environment: str) -> str:
    """What a program prints; its error output is shown if it fails."""
    done = python(code, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout
