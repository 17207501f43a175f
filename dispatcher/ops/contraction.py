"""Matrix products and convolutions."""

from __future__ import annotations

from typing import Any

from halon.dispatcher.op import COMPOSE, KernelCall, op
from halon.dispatcher.ops.complex import by_parts, conjugate
from halon.dispatcher.ops.movement import cat
from halon.dispatcher.ops.views import (
    expand,
    narrow,
    permute,
    reshape,
    slice_,
    squeeze,
    transpose,
    unsqueeze,
)
from halon.dispatcher.shapes import Shape, broadcast_shapes, conv_size
from halon.dispatcher.structures import Meta
from halon.hal.dtypes import DType


def _same_dtype(name: str, a: Meta, b: Meta) -> DType:
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"{name}: expected both operands to have the same dtype, but got {a} and {b}"
        )
    return a.dtype


def _mm_shape(input: Meta, mat2: Meta) -> Shape:
    if input.ndim != 2 or mat2.ndim != 2:
        raise RuntimeError(f"mm: both operands must be 2-D, got {input} and {mat2}")
    if input.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            "mat1 and mat2 shapes cannot be multiplied "
            f"({input.shape[0]}x{input.shape[1]} and {mat2.shape[0]}x{mat2.shape[1]})"
        )
    return input.shape[0], mat2.shape[1]


mm = op(
    "mm(input: Tensor, mat2: Tensor) -> Tensor", methods=("function", "method"),
    doc="Product of two matrices; half precision accumulates in float32.", shape=_mm_shape,
    dtype=lambda a, b: _same_dtype("mm", a, b),
    kernel=lambda a, b: KernelCall("matmul", (a, b)), empty=0,
    decompose=lambda a, b: by_parts(mm, a, b),
    grad=lambda g, out, a, b: (
        mm(g, conjugate(transpose(b, 0, 1))), mm(conjugate(transpose(a, 0, 1)), g)
    ),
    samples=lambda t: [(t(3, 4), t(4, 5)), (t(4, 3).t(), t(4, 2)), (t(2, 0), t(0, 3))],
)  # fmt: skip


def _batch_shape(input: Meta, mat2: Meta) -> Shape:
    if input.ndim < 3 or input.shape[:-2] != mat2.shape[:-2]:
        raise RuntimeError(f"bmm: batch dimensions must be equal, got {input} and {mat2}")
    if input.shape[-1] != mat2.shape[-2]:
        raise RuntimeError(
            f"Expected size for the last two dimensions to be multipliable, got {input} and {mat2}"
        )
    return *input.shape[:-1], mat2.shape[-1]


bmm = op(
    "bmm(input: Tensor, mat2: Tensor) -> Tensor", methods=("function", "method"),
    doc="Products of two equally long batches of matrices (any number of batch dimensions).",
    shape=_batch_shape, dtype=lambda a, b: _same_dtype("bmm", a, b),
    kernel=lambda a, b: KernelCall("matmul", (a, b)), empty=0,
    decompose=lambda a, b: by_parts(bmm, a, b),
    grad=lambda g, out, a, b: (
        bmm(g, conjugate(transpose(b, -2, -1))), bmm(conjugate(transpose(a, -2, -1)), g)
    ),
    samples=lambda t: [(t(2, 3, 4), t(2, 4, 5)), (t(2, 4, 3).transpose(1, 2), t(2, 4, 2))],
)  # fmt: skip


def _matmul(a: Any, b: Any) -> Any:
    if not a.meta.ndim or not b.meta.ndim:
        raise RuntimeError(
            "both arguments to matmul need to be at least 1D, but they are "
            f"{a.meta.ndim}D and {b.meta.ndim}D"
        )
    left = unsqueeze(a, 0) if a.meta.ndim == 1 else a
    right = unsqueeze(b, 1) if b.meta.ndim == 1 else b
    if left.meta.ndim == right.meta.ndim == 2:
        product = mm(left, right)
    elif right.meta.ndim == 2:
        product = _fold(left, right)
    else:
        batch = broadcast_shapes(left.meta.shape[:-2], right.meta.shape[:-2])
        product = bmm(
            expand(left, (*batch, *left.meta.shape[-2:])),
            expand(right, (*batch, *right.meta.shape[-2:])),
        )
    if a.meta.ndim == 1:
        product = squeeze(product, -2)
    return squeeze(product, -1) if b.meta.ndim == 1 else product


def _fold(left: Any, right: Any) -> Any:
    """Batch dimensions folded into rows where the right operand is one matrix."""
    shape = left.meta.shape
    if not left.meta.numel:
        return bmm(left, expand(right, (*shape[:-2], *right.meta.shape)))
    return reshape(mm(reshape(left, (-1, shape[-1])), right), (*shape[:-1], right.meta.shape[1]))


matmul = op(
    "matmul(input: Tensor, other: Tensor) -> Tensor", methods=("function", "method"),
    doc="Matrix product with vectors as rows or columns and batch dimensions broadcast.",
    decompose=_matmul, grad=COMPOSE,
    # not the primitive of that name, which takes equal batches of matrices only
    kernel=lambda a, b: KernelCall("matmul_broadcast", (a, b)), empty=0,
    samples=lambda t: [(t(3, 4), t(4, 5)), (t(4), t(4)), (t(2, 3, 4), t(4)), (t(4), t(4, 3)),
                       (t(5, 1, 3, 4), t(2, 4, 3)), (t(2, 3, 4), t(4, 5))],
)  # fmt: skip


def _linear(x: Any, weight: Any, bias: Any) -> Any:
    out = matmul(x, transpose(weight, 0, 1))
    return out if bias is None else out + bias


linear = op(
    "linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor",
    methods=("function",), doc="``input @ weight.T + bias``; weight is [out, in].",
    decompose=_linear, grad=COMPOSE,
    samples=lambda t: [(t(5, 3), t(4, 3), t(4)), (t(2, 5, 3), t(4, 3))],
)  # fmt: skip


# -- convolution -----------------------------------------------------------------------------------
def _conv_shape(
    input: Meta, weight: Meta, stride: Shape, padding: Shape, dilation: Shape, transposed: bool,
    output_padding: Shape, groups: int,
) -> Shape:  # fmt: skip
    spatial = weight.ndim - 2
    if input.ndim != spatial + 2:
        raise RuntimeError(
            f"convolution: expected {spatial + 2}D input for weight {weight}, but got {input}"
        )
    channels = weight.shape[0] if transposed else weight.shape[1] * groups
    if input.shape[1] != channels:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(weight.shape)}, expected input "
            f"{list(input.shape)} to have {channels} channels, but got {input.shape[1]} channels "
            "instead"
        )
    if weight.shape[0] % groups:
        raise RuntimeError(f"convolution: weight {weight} is not divisible by groups={groups}")
    sizes = []
    for d in range(spatial):
        n, k = input.shape[2 + d], weight.shape[2 + d]
        if transposed:
            size = (n - 1) * stride[d] - 2 * padding[d] + dilation[d] * (k - 1) + 1
            size += output_padding[d]
        else:
            size = conv_size(n, k, stride[d], padding[d], dilation[d])
        if size <= 0 and n:
            raise RuntimeError(
                f"convolution: kernel {list(weight.shape[2:])} is larger than the padded input "
                f"{list(input.shape[2:])} (padding {list(padding)}, dilation {list(dilation)})"
            )
        sizes.append(max(size, 0))
    features = weight.shape[1] * groups if transposed else weight.shape[0]
    return (input.shape[0], features, *sizes)


def _conv_attrs(
    stride: Shape, padding: Shape, dilation: Shape, transposed: bool, output_padding: Shape,
    groups: int,
) -> dict[str, Any]:  # fmt: skip
    return {
        "stride": stride, "padding": padding, "dilation": dilation, "transposed": transposed,
        "output_padding": output_padding, "groups": groups,
    }  # fmt: skip


def _conv_grad(
    g: Any, out: Any, x: Any, w: Any, stride: Shape, padding: Shape, dilation: Shape,
    transposed: bool, output_padding: Shape, groups: int,
) -> Any:  # fmt: skip
    geometry = (stride, padding, dilation)
    if transposed:
        dx = convolution(g, w, *geometry, False, (0,) * len(stride), groups)
        dw = conv_bwd_weight(x, g, w.meta.shape, *geometry, groups)
        return dx, dw
    return (
        conv_bwd_input(g, w, x.meta.shape, *geometry, groups),
        conv_bwd_weight(g, x, w.meta.shape, *geometry, groups),
    )


convolution = op(
    "convolution(input: Tensor, weight: Tensor, stride: Ints, padding: Ints, dilation: Ints, "
    "transposed: bool, output_padding: Ints, groups: int) -> Tensor",
    doc="N-d convolution (cross-correlation) of [N, C, …] with [O, C / groups, …], or its "
    "transpose.",
    shape=_conv_shape, dtype=lambda x, w, *_: _same_dtype("convolution", x, w),
    kernel=lambda x, w, *rest: KernelCall("conv", (x, w), _conv_attrs(*rest)), empty=0,
    grad=_conv_grad,
    samples=lambda t: [
        (t(2, 3, 6, 5), t(4, 3, 3, 2), (1, 1), (0, 0), (1, 1), False, (0, 0), 1),
        (t(2, 4, 7, 7), t(4, 2, 3, 3), (2, 1), (1, 2), (1, 2), False, (0, 0), 2),
        (t(2, 3, 4, 4), t(3, 2, 3, 3), (2, 2), (1, 1), (1, 1), True, (1, 0), 1),
    ],
)  # fmt: skip


def _output_padding(
    size: Shape, g: Any, w: Any, stride: Shape, padding: Shape, dilation: Shape
) -> Shape:
    """What a transposed convolution lacks to reach ``size`` again."""
    return tuple(
        size[2 + d]
        - (
            (g.meta.shape[2 + d] - 1) * stride[d]
            - 2 * padding[d]
            + dilation[d] * (w.meta.shape[2 + d] - 1)
            + 1
        )
        for d in range(len(stride))
    )


conv_bwd_input = op(
    "conv_bwd_input(grad: Tensor, weight: Tensor, size: Ints, stride: Ints, padding: Ints, "
    "dilation: Ints, groups: int) -> Tensor",
    doc="The gradient of a convolution to its input of a size.",
    shape=lambda g, w, size, *_: tuple(size), dtype=lambda g, w, *_: g.dtype,
    kernel=lambda g, w, size, stride, padding, dilation, groups: KernelCall(
        "conv_bwd_input", (g, w),
        _conv_attrs(stride, padding, dilation, False, (0,) * len(stride), groups),
    ),
    empty=0,
    decompose=lambda g, w, size, stride, padding, dilation, groups: convolution(
        g, w, stride, padding, dilation, True,
        _output_padding(size, g, w, stride, padding, dilation), groups,
    ),
    grad=lambda gg, out, g, w, size, stride, padding, dilation, groups: (
        convolution(gg, w, stride, padding, dilation, False, (0,) * len(stride), groups),
        conv_bwd_weight(g, gg, w.meta.shape, stride, padding, dilation, groups),
    ),
    samples=lambda t: [(t(2, 4, 4, 4), t(4, 3, 3, 2), (2, 3, 6, 5), (1, 1), (0, 0), (1, 1), 1)],
)  # fmt: skip


def _weight_by_conv(
    g: Any, x: Any, size: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Any:
    """The weight gradient as a convolution of the input with the gradient, batch as channels."""
    if groups > 1:
        c, o = x.meta.shape[1] // groups, g.meta.shape[1] // groups
        part = (size[0] // groups, *size[1:])
        return cat(
            [
                conv_bwd_weight(
                    narrow(g, 1, i * o, o),
                    narrow(x, 1, i * c, c),
                    part,
                    stride,
                    padding,
                    dilation,
                    1,
                )
                for i in range(groups)
            ],
            0,
        )
    order = (1, 0, *range(2, x.meta.ndim))
    full_size = convolution(
        permute(x, order), permute(g, order), dilation, padding, stride, False,
        (0,) * len(stride), 1,
    )  # fmt: skip
    for d, n in enumerate(size[2:]):  # a stride may leave rows the forward never used
        full_size = slice_(full_size, 2 + d, 0, n, 1)
    return permute(full_size, order)


conv_bwd_weight = op(
    "conv_bwd_weight(grad: Tensor, input: Tensor, size: Ints, stride: Ints, padding: Ints, "
    "dilation: Ints, groups: int) -> Tensor",
    doc="The gradient of a convolution to its weight of a size.",
    shape=lambda g, x, size, *_: tuple(size), dtype=lambda g, x, *_: g.dtype,
    kernel=lambda g, x, size, stride, padding, dilation, groups: KernelCall(
        "conv_bwd_weight", (g, x),
        _conv_attrs(stride, padding, dilation, False, (0,) * len(stride), groups),
    ),
    empty=0, decompose=_weight_by_conv,
    grad=lambda gg, out, g, x, size, stride, padding, dilation, groups: (
        convolution(x, gg, stride, padding, dilation, False, (0,) * len(stride), groups),
        conv_bwd_input(g, gg, x.meta.shape, stride, padding, dilation, groups),
    ),
    samples=lambda t: [(t(2, 4, 4, 4), t(2, 3, 6, 5), (4, 3, 3, 2), (1, 1), (0, 0), (1, 1), 1)],
)  # fmt: skip
