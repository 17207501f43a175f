"""The OpenCL device's op table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from halon.devices.rows import ELEMENTWISE, Entry, Row, bools, complexes, floats, ints, row
from halon.hal.dtypes import ALL_DTYPES
from halon.hal.op_desc import OpSpec
from halon.hal.properties import ANY, Layout
from halon.kernels.pk import conv, elementwise, generate, indexing, matmul, reduce, scan, sort
from halon.kernels.pk.launch import Launch, Target


def _entry(build: Callable[[OpSpec, Target], Launch]) -> Entry:
    def entry(device: Any, spec: OpSpec) -> Any:
        return device.load(build(spec, device.target), spec.op)

    return entry


def rows(f64: bool) -> list[Row]:
    """The table of a device with or without double precision; CUDA's is the same."""
    reduced, numbers = bools | ints | floats | {"u64"}, ints | floats
    dense = Layout.CONTIG | Layout.OFFSET
    reduction = _entry(reduce.build)
    table = [
        row(ELEMENTWISE, ALL_DTYPES, layouts=ANY, out_layouts=ANY, entry=_entry(elementwise.build)),
        row("iota", numbers, layouts=ANY, entry=_entry(generate.iota)),
        row("philox", frozenset({"i32"}), layouts=ANY, entry=_entry(generate.philox)),
        row("sum", reduced, layouts=ANY, entry=reduction),
        row("prod", reduced, layouts=ANY, entry=reduction),
        row("max_reduce", reduced, layouts=ANY, entry=reduction),
        row("min_reduce", reduced, layouts=ANY, entry=reduction),
        row("argmax", reduced, layouts=ANY, entry=reduction),
        row("argmin", reduced, layouts=ANY, entry=reduction),
        row("matmul", numbers, layouts=ANY, entry=_entry(matmul.build), cost="flops"),
        row("conv", floats, layouts=dense, entry=_entry(conv.conv), cost="flops"),
        row("conv_bwd_input", floats, layouts=dense, entry=_entry(conv.conv_bwd_input),
            cost="flops"),
        row("conv_bwd_weight", floats, layouts=dense, entry=_entry(conv.conv_bwd_weight),
            cost="flops"),
        row("window_reduce", numbers, layouts=dense,
            entry=_entry(conv.window_reduce)),
        row("gather", ALL_DTYPES, layouts=ANY, entry=_entry(indexing.gather)),
        row("cumsum", reduced, layouts=ANY, out_layouts=ANY, entry=_entry(scan.scan)),
        row("cumprod", reduced, layouts=ANY, out_layouts=ANY, entry=_entry(scan.scan)),
        row("sort", ALL_DTYPES - complexes, layouts=ANY, out_layouts=ANY, entry=_entry(sort.sort)),
        row("scatter", ALL_DTYPES, layouts=ANY, entry=_entry(indexing.scatter)),
    ]  # fmt: skip
    if f64:
        return table
    double = frozenset({"f64", "c128"})
    return [Row(r.op, r.dtypes - double, r.layouts, r.entry, r.cost, r.out_layouts) for r in table]
