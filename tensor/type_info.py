"""Limits of dtypes and the questions one asks of promotion."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from halon.dispatcher import promote
from halon.dispatcher.structures import TensorBase
from halon.hal.dtypes import DType


class finfo:
    """Limits of a floating-point or complex dtype (a complex one's are its parts').

    Attributes:
        bits: of an element.
        eps: the distance from 1 to the next number.
        max, min: the largest and the smallest number.
        tiny, smallest_normal: the smallest positive normal number.
        resolution: 10 to the minus the decimal digits that are certain.
        dtype: the dtype's name.

    >>> import halon
    >>> halon.finfo(halon.float16).max
    65504.0
    """

    def __init__(self, type: DType | None = None) -> None:
        dtype = promote.default_dtype() if type is None else type
        if not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "torch.finfo() requires a floating point input type. Use torch.iinfo to handle "
                f"'{dtype.name}'"
            )
        limits: Any = ml_dtypes.finfo(dtype.real.numpy)
        self.bits: int = 8 * dtype.real.itemsize
        self.eps = float(limits.eps)
        self.max = float(limits.max)
        self.min = float(limits.min)
        self.tiny = self.smallest_normal = float(limits.smallest_normal)
        digits = int(-np.floor(np.log10(self.eps))) - 1 if self.eps < 0.1 else 0
        self.resolution = 10.0**-digits
        self.dtype = dtype.name

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )


class iinfo:
    """Limits of an integer dtype: ``bits``, ``max``, ``min``, ``dtype``.

    >>> import halon
    >>> halon.iinfo(halon.uint8).max
    255
    """

    def __init__(self, type: DType) -> None:
        if type.kind not in ("int", "uint"):
            raise TypeError(
                "torch.iinfo() requires an integer input type. Use torch.finfo to handle "
                f"'{type.name}'"
            )
        limits = np.iinfo(type.numpy)
        self.bits, self.max, self.min = limits.bits, int(limits.max), int(limits.min)
        self.dtype = type.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"


def can_cast(from_: DType, to: DType) -> bool:
    """Whether a result of dtype ``from_`` may be stored as ``to`` by an in-place operation.

    >>> import halon
    >>> halon.can_cast(halon.float32, halon.int64), halon.can_cast(halon.int64, halon.float16)
    (False, True)
    """
    return promote.can_cast(from_, to)


def result_type(tensor1: Any, tensor2: Any) -> DType:
    """The dtype of an operation on two tensors or numbers.

    >>> import halon
    >>> halon.result_type(halon.ones(2, dtype=halon.int32), 1.5)
    halon.float32
    """
    given = [x.meta if isinstance(x, TensorBase) else x for x in (tensor1, tensor2)]
    return promote.result_type(*given)


def is_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a tensor."""
    return isinstance(obj, TensorBase)


def is_floating_point(input: TensorBase) -> bool:
    """Whether a tensor's dtype is a floating-point one."""
    return input.meta.dtype.is_floating_point


def is_complex(input: TensorBase) -> bool:
    """Whether a tensor's dtype is a complex one."""
    return input.meta.dtype.is_complex
