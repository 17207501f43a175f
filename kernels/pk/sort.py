"""sort along one dimension: stable, by merging runs, for any strides.

``runs`` sorts short runs of indices by insertion, one work-item each. Every ``merge`` joins pairs
of runs: an element finds its place by a binary search in the other run, so all work-items are busy
whatever the shape. ``place`` writes the values and their indices.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Final

from halon.hal.op_desc import OpSpec
from halon.kernels.loops import coalesce
from halon.kernels.pk.launch import (
    SCRATCH,
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
from halon.kernels.pk.text import CTYPE, FLOATS, WIDE, assemble, cast

_RUN: Final = 16  # elements that insertion sorts
_CHUNK: Final = 1024  # elements of a CPU work-item


def sort(spec: OpSpec, target: Target) -> Launch:
    """The launch of ``sort``."""
    require_f64(target, spec.ins)
    x, y, z = spec.ins[0], *spec.outs
    dim = spec.attrs["dim"]
    assert isinstance(dim, int)
    n = x.shape[dim] if x.shape else 1
    others = [d for d in range(len(x.shape)) if d != dim]
    shape, nest = coalesce(
        [x.shape[d] for d in others], [[t.strides[d] for d in others] for t in (x, y, z)]
    )
    total = prod(x.shape)
    along = [t.strides[dim] if t.shape else 1 for t in (x, y, z)]
    text = _source(x.dtype, len(shape), bool(spec.attrs["descending"]))
    lanes = (*along, *shape, *(s for strides in nest for s in strides))
    runs = ceil_div(n, _RUN)
    size, group, per = _grid(total // n * runs, 1 if target.cpu else 64, 1)
    steps = [
        Step(text, "runs", (0, SCRATCH), (total // n * runs, per, n, runs, *lanes), size, group)
    ]
    size, group, per = _grid(total, 1 if target.cpu else 64, _CHUNK if target.cpu else 1)
    have, width = 0, _RUN
    while width < n:
        pair = (0, SCRATCH - have, SCRATCH - 1 + have)
        steps.append(Step(text, "merge", pair, (total, per, n, width, *lanes), size, group))
        have, width = 1 - have, 2 * width
    steps.append(
        Step(text, "place", (0, 1, 2, SCRATCH - have), (total, per, n, 0, *lanes), size, group)
    )
    return launch(spec, steps, [8 * total, 8 * total if n > _RUN else 0])


def _grid(
    items: int, width: int, per: int
) -> tuple[tuple[int, int, int], tuple[int, int, int], int]:
    return (round_up(ceil_div(items, per), width), 1, 1), (width, 1, 1), per


@lru_cache
def _source(dtype: str, rank: int, descending: bool) -> str:
    key = WIDE.get(dtype, dtype)
    c_type = CTYPE[key]
    less = "a < b || (b != b && a == a)" if key in FLOATS else "a < b"
    order = f"DEVFN b8 before({c_type} a, {c_type} b) {{ return {less}; }}\n"
    if descending:
        order = order.replace(f"{c_type} a, {c_type} b", f"{c_type} b, {c_type} a")
    extents = [f"d{d}" for d in range(rank)]
    x, from_, into = ("x", dtype, False), ("from", "i64", False), ("into", "i64", True)

    def head(name: str, operands: list[tuple[str, str, bool]]) -> str:
        strides = [f"t{o}{d}" for o in "xyz" for d in range(rank)]
        steps = ["step_x", "step_y", "step_z"]
        return signature(
            name, operands, [], ["items", "per", "n", "width", *steps, *extents, *strides]
        )

    def lane(*outputs: str) -> str:
        bases = {f"at_{o}": [f"t{o}{d}" for d in range(rank)] for o in ("x", *outputs)}
        start = "".join(f" i64 at_{o} = o{o};" for o in ("x", *outputs))
        return f"{start[1:]}\n        {{ {decode('lane', extents, bases)} }}"

    def keyed(index: str) -> str:
        return cast(f"x[at_x + ({index}) * step_x]", dtype, key)

    loop = """const i64 first = GID(0) * per;
    for (i64 item = first; item < pk_least(items, first + per); item++) {"""
    return assemble(f"""{order}{head("runs", [x, into])} {{
    {loop}
        const i64 lane = item / width, begin = item % width * {_RUN};
        const i64 end = pk_least(n, begin + {_RUN}), base = ointo + lane * n;
        {lane()}
        for (i64 i = begin; i < end; i++) {{
            const {c_type} moving = {keyed("i")};
            i64 j = i;
            for (; j > begin && before(moving, {keyed("into[base + j - 1]")}); j--)
                into[base + j] = into[base + j - 1];
            into[base + j] = i;
        }}
    }}
}}
{head("merge", [x, from_, into])} {{
    {loop}
        const i64 lane = item / n, j = item - lane * n, base = ofrom + lane * n;
        const i64 run = j / width * width, left = run / width % 2 == 0;
        {lane()}
        const i64 moving = from[base + j];
        const {c_type} mine = {keyed("moving")};
        const i64 other = left ? pk_least(n, run + width) : run - width;
        i64 low = other, high = pk_least(n, other + width);
        while (low < high) {{
            const i64 middle = low + (high - low) / 2;
            const {c_type} theirs = {keyed("from[base + middle]")};
            if (left ? before(theirs, mine) : !before(mine, theirs)) low = middle + 1;
            else high = middle;
        }}
        into[ointo + lane * n + pk_least(run, other) + (j - run) + (low - other)] = moving;
    }}
}}
{head("place", [x, ("y", dtype, True), ("z", "i64", True), from_])} {{
    {loop}
        const i64 lane = item / n, j = item - lane * n;
        {lane("y", "z")}
        const i64 index = from[ofrom + lane * n + j];
        y[at_y + j * step_y] = x[at_x + index * step_x];
        z[at_z + j * step_z] = index;
    }}
}}
""")
