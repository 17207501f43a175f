"""A device's op table: rows a person can read, and the look-up that explains a miss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from halon.hal.op_desc import OpSpec, TensorSpec, describe
from halon.hal.properties import Layout

#: Stands for every operation with an expression tree and no row of its own.
ELEMENTWISE: Final = "elementwise"

#: ``entry(device, spec)`` builds what ``device.run_plan`` will find as ``plan.kernel``;
#: it raises Declined with a reason where the row's promise does not hold for this signature.
Entry = Callable[[Any, OpSpec], Any]

bools: Final = frozenset({"bool"})
ints: Final = frozenset({"u8", "i32", "i64"})
floats: Final = frozenset({"f16", "f32", "f64"})
complexes: Final = frozenset({"c64", "c128"})


@dataclass(frozen=True)
class Row:
    """One operation (or ELEMENTWISE) for some dtypes and layouts.

    ``dtypes`` bounds every operand, outputs included; ``layouts`` bounds the inputs, and
    ``out_layouts`` the outputs. ``cost`` is ``"bandwidth"`` or ``"flops"``: what bounds its time.
    """

    op: str
    dtypes: frozenset[str]
    layouts: Layout
    entry: Entry
    cost: str = "bandwidth"
    out_layouts: Layout = Layout.CONTIG

    def refusal(self, spec: OpSpec) -> tuple[str, str]:
        """``("", "")`` if the row takes the signature, else what fails: ("dtype", reason), …"""
        for t in (*spec.ins, *spec.outs):
            if t.dtype not in self.dtypes:
                return "dtype", f"{t.dtype} is not in the row's {sorted(self.dtypes)}"
        for t, allowed, role in _with_layouts(self, spec):
            if not t.layout & (allowed | Layout.EMPTY):
                return "layout", f"{role} {describe(t)} is {t.layout.name}"
        return "", ""


def _with_layouts(row: Row, spec: OpSpec) -> Iterable[tuple[TensorSpec, Layout, str]]:
    yield from ((t, row.layouts, "operand") for t in spec.ins)
    yield from ((t, row.out_layouts, "output") for t in spec.outs)


def row(
    op: str, dtypes: frozenset[str], *, layouts: Layout, entry: Entry, cost: str = "bandwidth",
    out_layouts: Layout = Layout.CONTIG,
) -> Row:  # fmt: skip
    """A row, written the way tables in ``kernels.py`` read."""
    return Row(op, dtypes, layouts, entry, cost, out_layouts)


def find_row(rows: Sequence[Row], spec: OpSpec) -> tuple[Row | None, str, str]:
    """The first row that takes ``spec``, else (None, kind, reason) of the nearest miss.

    ``kind`` is ``"op"`` (no row), ``"dtype"`` or ``"layout"``; the planner mends a layout by a copy
    and a dtype by a widening cast.
    """
    named = [r for r in rows if r.op == spec.op]
    if not named and spec.expr is not None:
        named = [r for r in rows if r.op == ELEMENTWISE]
    if not named:
        return None, "op", f"no native {spec.op}"
    misses = []
    for candidate in named:
        kind, reason = candidate.refusal(spec)
        if not kind:
            return candidate, "", ""
        misses.append((kind, reason))
    kind, reason = min(misses, key=lambda m: m[0] != "layout")
    return None, kind, f"{spec.op}: {reason}"
