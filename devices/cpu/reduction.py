"""Reductions: which loop order, which accumulator, which tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from halon.devices.cpu.native import Kernel, ffi, lib, op_indices
from halon.hal.dtypes import dtype_of
from halon.hal.op_desc import OpSpec
from halon.kernels.cpu.nest import LONG_ROW, greedy_box, is_dense
from halon.kernels.loops import coalesce

TILE: Final = 1024
#: One call of a tile reduction may take this many elements where they need no scratch tile.
DIRECT_TILE: Final = 4096
ROW_TILE: Final = 512
#: Op → the name its tile reductions have, and the tile operation that combines two values.
NAMES: Final = {
    "sum": ("rsum", "add"), "prod": ("rprod", "mul"),
    "max_reduce": ("rmax", "max"), "min_reduce": ("rmin", "min"),
    "argmax": ("argmax", ""), "argmin": ("argmin", ""),
}  # fmt: skip


@dataclass(frozen=True)
class _Loops:
    """Kept and reduced dimensions with their strides in elements."""

    kept: tuple[int, ...]
    kept_strides: tuple[int, ...]
    red: tuple[int, ...]
    red_strides: tuple[int, ...]

    @property
    def fold(self) -> int:
        """How many short dense rows make one long row; 1 where they cannot be joined."""
        width = self.kept[-1]
        dense = self.kept_strides[-1] == 1 and self.red_strides[-1] == width
        if len(self.kept) > 1 or not dense or width > ROW_TILE // 2:
            return 1
        return min(ROW_TILE // width, self.red[-1])

    @property
    def by_rows(self) -> bool:
        """Whether combining rows of outputs beats reducing along each output."""
        width, length = self.kept[-1], self.red[-1]
        if self.red_strides[-1] == 1:
            return length < 16 and width >= 64
        if self.kept_strides[-1] == 1:
            return width >= 8 or self.fold > 1
        return width > length


def reduction(device: Any, spec: OpSpec) -> Kernel:
    """Entry of sum, prod, max_reduce, min_reduce, argmax and argmin."""
    x, out = spec.ins[0], spec.outs[0]
    loops = _loops(x.shape, x.strides, _axes(spec), keep_order=spec.op.startswith("arg"))
    acc = _accumulator(spec.op, x.dtype, out.dtype)
    k = ffi.new("hl_reduce *")
    k.arg, k.itemsize, k.acc_itemsize = 0, dtype_of(x.dtype).itemsize, dtype_of(acc).itemsize
    k.out_itemsize = dtype_of(out.dtype).itemsize
    _set_ops(k, spec.op, x.dtype, acc, out.dtype)
    k.by_rows = loops.by_rows and not spec.op.startswith("arg")
    k.fold = loops.fold if k.by_rows else 1
    box, k.direct = _box(loops, cast=k.cast_op >= 0)
    k.kept_ndim, k.red_ndim = len(loops.kept), len(loops.red)
    k.kept, k.red, k.box = loops.kept, loops.red, box
    k.kept_stride = [s * k.itemsize for s in loops.kept_strides]
    k.red_stride = [s * k.itemsize for s in loops.red_strides]
    lib.hl_reduce_init(k)
    return Kernel(k, 2)


def _axes(spec: OpSpec) -> tuple[int, ...]:
    axes = spec.attrs["axes"]
    assert isinstance(axes, tuple)
    return axes


def _loops(
    shape: Sequence[int], strides: Sequence[int], axes: tuple[int, ...], keep_order: bool
) -> _Loops:
    """Kept dimensions stay in order, because the output is contiguous; reduced ones are sorted by
    stride unless their order numbers the elements."""
    kept = [d for d in range(len(shape)) if d not in axes]
    red = list(axes) if keep_order else sorted(axes, key=lambda d: -strides[d])
    kept_shape, (kept_strides,) = coalesce([shape[d] for d in kept], [[strides[d] for d in kept]])
    red_shape, (red_strides,) = coalesce([shape[d] for d in red], [[strides[d] for d in red]])
    return _Loops(kept_shape, kept_strides, red_shape, red_strides)


def _accumulator(op: str, dtype: str, out: str) -> str:
    if op in ("sum", "prod") and dtype[0] != "f" and dtype != "u64":
        return "i64"
    if op in ("sum", "prod") and out == "f64":
        return "f64"
    return "f32" if dtype == "f16" else "u8" if dtype == "bool" else dtype


def _set_ops(k: Any, op: str, dtype: str, acc: str, out: str) -> None:
    indices = op_indices()
    tile, combine = NAMES[op]
    same_bytes = {dtype, acc} == {"bool", "u8"}
    k.cast_op = -1 if dtype == acc or same_bytes else indices[f"cast_{dtype}_{acc}"]
    k.tile_op = indices[f"{tile}_{acc}"]
    k.combine_op = indices[f"{combine}_{acc}"] if combine else -1
    k.final_op = -1
    if combine and out != acc and {out, acc} != {"bool", "u8"}:
        k.final_op = indices[f"cast_{acc}_{out}"]


def _box(loops: _Loops, cast: bool) -> tuple[tuple[int, ...], bool]:
    """The box of one tile reduction, and whether it is used where it lies."""
    *outer, inner = loops.red
    ones = (1,) * len(outer)
    if loops.red_strides[-1] == 1 and (inner >= LONG_ROW or not outer):
        return (*ones, min(inner, TILE if cast else DIRECT_TILE)), True
    box = greedy_box(loops.red, TILE)
    return box, is_dense(loops.red_strides, box)
