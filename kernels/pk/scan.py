"""cumsum and cumprod along one dimension, for any strides.

A lane is cut into chunks, one work-item each. Three steps: the total of every chunk, the running
totals of a lane's chunks, and the scan of each chunk from what precedes it; a lane that is one
chunk needs only the last. Chunks depend on the shape alone, so results repeat.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Final

from halon.hal.op_desc import OpSpec, TensorSpec
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
from halon.kernels.pk.text import CTYPE, ITEMSIZE, PARTS, WIDE, assemble, cast, literal
from halon.kernels.scalar_ops import SCALAR_OPS

_CHUNK: Final = 256  # elements of a chunk at least
_CHUNKS: Final = 1024  # of a lane at most


def scan(spec: OpSpec, target: Target) -> Launch:
    """The launch of ``cumsum`` and ``cumprod``."""
    require_f64(target, spec.ins)
    x, y = spec.ins[0], spec.outs[0]
    dim = spec.attrs["dim"]
    assert isinstance(dim, int)
    n = x.shape[dim] if x.shape else 1
    per = max(_CHUNK, ceil_div(n, _CHUNKS))
    chunks = ceil_div(n, per)
    source, fixed = _lane_walk(x, y, dim, bool(spec.attrs["reverse"]), n)
    lanes = prod(x.shape) // n
    fixed = (lanes, chunks, per, *fixed)
    op = "mul" if spec.op == "cumprod" else "add"
    text = _source(op, x.dtype, source, chunks > 1)
    last = Step(
        text, "scan", (0, 1, *(SCRATCH,) * (chunks > 1)), fixed, *_grid(lanes * chunks, target)
    )
    if chunks == 1:
        return launch(spec, [last])
    totals = Step(text, "totals", (0, SCRATCH), fixed, *_grid(lanes * chunks, target))
    running = Step(text, "running", (SCRATCH,), (lanes, chunks), *_grid(lanes, target))
    itemsize = ITEMSIZE[WIDE.get(x.dtype, x.dtype)]
    return launch(spec, [totals, running, last], [lanes * chunks * itemsize])


def _grid(items: int, target: Target) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    width = 1 if target.cpu else 64
    return (round_up(items, width), 1, 1), (width, 1, 1)


def _lane_walk(
    x: TensorSpec, y: TensorSpec, dim: int, reverse: bool, n: int
) -> tuple[int, tuple[int, ...]]:
    """Rank of the lanes' nest, and the fixed numbers: start and step of a lane, then the nest."""
    others = [d for d in range(len(x.shape)) if d != dim]
    shape, (xs, ys) = coalesce(
        [x.shape[d] for d in others], [[t.strides[d] for d in others] for t in (x, y)]
    )
    steps = [t.strides[dim] if t.shape else 1 for t in (x, y)]
    first = [(n - 1) * s if reverse else 0 for s in steps]
    steps = [-s if reverse else s for s in steps]
    return len(shape), (n, *first, *steps, *shape, *xs, *ys)


@lru_cache
def _source(op: str, dtype: str, rank: int, chunked: bool) -> str:
    wide = WIDE.get(dtype, dtype)
    acc = CTYPE[wide]
    extents = [f"d{d}" for d in range(rank)]
    bases = {"at_x": [f"tx{d}" for d in range(rank)], "at_y": [f"ty{d}" for d in range(rank)]}
    fixed = ["lanes", "chunks", "per", "n", "first_x", "first_y", "step_x", "step_y", *extents,
             *bases["at_x"], *bases["at_y"]]  # fmt: skip
    totals = [("sums", wide, True)]
    x, y = ("x", dtype, False), ("y", dtype, True)
    join = SCALAR_OPS[op].template(wide).format("running", "v", t=wide)
    identity = literal(op == "mul", wide)
    walk = f"""const i64 item = GID(0), lane = item / chunks, from = item % chunks * per;
    if (lane >= lanes) return;
    i64 at_x = ox + first_x + from * step_x, at_y = first_y + from * step_y;
    {{ {decode("lane", extents, bases)} }}"""
    loop = f"""for (i64 i = from; i < pk_least(n, from + per); i++) {{
        const {acc} v = {cast("x[at_x]", dtype, wide)};
        running = {join};"""
    last = f"""{signature("scan", [x, y, *totals * chunked], [], fixed)} {{
    {walk}
    at_y += oy;
    {acc} running = {"from ? sums[osums + item - 1] : " if chunked else ""}{identity};
    {loop}
        y[at_y] = {cast("running", wide, dtype)};
        at_x += step_x;
        at_y += step_y;
    }}
}}
"""
    if not chunked:
        return assemble(last, [wide])
    return assemble(f"""{signature("totals", [x, *totals], [], fixed)} {{
    {walk}
    {acc} running = {identity};
    {loop}
        at_x += step_x;
    }}
    sums[osums + item] = running;
}}
{signature("running", totals, [], ["lanes", "chunks"])} {{
    const i64 lane = GID(0);
    if (lane >= lanes) return;
    {acc} running = {identity};
    for (i64 k = 0; k < chunks; k++) {{
        const {acc} v = sums[osums + lane * chunks + k];
        running = {join};
        sums[osums + lane * chunks + k] = running;
    }}
}}
{last}""", [wide, *([PARTS[wide]] if wide in PARTS else [])])  # fmt: skip
