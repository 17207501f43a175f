"""How run-time scalars become kernel arguments: by wrapping and rounding, never by refusing."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from halon.kernels.pk.text import PACKED


def _f32(value: float) -> float:
    return ctypes.c_float(value).value  # beyond the range: infinity, not OverflowError


def _int(kind: type) -> Callable[[int], int]:
    return lambda value: kind(int(value)).value


#: Short dtype name → what makes a Python number fit it.
CONVERT: Final[dict[str, Callable[[Any], Any]]] = {
    "bool": lambda value: 1 if value else 0,
    "u8": _int(ctypes.c_uint8),
    "i8": _int(ctypes.c_int8),
    "i16": _int(ctypes.c_int16),
    "u16": _int(ctypes.c_uint16),
    "i32": _int(ctypes.c_int32),
    "u32": _int(ctypes.c_uint32),
    "i64": _int(ctypes.c_int64),
    "u64": _int(ctypes.c_uint64),
    **dict.fromkeys(PACKED, _f32),  # rounded in the kernel
    "f32": _f32,
    "f64": float,
    "c64": complex,
    "c128": complex,
}

#: Short dtype name → the NumPy type of the argument (what is packed travels as f32).
NUMPY: Final[dict[str, type[np.generic]]] = {
    "bool": np.uint8, "u8": np.uint8, "i8": np.int8, "i16": np.int16, "u16": np.uint16,
    "i32": np.int32, "u32": np.uint32, "i64": np.int64, "u64": np.uint64,
    **dict.fromkeys(PACKED, np.float32), "f32": np.float32, "f64": np.float64,
    "c64": np.complex64, "c128": np.complex128,
}  # fmt: skip
