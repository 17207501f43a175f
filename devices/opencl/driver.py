"""The OpenCL device: memory, queues, events and the launcher of PK kernels."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import numpy as np

from halon.devices.opencl import platforms
from halon.devices.opencl.kernels import rows
from halon.devices.opencl.launcher import Kernel, KernelPool
from halon.devices.opencl.programs import Programs
from halon.devices.opencl.streams import OpenCLEvent, OpenCLStream
from halon.hal.driver import Device, DeviceDriver, Event, Stream
from halon.hal.errors import (
    DeviceExecutionError,
    DeviceLost,
    HalInvalidArgument,
    IndexOutOfRange,
    OutOfMemoryError,
)  # fmt: skip
from halon.hal.properties import AmpPolicy, Caps, DeviceProps, MemKind
from halon.kernels.pk.launch import Launch, Target, flag_error, round_up

_NO_MEMORY: Final = ("MEM_OBJECT_ALLOCATION_FAILURE", "OUT_OF_RESOURCES", "OUT_OF_HOST_MEMORY",
                     "INVALID_BUFFER_SIZE")  # fmt: skip
_GRAIN: Final = 16  # bytes; the widest word a kernel touches around an element
_FLAG_WORDS: Final = 2  # code of the plan, offending index


class OpenCLDriver(DeviceDriver):
    """Finds the devices of every installed OpenCL driver."""

    name = "opencl"

    def device_count(self) -> int:
        return len(platforms.devices())

    def open(self, index: int) -> Device:
        return OpenCLDevice(platforms.devices()[index])

    def diagnose(self) -> str:
        return platforms.why_none()


class OpenCLDevice(Device):
    """One device with an in-order queue; handles are keys of a table of ``pyopencl.Buffer``."""

    _live: ClassVar[weakref.WeakSet[OpenCLDevice]] = weakref.WeakSet()

    def __init__(self, device: Any, target: Target | None = None) -> None:
        import pyopencl as cl

        self._cl = cl
        self.context = cl.Context([device])
        self.target = target or _target(cl, device)
        self.programs = Programs(self.context, device)
        self.kernels = KernelPool(self.programs)
        self._default = OpenCLStream(self.context)
        self.queue = self._default.queue
        self._streams: weakref.WeakSet[OpenCLStream] = weakref.WeakSet([self._default])
        self._buffers: dict[int, Any] = _Buffers()
        self._handles = itertools.count(1)
        self._codes = itertools.count(1)
        self._checked: weakref.WeakValueDictionary[int, Kernel] = weakref.WeakValueDictionary()
        self._flag_lock = threading.Lock()
        self._flag_armed = False
        self.flag = cl.Buffer(self.context, cl.mem_flags.READ_WRITE, 8 * _FLAG_WORDS)
        cl.enqueue_fill_buffer(self.queue, self.flag, b"\0", 0, 8 * _FLAG_WORDS)
        self.props = _props(cl, device, self.target)
        self.rows = rows(self.target.f64)
        OpenCLDevice._live.add(self)

    # -- memory ------------------------------------------------------------------------------------
    def alloc(self, nbytes: int, kind: MemKind = MemKind.DEVICE) -> int:
        flags = self._cl.mem_flags.READ_WRITE
        if kind == MemKind.PINNED:
            flags |= self._cl.mem_flags.ALLOC_HOST_PTR
        buffer = self._buffer(nbytes, flags)
        handle = next(self._handles)
        self._buffers[handle] = buffer
        return handle

    def scratch(self, nbytes: int) -> Any:
        """A buffer that a plan keeps between its steps."""
        return self._buffer(nbytes, self._cl.mem_flags.READ_WRITE)

    def _buffer(self, nbytes: int, flags: int) -> Any:
        self._buffers.check()  # type: ignore[attr-defined]
        if nbytes < 0:
            raise HalInvalidArgument(f"alloc: {nbytes} bytes")
        if nbytes > self.props.max_alloc:
            raise OutOfMemoryError(
                f"{self.props.name}: {nbytes} bytes asked, one buffer may have "
                f"{self.props.max_alloc}"
            )
        with self._errors("alloc"):
            return self._cl.Buffer(self.context, flags, max(_GRAIN, round_up(nbytes, _GRAIN)))

    def free(self, h: int) -> None:
        self._buffers.pop(h, None)

    def h2d(self, dst: int, off: int, src: memoryview, stream: Stream | None = None) -> None:
        if len(src):
            with self._errors("h2d"):
                self._cl.enqueue_copy(
                    self._queue(stream), self._buffers[dst], src, dst_offset=off, is_blocking=True
                )

    def d2h(self, dst: memoryview, src: int, off: int, stream: Stream | None = None) -> None:
        if len(dst):
            with self._errors("d2h"):
                self._cl.enqueue_copy(
                    self._queue(stream), dst, self._buffers[src], src_offset=off, is_blocking=True
                )

    def d2d(
        self, dst: int, doff: int, src: int, soff: int, nbytes: int, stream: Stream | None = None
    ) -> None:
        if not nbytes:
            return
        source, queue = self._buffers[src], self._queue(stream)
        with self._errors("d2d"):
            if dst == src and abs(doff - soff) < nbytes:  # clEnqueueCopyBuffer refuses an overlap
                if doff == soff:
                    return
                between = self.scratch(nbytes)
                self._cl.enqueue_copy(queue, between, source, byte_count=nbytes, src_offset=soff)
                source, soff = between, 0
            self._cl.enqueue_copy(
                queue, self._buffers[dst], source, byte_count=nbytes,
                src_offset=soff, dst_offset=doff,
            )  # fmt: skip

    def fill(
        self, dst: int, off: int, nbytes: int, pattern: bytes, stream: Stream | None = None
    ) -> None:
        if len(pattern) not in (1, 2, 4, 8, 16) or off % len(pattern) or nbytes % len(pattern):
            raise HalInvalidArgument(
                f"fill: a pattern of {len(pattern)} bytes at offset {off} over {nbytes} bytes; it "
                "must have 1, 2, 4, 8 or 16 bytes and divide both"
            )
        if nbytes:
            with self._errors("fill"):
                self._cl.enqueue_fill_buffer(
                    self._queue(stream), self._buffers[dst], pattern, off, nbytes
                )

    # -- order -------------------------------------------------------------------------------------
    def create_stream(self, priority: int = 0) -> Stream:
        self._buffers.check()  # type: ignore[attr-defined]
        stream = OpenCLStream(self.context)
        self._streams.add(stream)
        return stream

    def create_event(self, timing: bool = False) -> Event:
        return OpenCLEvent(self._default)

    def synchronize(self, stream: Stream | None = None) -> None:
        self._buffers.check()  # type: ignore[attr-defined]
        with self._errors("synchronize"):
            if stream is not None:
                stream.synchronize()
            else:
                for each in list(self._streams):
                    each.synchronize()
        if self._flag_armed:
            self._raise_flag()

    def _queue(self, stream: Stream | None) -> Any:
        return self.queue if stream is None else stream.queue  # type: ignore[attr-defined]

    def _raise_flag(self) -> None:
        """Read and clear the flag; raises what the kernel that set it found."""
        with self._flag_lock:
            self._flag_armed = False
            words = np.zeros(_FLAG_WORDS, np.int64)
            self._cl.enqueue_copy(self.queue, words, self.flag, is_blocking=True)
            if not words[0]:
                return
            self._cl.enqueue_fill_buffer(self.queue, self.flag, b"\0", 0, 8 * _FLAG_WORDS)
        kernel = self._checked.get(int(words[0]))
        if kernel is None:
            raise IndexOutOfRange(f"an earlier launch on {self.props.name} used a bad index")
        raise flag_error(kernel.op, kernel.checks, int(words[1]), self.props.name)

    # -- kernels -----------------------------------------------------------------------------------
    def load(self, launch: Launch, op: str) -> Kernel:
        """Compile a Launch; the result is what plans hold as ``kernel``."""
        self._buffers.check()  # type: ignore[attr-defined]
        code = next(self._codes) if launch.checks else 0
        kernel = Kernel(self, launch, op, code)
        if code:
            self._checked[code] = kernel
        return kernel

    def run_plan(
        self, plan: Any, handles: list[int], offsets: list[int], scalars: list[int | float | bool]
    ) -> None:
        """Enqueue the steps of ``plan.kernel``; the hot path of every operation."""
        kernel: Kernel = plan.kernel
        buffers = self._buffers
        try:
            if kernel.lock is None:
                kernel.steps[0].launch(buffers, handles, offsets, scalars)
            else:
                with kernel.lock:
                    for step in kernel.steps:
                        step.launch(buffers, handles, offsets, scalars)
        except self._cl.Error as error:
            raise _translated(error, kernel.op) from error
        if kernel.code:
            self._flag_armed = True

    def close(self) -> None:
        if not isinstance(self._buffers, _Dead):
            self.queue.finish()
        self._buffers = _Dead("the device was closed")

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (self._cl.Error, MemoryError) as error:
            raise _translated(error, what) from error


class _Buffers(dict[int, Any]):
    """Handle → buffer."""

    def __missing__(self, handle: int) -> Any:
        raise HalInvalidArgument(f"handle {handle} is not a live buffer of this device")

    def check(self) -> None: ...


class _Dead(_Buffers):
    """Takes the table's place once the device is gone, so that the hot path need not ask."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self.reason = reason

    def __missing__(self, handle: int) -> Any:
        raise DeviceLost(self.reason)

    def check(self) -> None:
        raise DeviceLost(self.reason)


def _after_fork() -> None:
    for device in list(OpenCLDevice._live):
        device._buffers = _Dead(
            f"{device.props.name} was opened before fork() and is dead in the child process: start "
            'workers with multiprocessing.get_context("spawn")'
        )


os.register_at_fork(after_in_child=_after_fork)


def _translated(error: Exception, what: str) -> Exception:
    text = f"{what}: {error}"
    if isinstance(error, MemoryError) or any(name in str(error) for name in _NO_MEMORY):
        return OutOfMemoryError(text)
    return DeviceExecutionError(text)


def _target(cl: Any, device: Any) -> Target:
    widths = 4 * device.native_vector_width_float, 8 * device.native_vector_width_double
    return Target(
        cpu=not device.type & cl.device_type.GPU,
        units=device.max_compute_units,
        vector_bytes=min(64, max(16, *widths)),
        f64="cl_khr_fp64" in device.extensions,
        atomics64="cl_khr_int64_base_atomics" in device.extensions,
    )


def _props(cl: Any, device: Any, target: Target) -> DeviceProps:
    compute = {"bool", "u8", "i32", "i64", "f16", "f32"} | ({"f64"} if target.f64 else set())
    gpu = bool(device.type & cl.device_type.GPU)
    return DeviceProps(
        name=f"{device.name.strip()} ({device.platform.name.strip()})",
        vendor=device.vendor.strip(),
        arch=device.version.strip(),
        driver_version=device.driver_version.strip(),
        mem_total=device.global_mem_size,
        mem_free=device.global_mem_size,
        max_alloc=device.max_mem_alloc_size,
        align=max(64, device.mem_base_addr_align // 8),
        compute_dtypes=frozenset(compute),
        caps=Caps.ASYNC | Caps.THREADSAFE,
        amp=AmpPolicy() if gpu else None,
    )
