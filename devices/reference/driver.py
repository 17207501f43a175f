"""The reference device: an op device with exactly the primitives, its memory behind keys.

Slow and obvious on purpose: it is what other devices are compared with, and the shape of a small
Python plug-in.
"""

from __future__ import annotations

import itertools
import threading

import numpy as np

from halon.devices.reference import kernels
from halon.hal.driver import Device, DeviceDriver, Handle, Stream
from halon.hal.dtypes import SHORT
from halon.hal.errors import HalInvalidArgument, OutOfMemoryError
from halon.hal.op_desc import OpCap, OpDesc, TensorRef
from halon.hal.properties import Caps, DeviceProps, MemKind


class ReferenceDevice(Device):
    """Buffers are byte arrays in a dict; handles are its keys."""

    props = DeviceProps(
        name="NumPy reference", vendor="halon", arch=np.__version__,
        compute_dtypes=kernels.everything,
        caps=Caps.THREADSAFE | Caps.FORK_SAFE | Caps.DETERMINISTIC,
    )  # fmt: skip

    def __init__(self) -> None:
        self._buffers: dict[Handle, np.ndarray] = {}
        self._keys = itertools.count(1)
        self._lock = threading.Lock()

    def alloc(self, nbytes: int, kind: MemKind = MemKind.DEVICE) -> Handle:
        try:
            buffer = np.empty(nbytes, np.uint8)
        except (MemoryError, ValueError) as error:
            raise OutOfMemoryError(f"reference: cannot allocate {nbytes} bytes") from error
        with self._lock:
            handle = next(self._keys)
            self._buffers[handle] = buffer
        return handle

    def free(self, h: Handle) -> None:
        del self._buffers[h]

    def h2d(self, dst: Handle, off: int, src: memoryview, stream: Stream | None = None) -> None:
        self._bytes(dst, off, len(src))[...] = np.frombuffer(src, np.uint8)

    def d2h(self, dst: memoryview, src: Handle, off: int, stream: Stream | None = None) -> None:
        np.frombuffer(dst, np.uint8)[...] = self._bytes(src, off, len(dst))

    def d2d(
        self, dst: Handle, doff: int, src: Handle, soff: int, nbytes: int,
        stream: Stream | None = None,
    ) -> None:  # fmt: skip
        self._bytes(dst, doff, nbytes)[...] = self._bytes(src, soff, nbytes)

    def op_caps(self) -> tuple[OpCap, ...]:
        return kernels.caps()

    def op_run(self, op: OpDesc, stream: Stream | None = None) -> None:
        ins = [self.array(t) for t in op.ins]
        kernels.run(op.op, ins, [self.array(t) for t in op.outs], op.attrs)

    def array(self, t: TensorRef) -> np.ndarray:
        """A NumPy view of an operand."""
        dtype = SHORT[t.dtype].numpy
        strides = tuple(s * dtype.itemsize for s in t.strides)
        return np.ndarray(t.shape, dtype, self._buffers[t.buf].data, t.byte_offset, strides)

    def _bytes(self, h: Handle, off: int, nbytes: int) -> np.ndarray:
        buffer = self._buffers.get(h)
        if buffer is None or off < 0 or off + nbytes > buffer.size:
            raise HalInvalidArgument(
                f"reference: {nbytes} bytes at {off} of buffer {h}: no such range"
            )
        return buffer[off : off + nbytes]


class ReferenceDriver(DeviceDriver):
    """One reference device, always there."""

    name = "reference"

    def device_count(self) -> int:
        return 1

    def open(self, index: int) -> ReferenceDevice:
        return ReferenceDevice()
