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
    "c64": (1.3e-6, 1e-5),
    "c128": (1e-7, 1e-7),
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
    "renorm": (2.0, "a norm, a quotient and a product each round"),
    "sum": (2.0, "another order of addition"),
    "mean": (2.0, "another order of addition"),
}

#: operator → how many terms its samples add into one result: the bound is then normwise
TERMS: Final[dict[str, int]] = {
    "mm": 32, "bmm": 32, "matmul": 32, "linear": 32, "convolution": 32, "conv_bwd_input": 32,
    "conv_bwd_weight": 32, "addmm": 32, "addmv": 32, "addr": 4, "addbmm": 32, "baddbmm": 32,
    "cdist": 8, "matrix_power": 64, "einsum": 32, "tensordot": 32, "chain_matmul": 32, "inner": 32,
    "index_add": 4, "scatter_add": 4, "scatter_reduce": 4,
}  # fmt: skip


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
