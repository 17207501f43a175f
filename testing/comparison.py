"""Comparing results with an expected array, with the project's tolerances."""

from __future__ import annotations

from typing import Any

import numpy as np

from halon.hal.dtypes import from_numpy
from halon.testing.tolerances import tolerance


def as_array(x: Any) -> np.ndarray:
    """A NumPy array of a halon or other tensor, on any device and with any history."""
    if hasattr(x, "detach"):
        x = x.detach()
    return np.asarray(x.cpu().numpy() if hasattr(x, "cpu") else x)


def assert_close(actual: Any, expected: Any, *, op: str = "", terms: int = 1) -> None:
    """Raise AssertionError unless shape, dtype and values agree; NaN equals NaN.

    With ``terms`` > 1 (a contraction) the absolute part scales with the largest element: the error
    bound of a sum with cancellation is normwise.

    >>> import halon
    >>> assert_close(halon.ones(2), np.ones(2, np.float32))
    """
    a, e = as_array(actual), as_array(expected)
    assert a.shape == e.shape, f"{op}: shape {a.shape}, expected {e.shape}"
    assert a.dtype == e.dtype, f"{op}: dtype {a.dtype}, expected {e.dtype}"
    rtol, atol = tolerance(from_numpy(e.dtype).short, op, terms)
    if not rtol:
        np.testing.assert_array_equal(a, e, err_msg=op)
    else:
        finite = np.abs(e[np.isfinite(e)].astype(np.float64))
        if terms > 1 and finite.size:
            atol = max(atol, rtol * float(finite.max()))
        np.testing.assert_allclose(a, e, rtol, atol, equal_nan=True, err_msg=op)
