"""The macros through which hand-written PK sources see dtypes: T, T_OUT, ACC, LOAD, STORE, MADD."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from halon.kernels.pk.text import CTYPE, FLOATS, cast

_WRAPPING: Final = {"f16": "f32", "u8": "u32", "i32": "u32", "i64": "u64"}


@dataclass(frozen=True)
class Types:
    """Stored dtype of the operands, of the result; ``acc`` is what sums are kept in.

    Integers accumulate in unsigned types, whose wrapping C defines.
    """

    stored: str
    out: str
    accumulator: str = ""

    @property
    def acc(self) -> str:
        return self.accumulator or _WRAPPING.get(self.stored, self.stored)

    @property
    def defines(self) -> str:
        store = cast("(v)", self.acc, self.out)
        multiply_add = "FMA(a, b, c)" if self.acc in FLOATS else "((a) * (b) + (c))"
        return (
            f"#define T {CTYPE[self.stored]}\n#define T_OUT {CTYPE[self.out]}\n"
            f"#define ACC {CTYPE[self.acc]}\n#define LOAD(v) {cast('(v)', self.stored, self.acc)}\n"
            f"#define STORE(v) {store}\n#define MADD(a, b, c) {multiply_add}\n"
        )
