"""Operations without operands: iota and philox."""

from __future__ import annotations

from functools import lru_cache

from halon.hal.op_desc import OpSpec
from halon.kernels.pk.launch import (
    Launch,
    Step,
    Target,
    ceil_div,
    launch,
    require_f64,
    round_up,
    signature,
)  # fmt: skip
from halon.kernels.pk.text import CTYPE, assemble, cast, read


def iota(spec: OpSpec, target: Target) -> Launch:
    """``y[i] = start + i * step``."""
    require_f64(target, spec.outs)
    y = spec.outs[0]
    size, group = _items(y.numel, target)
    step = Step(_iota_source(y.dtype), "iota", (0,), (y.numel,), size, group, (0, 1))
    return launch(spec, [step])


def philox(spec: OpSpec, target: Target) -> Launch:
    """Random words; one item per counter."""
    y = spec.outs[0]
    size, group = _items(ceil_div(y.numel, 4), target)
    step = Step(assemble(read("philox.cl")), "philox", (0,), (y.numel,), size, group, (0, 1))
    return launch(spec, [step])


def _items(n: int, target: Target) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    width = min(1024 if target.cpu else 256, n)
    return (round_up(n, width), 1, 1), (width, 1, 1)


@lru_cache
def _iota_source(dtype: str) -> str:
    acc = "f32" if dtype == "f16" else dtype
    if dtype in ("u8", "i32", "i64"):
        value = f"pk_add_{dtype}(start, pk_mul_{dtype}(({dtype})i, step))"
    else:
        value = cast(f"(start + ({CTYPE[acc]})i * step)", acc, dtype)
    scalars = [("start", dtype), ("step", dtype)]
    head = signature("iota", [("y", dtype, True)], scalars, ["n"])
    body = f"{head} {{\n    const i64 i = GID(0);\n    if (i < n) y[oy + i] = {value};\n}}\n"
    return assemble(body, [dtype])
