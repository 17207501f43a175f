"""gather and scatter along one dimension, for any strides.

A loop nest over the index's shape walks index, source and result together; the operand that is
addressed by the index's value has stride 0 along ``dim`` and gets ``value * stride`` added. An
index out of bounds raises the device's flag and touches nothing.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Final

from halon.hal.errors import Declined
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
from halon.kernels.pk.text import CTYPE, ITEMSIZE, PARTS, WIDE, assemble, cast, read
from halon.kernels.scalar_ops import SCALAR_OPS
from halon.kernels.tree import Input

_CHUNK: Final = 4096  # elements of a CPU work-item
_LINES: Final = 64  # lines per processor from which scatter walks them whole
#: Size of an element → the type it is moved as.
MOVED: Final = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "w128"}
#: Mode of a scatter that combines → the scalar operation.
_COMBINE: Final = {"add": "add", "mul": "mul", "max": "max", "min": "min"}


def gather(spec: OpSpec, target: Target) -> Launch:
    """The launch of ``gather``."""
    require_f64(target, spec.ins)
    (x, index), y = spec.ins, spec.outs[0]
    dim = _dim(spec)
    nest = [list(index.strides), _without(x, dim), list(y.strides)]
    shape, strides = coalesce(index.shape, nest)
    per = _share(y.numel, target)
    source = _gather_source(MOVED[ITEMSIZE[x.dtype]], len(shape))
    fixed = (y.numel, per, x.shape[dim], x.strides[dim], *shape, *(s for t in strides for s in t))
    size, group = _grid(y.numel, per, target)
    step = Step(source, "gather", (0, 1, 2, FLAG), fixed, size, group)
    return launch(spec, [step], checks=_checks(x, dim))


def scatter(spec: OpSpec, target: Target) -> Launch:
    """The launch of ``scatter``: a copy unless in place, then one of two kernels.

    ``lines`` gives each line along ``dim`` to one item, which needs no atomics and repeats exactly;
    ``elements`` gives each index to one item, and combines atomically.
    """
    require_f64(target, spec.ins)
    (x, index, src), y = spec.ins, spec.outs[0]
    dim, mode = _dim(spec), str(spec.attrs["mode"])
    if y.dtype in PARTS and mode in ("max", "min"):
        raise Declined(f"no {mode} of {y.dtype}")
    steps = [_copy(x, y, target)]
    if index.numel:
        lines = prod(n for d, n in enumerate(index.shape) if d != dim)
        by_line = lines >= _LINES * target.units if target.cpu else False
        if mode != "set":
            by_line = by_line or not _atomic_exists(y.dtype, target)
        by_line = by_line or bool(spec.attrs.get("deterministic"))
        steps.append((_lines if by_line else _elements)(index, src, y, dim, mode, target))
    return launch(spec, steps, checks=_checks(y, dim))


def _atomic_exists(dtype: str, target: Target) -> bool:
    return dtype not in PARTS and (ITEMSIZE[dtype] < 8 or target.atomics64)


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
    index: TensorSpec, src: TensorSpec, y: TensorSpec, dim: int, mode: str, target: Target
) -> Step:
    nest = [list(index.strides), list(src.strides), _without(y, dim)]
    shape, strides = coalesce(index.shape, nest)
    per = _share(index.numel, target)
    source = _scatter_source(y.dtype, len(shape), mode, False)
    fixed = (index.numel, per, y.shape[dim], y.strides[dim], 1, 0, 0, *shape)
    size, group = _grid(index.numel, per, target)
    return Step(
        source, "scatter", (1, 2, 3, FLAG), fixed + tuple(s for t in strides for s in t), size,
        group,
    )  # fmt: skip


def _lines(
    index: TensorSpec, src: TensorSpec, y: TensorSpec, dim: int, mode: str, target: Target
) -> Step:
    others = [d for d in range(len(index.shape)) if d != dim]
    nest = [[t.strides[d] for d in others] for t in (index, src, y)]
    shape, strides = coalesce([index.shape[d] for d in others], nest)
    count = prod(shape)
    source = _scatter_source(y.dtype, len(shape), mode, True)
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
def _gather_source(word: str, rank: int) -> str:
    extents, bases = _nest_names(rank, "ixy")
    strides = [s for names in bases.values() for s in names]
    head = signature(
        "gather",
        [("x", word, False), ("index", "i64", False), ("y", word, True), ("flag", "i64", True)],
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
            const {word} zero = {{0}};
            pk_raise(flag, oflag, i);
            y[at_y] = zero;
        }} else {{
            y[at_y] = x[at_x + i * stride];
        }}
    }}
}}
""")


@lru_cache
def _scatter_source(dtype: str, rank: int, mode: str, lines: bool) -> str:
    extents, bases = _nest_names(rank, "isy")
    strides = [s for names in bases.values() for s in names]
    head = signature(
        "scatter",
        [("index", "i64", False), ("src", dtype, False), ("y", dtype, True), ("flag", "i64", True)],
        [], ["n", "per", "size", "stride", "length", "step_i", "step_s", *extents, *strides],
    )  # fmt: skip
    put = "y[to] = v;"
    prelude = RAISE
    if mode != "set" and lines:
        put = f"y[to] = {combined(_COMBINE[mode], dtype, 'y[to]', 'v')};"
    elif mode != "set":
        put = "pk_atomic_combine(y, to, v);"
        prelude += _atomic(_COMBINE[mode], dtype)
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
""", [WIDE.get(dtype, dtype)])  # fmt: skip


def combined(op: str, dtype: str, a: str, b: str) -> str:
    """PK for ``op`` of two stored elements, stored again."""
    wide = WIDE.get(dtype, dtype)
    value = SCALAR_OPS[op].template(wide).format(cast(a, dtype, wide), cast(b, dtype, wide), t=wide)
    return cast(f"({value})", wide, dtype)


def _atomic(op: str, dtype: str) -> str:
    """``pk_atomic_combine`` for one operation and dtype."""
    names = ["T", "CAS", "WORD", "TO_BITS", "FROM_BITS"]
    wide = ITEMSIZE[dtype] == 8
    word = "u64" if wide else "u32"
    to_bits = f"pk_bits_{dtype}(v)" if dtype in ("f32", "f64") else f"(({word})(v))"
    from_bits = f"pk_from_bits_{dtype}(v)" if dtype in ("f32", "f64") else f"(({CTYPE[dtype]})(v))"
    stored = CTYPE[dtype]
    both = combined(op, dtype, "a", "b")
    lines = [
        f"DEVFN {stored} pk_both({stored} a, {stored} b) {{ return {both}; }}",
        f"#define T {stored}",
        f"#define CAS(p, old, new) {'PK_CAS64' if wide else 'PK_CAS32'}(p, old, new)",
        f"#define WORD {word}",
        f"#define TO_BITS(v) {to_bits}",
        f"#define FROM_BITS(v) {from_bits}",
        read("atomic_combine.h" if ITEMSIZE[dtype] >= 4 else "atomic_combine_part.h"),
        *(f"#undef {name}" for name in names),
    ]
    return "\n".join(lines) + "\n"
