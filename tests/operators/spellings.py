"""What to call in torch for each record: most have the same name and the same arguments."""

# ruff: noqa: E501  (the table reads best one spelling per line)
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from halon.dispatcher.op import Op


def _batch_norm(x: Any, w: Any, b: Any, eps: float) -> Any:
    y = torch.native_batch_norm(x, w, b, None, None, True, 0.1, eps)[0]
    return y, x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)


def _prod_backward(g: Any, x: Any, dim: int, keepdim: bool) -> Any:
    if not x.is_floating_point():
        raise TypeError("integers have no gradient")
    (grad,) = torch.autograd.grad(x.requires_grad_().prod(dim, keepdim), x, g)
    return grad


def _each_dim(f: Any, x: Any, dim: Any, keepdim: bool) -> Any:
    if dim is None:
        return f(x)
    for d in sorted((dim,) if isinstance(dim, int) else dim, reverse=True):
        x = f(x, d, keepdim)
    return x


def _over(f: Any) -> Callable[..., Any]:
    """A reduction whose ``dim`` torch does not take as None."""

    def run(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        return f(x) if dim is None else f(x, dim, keepdim)

    return run


def _method(name: str) -> Callable[..., Any]:
    return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)


#: records whose torch spelling differs from ``torch.<name>(*args)`` and ``F.<name>(*args)``
TORCH: dict[str, Any] = {
    "relu_backward": lambda g, y: torch.where(y > 0, g, torch.zeros_like(g)),
    "clamp_both": lambda x, low, high: torch.clamp(x, low, high),
    "cast": lambda x, dtype: x.to(getattr(torch, dtype.name)),
    "dense": lambda x: x.contiguous(),
    "copy": lambda x, src: x.clone().copy_(src),
    "var": lambda x, dim=None, correction=1, keepdim=False: torch.var(x, dim, correction=correction, keepdim=keepdim),
    "sum": _over(torch.sum),
    "mean": _over(torch.mean),
    "amax": lambda x, dim=None, keepdim=False: torch.amax(x, dim if dim is not None else (), keepdim),
    "amin": lambda x, dim=None, keepdim=False: torch.amin(x, dim if dim is not None else (), keepdim),
    "prod": lambda x, dim=None, keepdim=False: _each_dim(torch.prod, x, dim, keepdim),
    "prod_backward": _prod_backward,
    "any": _over(torch.any),
    "all": _over(torch.all),
    "any_of": torch.any,
    "all_of": torch.all,
    "sum_to": lambda x, size: x.sum_to_size(*size),
    "view": _method("view"),
    "expand": _method("expand"),
    "repeat": _method("repeat"),
    "unfold": _method("unfold"),
    "slice_": torch.ops.aten.slice,
    "slice_backward": lambda g, size, dim, start, step: torch.ops.aten.slice_backward(g, size, dim, start, start + g.shape[dim] * step, step),
    "alias": lambda x: x.view_as(x),
    "batched_matmul": torch.matmul,
    "linear": F.linear,
    "aminmax": lambda x, dim=None, keepdim=False: torch.aminmax(x, dim=dim, keepdim=keepdim),
    "cov": lambda x, correction=1: torch.cov(x, correction=correction),
    "gelu": lambda x, approximate="none": F.gelu(x, approximate=approximate),
    "std_mean": lambda x, dim=None, correction=1, keepdim=False: torch.std_mean(x, dim, correction=correction, keepdim=keepdim),
    "var_mean": lambda x, dim=None, correction=1, keepdim=False: torch.var_mean(x, dim, correction=correction, keepdim=keepdim),
    "trapezoid": lambda y, x=None, dx=1, dim=-1: torch.trapezoid(y, dx=dx, dim=dim) if x is None else torch.trapezoid(y, x, dim=dim),
    "convolution": lambda x, w, *rest: torch.convolution(x, w, None, *rest),
    "conv_bwd_input": lambda g, w, size, s, p, d, n: torch.nn.grad.conv2d_input(size, w, g, s, p, d, n),
    "conv_bwd_weight": lambda g, x, size, s, p, d, n: torch.nn.grad.conv2d_weight(x, size, g, s, p, d, n),
    "max_pool_with_indices": lambda x, k, s, p, d, c: F.max_pool2d(x, k, s, p, d, c, return_indices=True),
    "softmax_backward": lambda g, y, dim: (g - (g * y).sum(dim, True)) * y,
    "log_softmax_backward": lambda g, y, dim: g - y.exp() * g.sum(dim, True),
    "batch_norm_train": _batch_norm,
    "mse_loss": lambda x, y, reduction="mean": F.mse_loss(x, y, reduction=reduction),
}  # fmt: skip


def torch_call(op: Op) -> Callable[..., Any] | None:
    """Torch's function for a record; None for one that only halon has."""
    found = TORCH.get(op.name) or getattr(torch, op.name, None) or getattr(F, op.name, None)
    if found is None and hasattr(torch.special, op.name):
        found = getattr(torch.special, op.name)
    return found
