"""Cross entropy: log-softmax with class indices or with probabilities as the target."""

from __future__ import annotations

from halon.nn.reduction import check_reduction, reduced, reduction_name
from halon.tensor import functions as ops
from halon.tensor.tensor import Tensor


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """cross_entropy(input, target, weight=None, ignore_index=-100, reduction="mean",
    label_smoothing=0.0) -> Tensor

    Args:
        input: logits [N, C, *] or [C].
        target: int64 classes [N, *] or a scalar, or probabilities in the shape of ``input``.
        weight: a factor per class [C].
        ignore_index: this class neither counts nor has a gradient (class targets only).
        label_smoothing: the share of the target spread evenly over all classes.

    Raises:
        ValueError: an unknown reduction.
        RuntimeError: ``label_smoothing`` is outside [0, 1], or shapes do not fit.

    >>> import halon
    >>> import halon.nn.functional as F
    >>> round(F.cross_entropy(halon.zeros(1, 4), halon.tensor([2])).item(), 4)
    1.3863
    """
    reduction = reduction_name(size_average, reduce, reduction)
    check_reduction(reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    class_dim = 0 if input.dim() == 1 else 1
    log_probabilities = ops.log_softmax(input, class_dim)
    if tuple(input.shape) == tuple(target.shape):
        return _with_probabilities(
            log_probabilities, target, weight, reduction, label_smoothing, class_dim
        )
    hard = ops.nll_loss(
        log_probabilities, target, weight=weight, ignore_index=ignore_index, reduction=reduction
    )
    if label_smoothing == 0.0:
        return hard
    even = _even(log_probabilities, target, weight, reduction, ignore_index, class_dim)
    share = label_smoothing / input.shape[class_dim]
    return hard * (1 - label_smoothing) + even * share


def _even(
    log_probabilities: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: str,
    ignore_index: int,
    class_dim: int,
) -> Tensor:
    """The loss against every class at once, reduced as ``nll_loss`` reduces."""
    if weight is not None:
        log_probabilities = log_probabilities * _along(weight, log_probabilities, class_dim)
    losses = -log_probabilities.sum(class_dim)
    ignored = target == ignore_index
    losses = losses.masked_fill(ignored, 0.0)
    if reduction != "mean":
        return reduced(losses, reduction)
    if weight is None:
        return losses.sum() / (~ignored).sum()
    # an ignored target may lie outside the classes, so it must not index the weights
    counted = weight[target.masked_fill(ignored, 0)].masked_fill(ignored, 0.0)
    return losses.sum() / counted.sum()


def _with_probabilities(
    log_probabilities: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: str,
    label_smoothing: float,
    class_dim: int,
) -> Tensor:
    if not target.is_floating_point():
        raise RuntimeError(
            f"Expected floating point type for target with class probabilities, got {target.dtype}"
        )
    classes = target.shape[class_dim]
    if label_smoothing > 0.0:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    products = log_probabilities * target
    if weight is not None:
        products = products * _along(weight, products, class_dim)
    if reduction == "none":
        return -products.sum(class_dim)
    total = -products.sum()
    return total if reduction == "sum" else total / (target.numel() // classes)


def _along(weight: Tensor, like: Tensor, class_dim: int) -> Tensor:
    """``weight`` [C] in a shape that broadcasts over the class dimension of ``like``."""
    return weight.reshape([-1 if dim == class_dim else 1 for dim in range(like.dim())])
