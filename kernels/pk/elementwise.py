"""Elementwise kernels: one program per tree, rank and class of innermost strides, any shape."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from halon.hal.op_desc import OpSpec
from halon.kernels.loops import coalesce
from halon.kernels.pk.expr import scalar_dtypes, statements
from halon.kernels.pk.launch import (
    FLAG,
    RAISE,
    ZERO_DIVISION,
    Launch,
    Step,
    Target,
    ceil_div,
    decode,
    launch,
    require_f64,
    signature,
)  # fmt: skip
from halon.kernels.pk.text import CTYPE, PACKED, assemble, cast
from halon.kernels.tree import Apply, Input, Node, Scalar, walk

_ITEM_ELEMENTS = 16384  # a CPU work-item's share of a large operand
_TILE = 128  # its extent in both directions where an operand is not walked by ones
_GROUP = 256  # work-items of a GPU's group


@dataclass(frozen=True)
class _Loop:
    """The nest of one operation: ``strides[k]`` belongs to operand k, the output last."""

    shape: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]

    @property
    def inner(self) -> int:
        return self.shape[-1]

    @property
    def rows(self) -> int:
        n = 1
        for extent in self.shape[:-1]:
            n *= extent
        return n


def build(spec: OpSpec, target: Target) -> Launch:
    """The launch of any operation that carries an expression tree."""
    require_f64(target, (*spec.ins, *spec.outs))
    out = spec.outs[0]
    order = sorted(range(len(out.shape)), key=lambda d: -out.strides[d])
    tensors = (*spec.ins, out)
    shape, strides = coalesce(
        [out.shape[d] for d in order], [[t.strides[d] for d in order] for t in tensors]
    )
    loop = _Loop(shape, strides)
    classes = "".join(_stride_class(s[-1], loop.inner) for s in strides)
    divides = bool(_divisors(spec.expr))
    source = _source(
        spec.expr, tuple(t.dtype for t in tensors), spec.scalars, len(shape), classes, target.cpu
    )
    size, group, per = _grid(loop, classes, target)
    fixed = (loop.rows, loop.inner, *per, *shape[:-1])
    for s, kind in zip(strides, classes, strict=True):
        fixed += s[:-1] + ((s[-1],) if kind == "s" else ())
    step = Step(
        source, "elementwise", (*range(len(tensors)), *((FLAG,) if divides else ())), fixed, size,
        group, tuple(range(len(spec.scalars))),
    )  # fmt: skip
    return launch(spec, [step], checks=ZERO_DIVISION if divides else "")


def _divisors(root: Node) -> list[Node]:
    """Operands and numbers that integers are divided by: where 0 raises the device's flag."""
    found = []
    for node in walk(root):
        if isinstance(node, Apply) and node.op in ("idiv", "mod", "fmod") and node.dtype[0] in "iu":
            divisor = node.args[1]
            while isinstance(divisor, Apply) and divisor.op == "cast":
                divisor = divisor.args[0]
            if isinstance(divisor, (Input, Scalar)):
                found.append(divisor)
    return found


def _stride_class(stride: int, extent: int) -> str:
    """``1`` contiguous, ``0`` broadcast, ``s`` anything else along the innermost dimension."""
    if extent == 1:
        return "1"
    return str(stride) if stride in (0, 1) else "s"


def _grid(
    loop: _Loop, classes: str, target: Target
) -> tuple[tuple[int, int, int], tuple[int, int, int], tuple[int, int]]:
    """Global size, group and (elements, rows) per item."""
    inner, rows = loop.inner, loop.rows
    if not target.cpu:
        width = min(_GROUP, 1 << (inner - 1).bit_length())
        height = _GROUP // width
        groups = min(ceil_div(inner, width), target.units * 32), min(ceil_div(rows, height), 65535)
        return (groups[0] * width, groups[1] * height, 1), (width, height, 1), (1, 1)
    if "s" in classes:
        across = min(inner, _TILE)
        down = min(rows, max(1, _TILE * _TILE // across))
    else:
        share = min(_ITEM_ELEMENTS, max(2048, ceil_div(inner * rows, 4 * target.units)))
        across = min(inner, share)
        down = min(rows, max(1, share // across))
    return (ceil_div(inner, across), ceil_div(rows, down), 1), (1, 1, 1), (across, down)


@lru_cache(maxsize=4096)
def _source(
    root: Node, dtypes: tuple[str, ...], scalars: tuple[tuple[str, str], ...], rank: int,
    classes: str, cpu: bool,
) -> str:  # fmt: skip
    last = len(dtypes) - 1
    divisors = _divisors(root)
    names = [f"p{k}" for k in range(last)] + ["q"]
    outer = range(rank - 1)
    extents = [f"d{d}" for d in outer]
    fixed = ["rows", "inner", "across", "down", *extents]
    for k, kind in enumerate(classes):
        fixed += [f"t{k}_{d}" for d in outer] + ([f"t{k}"] if kind == "s" else [])
    head = signature(
        "elementwise",
        [(n, d, k == last) for k, (n, d) in enumerate(zip(names, dtypes, strict=True))]
        + ([("flag", "i64", True)] if divisors else []),
        [(f"s{k}", d) for k, (_, d) in enumerate(scalars)],
        fixed,
    )
    bases = {f"b{k}": [f"t{k}_{d}" for d in outer] for k in range(last + 1)}
    start = " ".join(f"i64 b{k} = o{n};" for k, n in enumerate(names))
    once, each, store = _body(root, dtypes, scalars, classes)
    if cpu:
        rows = "for (i64 row = GID(1) * down; row < pk_least(rows, GID(1) * down + down); row++)"
        items = "const i64 begin = GID(0) * across, end = pk_least(inner, begin + across);"
        loop = "INDEPENDENT\n        for (i64 i = begin; i < end; i++)"
    else:
        rows = "for (i64 row = GID(1); row < rows; row += GSZ(1))"
        items = "const i64 begin = GID(0), end = inner, step = GSZ(0);"
        loop = "for (i64 i = begin; i < end; i += step)"
    lines = "\n            ".join([*each, store])
    body = f"""{head} {{
    {items}
    {rows} {{
        {start}
        {decode("row", extents, bases)}
        {" ".join(once)}
        {loop} {{
            {lines}
        }}
    }}
}}
"""
    return assemble((RAISE if divisors else "") + body, scalar_dtypes(root))


def _body(
    root: Node, dtypes: tuple[str, ...], scalars: tuple[tuple[str, str], ...], classes: str
) -> tuple[list[str], list[str], str]:
    """Statements once per row, statements per element, and the store."""
    last = len(dtypes) - 1
    once, each = [], []
    for k in range(last):
        load = f"const {CTYPE[dtypes[k]]} x{k} = p{k}[b{k}{_step(classes, k)}];"
        (once if classes[k] == "0" else each).append(load)
    numbers = {k: f"s{k}" for k in range(len(scalars))}
    for k, (_, dtype) in enumerate(scalars):
        if dtype in PACKED:
            once.append(f"const {CTYPE[dtype]} h{k} = {cast(f's{k}', 'f32', dtype)};")
            numbers[k] = f"h{k}"
    for d in _divisors(root):
        name = f"x{d.index}" if isinstance(d, Input) else numbers[d.index]  # type: ignore[union-attr]
        each.append(f"if ({name} == 0) pk_raise(flag, oflag, 0);")
    lines, result = statements(root, {k: f"x{k}" for k in range(last)}, numbers)
    return once, each + lines, f"q[b{last}{_step(classes, last)}] = {result};"


def _step(classes: str, k: int) -> str:
    return {"0": "", "1": " + i", "s": f" + i * t{k}"}[classes[k]]
