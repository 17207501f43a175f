"""Elementwise operators: arithmetic, comparison, bits, activation functions."""

from __future__ import annotations

from typing import Any

from halon.dispatcher.op import op
from halon.dispatcher.ops.creation import full
from halon.dispatcher.ops.families import (
    binary,
    comparison,
    floating_unary,
    tensor_pairs,
    truth,
    unary,
)
from halon.dispatcher.promote import (
    Types,
    bool_as_int64,
    floating,
    logical,
    no_bool,
    promote,
    select,
)
from halon.dispatcher.structures import TensorBase
from halon.hal import dtypes as dt

add = binary("add", "input + other", "Elementwise sum with broadcasting.",
             lambda g, out, a, b: (g, g))  # fmt: skip
sub = binary("sub", "input - other", "Elementwise difference with broadcasting.",
             lambda g, out, a, b: (g, -g),
             dtype=no_bool("sub", "use ^ or logical_xor"))  # fmt: skip
mul = binary("mul", "input * other", "Elementwise product with broadcasting.",
             lambda g, out, a, b: (g * b, g * a))  # fmt: skip
div = binary("div", "input / other", "Elementwise true quotient; integers become floating.",
             lambda g, out, a, b: (g / b, -g * out / b), dtype=floating)  # fmt: skip
floor_divide = binary("floor_divide", "input // other",
                      "Quotient rounded down. Integer division by zero raises.", None)  # fmt: skip
remainder = binary("remainder", "input % other",
                   "Remainder with the divisor's sign, as Python's ``%``.",
                   lambda g, out, a, b: (g, -g * floor_divide(a, b)))  # fmt: skip
maximum = binary(
    "maximum", "max(input, other)", "The larger value; NaN wins.", None, samples=tensor_pairs
)
minimum = binary(
    "minimum", "min(input, other)", "The smaller value; NaN wins.", None, samples=tensor_pairs
)
pow = binary("pow", "input ** other", "Elementwise power.", None)


@pow.grad
def _pow_grad(g: Any, out: Any, a: Any, b: Any) -> Any:
    like = a if isinstance(a, TensorBase) else b
    base, exponent = as_operand(a, like), as_operand(b, like)
    da = where(eq(exponent, 0), 0.0, g * (exponent * pow(base, exponent - 1)))
    db = where(eq(base, 0) & ge(exponent, 0), 0.0, g * (out * log(base)))
    return da, db


def as_operand(value: Any, like: Any) -> Any:
    """A tensor of a run-time number inside a rule; tensors pass through."""
    if isinstance(value, TensorBase):
        return value
    return full((), value, like.meta.dtype, like.meta.device)


def zeros_like(x: Any) -> Any:
    """Zeros in the shape and dtype of ``x``: the gradient of a step function."""
    return full(x.meta.shape, 0.0, x.meta.dtype, x.meta.device)


@maximum.grad
def _maximum_grad(g: Any, out: Any, a: Any, b: Any) -> Any:
    # torch shares the gradient where both are equal
    return where(eq(a, b), g * 0.5, where(eq(out, b), 0.0, g)), where(
        eq(a, b), g * 0.5, where(eq(out, b), g, 0.0)
    )


minimum.grad(_maximum_grad)

eq = comparison("eq", "input == other", "Whether elements are equal.")
ne = comparison("ne", "input != other", "Whether elements differ.")
lt = comparison("lt", "input < other", "Elementwise less-than.")
le = comparison("le", "input <= other", "Elementwise less-or-equal.")
gt = comparison("gt", "input > other", "Elementwise greater-than.")
ge = comparison("ge", "input >= other", "Elementwise greater-or-equal.")
logical_and = truth("logical_and", "input & other", "Both are non-zero.")
logical_or = truth("logical_or", "input | other", "Either is non-zero.")
logical_xor = truth("logical_xor", "input ^ other", "Exactly one is non-zero.")
logical_not = unary("logical_not", "~input", "Whether elements are zero.", None, dtype=logical)
bitwise_and = binary("bitwise_and", "input & other", "Bitwise and of integers or bools.", None)
bitwise_or = binary("bitwise_or", "input | other", "Bitwise or of integers or bools.", None)
bitwise_xor = binary("bitwise_xor", "input ^ other", "Bitwise exclusive or.", None)
bitwise_not = unary("bitwise_not", "~input", "Bitwise not of integers, logical of bools.", None)
bitwise_left_shift = binary("bitwise_left_shift", "input << other", "Shift bits left.", None)
bitwise_right_shift = binary("bitwise_right_shift", "input >> other",
                             "Arithmetic shift right.", None)  # fmt: skip

neg = unary("neg", "-input", "Elementwise negation.", lambda g, out, x: -g)
abs = unary("abs", "abs(input)", "Elementwise magnitude.", lambda g, out, x: g * sign(x))
sign = unary("sign", "where(input > 0, 1, where(input < 0, -1, 0))",
             "-1, 0 or 1 by sign; 0 for NaN.", lambda g, out, x: zeros_like(x))  # fmt: skip
square = unary("square", "input * input", "Elementwise square; of bool in int64.",
               lambda g, out, x: g * (x * 2),
               dtype=bool_as_int64)  # fmt: skip
exp = floating_unary("exp", "exp(input)", "Elementwise exponential.", lambda g, out, x: g * out)
log = floating_unary("log", "log(input)", "Natural logarithm.", lambda g, out, x: g / x)
log1p = floating_unary("log1p", "log1p(input)", "log(1 + input), exact near 0.",
                       lambda g, out, x: g / (x + 1))  # fmt: skip
expm1 = floating_unary("expm1", "expm1(input)", "exp(input) - 1, exact near 0.",
                       lambda g, out, x: g * (out + 1))  # fmt: skip
sqrt = floating_unary("sqrt", "sqrt(input)", "Square root.", lambda g, out, x: g / (out * 2))
rsqrt = floating_unary("rsqrt", "1 / sqrt(input)", "Reciprocal square root.",
                       lambda g, out, x: g * (out * out * out) * -0.5)  # fmt: skip
reciprocal = floating_unary("reciprocal", "recip(input)", "1 / input.",
                            lambda g, out, x: -g * (out * out))  # fmt: skip
sin = floating_unary("sin", "sin(input)", "Sine of radians.", lambda g, out, x: g * cos(x))
cos = floating_unary("cos", "cos(input)", "Cosine of radians.", lambda g, out, x: -g * sin(x))
tanh = floating_unary("tanh", "tanh(input)", "Hyperbolic tangent.",
                      lambda g, out, x: g * (1 - out * out))  # fmt: skip
sigmoid = floating_unary("sigmoid", "sigmoid(input)", "1 / (1 + exp(-input)).",
                         lambda g, out, x: g * (out * (1 - out)))  # fmt: skip
floor = unary("floor", "floor(input)", "Round down.", lambda g, out, x: zeros_like(x))
trunc = unary("trunc", "trunc(input)", "Round towards zero.", lambda g, out, x: zeros_like(x))
round = unary("round", "round(input)", "Round to nearest, halves to even.",
              lambda g, out, x: zeros_like(x))  # fmt: skip
relu = unary("relu", "max(input, 0)", "max(input, 0); NaN stays NaN.",
             lambda g, out, x: relu_backward(g, out),
             dtype=no_bool("relu", "convert it first"))  # fmt: skip
relu_backward = op(
    "relu_backward(grad: Tensor, out: Tensor) -> Tensor", expr="where(out > 0, grad, 0)",
    doc="The gradient of ``relu`` from its output.", dtype=promote,
    grad=lambda g, out, grad, y: (relu_backward(g, y), None),
    samples=lambda t: [(t(3, 4), t(3, 4))],
)  # fmt: skip
isnan = unary("isnan", "input != input", "Whether elements are NaN.", None,
              dtype=lambda x: Types((x.dtype,), dt.bool_),
              methods=("function", "method"))  # fmt: skip

where = op(
    "where(condition: Tensor, input: Tensor, other: Tensor) -> Tensor",
    expr="where(condition, input, other)", dtype=select,
    doc="``input`` where the condition holds, else ``other``; the other side's NaN never leaks.",
    grad=lambda g, out, c, a, b: (None, where(c, g, 0.0), where(c, 0.0, g)),
    samples=lambda t: [(t(3, 4) > 0, t(3, 4), t(4)), (t(2) > 0, t(2), 1.0), (t() > 0, t(), t(3))],
    methods=("function",),
)  # fmt: skip


def _clamp_grad(g: Any, out: Any, x: Any, low: Any, high: Any) -> Any:
    inside = ge(x, low) & le(x, high)
    return (where(inside, g, 0.0),)


clamp_both = op(
    "clamp_both(input: Tensor, min: Number, max: Number) -> Tensor",
    expr="min(max(input, min), max)", dtype=promote,
    doc="Limit values to [min, max]; NaN stays NaN.", grad=_clamp_grad,
    samples=lambda t: [(t(3, 4), -0.5, 0.5), (t(), 0.0, 1.0)],
)  # fmt: skip
