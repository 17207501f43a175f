"""gather and scatter along one dimension, for any strides.

A loop nest over the index's shape walks index, source and result together; the operand that is
addressed by the index's value has stride 0 along ``dim`` and gets ``value * stride`` added. An
index out of bounds raises the device's flag and touches nothing.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Final

from halon.hal.op_desc import OpSpec, TensorSpec
from halon.kernels.loops import coalesce
from halon.kernels.pk import elementwise
from halon.kernels.pk.launch import (
    FLAG,
    RAISE,
    Launch,
    Step,
    Target,
    ceil_div,
    decode,
    launch,
    require_f64,
    round_up,
    signature,
)  # fmt: skip
from halon.kernels.pk.text import CTYPE, ITEMSIZE, assemble, cast, read
from halon.kernels.tree import Input

_CHUNK: Final = 4096  # elements of a CPU work-item
_LINES: Final = 64  # lines per processor from which scatter walks them whole


def gather(spec: OpSpec, target: Target) -> Launch:
    """The launch of ``gather``."""
    require_f64(target, spec.ins)
    (x, index), y = spec.ins, spec.outs[0]
    dim = _dim(spec)
    nest = [list(index.strides), _without(x, dim), list(y.strides)]
    shape, strides = coalesce(index.shape, nest)
    per = _share(y.numel, target)
    source = _gather_source(x.dtype, len(shape))
    fixed = (y.numel, per, x.shape[dim], x.strides[dim], *shape, *(s for t in strides for s in t))
    size, group = _grid(y.numel, per, target)
    step = Step(source, "gather", (0, 1, 2, FLAG), fixed, size, group)
    return launch(spec, [step], checks=_checks(x, dim))


def scatter(spec: OpSpec, target: Target) -> Launch:
    """The launch of ``scatter``: a copy unless in place, then one of two kernels.

    ``lines`` gives each line along ``dim`` to one item, which needs no atomics and repeats exactly;
    ``elements`` gives each index to one item, and adds atomically.
    """
    require_f64(target, spec.ins)
    (x, index, src), y = spec.ins, spec.outs[0]
    dim = _dim(spec)
    steps = [_copy(x, y, target)]
    if index.numel:
        lines = prod(n for d, n in enumerate(index.shape) if d != dim)
        add = spec.attrs["mode"] == "add"
        atomic = ITEMSIZE[y.dtype] < 8 or target.atomics64
        enough = lines >= _LINES * target.units if target.cpu else False
        by_line = enough or (add and not atomic)
        steps.append((_lines if by_line else _elements)(index, src, y, dim, add, target))
    return launch(spec, steps, checks=_checks(y, dim))


def _dim(spec: OpSpec) -> int:
    dim = spec.attrs["dim"]
    assert isinstance(dim, int)
    return dim


def _checks(x: TensorSpec, dim: int) -> str:
    return f"is out of bounds for dimension {dim} with size {x.shape[dim]}"


def _without(t: TensorSpec, dim: int) -> list[int]:
    return [0 if d == dim else s for d, s in enumerate(t.strides)]


def _share(n: int, target: Target) -> int:
    return max(64, min(_CHUNK, ceil_div(n, 4 * target.units))) if target.cpu else 1


def _grid(n: int, per: int, target: Target) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    items = ceil_div(n, per)
    if target.cpu:
        return (items, 1, 1), (1, 1, 1)
    return (round_up(items, 256), 1, 1), (256, 1, 1)


def _copy(x: TensorSpec, y: TensorSpec, target: Target) -> Step:
    same = OpSpec("copy", (x,), (y,), expr=Input(0, x.dtype))
    step = elementwise.build(same, target).steps[0]
    return Step(
        step.source, step.entry, (0, 3), step.fixed, step.size, step.group, unless_same=(0, 3)
    )


def _elements(
    index: TensorSpec, src: TensorSpec, y: TensorSpec, dim: int, add: bool, target: Target
) -> Step:
    nest = [list(index.strides), list(src.strides), _without(y, dim)]
    shape, strides = coalesce(index.shape, nest)
    per = _share(index.numel, target)
    source = _scatter_source(y.dtype, len(shape), add, False)
    fixed = (index.numel, per, y.shape[dim], y.strides[dim], 1, 0, 0, *shape)
    size, group = _grid(index.numel, per, target)
    return Step(
        source, "scatter", (1, 2, 3, FLAG), fixed + tuple(s for t in strides for s in t), size,
        group,
    )  # fmt: skip


def _lines(
    index: TensorSpec, src: TensorSpec, y: TensorSpec, dim: int, add: bool, target: Target
) -> Step:
    others = [d for d in range(len(index.shape)) if d != dim]
    nest = [[t.strides[d] for d in others] for t in (index, src, y)]
    shape, strides = coalesce([index.shape[d] for d in others], nest)
    count = prod(shape)
    source = _scatter_source(y.dtype, len(shape), add, True)
    fixed = (
        count, 1, y.shape[dim], y.strides[dim], index.shape[dim], index.strides[dim],
        src.strides[dim], *shape,
    )  # fmt: skip
    width = min(64 if target.cpu else 256, count)
    return Step(
        source, "scatter", (1, 2, 3, FLAG), fixed + tuple(s for t in strides for s in t),
        (round_up(count, width), 1, 1), (width, 1, 1),
    )  # fmt: skip


def _nest_names(rank: int, operands: str) -> tuple[list[str], dict[str, list[str]]]:
    extents = [f"d{d}" for d in range(rank)]
    return extents, {f"at_{o}": [f"t{o}{d}" for d in range(rank)] for o in operands}


@lru_cache
def _gather_source(dtype: str, rank: int) -> str:
    extents, bases = _nest_names(rank, "ixy")
    strides = [s for names in bases.values() for s in names]
    head = signature(
        "gather",
        [("x", dtype, False), ("index", "i64", False), ("y", dtype, True), ("flag", "i64", True)],
        [], ["n", "per", "size", "stride", *extents, *strides],
    )  # fmt: skip
    return assemble(f"""{RAISE}
{head} {{
    const i64 begin = GID(0) * per, end = pk_least(n, begin + per);
    for (i64 k = begin; k < end; k++) {{
        i64 at_i = oindex, at_x = ox, at_y = oy;
        {decode("k", extents, bases)}
        const i64 i = index[at_i];
        if (i < 0 || i >= size) {{
            pk_raise(flag, oflag, i);
            y[at_y] = 0;
        }} else {{
            y[at_y] = x[at_x + i * stride];
        }}
    }}
}}
""")


@lru_cache
def _scatter_source(dtype: str, rank: int, add: bool, lines: bool) -> str:
    extents, bases = _nest_names(rank, "isy")
    strides = [s for names in bases.values() for s in names]
    head = signature(
        "scatter",
        [("index", "i64", False), ("src", dtype, False), ("y", dtype, True), ("flag", "i64", True)],
        [], ["n", "per", "size", "stride", "length", "step_i", "step_s", *extents, *strides],
    )  # fmt: skip
    put = "y[to] = v;"
    prelude = RAISE
    if add and lines:
        put = f"y[to] = {_sum(dtype, 'y[to]', 'v')};"
    elif add:
        put = "pk_atomic_add(y, to, v);"
        prelude += _atomic(dtype)
    return assemble(f"""{prelude}
{head} {{
    const i64 begin = GID(0) * per, end = pk_least(n, begin + per);
    for (i64 k = begin; k < end; k++) {{
        i64 at_i = oindex, at_s = osrc, at_y = oy;
        {decode("k", extents, bases)}
        for (i64 j = 0; j < length; j++) {{
            const i64 i = index[at_i + j * step_i];
            if (i < 0 || i >= size) {{
                pk_raise(flag, oflag, i);
                continue;
            }}
            const {CTYPE[dtype]} v = src[at_s + j * step_s];
            const i64 to = at_y + i * stride;
            {put}
        }}
    }}
}}
""", ["i32", "i64", "u8"])  # fmt: skip


def _sum(dtype: str, a: str, b: str) -> str:
    if dtype == "bool":
        return f"{a} | {b}"
    if dtype == "f16":
        return cast(f"(pk_h2f({a}) + pk_h2f({b}))", "f32", "f16")
    return f"{a} + {b}" if dtype in ("f32", "f64") else f"pk_add_{dtype}({a}, {b})"


def _atomic(dtype: str) -> str:
    """``pk_atomic_add`` for one dtype."""
    names = ["T", "SUM", "CAS", "WORD", "TO_BITS", "FROM_BITS"]
    wide = ITEMSIZE[dtype] == 8
    word = "u64" if wide else "u32"
    to_bits = f"pk_bits_{dtype}(v)" if dtype in ("f32", "f64") else f"(({word})(v))"
    from_bits = f"pk_from_bits_{dtype}(v)" if dtype in ("f32", "f64") else f"(({dtype})(v))"
    lines = [
        f"#define T {CTYPE[dtype]}",
        f"#define SUM(a, b) ({_sum(dtype, '(a)', '(b)')})",
        f"#define CAS(p, old, new) {'PK_CAS64' if wide else 'PK_CAS32'}(p, old, new)",
        f"#define WORD {word}",
        f"#define TO_BITS(v) {to_bits}",
        f"#define FROM_BITS(v) {from_bits}",
        read("atomic_add.h" if ITEMSIZE[dtype] >= 4 else "atomic_add_part.h"),
        *(f"#undef {name}" for name in names),
    ]
    return "\n".join(lines) + "\n"
