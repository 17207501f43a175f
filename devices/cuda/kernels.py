"""The CUDA device's op table: OpenCL's, since both compile the same sources."""

from __future__ import annotations

from halon.devices.opencl.kernels import rows

__all__ = ["rows"]
