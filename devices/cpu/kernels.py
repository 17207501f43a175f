"""The CPU's op table."""

from __future__ import annotations

from typing import Final

from halon.devices.cpu.contraction import conv, matmul
from halon.devices.cpu.elementwise import elementwise
from halon.devices.cpu.indexing import gather, iota, philox, scatter, window_reduce
from halon.devices.cpu.lanes import scan, sort
from halon.devices.cpu.reduction import reduction
from halon.devices.rows import ELEMENTWISE, Row, bools, complexes, floats, ints, row
from halon.hal.dtypes import ALL_DTYPES
from halon.hal.properties import ANY, Layout

NUMBERS: Final = ints | floats
COMPUTED: Final = bools | NUMBERS
REDUCED: Final = COMPUTED | {"u64"}
DENSE: Final = Layout.CONTIG | Layout.OFFSET

ROWS: Final[tuple[Row, ...]] = (
    row(ELEMENTWISE, ALL_DTYPES, layouts=ANY, entry=elementwise, out_layouts=ANY),
    row("copy", ALL_DTYPES, layouts=ANY, entry=elementwise, out_layouts=ANY),
    row("iota", COMPUTED, layouts=ANY, entry=iota),
    row("philox", ints, layouts=ANY, entry=philox),
    row("sum", REDUCED, layouts=ANY, entry=reduction),
    row("prod", REDUCED, layouts=ANY, entry=reduction),
    row("max_reduce", REDUCED, layouts=ANY, entry=reduction),
    row("min_reduce", REDUCED, layouts=ANY, entry=reduction),
    row("argmax", REDUCED, layouts=ANY, entry=reduction),
    row("argmin", REDUCED, layouts=ANY, entry=reduction),
    row("gather", ALL_DTYPES, layouts=ANY, entry=gather),
    row("scatter", ALL_DTYPES, layouts=ANY, entry=scatter),
    row("cumsum", REDUCED, layouts=ANY, entry=scan, out_layouts=ANY),
    row("cumprod", REDUCED, layouts=ANY, entry=scan, out_layouts=ANY),
    row("sort", ALL_DTYPES - complexes, layouts=ANY, entry=sort, out_layouts=ANY),
    row("window_reduce", NUMBERS, layouts=ANY, entry=window_reduce),
    row("matmul", NUMBERS, layouts=ANY, entry=matmul, cost="flops"),
    row("conv", floats, layouts=DENSE, entry=conv, cost="flops"),
    row("conv_bwd_input", floats, layouts=DENSE, entry=conv, cost="flops"),
    row("conv_bwd_weight", floats, layouts=DENSE, entry=conv, cost="flops"),
)
