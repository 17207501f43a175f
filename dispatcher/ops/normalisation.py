"""Softmax and batch normalisation."""

from __future__ import annotations

from typing import Any

from halon.dispatcher.op import op
from halon.dispatcher.ops.elementwise import exp, log, rsqrt, square
from halon.dispatcher.ops.movement import cast
from halon.dispatcher.ops.reduction import amax, mean, single_dim, sum
from halon.dispatcher.ops.views import reshape
from halon.dispatcher.promote import default_dtype
from halon.hal import dtypes as dt


def _working(x: Any) -> tuple[Any, Any]:
    """A tensor in the dtype a normalisation computes in, and the dtype of its result."""
    dtype = x.meta.dtype
    if dtype.category < 2:
        dtype = default_dtype()
    return cast(x, dt.float32 if dtype.itemsize == 2 else dtype), dtype


def _softmax(x: Any, dim: int) -> Any:
    wide, dtype = _working(x)
    d = single_dim(dim, x.meta.ndim)
    weights = exp(wide - amax(wide, d, True))
    return cast(weights / sum(weights, d, True), dtype)


softmax = op(
    "softmax(input: Tensor, dim: int) -> Tensor", methods=("function", "method"),
    doc="exp(input) normalised to sum 1 along ``dim``, without overflow.", decompose=_softmax,
    grad=lambda g, out, x, dim: softmax_backward(g, out, dim),
    samples=lambda t: [(t(3, 4), 1), (t(2, 3, 4), 0), (t(), 0)],
)  # fmt: skip

softmax_backward = op(
    "softmax_backward(grad: Tensor, out: Tensor, dim: int) -> Tensor",
    doc="The gradient of ``softmax`` from its output.",
    decompose=lambda g, out, dim: (g - sum(g * out, single_dim(dim, g.meta.ndim), True)) * out,
    grad=lambda gg, out, g, y, dim: (
        softmax_backward(gg, y, dim),
        gg * (g - sum(g * y, single_dim(dim, g.meta.ndim), True))
        - g * sum(gg * y, single_dim(dim, g.meta.ndim), True),
    ),
    samples=lambda t: [(t(3, 4), t(3, 4), 1)],
)  # fmt: skip


def _log_softmax(x: Any, dim: int) -> Any:
    wide, dtype = _working(x)
    d = single_dim(dim, x.meta.ndim)
    centred = wide - amax(wide, d, True)
    return cast(centred - log(sum(exp(centred), d, True)), dtype)


log_softmax = op(
    "log_softmax(input: Tensor, dim: int) -> Tensor", methods=("function", "method"),
    doc="log(softmax(input)) along ``dim``, without overflow.", decompose=_log_softmax,
    grad=lambda g, out, x, dim: log_softmax_backward(g, out, dim),
    samples=lambda t: [(t(3, 4), 1), (t(2, 3, 4), 0), (t(), 0)],
)  # fmt: skip

log_softmax_backward = op(
    "log_softmax_backward(grad: Tensor, out: Tensor, dim: int) -> Tensor",
    doc="The gradient of ``log_softmax`` from its output.",
    decompose=lambda g, out, dim: g - exp(out) * sum(g, single_dim(dim, g.meta.ndim), True),
    grad=lambda gg, out, g, y, dim: (
        gg - sum(gg * exp(y), single_dim(dim, g.meta.ndim), True),
        -gg * exp(y) * sum(g, single_dim(dim, g.meta.ndim), True),
    ),
    samples=lambda t: [(t(3, 4), t(3, 4), 1)],
)  # fmt: skip


def _axes(ndim: int) -> tuple[int, ...]:
    return (0, *range(2, ndim))


def _row(v: Any, ndim: int) -> Any:
    """A per-channel vector shaped to broadcast over [N, C, …]."""
    return reshape(v, (1, -1) + (1,) * (ndim - 2))


def _batch_norm(x: Any, weight: Any, bias: Any, eps: Any) -> Any:
    n = x.meta.ndim
    average = mean(x, _axes(n), True)
    variance = mean(square(x - average), _axes(n), True)
    scale = rsqrt(variance + eps)
    y = (x - average) * (scale * _row(weight, n)) + _row(bias, n)
    return y, reshape(average, (-1,)), reshape(variance, (-1,))


def _batch_norm_grad(g: Any, out: Any, x: Any, weight: Any, bias: Any, eps: Any) -> Any:
    """Ioffe and Szegedy, arXiv:1502.03167, section 3, per channel: dx = a g + b centred + c.

    The statistics are outputs, so second derivatives flow through them too.
    """
    n = x.meta.ndim
    scale = rsqrt(_row(out[2], n) + eps)
    centred = x - _row(out[1], n)
    dbias = sum(g[0], _axes(n), True)
    dweight = sum(g[0] * centred, _axes(n), True) * scale
    count = float(max(x.meta.numel // max(x.meta.shape[1], 1), 1))
    a = scale * _row(weight, n)
    b = (_row(g[2], n) * 2.0 - dweight * scale * a) / count
    c = (_row(g[1], n) - dbias * a) / count
    return g[0] * a + centred * b + c, reshape(dweight, (-1,)), reshape(dbias, (-1,))


batch_norm_train = op(
    "batch_norm_train(input: Tensor, weight: Tensor, bias: Tensor, eps: Number) -> Tensor",
    doc="Normalise [N, C, …] by the batch's own statistics per channel; returns the result, the "
    "means and the (biased) variances.",
    outputs=3, decompose=_batch_norm, grad=_batch_norm_grad,
    samples=lambda t: [(t(4, 3, 2, 2), t(3), t(3), 1e-5)],
)  # fmt: skip
