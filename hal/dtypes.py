"""Element types: one table read by promotion, printing, NumPy and every kernel generator."""

from __future__ import annotations

from typing import Final

import ml_dtypes
import numpy as np


class DType:
    """An element type, compared by identity.

    Attributes:
        name: the long name, ``"float32"``.
        short: the name drivers use, ``"f32"``.
        itemsize: bytes of one element.
        kind: ``"bool"``, ``"int"``, ``"uint"``, ``"float"`` or ``"complex"``.

    >>> import halon
    >>> halon.float32, halon.float32.itemsize, halon.float32.is_floating_point
    (halon.float32, 4, True)
    """

    __slots__ = ("itemsize", "kind", "name", "rank", "short")

    def __init__(self, name: str, short: str, itemsize: int, kind: str, rank: int) -> None:
        self.name = name
        self.short = short
        self.itemsize = itemsize
        self.kind = kind
        self.rank = rank  # position inside its kind: the wider type has the higher rank

    @property
    def is_floating_point(self) -> bool:
        return self.kind == "float"

    @property
    def is_complex(self) -> bool:
        return self.kind == "complex"

    @property
    def real(self) -> DType:
        """The dtype of a complex number's parts; itself for every other dtype."""
        return {"c64": float32, "c128": float64}.get(self.short, self)

    def to_complex(self) -> DType:
        """The complex dtype whose parts hold this one."""
        return self if self.is_complex else complex128 if self is float64 else complex64

    @property
    def is_signed(self) -> bool:
        return self.kind in ("int", "float", "complex")

    @property
    def category(self) -> int:
        """0 bool, 1 integer, 2 floating, 3 complex: what promotion compares first."""
        return _CATEGORY[self.kind]

    @property
    def numpy(self) -> np.dtype:
        """The NumPy dtype of the same layout; ``ml_dtypes`` has those NumPy itself lacks."""
        return _NUMPY[self.short]

    def __repr__(self) -> str:
        return f"halon.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return dtype_of, (self.short,)


_CATEGORY: Final = {"bool": 0, "int": 1, "uint": 1, "float": 2, "complex": 3}

bool_ = DType("bool", "bool", 1, "bool", 0)
uint8 = DType("uint8", "u8", 1, "uint", 0)
int8 = DType("int8", "i8", 1, "int", 1)
int16 = DType("int16", "i16", 2, "int", 2)
uint16 = DType("uint16", "u16", 2, "uint", 2)
int32 = DType("int32", "i32", 4, "int", 3)
uint32 = DType("uint32", "u32", 4, "uint", 3)
int64 = DType("int64", "i64", 8, "int", 4)
uint64 = DType("uint64", "u64", 8, "uint", 4)
float8_e4m3fn = DType("float8_e4m3fn", "f8e4m3", 1, "float", 0)
float8_e5m2 = DType("float8_e5m2", "f8e5m2", 1, "float", 0)
bfloat16 = DType("bfloat16", "bf16", 2, "float", 1)
float16 = DType("float16", "f16", 2, "float", 1)
float32 = DType("float32", "f32", 4, "float", 2)
float64 = DType("float64", "f64", 8, "float", 3)
complex64 = DType("complex64", "c64", 8, "complex", 2)
complex128 = DType("complex128", "c128", 16, "complex", 3)

ALL: Final[tuple[DType, ...]] = (
    bool_, uint8, int8, int16, uint16, int32, uint32, int64, uint64, float8_e4m3fn, float8_e5m2,
    bfloat16, float16, float32, float64, complex64, complex128,
)  # fmt: skip
SHORT: Final[dict[str, DType]] = {d.short: d for d in ALL}
ALL_DTYPES: Final[frozenset[str]] = frozenset(SHORT)

_NUMPY: Final[dict[str, np.dtype]] = {
    d.short: np.dtype(getattr(ml_dtypes, d.name, d.name)) for d in ALL
}
_FROM_NUMPY: Final[dict[np.dtype, DType]] = {n: SHORT[s] for s, n in _NUMPY.items()}


#: float8 and the wide unsigned integers are converted, moved and stored; arithmetic refuses float8.
FLOAT8: Final[frozenset[str]] = frozenset({"f8e4m3", "f8e5m2"})
COMPLEX: Final[frozenset[str]] = frozenset({"c64", "c128"})


def dtype_of(short: str) -> DType:
    """The DType with this short name (``"f32"``); KeyError names the unknown one."""
    return SHORT[short]


def from_numpy(dtype: np.dtype) -> DType:
    """The DType of a NumPy dtype; TypeError where halon has none (strings, objects, dates)."""
    found = _FROM_NUMPY.get(np.dtype(dtype).newbyteorder("="))
    if found is None:
        raise TypeError(
            f"can't convert np.ndarray of type {dtype}. Supported: "
            + ", ".join(str(n) for n in _FROM_NUMPY)
        )
    return found
