"""The only tolerances in the project.

``BASE`` is (relative, absolute) by dtype for one rounding of a well-conditioned result, torch's own
defaults. ``OPERATORS`` widens single operators, each with its reason. Contractions over ``k``
terms scale by sqrt(k), the growth of independent rounding errors (Higham, Accuracy and Stability of
Numerical Algorithms, section 2.8).
"""

from __future__ import annotations

import math
from typing import Final

BASE: Final[dict[str, tuple[float, float]]] = {
    "f64": (1e-7, 1e-7),
    "f32": (1.3e-6, 1e-5),
    "f16": (1e-3, 1e-5),
    "bf16": (1.6e-2, 1e-5),
}

#: operator → (factor on both, reason)
OPERATORS: Final[dict[str, tuple[float, str]]] = {
    "pow": (4.0, "exp and log of the device's library each round"),
    "prod": (4.0, "products in another order"),
    "var": (4.0, "deviations from a mean that was itself rounded"),
    "batch_norm_train": (8.0, "statistics of statistics; rsqrt amplifies"),
    "softmax_backward": (4.0, "a difference of rounded products"),
    "log_softmax_backward": (4.0, "a difference of rounded products"),
    "rsqrt": (2.0, "two roundings: square root, then quotient"),
    "sigmoid": (2.0, "two roundings: exponential, then reciprocal"),
    "tanh": (4.0, "expansion over primitives, 4.5 ulp measured"),
    "expm1": (4.0, "expansion over primitives, 4.1 ulp measured"),
    "log1p": (4.0, "expansion over primitives, 2.8 ulp measured"),
    "div": (2.0, "gradients divide twice"),
    "sum": (2.0, "another order of addition"),
    "mean": (2.0, "another order of addition"),
}


def tolerance(dtype: str, op: str = "", terms: int = 1) -> tuple[float, float]:
    """(rtol, atol) for results of a dtype (short name); (0, 0) for integers and bool.

    >>> tolerance("i64"), tolerance("f32")
    ((0.0, 0.0), (1.3e-06, 1e-05))
    """
    if dtype not in BASE:
        return 0.0, 0.0
    factor = OPERATORS.get(op, (1.0, ""))[0] * math.sqrt(max(terms, 1))
    rtol, atol = BASE[dtype]
    return rtol * factor, atol * factor
