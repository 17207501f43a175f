"""Losses as modules."""

from __future__ import annotations

from halon.nn import functional as F
from halon.nn.module import Module
from halon.nn.reduction import reduction_name
from halon.tensor.tensor import Tensor


class _Loss(Module):
    """Holds how the per-element losses are reduced."""

    reduction: str

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        self.reduction = reduction_name(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """Also holds a weight per class, which moves with the module."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class MSELoss(_Loss):
    """MSELoss(size_average=None, reduce=None, reduction="mean"), squared differences.

    >>> import halon
    >>> from halon import nn
    >>> nn.MSELoss()(halon.tensor([1.0, 3.0]), halon.tensor([1.0, 1.0])).item()
    2.0
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class NLLLoss(_WeightedLoss):
    """NLLLoss(weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean")

    The negated log-probability of each target class. Input [N, C, *] holds log-probabilities,
    target [N, *] int64 classes; targets equal to ``ignore_index`` do not count.

    >>> import halon
    >>> from halon import nn
    >>> nn.NLLLoss()(halon.tensor([[-0.5, -1.0]]), halon.tensor([1])).item()
    1.0
    """

    ignore_index: int

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class CrossEntropyLoss(_WeightedLoss):
    """CrossEntropyLoss(weight=None, size_average=None, ignore_index=-100, reduce=None,
    reduction="mean", label_smoothing=0.0), the negative log-likelihood of softmax(input).

    Input [N, C, *] or [C] holds logits. The target holds int64 classes [N, *], or probabilities in
    the shape of the input.

    >>> import halon
    >>> from halon import nn
    >>> loss = nn.CrossEntropyLoss()(halon.zeros(2, 4), halon.tensor([0, 3]))
    >>> round(loss.item(), 4)
    1.3863
    """

    ignore_index: int
    label_smoothing: float

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )
