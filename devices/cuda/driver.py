"""The CUDA device over CuPy: memory, streams, events and launches of the PK kernels.

CuPy is imported at the first use; ``CudaDriver(api)`` takes any module of its shape, which is how
the host logic is tested without a GPU.
"""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import numpy as np

from halon.devices.cuda.kernels import rows
from halon.devices.cuda.launcher import Kernel
from halon.devices.cuda.streams import CudaEvent, CudaStream
from halon.hal.driver import Device, DeviceDriver, Event, Stream
from halon.hal.errors import (
    CompileError,
    DeviceExecutionError,
    DeviceLost,
    HalInvalidArgument,
    IndexOutOfRange,
    NotProvided,
    OutOfMemoryError,
)  # fmt: skip
from halon.hal.properties import AmpPolicy, Caps, DeviceProps, MemKind
from halon.kernels.pk.launch import Launch, Target, flag_error, round_up
from halon.kernels.pk.nvrtc import OPTIONS

_GRAIN: Final = 16  # bytes; the widest word a kernel touches around an element
_FLAG_BYTES: Final = 16  # code of the plan, offending index


class CudaDriver(DeviceDriver):
    """Finds NVIDIA GPUs through CuPy, whatever its wheel is called."""

    name = "cuda"

    def __init__(self, api: Any = None) -> None:
        self._api = api
        self._why = ""

    def device_count(self) -> int:
        try:
            count = self._module().cuda.runtime.getDeviceCount()
        except ImportError as error:
            self._why = f'CuPy is not installed ({error}): pip install "halon[cuda]"'
            return 0
        except Exception as error:  # CUDARuntimeError: no driver, or one too old
            self._why = (
                f"CuPy found no usable NVIDIA driver ({error}): install or update the driver; "
                "`nvidia-smi` must list the GPU"
            )
            return 0
        self._why = "" if count else "the NVIDIA driver lists no GPU; see `nvidia-smi`"
        return count

    def open(self, index: int) -> Device:
        return CudaDevice(self._module(), index)

    def diagnose(self) -> str:
        self.device_count()
        return self._why

    def _module(self) -> Any:
        if self._api is None:
            import cupy

            self._api = cupy
        return self._api


class CudaDevice(Device):
    """One GPU; handles are keys of a table of CuPy memory pointers."""

    _live: ClassVar[weakref.WeakSet[CudaDevice]] = weakref.WeakSet()

    def __init__(self, api: Any, index: int) -> None:
        self._api = api
        self._runtime = api.cuda.runtime
        self._device = api.cuda.Device(index)
        self._lost = ""
        with self._device:
            found = self._runtime.getDeviceProperties(index)
            self.target = Target(cpu=False, units=found["multiProcessorCount"])
            self.props = _props(found, self._runtime)
            self._default = CudaStream(api)
            self.flag = self._allocate(_FLAG_BYTES)
            self._runtime.memsetAsync(self.flag.ptr, 0, _FLAG_BYTES, self._default.raw.ptr)
        self._buffers: dict[int, Any] = {}
        self._handles = itertools.count(1)
        self._codes = itertools.count(1)
        self._modules: dict[str, Any] = {}
        self._checked: weakref.WeakValueDictionary[int, Kernel] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()
        self._flag_armed = False
        self.rows = rows(f64=True)
        CudaDevice._live.add(self)

    # -- memory ------------------------------------------------------------------------------------
    def alloc(self, nbytes: int, kind: MemKind = MemKind.DEVICE) -> int:
        if nbytes < 0:
            raise HalInvalidArgument(f"alloc: {nbytes} bytes")
        with self._use("alloc"):
            pointer = self._allocate(nbytes)
        handle = next(self._handles)
        self._buffers[handle] = pointer
        return handle

    def _allocate(self, nbytes: int) -> Any:
        memory = self._api.cuda.Memory(max(_GRAIN, round_up(nbytes, _GRAIN)))
        return self._api.cuda.MemoryPointer(memory, 0)

    def free(self, h: int) -> None:
        self._buffers.pop(h, None)

    def h2d(self, dst: int, off: int, src: memoryview, stream: Stream | None = None) -> None:
        if not len(src):
            return
        host = np.frombuffer(src, np.uint8)
        with self._use("h2d"):
            raw = self._raw(stream)
            kind = self._runtime.memcpyHostToDevice
            self._runtime.memcpyAsync(
                self._pointer(dst) + off, host.ctypes.data, host.nbytes, kind, raw.ptr
            )
            raw.synchronize()

    def d2h(self, dst: memoryview, src: int, off: int, stream: Stream | None = None) -> None:
        if not len(dst):
            return
        host = np.frombuffer(dst, np.uint8)
        with self._use("d2h"):
            raw = self._raw(stream)
            kind = self._runtime.memcpyDeviceToHost
            self._runtime.memcpyAsync(
                host.ctypes.data, self._pointer(src) + off, host.nbytes, kind, raw.ptr
            )
            raw.synchronize()

    def d2d(
        self, dst: int, doff: int, src: int, soff: int, nbytes: int, stream: Stream | None = None
    ) -> None:
        if not nbytes:
            return
        with self._use("d2d"):
            raw, kind = self._raw(stream), self._runtime.memcpyDeviceToDevice
            source = self._pointer(src) + soff
            if dst == src and abs(doff - soff) < nbytes:  # undefined where the ranges overlap
                between = self._allocate(nbytes)
                self._runtime.memcpyAsync(between.ptr, source, nbytes, kind, raw.ptr)
                self._runtime.memcpyAsync(
                    self._pointer(dst) + doff, between.ptr, nbytes, kind, raw.ptr
                )
                raw.synchronize()  # before ``between`` is freed
                return
            self._runtime.memcpyAsync(self._pointer(dst) + doff, source, nbytes, kind, raw.ptr)

    def fill(
        self, dst: int, off: int, nbytes: int, pattern: bytes, stream: Stream | None = None
    ) -> None:
        if len(set(pattern)) != 1:
            raise NotProvided("fill with a pattern of different bytes")
        if nbytes:
            with self._use("fill"):
                self._runtime.memsetAsync(
                    self._pointer(dst) + off, pattern[0], nbytes, self._raw(stream).ptr
                )

    def _pointer(self, handle: int) -> int:
        pointer = self._buffers.get(handle)
        if pointer is None:
            raise HalInvalidArgument(f"handle {handle} is not a live buffer of this device")
        return pointer.ptr

    # -- order -------------------------------------------------------------------------------------
    def create_stream(self, priority: int = 0) -> Stream:
        with self._use("create_stream"):
            return CudaStream(self._api)

    def create_event(self, timing: bool = False) -> Event:
        with self._use("create_event"):
            return CudaEvent(self._api, self._default, timing)

    def synchronize(self, stream: Stream | None = None) -> None:
        with self._use("synchronize"):
            if stream is not None:
                stream.synchronize()
            else:
                self._device.synchronize()
        if self._flag_armed:
            self._raise_flag()

    def _raw(self, stream: Stream | None) -> Any:
        return (stream or self._default).raw  # type: ignore[attr-defined, union-attr]

    def _raise_flag(self) -> None:
        """Read and clear the flag; raises what the kernel that set it found."""
        words = np.zeros(2, np.int64)
        with self._lock, self._use("bounds flag"):
            self._flag_armed = False
            raw, kind = self._default.raw, self._runtime.memcpyDeviceToHost
            self._runtime.memcpyAsync(words.ctypes.data, self.flag.ptr, _FLAG_BYTES, kind, raw.ptr)
            raw.synchronize()
            if words[0]:
                self._runtime.memsetAsync(self.flag.ptr, 0, _FLAG_BYTES, raw.ptr)
        if words[0]:
            kernel = self._checked.get(int(words[0]))
            if kernel is None:
                raise IndexOutOfRange(f"an earlier launch on {self.props.name} used a bad index")
            raise flag_error(kernel.op, kernel.checks, int(words[1]), self.props.name)

    # -- kernels -----------------------------------------------------------------------------------
    def load(self, launch: Launch, op: str) -> Kernel:
        """Compile a Launch; the result is what plans hold as ``kernel``."""
        with self._use(f"compile {op}"):
            functions = [self._module(s.source).get_function(s.entry) for s in launch.steps]
            scratch = [self._allocate(n) for n in launch.scratch]
        code = next(self._codes) if launch.checks else 0
        kernel = Kernel(launch, functions, scratch, self.flag, op, code)
        if code:
            self._checked[code] = kernel
        return kernel

    def _module(self, source: str) -> Any:
        with self._lock:
            module = self._modules.get(source)
            if module is None:
                module = self._api.RawModule(code=source, options=OPTIONS, backend="nvrtc")
                try:
                    module.compile()
                except Exception as error:
                    raise CompileError(f"NVRTC refused a kernel:\n{source}\n{error}") from None
                self._modules[source] = module
            return module

    def run_plan(
        self, plan: Any, handles: list[int], offsets: list[int], scalars: list[int | float | bool]
    ) -> None:
        """Enqueue the steps of ``plan.kernel``; the hot path of every operation."""
        kernel: Kernel = plan.kernel
        with self._use(kernel.op), kernel.lock, self._default.raw:
            for step in kernel.steps:
                step.launch(self._buffers, handles, offsets, scalars)
        if kernel.code:
            self._flag_armed = True

    def close(self) -> None:
        if not self._lost:
            self._device.synchronize()
            self._buffers.clear()
        self._lost = "the device was closed"

    @contextmanager
    def _use(self, what: str) -> Iterator[None]:
        """This GPU current; CuPy's errors become ours."""
        if self._lost:
            raise DeviceLost(self._lost)
        try:
            with self._device:
                yield
        except (self._runtime.CUDARuntimeError, self._api.cuda.driver.CUDADriverError) as error:
            raise _translated(error, what) from error
        except KeyError as error:
            raise HalInvalidArgument(
                f"{what}: handle {error} is not a live buffer of this device"
            ) from None


def _after_fork() -> None:
    for device in list(CudaDevice._live):
        device._lost = (
            f"{device.props.name} was opened before fork() and is dead in the child process: start "
            'workers with multiprocessing.get_context("spawn")'
        )


os.register_at_fork(after_in_child=_after_fork)


def _translated(error: Exception, what: str) -> Exception:
    text = f"{what}: {error}"
    if "out of memory" in str(error) or "MemoryAllocation" in str(error):
        return OutOfMemoryError(text)
    return DeviceExecutionError(text)


def _props(found: Any, runtime: Any) -> DeviceProps:
    name = found["name"]
    total = found["totalGlobalMem"]
    return DeviceProps(
        name=name.decode() if isinstance(name, bytes) else str(name),
        vendor="NVIDIA",
        arch=f"sm_{found['major']}{found['minor']}",
        driver_version=str(runtime.driverGetVersion()),
        mem_total=total,
        mem_free=runtime.memGetInfo()[0],
        max_alloc=total,
        align=256,
        compute_dtypes=frozenset({"bool", "u8", "i32", "i64", "f16", "f32", "f64"}),
        caps=Caps.ASYNC | Caps.THREADSAFE,
        amp=AmpPolicy(),
    )
