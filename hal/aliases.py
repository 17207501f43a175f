"""The only place above ``devices/`` where devices have names.

``Tensor.cpu()``, ``Module.cuda()`` and the like are generated from ``MOVERS``; ``BUILT_IN`` says
which modules the registry loads for the names halon ships.
"""

from __future__ import annotations

from typing import Final

HOST: Final = "cpu"

#: name → "module:Driver", in the order `halon devices` prints.
BUILT_IN: Final[dict[str, str]] = {
    "cpu": "halon.devices.cpu.driver:CpuDriver",
    "cuda": "halon.devices.cuda.driver:CudaDriver",
    "opencl": "halon.devices.opencl.driver:OpenCLDriver",
    "reference": "halon.devices.reference.driver:ReferenceDriver",
}

#: method name → device it moves to.
MOVERS: Final[dict[str, str]] = {"cpu": "cpu", "cuda": "cuda"}

#: names no driver may take, beside those of ``BUILT_IN``.
RESERVED: Final = frozenset({"meta"})
