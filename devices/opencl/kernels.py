"""The OpenCL device's op table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from halon.devices.rows import ELEMENTWISE, Entry, Row, bools, floats, ints, row
from halon.hal.op_desc import OpSpec
from halon.hal.properties import ANY, Layout
from halon.kernels.pk import conv, elementwise, generate, indexing, matmul, reduce
from halon.kernels.pk.launch import Launch, Target


def _entry(build: Callable[[OpSpec, Target], Launch]) -> Entry:
    def entry(device: Any, spec: OpSpec) -> Any:
        return device.load(build(spec, device.target), spec.op)

    return entry


def rows(f64: bool) -> list[Row]:
    """The table of a device with or without double precision; CUDA's is the same."""
    any_dtype, numbers = bools | ints | floats, ints | floats
    dense = Layout.CONTIG | Layout.OFFSET
    reduction = _entry(reduce.build)
    table = [
        row(ELEMENTWISE, any_dtype, layouts=ANY, out_layouts=ANY, entry=_entry(elementwise.build)),
        row("iota", numbers, layouts=ANY, entry=_entry(generate.iota)),
        row("philox", frozenset({"i32"}), layouts=ANY, entry=_entry(generate.philox)),
        row("sum", any_dtype, layouts=ANY, entry=reduction),
        row("prod", any_dtype, layouts=ANY, entry=reduction),
        row("max_reduce", any_dtype, layouts=ANY, entry=reduction),
        row("min_reduce", any_dtype, layouts=ANY, entry=reduction),
        row("argmax", any_dtype, layouts=ANY, entry=reduction),
        row("argmin", any_dtype, layouts=ANY, entry=reduction),
        row("matmul", numbers, layouts=ANY, entry=_entry(matmul.build), cost="flops"),
        row("conv", floats, layouts=dense, entry=_entry(conv.conv), cost="flops"),
        row("conv_bwd_input", floats, layouts=dense, entry=_entry(conv.conv_bwd_input),
            cost="flops"),
        row("conv_bwd_weight", floats, layouts=dense, entry=_entry(conv.conv_bwd_weight),
            cost="flops"),
        row("window_reduce", numbers, layouts=dense,
            entry=_entry(conv.window_reduce)),
        row("gather", any_dtype, layouts=ANY, entry=_entry(indexing.gather)),
        row("scatter", any_dtype, layouts=ANY, entry=_entry(indexing.scatter)),
    ]  # fmt: skip
    if f64:
        return table
    double = frozenset({"f64"})
    return [Row(r.op, r.dtypes - double, r.layouts, r.entry, r.cost, r.out_layouts) for r in table]
