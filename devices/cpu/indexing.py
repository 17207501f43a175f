"""iota, philox, gather, scatter and window_reduce."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from halon.devices.cpu.elementwise import copy_kernel
from halon.devices.cpu.native import CODE, Kernel, ffi, lib
from halon.hal.dtypes import COMPLEX, dtype_of
from halon.hal.errors import Declined
from halon.hal.op_desc import OpSpec
from halon.kernels.loops import coalesce

#: Mode of a scatter → its place in ``enum hl_scatter``.
_MODES: Final = {"set": 0, "add": 1, "mul": 2, "max": 3, "min": 4}


def iota(device: Any, spec: OpSpec) -> Kernel:
    """Entry of iota: ``start + i * step``, computed in double or int64."""
    out = spec.outs[0]
    k = ffi.new("hl_generate *", {"dtype": CODE[out.dtype], "n": out.numel})
    lib.hl_iota_init(k)
    return Kernel(k, 1, (out.dtype, out.dtype))


def philox(device: Any, spec: OpSpec) -> Kernel:
    """Entry of philox: random 32-bit words."""
    k = ffi.new("hl_generate *", {"n": spec.outs[0].numel})
    lib.hl_philox_init(k)
    return Kernel(k, 1, ("i64", "i64"))


def _around(
    shape: Sequence[int], strides: Sequence[Sequence[int]], dim: int
) -> tuple[list[int], list[list[int]], int]:
    """Merges the dimensions before and after ``dim``, which stays; returns its new position."""
    merged_shape: list[int] = []
    merged: list[list[int]] = [[] for _ in strides]
    position = 0
    for lo, hi in ((0, dim), (dim, dim + 1), (dim + 1, len(shape))):
        if lo == dim and hi == dim + 1:
            position = len(merged_shape)
            sizes, steps = tuple(shape[lo:hi]), tuple(tuple(s[lo:hi]) for s in strides)
        elif all(n == 1 for n in shape[lo:hi]):
            continue
        else:
            sizes, steps = coalesce(shape[lo:hi], [s[lo:hi] for s in strides])
        merged_shape.extend(sizes)
        for have, more in zip(merged, steps, strict=True):
            have.extend(more)
    return merged_shape, merged, position


def _index_kernel(
    spec: OpSpec, index: int, data: Sequence[int], out: Sequence[int], size: int
) -> tuple[Any, int]:
    """The structure gather and scatter share, over the shape of the index operand."""
    where = spec.ins[index]
    dim = spec.attrs["dim"]
    assert isinstance(dim, int)
    shape, strides = where.shape or (1,), [s or (0,) for s in (where.strides, data, out)]
    merged, (index_step, data_step, out_step), position = _around(shape, strides, dim)
    item = dtype_of(spec.ins[0].dtype).itemsize
    k = ffi.new("hl_index *")
    k.ndim, k.dim, k.itemsize, k.size = len(merged), position, item, size
    k.shape = merged
    k.index = [8 * s if n > 1 else 0 for n, s in zip(merged, index_step, strict=True)]
    k.data = [item * s for s in data_step]
    k.out = [item * s for s in out_step]
    return k, dim


def gather(device: Any, spec: OpSpec) -> Kernel:
    """Entry of gather along one dimension."""
    x = spec.ins[0]
    size = x.shape[int(spec.attrs["dim"])] if x.shape else 1  # type: ignore[arg-type]
    k, dim = _index_kernel(spec, 1, x.strides, spec.outs[0].strides, size)
    lib.hl_gather_init(k)
    return Kernel(k, 3, dim=dim)


def scatter(device: Any, spec: OpSpec) -> Kernel:
    """Entry of scatter along one dimension, setting or combining."""
    x, _, src = spec.ins
    size = x.shape[int(spec.attrs["dim"])] if x.shape else 1  # type: ignore[arg-type]
    k, dim = _index_kernel(spec, 1, src.strides, spec.outs[0].strides, size)
    mode = str(spec.attrs["mode"])
    if x.dtype in COMPLEX and mode in ("max", "min"):
        raise Declined(f"no {mode} of {x.dtype}")
    k.dtype, k.mode = CODE[x.dtype], _MODES[mode]
    copy = copy_kernel(x, spec.outs[0], 0, 3)
    k.copy = ffi.cast("hl_kernel *", copy.address)
    lib.hl_scatter_init(k)
    return Kernel(k, 4, keep=(copy,), dim=dim)


def spatial(values: Any, rank: int, missing: int) -> list[int]:
    """Three numbers, one per spatial slot: the given ones are the innermost."""
    return [missing] * (3 - rank) + list(values)


def window_reduce(device: Any, spec: OpSpec) -> Kernel:
    """Entry of window_reduce over one to three spatial dimensions."""
    x, out = spec.ins[0], spec.outs[0]
    rank = len(x.shape) - 2
    if not 1 <= rank <= 3:
        raise Declined(f"windows over {rank} dimensions")
    item = dtype_of(x.dtype).itemsize
    k = ffi.new("hl_window *")
    k.dtype, k.itemsize, k.mode = CODE[x.dtype], item, int(spec.attrs["mode"] == "sum")
    k.batch, k.channels = x.shape[:2]
    k.batch_stride, k.channel_stride = (s * item for s in x.strides[:2])
    setattr(k, "in", spatial(x.shape[2:], rank, 1))
    k.out = spatial(out.shape[2:], rank, 1)
    k.stride_in = [s * item for s in spatial(x.strides[2:], rank, 0)]
    k.kernel = spatial(spec.attrs["kernel"], rank, 1)
    k.step = spatial(spec.attrs["stride"], rank, 1)
    k.pad = spatial(spec.attrs["padding"], rank, 0)
    k.dilation = spatial(spec.attrs["dilation"], rank, 1)
    lib.hl_window_init(k)
    return Kernel(k, 1 + len(spec.outs))
