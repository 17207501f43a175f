"""Operators in torch's signatures where they are not a record's own."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from halon.dispatcher.op import Op
from halon.dispatcher.ops import (
    contraction,
    indexing,
    loss,
    normalisation,
    pooling,
    views,
)
from halon.dispatcher.ops import (
    elementwise as ew,
)
from halon.dispatcher.ops import (
    random as random_ops,
)
from halon.dispatcher.structures import recording
from halon.hal.dtypes import DType
from halon.tensor import derived
from halon.tensor.inplace import store
from halon.tensor.random import Generator, generator_of
from halon.tensor.tensor import Tensor

max_result = namedtuple("max_result", ("values", "indices"))


def add(input: Any, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """``input + alpha * other``."""
    args = (input, other if alpha == 1 else other * alpha)
    return ew.add(*args) if out is None else store(ew.add, out, args)


def sub(input: Any, other: Any, *, alpha: Any = 1, out: Tensor | None = None) -> Tensor:
    """``input - alpha * other``."""
    args = (input, other if alpha == 1 else other * alpha)
    return ew.sub(*args) if out is None else store(ew.sub, out, args)


def extremum(x: Tensor, dim: Any, keepdim: bool, reduce: Any, index: Any, pair: Any) -> Any:
    """The three forms of ``max`` and ``min``: over all, along a dimension, of two tensors."""
    if isinstance(dim, Tensor):
        return pair(x, dim)
    if dim is None:
        return reduce(x)
    if not x.ndim:
        return max_result(views.alias(x), index(x))
    where = index(x, dim, True)
    values = indexing.gather(x, dim, where)
    if not keepdim:
        where, values = views.squeeze(where, dim), views.squeeze(values, dim)
    return max_result(values, where)


def max(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """The largest element; with an int ``dim`` (values, indices); with a tensor ``maximum``."""
    return input.max(dim, keepdim)


def min(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """The smallest element; with an int ``dim`` (values, indices); with a tensor ``minimum``."""
    return input.min(dim, keepdim)


def sum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """Sum over ``dim`` (all by default)."""
    return input.sum(dim, keepdim, dtype=dtype)


def mean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """Mean over ``dim`` (all by default)."""
    return input.mean(dim, keepdim, dtype=dtype)


def var(input: Tensor, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *,
        correction: float | None = None) -> Tensor:  # fmt: skip
    """Variance over ``dim``."""
    return input.var(dim, unbiased, keepdim, correction=correction)


def std(input: Tensor, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *,
        correction: float | None = None) -> Tensor:  # fmt: skip
    """Standard deviation over ``dim``."""
    return input.std(dim, unbiased, keepdim, correction=correction)


def clamp(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Values limited to [min, max]; numbers or tensors, either may be absent."""
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if isinstance(min, (int, float)) and isinstance(max, (int, float)):
        return ew.clamp_both(input, min, max)
    if min is not None:
        input = _limited(input, ew.maximum(input, min), ew.ge, min)
    return input if max is None else _limited(input, ew.minimum(input, max), ew.le, max)


def _limited(x: Tensor, limited: Tensor, inside: Any, bound: Any) -> Tensor:
    """A clamp on one side whose gradient at the bound is the input's, as torch's."""
    if not x.wants_grad or isinstance(bound, Tensor):
        return limited
    return ew.where(inside(x, bound), x, limited.detach())


def softmax(
    input: Tensor, dim: int, dtype: DType | None = None, *, out: Tensor | None = None
) -> Tensor:
    """exp normalised to sum 1 along ``dim``."""
    x = input if dtype is None else input.to(dtype)
    return _into(normalisation.softmax, out, (x, dim))


def log_softmax(
    input: Tensor, dim: int, dtype: DType | None = None, *, out: Tensor | None = None
) -> Tensor:
    """log of ``softmax`` along ``dim``."""
    x = input if dtype is None else input.to(dtype)
    return _into(normalisation.log_softmax, out, (x, dim))


def _into(record: Op, out: Tensor | None, args: tuple[Any, ...]) -> Tensor:
    return record(*args) if out is None else store(record, out, args)


def reshape(input: Tensor, shape: Sequence[int]) -> Tensor:
    """The same elements in another shape."""
    return input.reshape(*shape)


def permute(input: Tensor, dims: Sequence[int]) -> Tensor:
    """Dimensions in another order."""
    return input.permute(*dims)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions ``start_dim`` to ``end_dim`` as one."""
    return input.flatten(start_dim, end_dim)


def t(input: Tensor) -> Tensor:
    """A matrix transposed."""
    return input.t()


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8) -> bool:
    """Whether ``|input - other| <= atol + rtol * |other|`` everywhere."""
    return input.allclose(other, rtol, atol)


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shape and every element are equal."""
    return input.equal(other)


# -- neural-network functions ----------------------------------------------------------------------
def _each(value: int | Sequence[int], n: int) -> tuple[int, ...]:
    """A geometry given once or per spatial dimension."""
    return (value,) * n if isinstance(value, int) else tuple(value)


def _conv(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any,
          transposed: bool, output_padding: Any, groups: int) -> Tensor:  # fmt: skip
    n = weight.ndim - 2
    batched = x.ndim == n + 2
    if not batched:
        x = views.unsqueeze(x, 0)
    y = contraction.convolution(
        x, weight, _each(stride, n), _each(padding, n), _each(dilation, n), transposed,
        _each(output_padding, n), groups,
    )  # fmt: skip
    if bias is not None:
        y = y + bias.view(1, -1, *(1,) * n)
    return y if batched else views.squeeze(y, 0)


def _padded(padding: Any, weight: Tensor, stride: Any, dilation: Any) -> Any:
    """ "valid" and "same" as numbers; "same" with an even span would need uneven padding."""
    if padding == "valid":
        return 0
    if padding != "same":
        return padding
    n = weight.ndim - 2
    if any(s != 1 for s in _each(stride, n)):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    spans = [d * (k - 1) for d, k in zip(_each(dilation, n), weight.shape[2:], strict=True)]
    if any(s % 2 for s in spans):
        raise NotImplementedError(
            f"padding='same' with kernel {list(weight.shape[2:])} needs uneven padding, which is "
            "not supported yet"
        )
    return tuple(s // 2 for s in spans)


def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
           padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:  # fmt: skip
    """1-d convolution of [N, C, L] (or [C, L]) with [O, C / groups, K]."""
    pad = _padded(padding, weight, stride, dilation)
    return _conv(input, weight, bias, stride, pad, dilation, False, 0, groups)


def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
           padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:  # fmt: skip
    """2-d convolution of [N, C, H, W] (or [C, H, W]) with [O, C / groups, KH, KW]."""
    pad = _padded(padding, weight, stride, dilation)
    return _conv(input, weight, bias, stride, pad, dilation, False, 0, groups)


def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1,
                     padding: Any = 0, output_padding: Any = 0, groups: int = 1,
                     dilation: Any = 1) -> Tensor:  # fmt: skip
    """Transposed 2-d convolution of [N, C, H, W] with [C, O / groups, KH, KW]."""
    return _conv(input, weight, bias, stride, padding, dilation, True, output_padding, groups)


def max_pool2d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0,
               dilation: Any = 1, ceil_mode: bool = False,
               return_indices: bool = False) -> Any:  # fmt: skip
    """The largest element of each window of [N, C, H, W] (or [C, H, W])."""
    batched = input.ndim == 4
    x = input if batched else views.unsqueeze(input, 0)
    y, where = pooling.max_pool_with_indices(
        x, _each(kernel_size, 2), _each(kernel_size if stride is None else stride, 2),
        _each(padding, 2), _each(dilation, 2), ceil_mode,
    )  # fmt: skip
    if not batched:
        y, where = views.squeeze(y, 0), views.squeeze(where, 0)
    return (y, where) if return_indices else y


def dropout(input: Tensor, p: float = 0.5, training: bool = True,
            generator: Generator | None = None) -> Tensor:  # fmt: skip
    """Elements zeroed with probability ``p`` and the rest scaled by 1 / (1 - p)."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return input * 0.0
    source = generator_of(input.meta.device, generator)
    key, offset = source.take(input.numel())
    return random_ops.dropout_train(input, p, key, offset)[0]


def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None,
               weight: Tensor | None = None, bias: Tensor | None = None, training: bool = False,
               momentum: float = 0.1, eps: float = 1e-5) -> Tensor:  # fmt: skip
    """Normalise [N, C, …] per channel by batch or running statistics, which training updates."""
    from halon.tensor.creation import ones, zeros

    channels = input.shape[1]
    like = {"dtype": input.dtype, "device": input.device}
    scale = ones(channels, **like) if weight is None else weight
    shift = zeros(channels, **like) if bias is None else bias
    if not training:
        if running_mean is None or running_var is None:
            raise ValueError("batch_norm needs running statistics outside training")
        rows = (1, -1) + (1,) * (input.ndim - 2)
        factor = scale * ew.rsqrt(running_var + eps)
        return input * factor.view(*rows) + (shift - running_mean * factor).view(*rows)
    count = input.numel() // channels if channels else 0
    if count <= 1:
        raise ValueError(
            "Expected more than 1 value per channel when training, got input size "
            f"{list(input.shape)}"
        )
    y, average, variance = normalisation.batch_norm_train(input, scale, shift, eps)
    if running_mean is not None and running_var is not None:
        with recording(False):
            variance = variance * (count / (count - 1))
            running_mean.mul_(1 - momentum).add_(average.to(running_mean.dtype), alpha=momentum)
            running_var.mul_(1 - momentum).add_(variance.to(running_var.dtype), alpha=momentum)
    return y


def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None,
                  size_average: Any = None, ignore_index: int = -100, reduce: Any = None,
                  reduction: str = "mean", label_smoothing: float = 0.0) -> Tensor:  # fmt: skip
    """Negative log-likelihood of int64 classes (or class probabilities) from logits along dim 1."""
    dim = 1 if input.ndim > 1 else 0
    logs = normalisation.log_softmax(input, dim)
    if target.dtype.is_floating_point:
        return _soft_cross_entropy(logs, target, weight, reduction, label_smoothing, dim)
    hard = loss.nll_loss(logs, target, weight, ignore_index, reduction)
    if not label_smoothing:
        return hard
    counted = ew.ne(target, ignore_index)
    scaled = logs if weight is None else logs * _per_class(weight, input.ndim, dim)
    smooth = ew.where(counted, -scaled.sum(dim), 0.0)
    if reduction == "mean":
        per = counted.to(logs.dtype)
        if weight is not None:
            per = per * indexing.index_select(
                weight, 0, ew.where(counted, target, 0).reshape(-1)
            ).reshape(*target.shape)
        smooth = smooth.sum() / per.sum()
    elif reduction == "sum":
        smooth = smooth.sum()
    return hard * (1 - label_smoothing) + smooth * (label_smoothing / input.shape[dim])


def _per_class(weight: Tensor, ndim: int, dim: int) -> Tensor:
    return weight.view(*(1,) * dim, -1, *(1,) * (ndim - dim - 1))


def _soft_cross_entropy(logs: Tensor, target: Tensor, weight: Tensor | None, reduction: str,
                        smoothing: float, dim: int) -> Tensor:  # fmt: skip
    if smoothing:
        target = target * (1 - smoothing) + smoothing / logs.shape[dim]
    if weight is not None:
        target = target * _per_class(weight, logs.ndim, dim)
    each = -(logs * target).sum(dim)
    if reduction == "mean":
        return each.sum() / (each.numel() if each.ndim else 1)
    return each.sum() if reduction == "sum" else each


#: what ``halon`` exports from here, over the derived functions of the same name.
FUNCTIONS = (
    "add", "sub", "max", "min", "sum", "mean", "var", "std", "clamp", "softmax", "log_softmax",
    "reshape", "permute", "flatten", "t", "allclose", "equal",
    "conv1d", "conv2d", "conv_transpose2d", "max_pool2d", "dropout", "batch_norm", "cross_entropy",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """Every other operator's function, derived from its record."""
    if name in derived.FUNCTIONS:
        return getattr(derived, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
