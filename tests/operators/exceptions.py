"""Cells where halon and torch differ on purpose, each with its reason: all that is not compared."""

from __future__ import annotations

from typing import Final

#: (operator, dtypes, forms, reason); an empty set means all
EXCEPTIONS: Final[tuple[tuple[str, frozenset[str], frozenset[str], str], ...]] = (
    ("complex", frozenset({"float16"}), frozenset(),
     "torch's complex32 has no counterpart in halon, which refuses"),
    ("view_as_complex", frozenset({"float16"}), frozenset(),
     "torch's complex32 has no counterpart in halon, which refuses"),
    ("signbit", frozenset({"float8_e4m3fn"}), frozenset({"special"}),
     "torch has no signbit of it, and the sign of a NaN is not defined by a conversion"),
    ("mode", frozenset(), frozenset({"special"}),
     "which of NaN and number torch counts follows from its sort's comparator, not from its docs"),
    ("cdist", frozenset(), frozenset({"special"}),
     "torch drops NaN from the largest difference; halon keeps it, as amax does"),
    ("inner", frozenset({"bool"}), frozenset(),
     "torch gives an answer for some strides of bool operands and refuses others"),
    *((name, frozenset({"float16", "bfloat16"}), frozenset({"special"}),
       "torch rounds intermediate products to half precision, where 65504 overflows, elsewhere")
      for name in ("addmm", "addmv", "addbmm", "baddbmm", "addr", "scatter_reduce", "kron",
                   "matrix_power", "einsum")),
)  # fmt: skip


def reason(op: str, dtype: str, form: str) -> str:
    """Why a cell is not compared; empty for one that is."""
    for name, dtypes, forms, why in EXCEPTIONS:
        if name == op and (not dtypes or dtype in dtypes) and (not forms or form in forms):
            return why
    return ""
