"""An open device: the driver's Device with its allocator, identity and lifetime checks."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from halon.hal.allocator import CachingAllocator
from halon.hal.device_name import device
from halon.hal.driver import Device, Stream
from halon.hal.errors import DeviceLost, NotProvided
from halon.hal.properties import Caps


class OpenDevice:
    """What the dispatcher holds for ``"npu:0"``; compared by identity.

    Attributes:
        name: the device's name with its index.
        impl: the driver's Device.
        planner: set by ``halon.devices.planner`` at open; turns an OpSpec into a launch.
    """

    __slots__ = (
        "__weakref__",
        "allocator",
        "compute_dtypes",
        "device",
        "host_visible",
        "impl",
        "index",
        "is_host",
        "lock",
        "lost",
        "name",
        "planner",
        "props",
        "serial",
        "staged_bytes",
        "stream",
    )  # fmt: skip

    def __init__(self, name: str, index: int, impl: Device, is_host: bool) -> None:
        self.name = name if is_host and index == 0 else f"{name}:{index}"
        self.device = device(name) if is_host and index == 0 else device(name, index)
        self.index = index
        self.impl = impl
        self.props = impl.props
        self.compute_dtypes = impl.props.compute_dtypes
        self.host_visible = bool(impl.props.caps & Caps.HOST_VISIBLE)
        self.is_host = is_host
        self.lock = threading.RLock()
        self.serial = not impl.props.caps & Caps.THREADSAFE
        self.allocator = CachingAllocator(impl, self.name, self.lock if self.serial else None)
        self.planner: Any = None
        self.lost = ""
        self.staged_bytes = 0
        self.stream: Stream | None = None
        if not impl.props.caps & Caps.FORK_SAFE:
            os.register_at_fork(after_in_child=self._lost_by_fork)

    def _lost_by_fork(self) -> None:
        self.lost = (
            f"{self.name} was opened before fork() and is dead in the child process: start workers "
            'with multiprocessing.get_context("spawn")'
        )

    def check(self) -> None:
        """Raise DeviceLost if the device cannot be used any more."""
        if self.lost:
            raise DeviceLost(self.lost)

    @contextmanager
    def call(self) -> Iterator[None]:
        """Around calls into the driver: alone where it takes one at a time; once lost, for good."""
        self.check()
        with self.lock if self.serial else nullcontext():
            try:
                yield
            except DeviceLost as error:
                self.lost = self.lost or str(error)
                raise

    def read(self, handle: int, offset: int, into: memoryview) -> None:
        """Blocking copy to the host; ``into`` is a writable, flat byte view."""
        with self.call():
            if len(into):
                self.impl.d2h(into, handle, offset, self.stream)
            self.impl.synchronize(self.stream)

    def write(self, handle: int, offset: int, data: memoryview) -> None:
        """Copy from the host; ``data`` may be reused at once."""
        with self.call():
            if len(data):
                self.impl.h2d(handle, offset, data, self.stream)

    def copy(self, dst: int, doff: int, src: int, soff: int, nbytes: int) -> None:
        """Copy inside the device, through the host where the driver has no d2d."""
        self.check()
        if not nbytes:
            return
        try:
            with self.call():
                self.impl.d2d(dst, doff, src, soff, nbytes, self.stream)
        except NotProvided:
            bounce = memoryview(bytearray(nbytes))
            self.read(src, soff, bounce)
            self.write(dst, doff, bounce)
            self.staged_bytes += 2 * nbytes

    def synchronize(self) -> None:
        """Wait for all work and raise what it deferred."""
        with self.call():
            self.impl.synchronize()

    def __repr__(self) -> str:
        return f"<{self.name}: {self.props.name}>"
