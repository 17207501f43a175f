"""Generated operands: the same numbers for halon and for the library it is compared with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

SPECIAL = (0.0, -0.0, 1.0, -1.0, float("nan"), float("inf"), float("-inf"), 1e-7, 65504.0, 0.5)


class Maker:
    """Calls like ``t(3, 4)`` give operands of a shape; a new Maker repeats the same numbers.

    Args:
        convert: from a NumPy array to the tensor under test.
        dtype: NumPy dtype of the operands.
        special: sprinkle NaN, infinities and signed zeros over floating operands.

    >>> a, b = Maker(np.asarray, np.dtype(np.float32)), Maker(np.asarray, np.dtype(np.float32))
    >>> bool((a(2, 3) == b(2, 3)).all())
    True
    """

    def __init__(
        self, convert: Callable[[np.ndarray], Any], dtype: np.dtype, special: bool = False
    ) -> None:
        self.convert = convert
        self.dtype = dtype
        self.special = special
        self.rng = np.random.default_rng(20260101)

    def __call__(self, *shape: int) -> Any:
        return self.convert(self.array(shape))

    def floats(self, *shape: int) -> Any:
        """An operand of a floating dtype: float32 where the dtype under test is not floating."""
        return self._as(self.dtype if self.dtype.kind in "fcV" else np.dtype("f4"), shape)

    def _as(self, dtype: np.dtype, shape: tuple[int, ...]) -> Any:
        mine, self.dtype = self.dtype, dtype
        try:
            return self.convert(self.array(shape))
        finally:
            self.dtype = mine

    def between(self, low: float, high: float, *shape: int) -> Any:
        """Numbers of [low, high) in the dtype under test; integers are its whole numbers."""
        if self.dtype.kind in "biu":
            values = self.rng.integers(
                int(np.ceil(low)), max(int(high), int(np.ceil(low)) + 1), shape
            )
            return self.convert(np.asarray(values).astype(self.dtype))
        return self.convert(np.asarray(self.rng.uniform(low, high, shape)).astype(self.dtype))

    def index(self, size: int, *shape: int, low: int = 0) -> Any:
        """int64 positions of [low, size)."""
        return self.convert(np.asarray(self.rng.integers(low, size, shape)))

    def order(self, size: int, count: int) -> Any:
        """``count`` different int64 positions of [0, size)."""
        return self.convert(self.rng.permutation(size)[:count].astype(np.int64))

    def mask(self, *shape: int) -> Any:
        """A bool operand."""
        return self.convert(np.asarray(self.rng.random(shape) < 0.5))

    def distinct(self, *shape: int) -> Any:
        """Different numbers in random order: sorting and extrema have one answer (not for bool)."""
        if self.dtype.kind == "b":
            return self(*shape)
        n = int(np.prod(shape))
        values = self.rng.permutation(n) - (0 if self.dtype.kind == "u" else n // 2)
        return self.convert(np.asarray(values.reshape(shape)).astype(self.dtype))

    def increasing(self, *shape: int) -> Any:
        """Rows in ascending order along the last dimension."""
        return self.convert(np.sort(self.array(shape), -1))

    def array(self, shape: tuple[int, ...]) -> np.ndarray:
        """The next operand as a NumPy array: away from 0 and from ties, so gradients exist."""
        if self.dtype.kind == "b":
            return np.asarray(self.rng.random(shape) < 0.5)
        if self.dtype.kind in "iu":
            low = 1 if self.dtype.kind == "u" else -9
            values = self.rng.integers(low, 9, shape)
            return np.asarray(np.where(values == 0, 3, values).astype(self.dtype))
        values = np.asarray(self.rng.uniform(0.3, 2.0, shape) * self.rng.choice([-1, 1], shape))
        if self.special and values.size:
            picks = self.rng.integers(0, len(SPECIAL), shape)
            chosen = np.asarray(SPECIAL)[picks]
            values = np.where(self.rng.random(shape) < 0.5, chosen, values)
        if self.dtype.kind == "c":
            values = values + 1j * self.rng.uniform(-2.0, 2.0, shape)
        with np.errstate(over="ignore"):
            return np.asarray(values).astype(self.dtype)
