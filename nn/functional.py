"""``halon.nn.functional``: layers without state, in PyTorch's signatures.

Thin over the operators in ``halon.tensor.functions``; what has no operator of its own is composed
here from differentiable ones.
"""

from __future__ import annotations

import warnings

from halon.hal import dtypes
from halon.hal.dtypes import DType
from halon.nn.pairs import Pair, pair
from halon.nn.reduction import check_reduction, reduced, reduction_name
from halon.tensor import functions as ops
from halon.tensor.creation import arange, ones_like, zeros
from halon.tensor.tensor import Tensor

__all__ = [
    "batch_norm", "conv2d", "cross_entropy", "dropout", "l1_loss", "leaky_relu", "linear",
    "log_softmax", "max_pool2d", "mse_loss", "nll_loss", "one_hot", "relu", "relu_", "sigmoid",
    "softmax", "tanh",
]  # fmt: skip


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """linear(input, weight, bias=None) -> Tensor, ``input @ weight.T + bias``.

    ``input`` [*, in], ``weight`` [out, in], ``bias`` [out]; the result is [*, out].

    >>> import halon
    >>> import halon.nn.functional as F
    >>> F.linear(halon.tensor([1.0, 2.0]), halon.tensor([[3.0, 4.0]])).tolist()
    [11.0]
    """
    return ops.linear(input, weight, bias)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | Pair = 1,
    padding: str | int | Pair = 0,
    dilation: int | Pair = 1,
    groups: int = 1,
) -> Tensor:
    """conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1) -> Tensor

    Cross-correlation of ``input`` [N, C, H, W] or [C, H, W] with ``weight`` [out, C/groups, kH,
    kW]; ``padding`` is an int, a pair, ``"valid"`` or ``"same"``.

    Raises:
        ValueError: the padding name is unknown, or ``"same"`` with a stride.

    >>> import halon
    >>> import halon.nn.functional as F
    >>> F.conv2d(halon.ones(1, 1, 3, 3), halon.ones(1, 1, 3, 3), padding="same")[0, 0, 1].tolist()
    [6.0, 9.0, 6.0]
    """
    stride, dilation = pair(stride), pair(dilation)
    if padding == "same":
        input, padding = _pad_to_same(input, weight, stride, dilation)
    elif padding == "valid":
        padding = (0, 0)
    elif isinstance(padding, str):
        raise ValueError(f"Invalid padding string {padding!r}, should be one of ('valid', 'same')")
    return ops.conv2d(input, weight, bias, stride, pair(padding), dilation, groups)


def _pad_to_same(
    input: Tensor, weight: Tensor, stride: Pair, dilation: Pair
) -> tuple[Tensor, Pair]:
    """What is left to pad on both sides; an odd total puts one more zero after the input."""
    if stride != (1, 1):
        raise ValueError("padding='same' is not supported for strided convolutions")
    totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[-2:], strict=True)]
    for dim, total in zip((-2, -1), totals, strict=True):
        if total % 2:
            shape = list(input.shape)
            shape[dim] = 1
            edge = zeros(shape, dtype=input.dtype, device=input.device)
            input = ops.cat([input, edge], dim)
    return input, (totals[0] // 2, totals[1] // 2)


def max_pool2d(
    input: Tensor,
    kernel_size: int | Pair,
    stride: int | Pair | None = None,
    padding: int | Pair = 0,
    dilation: int | Pair = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
    return_indices=False) -> Tensor, or (Tensor, int64 Tensor)

    The maximum of each window of ``input`` [N, C, H, W] or [C, H, W]; ``stride`` defaults to the
    window.

    >>> import halon
    >>> import halon.nn.functional as F
    >>> F.max_pool2d(halon.arange(4.0).reshape(1, 1, 2, 2), 2).item()
    3.0
    """
    return ops.max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False,
    momentum=0.1, eps=1e-5) -> Tensor

    Normalises each channel of ``input`` [N, C, *]: by the batch in training, which updates the
    running statistics in place, and by the running statistics otherwise.

    Raises:
        ValueError: training with one value per channel, or ``eps`` out of range.

    >>> import halon
    >>> import halon.nn.functional as F
    >>> x = halon.tensor([[0.0], [2.0]])
    >>> F.batch_norm(x, None, None, training=True, eps=1e-12).tolist()
    [[-1.0], [1.0]]
    """
    if training and input.numel() == input.shape[1]:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {input.shape}"
        )
    if training and eps <= 0.0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    if eps < 0.0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return ops.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """dropout(input, p=0.5, training=True, inplace=False) -> Tensor

    Zeroes elements with probability ``p`` and scales the rest by 1/(1 - p); outside training the
    input is returned. ValueError if ``p`` is outside [0, 1].

    >>> import halon
    >>> import halon.nn.functional as F
    >>> F.dropout(halon.ones(2), training=False).tolist()
    [1.0, 1.0]
    """
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not inplace:
        return ops.dropout(input, p, training)
    if not training or p == 0.0:
        return input
    return input.mul_(ops.dropout(ones_like(input), p, True))


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """relu(input, inplace=False) -> Tensor, ``max(x, 0)`` of each element.

    >>> import halon
    >>> import halon.nn.functional as F
    >>> F.relu(halon.tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return input.relu_() if inplace else ops.relu(input)


def relu_(input: Tensor) -> Tensor:
    """relu_(input) -> Tensor, ``relu`` in place."""
    return input.relu_()


def leaky_relu(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """leaky_relu(input, negative_slope=0.01) -> Tensor, ``x`` where positive, else slope·x.

    >>> import halon
    >>> import halon.nn.functional as F
    >>> F.leaky_relu(halon.tensor([-2.0, 2.0]), 0.5).tolist()
    [-1.0, 2.0]
    """
    return ops.where(input > 0, input, input * negative_slope)


def sigmoid(input: Tensor) -> Tensor:
    """sigmoid(input) -> Tensor, ``1 / (1 + exp(-x))`` of each element."""
    return ops.sigmoid(input)


def tanh(input: Tensor) -> Tensor:
    """tanh(input) -> Tensor, the hyperbolic tangent of each element."""
    return ops.tanh(input)


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    """softmax(input, dim=None, dtype=None) -> Tensor, exponentials that sum to one along ``dim``.

    ``dtype`` converts the input first. Leaving ``dim`` out warns and takes 0 for 0, 1 and 3
    dimensions and 1 for others.

    >>> import halon
    >>> import halon.nn.functional as F
    >>> F.softmax(halon.zeros(2), dim=0).tolist()
    [0.5, 0.5]
    """
    dim = _implied_dim("softmax", input, _stacklevel) if dim is None else dim
    return ops.softmax(input if dtype is None else input.to(dtype), dim)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None
) -> Tensor:
    """log_softmax(input, dim=None, dtype=None) -> Tensor, the logarithm of ``softmax``.

    >>> import halon
    >>> import halon.nn.functional as F
    >>> F.log_softmax(halon.tensor([1000.0, 0.0]), dim=0).tolist()
    [0.0, -1000.0]
    """
    dim = _implied_dim("log_softmax", input, _stacklevel) if dim is None else dim
    return ops.log_softmax(input if dtype is None else input.to(dtype), dim)


def _implied_dim(name: str, input: Tensor, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include "
        "dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if input.dim() in (0, 1, 3) else 1


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """mse_loss(input, target, reduction="mean", weight=None) -> Tensor, squared differences.

    Different shapes broadcast with a warning; ``weight`` multiplies each element's loss, and the
    mean is then a weighted one.

    >>> import halon
    >>> import halon.nn.functional as F
    >>> F.mse_loss(halon.tensor([1.0, 3.0]), halon.zeros(2), reduction="none").tolist()
    [1.0, 9.0]
    """
    reduction = reduction_name(size_average, reduce, reduction)
    check_reduction(reduction)
    _warn_of_shapes(input, target)
    if weight is None:
        return ops.mse_loss(input, target, reduction=reduction)
    losses = (input - target) ** 2 * weight
    if reduction == "mean":
        return losses.sum() / weight.sum()
    return reduced(losses, reduction)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """l1_loss(input, target, reduction="mean") -> Tensor, absolute differences.

    >>> import halon
    >>> import halon.nn.functional as F
    >>> F.l1_loss(halon.tensor([1.0, 3.0]), halon.zeros(2)).item()
    2.0
    """
    _warn_of_shapes(input, target)
    return reduced((input - target).abs(), reduction_name(size_average, reduce, reduction))


def _warn_of_shapes(input: Tensor, target: Tensor) -> None:
    if tuple(input.shape) != tuple(target.shape):
        warnings.warn(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            stacklevel=3,
        )


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """nll_loss(input, target, weight=None, ignore_index=-100, reduction="mean") -> Tensor

    The negated log-probability of each target class: ``input`` [N, C, *] or [C], ``target`` int64
    [N, *] or a scalar. The mean is weighted by the target's class weights.

    >>> import halon
    >>> import halon.nn.functional as F
    >>> F.nll_loss(halon.tensor([[-0.5, -1.0]]), halon.tensor([0])).item()
    0.5
    """
    reduction = reduction_name(size_average, reduce, reduction)
    check_reduction(reduction)
    return ops.nll_loss(
        input, target, weight=weight, ignore_index=ignore_index, reduction=reduction
    )


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
    label_smoothing=0.0) -> Tensor, the negative log-likelihood of softmax(input)

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
    if tuple(input.shape) == tuple(target.shape) and not target.is_floating_point():
        raise RuntimeError(
            f"Expected floating point type for target with class probabilities, got {target.dtype}"
        )
    return ops.cross_entropy(
        input,
        target,
        weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """one_hot(tensor, num_classes=-1) -> int64 Tensor [*, num_classes]

    One where the last index equals the class. ``num_classes`` -1 takes the largest class plus one.

    Raises:
        RuntimeError: the dtype is not int64, or a class is outside the range.

    >>> import halon
    >>> import halon.nn.functional as F
    >>> F.one_hot(halon.tensor([1, 0])).tolist()
    [[0, 1], [1, 0]]
    """
    if tensor.dtype is not dtypes.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if tensor.numel() == 0 and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    if tensor.numel():
        if int(tensor.min()) < 0:
            raise RuntimeError("Class values must be non-negative.")
        largest = int(tensor.max())
        num_classes = largest + 1 if num_classes == -1 else num_classes
        if largest >= num_classes:
            raise RuntimeError("Class values must be smaller than num_classes.")
    classes = arange(num_classes, device=tensor.device)
    return (tensor.unsqueeze(-1) == classes).to(dtypes.int64)
