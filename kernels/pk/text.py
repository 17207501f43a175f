"""Assembling PK source: the header, the scalar functions in use, conversions between dtypes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

#: Short dtype name → the PK type it is stored as.
CTYPE: Final[dict[str, str]] = {
    "bool": "b8", "u8": "u8", "i32": "i32", "i64": "i64", "f16": "h16", "f32": "f32", "f64": "f64",
    "u32": "u32", "u64": "u64",
}  # fmt: skip

ITEMSIZE: Final[dict[str, int]] = {
    "bool": 1, "u8": 1, "i32": 4, "i64": 8, "f16": 2, "f32": 4, "f64": 8, "u32": 4, "u64": 8,
}  # fmt: skip

FLOATS: Final = frozenset({"f16", "f32", "f64"})

#: The unsigned type an integer type's arithmetic wraps in.
WRAP: Final[dict[str, str]] = {"u8": "u32", "i32": "u32", "i64": "u64"}

_FOLDER = Path(__file__).parent


@cache
def read(name: str) -> str:
    """The text of a file beside this one."""
    return (_FOLDER / name).read_text(encoding="utf-8")


@cache
def scalar_functions(dtype: str) -> str:
    """The ``pk_<op>_<dtype>`` functions of one dtype; none for bool and f16."""
    if dtype in WRAP:
        text = re.sub(r"\bU\b", WRAP[dtype], read("scalar_int.h"))
    elif dtype in ("f32", "f64"):
        text = read("scalar_float.h")
    else:
        return ""
    text = re.sub(r"/\*.*?\*/\n", "", text, flags=re.S)
    return re.sub(r"\bT\b|(?<=_)T\b", dtype, text)


def assemble(body: str, scalar_dtypes: Iterable[str] = ()) -> str:
    """A complete source: ``pk.h``, the scalar functions of these dtypes, the kernels."""
    parts = [read("pk.h"), *(scalar_functions(d) for d in sorted(set(scalar_dtypes))), body]
    return "\n".join(filter(None, parts))


def accumulator(dtype: str) -> str:
    """The dtype sums of ``dtype`` are kept in."""
    if dtype in ("f32", "f64"):
        return dtype
    return "f32" if dtype == "f16" else "i64"


def cast(expr: str, source: str, target: str) -> str:
    """PK for the value of ``expr`` as another dtype; ``expr`` must be an operand or bracketed.

    Floats become u8 through i64, which wraps as it does on the host. f16 values are h16 bits.
    """
    if source == target:
        return expr
    if target == "bool":
        return f"(({expr} & 0x7fff) != 0)" if source == "f16" else f"({expr} != 0)"
    if source == "f16":
        return cast(f"pk_h2f({expr})", "f32", target)
    if target == "f16":
        return f"pk_d2h({expr})" if source == "f64" else f"pk_f2h((f32){expr})"
    if target == "u8" and source in FLOATS:
        return f"((u8)(i64){expr})"
    return f"(({CTYPE[target]}){expr})"


def literal(value: int | float | bool, dtype: str) -> str:
    """PK for a number of a dtype."""
    if dtype == "bool":
        return "((b8)1)" if value else "((b8)0)"
    if dtype == "f16":
        return f"((h16){int(np.float16(value).view(np.uint16))})"
    if dtype in FLOATS:
        return _float_literal(float(value), dtype)
    number = int(value)
    if number == -(2**63):
        return "(-9223372036854775807L - 1)"
    return f"(({CTYPE[dtype]}){number}{'L' if dtype == 'i64' else ''})"


def _float_literal(value: float, dtype: str) -> str:
    if math.isnan(value):
        return f"(({dtype})PK_NAN)"
    with np.errstate(over="ignore"):
        rounded = float(np.float32(value)) if dtype == "f32" else value
    if math.isinf(rounded):
        return f"(({dtype}){'-' if rounded < 0 else ''}PK_INF)"
    return f"({rounded!r}f)" if dtype == "f32" else f"({rounded!r})"
