"""Loss functions as compositions of differentiable operators."""

from __future__ import annotations

from typing import Any

from halon.dispatcher.op import COMPOSE, op
from halon.dispatcher.ops.elementwise import ne, square, where
from halon.dispatcher.ops.indexing import gather
from halon.dispatcher.ops.movement import cast
from halon.dispatcher.ops.reduction import mean, sum
from halon.dispatcher.ops.views import squeeze, unsqueeze
from halon.hal import dtypes as dt


def _reduced(loss: Any, reduction: str) -> Any:
    if reduction == "mean":
        return mean(loss, None, False)
    if reduction == "sum":
        return sum(loss, None, False)
    if reduction == "none":
        return loss
    raise ValueError(f"{reduction} is not a valid value for reduction")


mse_loss = op(
    'mse_loss(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor',
    methods=("function",), doc="Squared difference: mean, sum or per element.",
    decompose=lambda x, y, reduction: _reduced(square(x - y), reduction), grad=COMPOSE,
    samples=lambda t: [(t(3, 4), t(3, 4)), (t(3, 4), t(3, 4), "sum"), (t(3), t(3), "none")],
)  # fmt: skip


def _nll(x: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    if target.meta.dtype is not dt.int64:
        raise RuntimeError(f"nll_loss: expected an int64 target, got {target.meta}")
    dim = 1 if x.meta.ndim > 1 else 0
    expected = x.meta.shape[:dim] + x.meta.shape[dim + 1 :]
    if target.meta.shape != expected:
        raise ValueError(
            f"nll_loss: expected target of shape {list(expected)} for input {x.meta}, got "
            f"{list(target.meta.shape)}"
        )
    counts = ne(target, ignore_index)
    index = unsqueeze(where(counts, target, 0), dim)
    scale = cast(counts, x.meta.dtype)
    if weight is not None:
        from halon.dispatcher.ops.indexing import index_select
        from halon.dispatcher.ops.views import reshape

        per_target = index_select(weight, 0, reshape(index, (-1,)))
        scale = scale * reshape(per_target, target.meta.shape)
    loss = where(counts, -squeeze(gather(x, dim, index), dim) * scale, 0.0)
    if reduction == "mean":
        return sum(loss, None, False) / sum(scale, None, False)
    return _reduced(loss, reduction)


nll_loss = op(
    "nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, "
    'ignore_index: int = -100, reduction: str = "mean") -> Tensor',
    methods=("function",), decompose=_nll, grad=COMPOSE,
    doc="Negative log-likelihood of int64 classes along dim 1 of log-probabilities.",
    samples=lambda t: [],
)  # fmt: skip
