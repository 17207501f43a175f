"""The host without compiled kernels: the reference's NumPy table over memory the host can see."""

from __future__ import annotations

import dataclasses

import numpy as np

from halon.devices.reference.driver import ReferenceDevice
from halon.hal.driver import Handle
from halon.hal.properties import Caps


class NumpyCpuDevice(ReferenceDevice):
    """Every operator works, slowly; ``props.name`` says so wherever the device is shown."""

    props = dataclasses.replace(
        ReferenceDevice.props,
        name="cpu (NumPy: the compiled kernels are missing)",
        caps=ReferenceDevice.props.caps | Caps.HOST_VISIBLE,
    )

    def host_view(self, h: Handle, nbytes: int) -> memoryview:
        return self._bytes(h, 0, nbytes).data

    def adopt(self, memory: memoryview) -> Handle:
        with self._lock:
            handle = next(self._keys)
            self._buffers[handle] = np.frombuffer(memory, np.uint8)
        return handle
