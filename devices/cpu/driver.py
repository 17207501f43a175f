"""The host processor as a device: memory is host memory, a handle is its address."""

from __future__ import annotations

import os
import platform
import sys
import threading
from collections.abc import Sequence
from operator import add
from typing import Any

from halon.devices.cpu.kernels import ROWS
from halon.devices.cpu.native import ffi, import_failure, lib
from halon.devices.rows import Row
from halon.hal.driver import Device, DeviceDriver, Handle, Stream
from halon.hal.dtypes import ALL_DTYPES
from halon.hal.errors import OutOfMemoryError
from halon.hal.properties import Caps, DeviceProps, MemKind


def native_available() -> bool:
    """Whether the compiled kernels could be imported."""
    return not import_failure


def why_not_native() -> str:
    """Why the compiled kernels are missing; empty where they are not."""
    return import_failure


def _memory() -> tuple[int, int]:
    """Physical bytes in all and available; 0 where the system does not say."""
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        return page * os.sysconf("SC_PHYS_PAGES"), page * os.sysconf("SC_AVPHYS_PAGES")
    except (ValueError, OSError):
        return 0, 0


def _view(memory: memoryview) -> Any:
    return ffi.from_buffer(memory)


class CpuDevice(Device):
    """Runs kernels in the calling thread; every call has finished when it returns."""

    rows: Sequence[Row] = ROWS

    def __init__(self) -> None:
        total, free = _memory()
        self.props = DeviceProps(
            name="cpu",
            vendor=platform.machine(),
            arch=f"{platform.machine()}-v{lib.hl_isa()}",
            mem_total=total,
            mem_free=free,
            max_alloc=total,
            compute_dtypes=ALL_DTYPES,
            caps=Caps.HOST_VISIBLE | Caps.THREADSAFE | Caps.FORK_SAFE | Caps.DETERMINISTIC,
        )
        self._adopted: dict[Handle, list[memoryview]] = {}
        self._adopting = threading.Lock()

    def alloc(self, nbytes: int, kind: MemKind = MemKind.DEVICE) -> Handle:
        # beyond 2**62 the size would wrap in C
        handle = lib.hl_alloc(nbytes) if nbytes < 2**62 else 0
        if not handle:
            raise OutOfMemoryError(f"cpu: no memory for {nbytes} bytes")
        return handle

    def free(self, h: Handle) -> None:
        if self._adopted and self._release(h):
            return
        lib.hl_free(h)

    def h2d(self, dst: Handle, off: int, src: memoryview, stream: Stream | None = None) -> None:
        lib.hl_copy_in(dst + off, _view(src), src.nbytes)

    def d2h(self, dst: memoryview, src: Handle, off: int, stream: Stream | None = None) -> None:
        lib.hl_copy_out(_view(dst), src + off, dst.nbytes)

    def d2d(
        self, dst: Handle, doff: int, src: Handle, soff: int, nbytes: int,
        stream: Stream | None = None,
    ) -> None:  # fmt: skip
        lib.hl_move(dst + doff, src + soff, nbytes)

    def fill(
        self, dst: Handle, off: int, nbytes: int, pattern: bytes, stream: Stream | None = None
    ) -> None:
        lib.hl_pattern(dst + off, nbytes, pattern, len(pattern))

    def host_view(self, h: Handle, nbytes: int) -> memoryview:
        return memoryview(ffi.buffer(ffi.cast("char *", h), nbytes)).cast("B")

    def adopt(self, memory: memoryview) -> Handle:
        handle = int(ffi.cast("uintptr_t", _view(memory)))
        with self._adopting:
            self._adopted.setdefault(handle, []).append(memory)
        return handle

    def _release(self, h: Handle) -> bool:
        """Forgets an adopted handle; False if the memory is this device's own."""
        with self._adopting:
            owners = self._adopted.get(h)
            if owners is None:
                return False
            owners.pop()
            if not owners:
                del self._adopted[h]
            return True

    def run_plan(
        self, plan: Any, handles: Sequence[int], offsets: Sequence[int],
        scalars: Sequence[int | float | bool],
    ) -> None:  # fmt: skip
        """Runs a planned kernel over the operands at ``handles`` + ``offsets``."""
        kernel = plan.kernel
        status = lib.hl_run(kernel.address, kernel.pack(*map(add, handles, offsets), *scalars))
        if status:
            raise kernel.failure(status)


class CpuDriver(DeviceDriver):
    """The one CPU device."""

    name = "cpu"

    def device_count(self) -> int:
        return 1

    def open(self, index: int) -> Device:
        if native_available():
            return CpuDevice()
        from halon.devices.cpu.numpy_device import NumpyCpuDevice  # only where it is needed

        print(f"halon: cpu runs on NumPy, slowly: {why_not_native()}", file=sys.stderr)
        return NumpyCpuDevice()
