"""The ``reduction`` argument of losses, and the two arguments it replaced."""

from __future__ import annotations

import warnings

from halon.tensor.tensor import Tensor


def reduction_name(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction meant; ``size_average`` and ``reduce`` are the older spelling.

    >>> reduction_name(None, None, "sum")
    'sum'
    """
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        name = "none"
    else:
        name = "sum" if size_average is False else "mean"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{name}' instead.",
        stacklevel=4,
    )
    return name


def check_reduction(reduction: str) -> None:
    """Raise ValueError unless it is ``none``, ``mean`` or ``sum``."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")


def reduced(losses: Tensor, reduction: str) -> Tensor:
    """Per-element losses, reduced."""
    check_reduction(reduction)
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" else losses.sum()
