"""Type promotion: torch's lattice and its three priorities (dimensioned, 0-d, Python number)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from halon.dispatcher.structures import Meta
from halon.hal import dtypes as dt
from halon.hal.dtypes import DType

_INTS = (dt.int8, dt.int16, dt.int32, dt.int64)


class _Default:
    dtype = dt.float32


def default_dtype() -> DType:
    """The dtype of Python floats: float32 unless ``set_default_dtype`` changed it."""
    return _Default.dtype


def set_default_dtype(dtype: DType) -> None:
    """Make ``dtype`` (a floating type) the dtype of Python floats."""
    if not dtype.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type: {dtype!r}")
    _Default.dtype = dtype


def promote_types(a: DType, b: DType) -> DType:
    """The smallest dtype both convert to, as torch's table.

    >>> promote_types(dt.uint8, dt.int8), promote_types(dt.int64, dt.float16)
    (halon.int16, halon.float16)
    """
    if a is b:
        return a
    if a.category != b.category:
        low, high = (a, b) if a.category < b.category else (b, a)
        if high.is_complex and low is dt.float64:
            return dt.complex128
        return high
    if a.category == 1:
        return _promote_ints(a, b)
    if a.rank != b.rank:
        return a if a.rank > b.rank else b
    return dt.float32  # float16 with bfloat16


def _promote_ints(a: DType, b: DType) -> DType:
    if a.kind == b.kind:
        return a if a.itemsize > b.itemsize else b
    unsigned, signed = (a, b) if a.kind == "uint" else (b, a)
    if unsigned.itemsize < signed.itemsize:
        return signed
    wider = [d for d in _INTS if d.itemsize > unsigned.itemsize]
    if not wider:
        raise RuntimeError(f"promotion of {a!r} with {b!r} is not defined")
    return wider[0]


def can_cast(source: DType, target: DType) -> bool:
    """Whether an in-place result of dtype ``source`` may be stored as ``target``."""
    return source.category <= target.category


def number_dtype(value: Any) -> DType:
    """The dtype a Python number promotes as."""
    kind = value if isinstance(value, type) else type(value)
    if kind is bool:
        return dt.bool_
    if kind is int:
        return dt.int64
    if kind is float:
        return _Default.dtype
    return dt.complex128 if _Default.dtype is dt.float64 else dt.complex64


def result_type(*operands: Any) -> DType:
    """The dtype of an operation on Metas and Python numbers (or their types).

    A lower priority (0-d tensors below dimensioned ones, numbers below both) decides only when its
    category is higher.
    """
    found: list[DType | None] = [None, None, None]
    for o in operands:
        if o is None:
            continue
        level = (0 if o.ndim else 1) if isinstance(o, Meta) else 2
        dtype = o.dtype if isinstance(o, Meta) else number_dtype(o)
        before = found[level]
        found[level] = dtype if before is None else promote_types(before, dtype)
    result = _combine(found[0], _combine(found[1], found[2]))
    assert result is not None
    if result.short in dt.FLOAT8:
        raise NotImplementedError(
            f"arithmetic is not implemented for {result.name}; convert operands first"
        )
    return result


def _combine(high: DType | None, low: DType | None) -> DType | None:
    if high is None or low is None:
        return high or low
    if low.category > high.category:
        return promote_types(high, low)
    return high


@dataclass(frozen=True, slots=True)
class Types:
    """A dtype rule's answer: what each operand is computed in, and the dtype of the output."""

    ins: tuple[DType, ...]
    out: DType


def promote(*operands: Any) -> Types:
    """All operands and the result in the promoted dtype."""
    common = result_type(*operands)
    return Types((common,) * len(operands), common)


def floating(*operands: Any) -> Types:
    """As ``promote``, with integers and bool becoming the default floating dtype."""
    common = result_type(*operands)
    if common.category < 2:
        common = default_dtype()
    return Types((common,) * len(operands), common)


def no_bool(name: str, advice: str) -> Callable[..., Types]:
    """As ``promote``, refusing bool tensors."""

    def rule(*operands: Any) -> Types:
        if any(isinstance(o, Meta) and o.dtype is dt.bool_ for o in operands):
            shown = ", ".join(str(o) for o in operands if isinstance(o, Meta))
            raise RuntimeError(f"{name}({shown}): not supported on a bool tensor; {advice}")
        return promote(*operands)

    return rule


def bool_as_int64(operand: Any) -> Types:
    """One operand in its own dtype, bool in int64."""
    return Types((dt.int64,), dt.int64) if operand.dtype is dt.bool_ else promote(operand)


def compare(*operands: Any) -> Types:
    """Operands promoted, result bool."""
    common = result_type(*operands)
    return Types((common,) * len(operands), dt.bool_)


def logical(*operands: Any) -> Types:
    """Operands by truth value, result bool."""
    return Types((dt.bool_,) * len(operands), dt.bool_)


def select(condition: Any, *operands: Any) -> Types:
    """A bool condition before promoted operands."""
    common = result_type(*operands)
    return Types((dt.bool_,) + (common,) * len(operands), common)
