"""Assembling PK source: the header, the scalar functions in use, conversions between dtypes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from halon.hal.dtypes import dtype_of

#: Short dtype name → the PK type it is stored as.
CTYPE: Final[dict[str, str]] = {
    "bool": "b8", "u8": "u8", "i8": "i8", "i16": "i16", "u16": "u16", "i32": "i32", "u32": "u32",
    "i64": "i64", "u64": "u64", "f16": "h16", "bf16": "h16", "f8e4m3": "b8", "f8e5m2": "b8",
    "f32": "f32", "f64": "f64", "c64": "c64", "c128": "c128",
}  # fmt: skip

ITEMSIZE: Final[dict[str, int]] = {
    "bool": 1, "u8": 1, "i8": 1, "f8e4m3": 1, "f8e5m2": 1, "i16": 2, "u16": 2, "f16": 2, "bf16": 2,
    "i32": 4, "u32": 4, "f32": 4, "i64": 8, "u64": 8, "f64": 8, "c64": 8, "c128": 16,
}  # fmt: skip

#: Dtypes that are bits until they are converted: arithmetic on them runs in f32.
PACKED: Final = ("f16", "bf16", "f8e4m3", "f8e5m2")
#: Stored dtype → what arithmetic on it runs in; the dtypes not listed compute in themselves.
WIDE: Final = {
    **dict.fromkeys(PACKED, "f32"), "i8": "i32", "i16": "i32", "u16": "i32", "u32": "i64",
}  # fmt: skip
FLOATS: Final = frozenset({*PACKED, "f32", "f64"})
#: Complex dtype → its parts'.
PARTS: Final = {"c64": "f32", "c128": "f64"}

#: The unsigned type an integer type's arithmetic wraps in.
WRAP: Final[dict[str, str]] = {"u8": "u32", "i32": "u32", "i64": "u64", "u64": "u64"}

_FOLDER = Path(__file__).parent


@cache
def read(name: str) -> str:
    """The text of a file beside this one."""
    return (_FOLDER / name).read_text(encoding="utf-8")


@cache
def scalar_functions(dtype: str) -> str:
    """The ``pk_<op>_<dtype>`` functions of one dtype; none for bool and what is only stored."""
    if dtype in WRAP:
        text = re.sub(r"\bU\b", WRAP[dtype], read("scalar_int.h"))
    elif dtype in ("f32", "f64"):
        text = read("scalar_float.h")
    elif dtype in PARTS:
        text = re.sub(r"\bR\b|(?<=_)P\b", PARTS[dtype], read("scalar_complex.h"))
    else:
        return ""
    text = re.sub(r"/\*.*?\*/\n", "", text, flags=re.S)
    return re.sub(r"\bT\b|(?<=_)T\b", dtype, text)


def assemble(body: str, scalar_dtypes: Iterable[str] = ()) -> str:
    """A complete source: ``pk.h``, the scalar functions of these dtypes, the kernels."""
    used = {*scalar_dtypes, *(c for c in PARTS if re.search(rf"\b{c}\b", body))}
    narrow = read("narrow.h") if re.search(r"_b?f(16|8e\dm\d)(_to_f32)?\(", body) else ""
    parts = [read("pk.h"), narrow, *(scalar_functions(d) for d in sorted(used, key=_rank)), body]
    return "\n".join(filter(None, parts))


def _rank(dtype: str) -> tuple[bool, str]:
    return dtype in PARTS, dtype


def accumulator(dtype: str) -> str:
    """The dtype sums of ``dtype`` are kept in."""
    if dtype in ("f32", "f64"):
        return dtype
    return "f32" if dtype == "f16" else "i64"


def cast(expr: str, source: str, target: str) -> str:
    """PK for the value of ``expr`` as another dtype; ``expr`` must be an operand or bracketed.

    Floats become narrower integers than i64 through i64, which wraps as it does on the host.
    """
    if source == target:
        return expr
    if source in PARTS:
        return _from_complex(expr, source, target)
    if target == "bool":
        mask = {1: "0x7f", 2: "0x7fff"}.get(ITEMSIZE[source], "")
        return f"(({expr} & {mask}) != 0)" if source in PACKED else f"({expr} != 0)"
    if source in PACKED:
        wide = f"pk_h2f({expr})" if source == "f16" else f"pk_{source}_to_f32({expr})"
        return cast(wide, "f32", target)
    if target in PARTS:
        return f"pk_complex_{PARTS[target]}({cast(expr, source, PARTS[target])}, 0)"
    if target == "f16":
        return f"pk_d2h({expr})" if source == "f64" else f"pk_f2h((f32){expr})"
    if target in PACKED:
        return f"pk_f32_to_{target}((f32){expr})"
    if source in FLOATS and target == "u64":
        return f"({expr} < 0 ? (u64)(i64){expr} : (u64){expr})"
    if source in FLOATS and target not in FLOATS and target != "i64":
        return f"(({CTYPE[target]})(i64){expr})"
    return f"(({CTYPE[target]}){expr})"


def _from_complex(expr: str, source: str, target: str) -> str:
    if target in PARTS:
        return f"pk_{source}_to_{target}({expr})"
    if target == "bool":
        return f"({expr}.re != 0 || {expr}.im != 0)"
    return cast(f"{expr}.re", PARTS[source], target)


def literal(value: int | float | complex | bool, dtype: str) -> str:
    """PK for a number of a dtype."""
    if dtype == "bool":
        return "((b8)1)" if value else "((b8)0)"
    if dtype in PARTS:
        parts = (
            _float_literal(v, PARTS[dtype]) for v in (complex(value).real, complex(value).imag)
        )
        return f"pk_complex_{PARTS[dtype]}({', '.join(parts)})"
    if isinstance(value, complex):
        raise TypeError(f"a complex number among numbers of {dtype}")
    if dtype in PACKED:
        with np.errstate(over="ignore", invalid="ignore"):
            bits = np.asarray(value).astype(dtype_of(dtype).numpy)
        return f"(({CTYPE[dtype]}){int(bits.view(f'u{bits.itemsize}'))})"
    if dtype in FLOATS:
        return _float_literal(float(value), dtype)
    number = int(value)
    if number == -(2**63):
        return "(-9223372036854775807L - 1)"
    return f"(({CTYPE[dtype]}){number}{_INTEGER_SUFFIX.get(dtype, '')})"


_INTEGER_SUFFIX: Final = {"i64": "L", "u32": "u", "u64": "UL"}


def _float_literal(value: float, dtype: str) -> str:
    if math.isnan(value):
        return f"(({dtype})PK_NAN)"
    with np.errstate(over="ignore"):
        rounded = float(np.float32(value)) if dtype == "f32" else value
    if math.isinf(rounded):
        return f"(({dtype}){'-' if rounded < 0 else ''}PK_INF)"
    return f"({rounded!r}f)" if dtype == "f32" else f"({rounded!r})"
