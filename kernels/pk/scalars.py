"""How run-time scalars become kernel arguments: by wrapping and rounding, never by refusing."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

import numpy as np


def _f32(value: float) -> float:
    return ctypes.c_float(value).value  # beyond the range: infinity, not OverflowError


def _f16(value: float) -> float:
    return _f32(value)  # rounded to f16 in the kernel


def _int(kind: type) -> Callable[[int], int]:
    return lambda value: kind(int(value)).value


#: Short dtype name → what makes a Python number fit it.
CONVERT: Final[dict[str, Callable[[Any], Any]]] = {
    "bool": lambda value: 1 if value else 0,
    "u8": _int(ctypes.c_uint8),
    "i32": _int(ctypes.c_int32),
    "i64": _int(ctypes.c_int64),
    "f16": _f16,
    "f32": _f32,
    "f64": float,
}

#: Short dtype name → the NumPy type of the argument (an f16 travels as f32).
NUMPY: Final[dict[str, type[np.generic]]] = {
    "bool": np.uint8, "u8": np.uint8, "i32": np.int32, "i64": np.int64,
    "f16": np.float32, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
