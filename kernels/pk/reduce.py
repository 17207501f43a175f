"""Reductions over any axes and strides: sum, prod, max_reduce, min_reduce, argmax, argmin.

Two kernels. ``item``: one work-item per output and split of the reduced extent, with LANES
accumulators where that extent is contiguous. ``group`` (GPUs): one work-group per output and split,
closed by a tree in local memory. Splits write partial results that a second step reduces. No float
is added atomically, so results repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    signature,
)  # fmt: skip
from halon.kernels.pk.text import CTYPE, ITEMSIZE, accumulator, assemble, cast, literal

_LANES: Final = 16
_SPLIT: Final = 8192  # elements a split has at least
_GROUP: Final = 256


@dataclass(frozen=True)
class _Form:
    """What the source depends on. ``unit``: innermost reduced stride is 1. ``pairs``: the input is
    partial (value, index) pairs; ``partial``: so is the output of an arg reduction."""

    op: str
    source: str
    acc: str
    result: str
    kept: int
    reduced: int
    unit: bool
    kernel: str  # "item" or "group"
    pairs: bool = False
    partial: bool = False

    @property
    def arg(self) -> bool:
        return self.op.startswith("arg")


@dataclass(frozen=True)
class _Nest:
    kept: tuple[int, ...]
    kept_strides: tuple[int, ...]
    reduced: tuple[int, ...]
    reduced_strides: tuple[int, ...]

    @property
    def outs(self) -> int:
        return prod(self.kept)

    @property
    def count(self) -> int:
        return prod(self.reduced)


def build(spec: OpSpec, target: Target) -> Launch:
    """The launch of a reduction; two steps where one would leave processors idle."""
    require_f64(target, (*spec.ins, *spec.outs))
    nest = _nest(spec)
    form = _form(spec, nest, target)
    splits = _splits(nest, form, target)
    if splits == 1:
        return launch(spec, [_step(form, nest, 1, (0,), (1,), target)])
    partial = replace(form, result=form.acc, partial=form.arg)
    values, pairs = (SCRATCH, SCRATCH - 1)[: 1 + form.arg], form.arg
    second = _Nest((nest.outs,), (splits,), (splits,), (1,))
    final = replace(form, source=form.acc, kept=1, reduced=1, unit=True, kernel="item", pairs=pairs)
    scratch = [nest.outs * splits * ITEMSIZE[form.acc]] + [nest.outs * splits * 8] * pairs
    steps = [
        _step(partial, nest, splits, (0,), values, target),
        _step(final, second, 1, values, (1,), target),
    ]
    return launch(spec, steps, scratch)


def _nest(spec: OpSpec) -> _Nest:
    x, y = spec.ins[0], spec.outs[0]
    axes = set(spec.attrs["axes"])  # type: ignore[arg-type]
    kept = [d for d in range(len(x.shape)) if d not in axes]
    gone = [d for d in range(len(x.shape)) if d in axes]
    dense, step = [0] * len(kept), 1
    for i in reversed(range(len(kept))):
        dense[i] = step
        step *= x.shape[kept[i]]
    assert step == y.numel
    kept_shape, kept_strides = coalesce(
        [x.shape[d] for d in kept], [[x.strides[d] for d in kept], dense]
    )
    if not spec.op.startswith("arg"):  # any order will do: the shortest stride innermost
        gone.sort(key=lambda d: -x.strides[d])
    reduced, reduced_strides = coalesce([x.shape[d] for d in gone], [[x.strides[d] for d in gone]])
    return _Nest(kept_shape, kept_strides[0], reduced, reduced_strides[0])


def _form(spec: OpSpec, nest: _Nest, target: Target) -> _Form:
    source, result = spec.ins[0].dtype, spec.outs[0].dtype
    if spec.op in ("sum", "prod"):
        acc = "f64" if result == "f64" else "f32" if result == "f32" and source in (
            "bool", "u8", "i32", "i64") else accumulator(source)  # fmt: skip
    else:
        acc = "f32" if source == "f16" else source
    unit = nest.reduced_strides[-1] == 1
    narrow = nest.outs < 64 * target.units
    group = not target.cpu and (narrow or (unit and nest.count >= 64))
    kernel = "group" if group else "item"
    return _Form(spec.op, source, acc, result, len(nest.kept), len(nest.reduced), unit, kernel)


def _splits(nest: _Nest, form: _Form, target: Target) -> int:
    per_output = 1 if form.kernel == "group" or form.unit else 8  # strided items vectorise across
    wanted = ceil_div((4 if target.cpu else 8) * target.units * per_output, nest.outs)
    return max(1, min(wanted, nest.count // _SPLIT))


def _step(
    form: _Form, nest: _Nest, splits: int, ins: Sequence[int], outs: Sequence[int], target: Target
) -> Step:
    per_split = ceil_div(nest.count, splits)
    lanes = form.unit and nest.count >= 4 * _LANES and not form.arg
    source = _source(form, lanes)
    per_item = 1
    if form.kernel == "group":
        size, group = (_GROUP, nest.outs, splits), (_GROUP, 1, 1)
        if nest.outs > 65535:
            size = (_GROUP * nest.outs, 1, splits)
    elif lanes and target.cpu:
        per_item = max(1, min(_SPLIT // nest.count, ceil_div(nest.outs, 4 * target.units)))
        size, group = (ceil_div(nest.outs, per_item), splits, 1), (1, 1, 1)
    else:
        width = min(64 if target.cpu else _GROUP, nest.outs)
        size, group = (ceil_div(nest.outs, width) * width, splits, 1), (width, 1, 1)
    fixed = (
        nest.outs, per_split, splits, nest.count, per_item, *nest.kept, *nest.kept_strides,
        *nest.reduced, *nest.reduced_strides,
    )  # fmt: skip
    return Step(source, "reduce", (*ins, *outs), fixed, size, group)


@lru_cache(maxsize=1024)
def _source(form: _Form, lanes: bool) -> str:
    operands = [("x", form.source, False)] + [("xi", "i64", False)] * form.pairs
    if form.partial:
        operands += [("y", form.acc, True), ("yi", "i64", True)]
    else:
        operands += [("y", form.result, True)]
    kept = [f"k{d}" for d in range(form.kept)]
    reduced = [f"r{d}" for d in range(form.reduced)]
    fixed = ["outs", "per_split", "splits", "count", "per_item", *kept, *(f"t{k}" for k in kept),
             *reduced, *(f"t{r}" for r in reduced)]  # fmt: skip
    head = signature("reduce", operands, [], fixed)
    body = _group(form) if form.kernel == "group" else _items(form, lanes)
    helpers = _combine(form)
    return assemble(f"{helpers}\n{head} {{\n{body}}}\n", [form.acc])


def _combine(form: _Form) -> str:
    """``better(value, index, best, best_index)`` or ``combine(a, b)``, and the identity."""
    t = CTYPE[form.acc]
    if not form.arg:
        value = _COMBINE[form.op][form.acc != "i64"]
        return f"#define INIT {_identity(form)}\n" + (
            f"DEVFN {t} combine({t} a, {t} b) {{ return {value}; }}\n"
            + (_FOLD_SUM if form.op == "sum" and form.acc != "i64" else _FOLD).replace("T", t)
        )
    sign = ">" if form.op == "argmax" else "<"
    nan = "a != a" if form.acc in ("f32", "f64") else "0"
    both = "b != b" if nan != "0" else "0"
    return (
        f"DEVFN i32 better({t} a, i64 i, {t} b, i64 j) {{\n"
        f"    if (j < 0 || i < 0) return j < 0;\n"
        f"    if (({nan}) != ({both})) return {nan};\n"
        f"    return a {sign} b || ((a == b || ({nan})) && i < j);\n}}\n"
    )


#: Combining two integers of an i64 sum or product (which wrap), and anything else.
_COMBINE: Final[dict[str, tuple[str, str]]] = {
    "sum": ("pk_add_i64(a, b)", "a + b"),
    "prod": ("pk_mul_i64(a, b)", "a * b"),
    "max_reduce": ("a > b ? a : b", "a > b || a != a ? a : b"),
    "min_reduce": ("a < b ? a : b", "a < b || a != a ? a : b"),
}


_FOLD: Final = """DEVFN void fold(T *total, T *lost, T part) { *total = combine(*total, part); }
"""
#: Kahan's compensated sum (CACM 8(1), 1965); an infinite total has lost nothing.
_FOLD_SUM: Final = """DEVFN void fold(T *total, T *lost, T part) {
    const T add = part - *lost, sum = *total + add, over = (sum - *total) - add;
    *lost = over == over ? over : 0;
    *total = sum;
}
"""


def _identity(form: _Form) -> str:
    if form.op in ("sum", "prod"):
        return literal(0 if form.op == "sum" else 1, form.acc)
    if form.acc in ("f32", "f64"):
        return literal(float("-inf") if form.op == "max_reduce" else float("inf"), form.acc)
    low, high = _RANGE[form.acc]
    return literal(low if form.op == "max_reduce" else high, form.acc)


_RANGE: Final[dict[str, tuple[int, int]]] = {
    "bool": (0, 1), "u8": (0, 255), "i32": (-(2**31), 2**31 - 1), "i64": (-(2**63), 2**63 - 1),
    "u64": (0, 2**64 - 1),
}  # fmt: skip


def _load(form: _Form, index: str) -> str:
    return cast(f"x[{index}]", form.source, form.acc)


def _addresses(form: _Form) -> str:
    """Set ``base`` to the address of reduced element ``r``, ``run`` to how many follow in line."""
    names = [f"r{d}" for d in range(form.reduced)]
    inner = names[-1]
    step = "1" if form.unit else f"t{inner}"
    outer = names[:-1]
    if not outer:
        return f"const i64 base = start + r * {step}, run = end - r;"
    return (
        f"i64 row = r / {inner}, column = r - row * {inner}, base = start + column * {step};\n"
        f"        const i64 run = pk_least({inner} - column, end - r);\n"
        f"        {{ {decode('row', outer, {'base': [f't{n}' for n in outer]})} }}"
    )


def _start(form: _Form) -> str:
    kept = [f"k{d}" for d in range(form.kept)]
    return f"i64 start = ox; {{ {decode('o', kept, {'start': [f't{k}' for k in kept]})} }}"


def _store(form: _Form) -> str:
    at = "o * splits + split"
    if not form.arg:
        return f"y[oy + {at}] = {cast('total', form.acc, form.result)};"
    if form.partial:
        return f"y[oy + {at}] = best; yi[oyi + {at}] = best_index;"
    return f"y[oy + {at}] = best_index;"


def _items(form: _Form, lanes: bool) -> str:
    step = "1" if form.unit else f"tr{form.reduced - 1}"
    if form.arg:
        start, finish = f"{CTYPE[form.acc]} best = 0; i64 best_index = -1;", ""
        index = "xi[oxi + base + k]" if form.pairs else "r + k"
        loop = (
            f"for (i64 k = 0; k < run; k++) {{ const {CTYPE[form.acc]} v = "
            f"{_load(form, f'base + k * {step}')}; const i64 i = {index};\n"
            "            if (better(v, i, best, best_index)) { best = v; best_index = i; } }"
        )
    else:
        start, loop, finish = _folding(form, lanes, step)
    return f"""    const i64 split = GID(1), first = GID(0) * per_item;
    const i64 from = split * per_split, end = pk_least(count, from + per_split);
    for (i64 o = first; o < pk_least(outs, first + per_item); o++) {{
        {_start(form)}
        {start}
        for (i64 r = from; r < end;) {{
        {_addresses(form)}
            {loop}
            r += run;
        }}
        {finish}
        {_store(form)}
    }}
"""


def _folding(form: _Form, lanes: bool, step: str) -> tuple[str, str, str]:
    """Declarations, the loop over one run, the end: two levels, which bounds a sum's error."""
    t = CTYPE[form.acc]
    if not lanes:
        start = f"{t} total = INIT, lost = 0, part = INIT; i64 held = 0;"
        loop = f"""for (i64 k = 0; k < run;) {{
                const i64 stop = pk_least(run, k + 128 - held);
                held += stop - k;
                for (; k < stop; k++) part = combine(part, {_load(form, f"base + k * {step}")});
                if (held == 128) {{ fold(&total, &lost, part); part = INIT; held = 0; }}
            }}"""
        return start, loop, "fold(&total, &lost, part);"
    every = f"for (i32 j = 0; j < {_LANES}; j++)"
    fold = (
        f"{{ {t} part = INIT; {every} part = combine(part, lane[j]); fold(&total, &lost, part); }}"
    )
    start = f"{t} lane[{_LANES}], total = INIT, lost = 0; i64 held = 0; {every} lane[j] = INIT;"
    loop = f"""i64 k = 0;
            for (; k + {_LANES} <= run; k += {_LANES}) {{
                UNROLL
                {every} lane[j] = combine(lane[j], {_load(form, "base + k + j")});
                if (++held == 128) {{ held = 0; {fold} {every} lane[j] = INIT; }}
            }}
            for (; k < run; k++) lane[0] = combine(lane[0], {_load(form, "base + k")});"""
    return start, loop, fold


def _group(form: _Form) -> str:
    t = CTYPE[form.acc]
    step = "1" if form.unit else f"tr{form.reduced - 1}"
    names = [f"r{d}" for d in range(form.reduced)]
    index = "r" if len(names) == 1 else f"r % {names[-1]}"
    base = f"i64 base = start + ({index}) * {step};"
    if len(names) > 1:
        outer = names[:-1]
        base += f" {{ {decode(f'r / {names[-1]}', outer, {'base': [f't{n}' for n in outer]})} }}"
    if form.arg:
        start = f"{t} best = 0; i64 best_index = -1;"
        take = (
            f"const {t} v = {_load(form, 'base')}; "
            "if (better(v, r, best, best_index)) { best = v; best_index = r; }"
        )
        tree = _TREE_ARG
    else:
        start, tree = f"{t} total = INIT, lost = 0;", _TREE
        take = f"fold(&total, &lost, {_load(form, 'base')});"
    return f"""    const i64 o = GRP(0) + GRP(1), split = GRP(2);
    const i64 from = split * per_split, end = pk_least(count, from + per_split);
    {_start(form)}
    {start}
    for (i64 r = from + LID(0); r < end; r += {_GROUP}) {{ {base} {take} }}
{tree.format(t=t, n=_GROUP, half=_GROUP // 2, store=_store(form))}"""


_TREE: Final = """    LOCALMEM {t} tree[{n}];
    const i64 me = LID(0);
    tree[me] = total;
    BARRIER();
    for (i64 width = {half}; width > 0; width >>= 1) {{
        if (me < width) tree[me] = combine(tree[me], tree[me + width]);
        BARRIER();
    }}
    total = tree[0];
    if (me == 0) {{ {store} }}
"""

_TREE_ARG: Final = """    LOCALMEM {t} tree[{n}];
    LOCALMEM i64 where[{n}];
    const i64 me = LID(0);
    tree[me] = best; where[me] = best_index;
    BARRIER();
    for (i64 width = {half}; width > 0; width >>= 1) {{
        if (me < width && better(tree[me + width], where[me + width], tree[me], where[me])) {{
            tree[me] = tree[me + width]; where[me] = where[me + width];
        }}
        BARRIER();
    }}
    best = tree[0]; best_index = where[0];
    if (me == 0) {{ {store} }}
"""
