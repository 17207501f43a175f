"""Methods that take more forms than their record: factors, overloads, dtypes, in-place fills.

``self`` is the Tensor; the functions these call are above this module and are found at call time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from halon.dispatcher.ops import elementwise as ew
from halon.dispatcher.ops import movement, reduction
from halon.dispatcher.select import call
from halon.dispatcher.structures import TensorBase
from halon.hal import dtypes as dt
from halon.hal.dtypes import DType
from halon.tensor.derived import Derived
from halon.tensor.inplace import update


class Forms(Derived):
    """Hand-written overloads between the derived methods and Tensor."""

    __slots__ = ()

    # -- arithmetic with a factor ------------------------------------------------------------------
    def add(self: Any, other: Any, *, alpha: Any = 1) -> Any:
        """``self + alpha * other``."""
        return call(ew.add, (self, other if alpha == 1 else other * alpha))

    def add_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
        """``self += alpha * other``."""
        return update(ew.add, self, (self, other if alpha == 1 else other * alpha))

    def sub(self: Any, other: Any, *, alpha: Any = 1) -> Any:
        """``self - alpha * other``."""
        return call(ew.sub, (self, other if alpha == 1 else other * alpha))

    def sub_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
        """``self -= alpha * other``."""
        return update(ew.sub, self, (self, other if alpha == 1 else other * alpha))

    # -- reductions with more than one form --------------------------------------------------------
    def sum(
        self: Any, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
    ) -> Any:
        """Sum over ``dim`` (all by default), computed in ``dtype`` if given."""
        x = self if dtype is None else self.to(dtype)
        return reduction.sum(x, _dims(dim), keepdim)

    def mean(
        self: Any, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
    ) -> Any:
        """Mean over ``dim`` (all by default), computed in ``dtype`` if given."""
        x = self if dtype is None else self.to(dtype)
        return reduction.mean(x, _dims(dim), keepdim)

    def var(
        self: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *,
        correction: float | None = None,
    ) -> Any:  # fmt: skip
        """Variance over ``dim``; ``correction`` defaults to 1 (``unbiased``)."""
        c = float(unbiased) if correction is None else correction
        return reduction.var(self, _dims(dim), c, keepdim)

    def std(self: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *,
            correction: float | None = None) -> Any:  # fmt: skip
        """Square root of ``var``."""
        return ew.sqrt(self.var(dim, unbiased, keepdim, correction=correction))

    def max(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        """The largest element; with an int ``dim`` (values, indices); with a tensor ``maximum``."""
        from halon.tensor import functions

        return functions.extremum(self, dim, keepdim, reduction.amax, reduction.argmax, ew.maximum)

    def min(self: Any, dim: Any = None, keepdim: bool = False) -> Any:
        """The smallest element; with an int ``dim`` (values, indices); of two, ``minimum``."""
        from halon.tensor import functions

        return functions.extremum(self, dim, keepdim, reduction.amin, reduction.argmin, ew.minimum)

    def clamp(self: Any, min: Any = None, max: Any = None) -> Any:
        """Values limited to [min, max]; either may be absent."""
        from halon.tensor import functions

        return functions.clamp(self, min, max)

    def clamp_(self: Any, min: Any = None, max: Any = None) -> Any:
        """``clamp`` in place."""
        return self.copy_(self.clamp(min, max))

    def fill_(self: Any, value: Any) -> Any:
        """Every element ``value``."""
        if isinstance(value, TensorBase):
            value = value.item()  # type: ignore[attr-defined]
        return update(movement.copy, self, (self, value))

    def zero_(self: Any) -> Any:
        """Every element 0."""
        return self.fill_(0)

    def softmax(self: Any, dim: int, dtype: DType | None = None) -> Any:
        """exp normalised to sum 1 along ``dim``."""
        from halon.tensor import functions

        return functions.softmax(self, dim, dtype)

    def log_softmax(self: Any, dim: int, dtype: DType | None = None) -> Any:
        """log of ``softmax`` along ``dim``."""
        from halon.tensor import functions

        return functions.log_softmax(self, dim, dtype)

    def new_zeros(self: Any, *size: Any, dtype: DType | None = None) -> Any:
        """Zeros on this tensor's device."""
        from halon.tensor import creation

        return creation.zeros(*size, dtype=dtype or self.dtype, device=self.device)

    def allclose(self: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
        """Whether ``|self - other| <= atol + rtol * |other|`` everywhere."""
        close = (self - other).abs() <= atol + rtol * other.abs()
        return bool(reduction.all(close | (self == other)))

    def equal(self: Any, other: Any) -> bool:
        """Whether shape and every element are equal."""
        return self.meta.shape == other.meta.shape and bool(reduction.all(self == other))

    # -- random in place ---------------------------------------------------------------------------
    def uniform_(self: Any, low: float = 0.0, high: float = 1.0, *, generator: Any = None) -> Any:
        """Filled with uniform numbers on [low, high)."""
        from halon.tensor import random

        return self.copy_(random.rand_like(self, generator) * (high - low) + low)

    def normal_(self: Any, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Any:
        """Filled with normal numbers."""
        from halon.tensor import random

        return self.copy_(random.randn_like(self, generator=generator) * std + mean)

    def bernoulli_(self: Any, p: float = 0.5, *, generator: Any = None) -> Any:
        """Filled with 1 with probability ``p``, else 0."""
        from halon.tensor import random

        return self.copy_(random.rand_like(self, generator) < p)


def _dims(dim: Any) -> Any:
    return tuple(dim) if isinstance(dim, (list, tuple)) else dim


def _converter(name: str, dtype: DType) -> Callable[[Any], Any]:
    def convert(self: Any) -> Any:
        return self.to(dtype)

    convert.__name__ = name
    convert.__doc__ = f"This tensor as {dtype!r}."
    return convert


CONVERTERS = (
    ("float", dt.float32), ("double", dt.float64), ("half", dt.float16), ("long", dt.int64),
    ("int", dt.int32), ("bool", dt.bool_), ("byte", dt.uint8), ("bfloat16", dt.bfloat16),
)  # fmt: skip
for _name, _dtype in CONVERTERS:
    setattr(Forms, _name, _converter(_name, _dtype))
