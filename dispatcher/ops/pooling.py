"""Pooling over sliding windows."""

from __future__ import annotations

from typing import Any

from halon.dispatcher.op import KernelCall, op
from halon.dispatcher.ops.creation import full
from halon.dispatcher.ops.indexing import gather, scatter_add
from halon.dispatcher.ops.views import reshape
from halon.dispatcher.shapes import Shape, conv_size
from halon.dispatcher.structures import Meta
from halon.hal import dtypes as dt


def _pool_shape(
    input: Meta, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil: bool
) -> tuple[Shape, Shape]:
    spatial = len(kernel)
    if input.ndim != spatial + 2:
        raise RuntimeError(f"max_pool{spatial}d: expected a {spatial + 2}D input, got {input}")
    sizes = []
    for d in range(spatial):
        if padding[d] > kernel[d] // 2:
            raise RuntimeError(
                "pad should be at most half of effective kernel size, but got "
                f"pad={padding[d]}, kernel_size={kernel[d]} and dilation={dilation[d]}"
            )
        n = conv_size(input.shape[2 + d], kernel[d], stride[d], padding[d], dilation[d], ceil)
        if n < 1:
            raise RuntimeError(
                f"max_pool{spatial}d: input {input} is too small for kernel {list(kernel)}: "
                "output size is too small"
            )
        sizes.append(n)
    shape = (*input.shape[:2], *sizes)
    return shape, shape


def _pool_grad(
    g: Any, out: Any, x: Any, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape,
    ceil: bool,
) -> Any:  # fmt: skip
    return max_pool_backward(g[0], out[1], x.meta.shape)


max_pool_with_indices = op(
    "max_pool_with_indices(input: Tensor, kernel: Ints, stride: Ints, padding: Ints, "
    "dilation: Ints, ceil: bool) -> Tensor",
    doc="The largest element of each window of [N, C, …] and its flat position.", outputs=2,
    shape=_pool_shape, dtype=lambda x, *_: (x.dtype, dt.int64),
    kernel=lambda x, kernel, stride, padding, dilation, ceil: KernelCall(
        "window_reduce", (x,),
        {"mode": "max", "kernel": kernel, "stride": stride, "padding": padding,
         "dilation": dilation, "ceil": ceil},
    ),
    grad=_pool_grad, samples=lambda t: [(t(2, 3, 6, 5), (2, 2), (2, 2), (0, 0), (1, 1), False)],
)  # fmt: skip


def _flat(x: Any) -> Any:
    return reshape(x, (*x.meta.shape[:2], -1))


def _pool_backward(g: Any, indices: Any, size: Shape) -> Any:
    spatial = 1
    for n in size[2:]:
        spatial *= n
    zeros = full((*size[:2], spatial), 0, g.meta.dtype, g.meta.device)
    return reshape(scatter_add(zeros, 2, _flat(indices), _flat(g)), size)


max_pool_backward = op(
    "max_pool_backward(grad: Tensor, indices: Tensor, size: Ints) -> Tensor",
    doc="The gradient of max pooling: each window's goes to its largest element.",
    decompose=_pool_backward,
    grad=lambda gg, out, g, indices, size: (
        reshape(gather(_flat(gg), 2, _flat(indices)), g.meta.shape), None
    ),
    samples=lambda t: [],
)  # fmt: skip
