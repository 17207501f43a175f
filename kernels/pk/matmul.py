"""Matrix products of any strides: packed register tiles (CPU), local-memory tiles (GPU), or simple.

A batch that only A has is folded into its rows where the strides allow, so ``x[B, T, K] @ w[K, N]``
is one product.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Final

from halon.hal.errors import Declined
from halon.hal.op_desc import OpSpec
from halon.kernels.loops import coalesce
from halon.kernels.pk.launch import (
    SCRATCH,
    Launch,
    Step,
    Target,
    ceil_div,
    launch,
    require_f64,
    round_up,
)  # fmt: skip
from halon.kernels.pk.text import FLOATS, ITEMSIZE, assemble, read
from halon.kernels.pk.types import Types

_SIMPLE: Final = 32768  # products below which one item per element is as fast
_ITEM: Final = 1 << 20  # products of a CPU work-item, so that starting it does not show
_LANES: Final = 16
_PACK: Final = 1 << 14  # elements a work-item packs


#: The offset of matrix ``batch`` of an operand with three batch strides.
_BATCH: Final = """DEVFN i64 pk_batch(i64 batch, i64 e1, i64 e2, i64 s0, i64 s1, i64 s2) {
    const i64 i = batch / (e1 * e2), rest = batch - i * e1 * e2, j = rest / e2;
    return i * s0 + j * s1 + (rest - j * e2) * s2;
}
"""


@dataclass(frozen=True)
class Problem:
    """``y[*batch, m, n] = a · b``; strides in elements, y contiguous."""

    extents: tuple[int, int, int]  # of the batch
    m: int
    n: int
    k: int
    a: tuple[int, int]  # strides of m, k
    b: tuple[int, int]  # strides of k, n
    batch_a: tuple[int, int, int]
    batch_b: tuple[int, int, int]

    @property
    def batch(self) -> int:
        return prod(self.extents)

    @property
    def b_is_shared(self) -> bool:
        return not any(self.batch_b)

    @property
    def fixed(self) -> tuple[int, ...]:
        """The numbers ``matmul_simple.cl`` and ``matmul_tile.cl`` take."""
        return (
            self.m, self.n, self.k, *self.a, *self.b, *self.extents[1:], *self.batch_a,
            *self.batch_b,
        )  # fmt: skip


def build(spec: OpSpec, target: Target) -> Launch:
    """The launch of ``matmul``.

    Raises Declined for a batch that more than one stride describes.
    """
    require_f64(target, spec.ins)
    problem = _problem(spec)
    types = Types(spec.ins[0].dtype, spec.outs[0].dtype)
    if _is_simple(problem, target):
        return launch(spec, [simple(problem, types, target)])
    if not target.cpu:
        return launch(spec, [tiled(problem, types)])
    columns = tile(types, target).columns
    panels = ceil_div(problem.n, columns)
    count = (1 if problem.b_is_shared else problem.batch) * panels * problem.k * columns
    steps = [
        pack(problem, types, target, 1, SCRATCH), vector(problem, types, target, 0, SCRATCH, 2)
    ]  # fmt: skip
    return launch(spec, steps, [count * ITEMSIZE[types.acc]])


def _problem(spec: OpSpec) -> Problem:
    a, b, y = spec.ins[0], spec.ins[1], spec.outs[0]
    _m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    outer = y.shape[:-1]
    dense, step = [0] * len(outer), n
    for d in reversed(range(len(outer))):
        dense[d] = step
        step *= outer[d]
    shape, (sa, sb, _) = coalesce(outer, [a.strides[:-1], (*b.strides[:-2], 0), dense])
    if sb[-1] != 0:
        shape, sa, sb = (*shape, 1), (*sa, 0), (*sb, 0)  # M is 1 and was dropped
    if len(shape) > 4:
        raise Declined(f"{spec}: the batch has more than three independent strides")
    pad = 4 - len(shape)
    shape, sa, sb = (1,) * pad + shape, (0,) * pad + sa, (0,) * pad + sb
    return Problem(
        (shape[0], shape[1], shape[2]), shape[3], n, k, (sa[3], a.strides[-1]),
        (b.strides[-2], b.strides[-1]), (sa[0], sa[1], sa[2]), (sb[0], sb[1], sb[2]),
    )  # fmt: skip


def _is_simple(p: Problem, target: Target) -> bool:
    if p.batch > 65535:
        return True
    if not target.cpu:
        return p.m * p.n * p.k <= _SIMPLE or p.m == 1 or p.n == 1
    return p.m * p.n * p.k <= _SIMPLE or p.n < 8 or p.m < 3


def simple(p: Problem, types: Types, target: Target) -> Step:
    """One item per element."""
    dot = p.a[1] == 1 and p.b[0] == 1 and p.k >= 4 * _LANES
    source = _simple_source(types, dot)
    width = 1 if dot and target.cpu else min(64 if target.cpu else 256, p.m * p.n)
    size = (round_up(p.m * p.n, width), p.batch, 1)
    return Step(source, "matmul", (0, 1, 2), p.fixed, size, (width, 1, 1))


def tiled(p: Problem, types: Types) -> Step:
    """64 x 64 tiles through local memory."""
    source = _tile_source(types, p.a[1] == 1, p.b[0] == 1 and p.b[1] != 1)
    size = (ceil_div(p.n, 64) * 256, ceil_div(p.m, 64), p.batch)
    return Step(source, "matmul", (0, 1, 2), p.fixed, size, (256, 1, 1))


@dataclass(frozen=True)
class Tile:
    """A register tile: rows, vectors beside each other, elements of a vector."""

    rows: int
    vectors: int
    width: int

    @property
    def columns(self) -> int:
        return self.vectors * self.width


def tile(types: Types, target: Target) -> Tile:
    """24 of AVX-512's 32 registers, or 12 of 16, hold sums; measured best of six shapes each."""
    rows, vectors = (6, 4) if target.vector_bytes >= 64 else (4, 3)
    return Tile(rows, vectors, target.vector_bytes // ITEMSIZE[types.acc])


def pack(p: Problem, types: Types, target: Target, b: int, packed: int) -> Step:
    """Operand ``b`` into panels in operand ``packed``."""
    shape = tile(types, target)
    panels, rows = ceil_div(p.n, shape.columns), max(1, min(p.k, _PACK // shape.columns))
    source = _vector_source("matmul_pack.cl", types, shape, p.b[1] == 1)
    fixed = (p.n, p.k, *p.b, panels, rows, *p.extents[1:], *p.batch_b)
    size = (ceil_div(p.k, rows), panels, 1 if p.b_is_shared else p.batch)
    return Step(source, "pack", (b, packed), fixed, size)


def vector(p: Problem, types: Types, target: Target, a: int, packed: int, y: int) -> Step:
    """Register tiles over packed panels."""
    shape = tile(types, target)
    panels = ceil_div(p.n, shape.columns)
    tiles = ceil_div(p.m, shape.rows)
    balanced = tiles * panels * p.batch // (4 * target.units)
    tiles = max(1, min(tiles, balanced, _ITEM // (shape.rows * shape.columns * p.k)))
    rows = tiles * shape.rows
    source = _vector_source("matmul_vector.cl", types, shape, p.a[1] == 1)
    fixed = (
        p.m, p.n, p.k, *p.a, rows, 0 if p.b_is_shared else panels, *p.extents[1:],
        *p.batch_a,
    )  # fmt: skip
    size = (ceil_div(p.m, rows), panels, p.batch)
    return Step(source, "matmul", (a, packed, y), fixed, size)


@lru_cache
def _simple_source(types: Types, dot: bool) -> str:
    lanes = f"#define LANES {_LANES}\n" if dot else ""
    return assemble(types.defines + _BATCH + lanes + read("matmul_simple.cl"))


@lru_cache
def _tile_source(types: Types, a_by_k: bool, b_by_k: bool) -> str:
    ways = f"#define A_BY_K {int(a_by_k)}\n#define B_BY_K {int(b_by_k)}\n"
    return assemble(types.defines + _BATCH + ways + read("matmul_tile.cl"))


@lru_cache
def _vector_source(name: str, types: Types, shape: Tile, unit: bool) -> str:
    width = shape.width
    element = {"f32": "float", "f64": "double", "u32": "uint", "u64": "ulong"}[types.acc]
    fused = "fma(a, b, c)" if types.acc in FLOATS else "((a) * (b) + (c))"
    return assemble(
        f"{types.defines}{_BATCH}#define VEC {element}{width}\n#define W {width}\n"
        f"#define NV {shape.vectors}\n#define MR {shape.rows}\n#define NB {shape.columns}\n"
        f"#define VLOAD(p) vload{width}(0, p)\n#define VSTORE(v, p) vstore{width}(v, 0, p)\n"
        f"#define VFMA(a, b, c) {fused}\n#define STEP(stride) {'1' if unit else '(stride)'}\n"
        f"{read(name)}"
    )
