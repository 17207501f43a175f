"""Scans and sorts: kernels that work on one lane along a dimension at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from halon.devices.cpu.native import CODE, Kernel, ffi, lib
from halon.hal.dtypes import dtype_of
from halon.hal.op_desc import OpSpec, TensorSpec


def _lanes(spec: OpSpec) -> Any:
    x = spec.ins[0]
    k = ffi.new("hl_lanes *")
    k.dtype, k.itemsize = CODE[x.dtype], dtype_of(x.dtype).itemsize
    dim = spec.attrs["dim"]
    assert isinstance(dim, int)
    k.ndim, k.dim, k.shape = max(len(x.shape), 1), dim, x.shape or (1,)
    k.x = _bytes(x, x.strides)
    k.y = _bytes(spec.outs[0], spec.outs[0].strides)
    return k


def _bytes(t: TensorSpec, strides: Sequence[int]) -> list[int]:
    return [dtype_of(t.dtype).itemsize * s for s in strides] or [0]


def scan(device: Any, spec: OpSpec) -> Kernel:
    """Entry of cumsum and cumprod."""
    k = _lanes(spec)
    k.flag, k.reverse = spec.op == "cumprod", bool(spec.attrs["reverse"])
    lib.hl_scan_init(k)
    return Kernel(k, 2)


def sort(device: Any, spec: OpSpec) -> Kernel:
    """Entry of sort: values and their indices, always stable."""
    k = _lanes(spec)
    k.flag = bool(spec.attrs["descending"])
    k.z = _bytes(spec.outs[1], spec.outs[1].strides)
    lib.hl_sort_init(k)
    return Kernel(k, 3)
