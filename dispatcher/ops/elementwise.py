"""Elementwise operators: arithmetic, comparison, bits, activation functions."""

from __future__ import annotations

from typing import Any

from halon.dispatcher.op import COMPOSE, op
from halon.dispatcher.ops.complex import conjugate, is_complex
from halon.dispatcher.ops.creation import full
from halon.dispatcher.ops.families import (
    PUBLIC,
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
             lambda g, out, a, b: (g * conjugate(b), g * conjugate(a)))  # fmt: skip
div = binary("div", "input / other", "Elementwise true quotient; integers become floating.",
             lambda g, out, a, b: (g / conjugate(b), -g * conjugate(out / b)),
             dtype=floating)  # fmt: skip
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
    if is_complex(out):
        return (
            where(eq(exponent, 0), 0.0, g * conjugate(exponent * pow(base, exponent - 1))),
            where(eq(base, 0), 0.0, g * conjugate(out * log(base))),
        )
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


def _magnitude(x: Any) -> Types:
    return Types((x.dtype,), x.dtype.real)


abs = unary("abs", "abs(input)", "Elementwise magnitude.", lambda g, out, x: g * sgn(x),
            dtype=_magnitude)  # fmt: skip
sign = unary("sign", "where(input > 0, 1, where(input < 0, -1, 0))",
             "-1, 0 or 1 by sign; 0 for NaN.", lambda g, out, x: zeros_like(x))  # fmt: skip


def _sgn(x: Any) -> Any:
    """The sign, or of a complex number the one of magnitude 1 with its angle."""
    if not x.meta.dtype.is_complex:
        return sign(x)
    size = abs(x)
    return where(eq(size, 0), 0.0, x / where(eq(size, 0), 1.0, size))


sgn = op("sgn(input: Tensor) -> Tensor", decompose=_sgn, grad=COMPOSE, methods=PUBLIC,
         doc="The sign; of a complex number, the number of magnitude 1 with its angle.",
         samples=lambda t: [(t(3, 4),), (t(),)])  # fmt: skip
square = unary("square", "input * input", "Elementwise square; of bool in int64.",
               lambda g, out, x: g * conjugate(x * 2),
               dtype=bool_as_int64)  # fmt: skip
exp = floating_unary("exp", "exp(input)", "Elementwise exponential.", lambda g, out, x: g * conjugate(out))  # fmt: skip
log = floating_unary("log", "log(input)", "Natural logarithm.", lambda g, out, x: g / conjugate(x))
log1p = floating_unary("log1p", "log1p(input)", "log(1 + input), exact near 0.",
                       lambda g, out, x: g / conjugate(x + 1))  # fmt: skip
expm1 = floating_unary("expm1", "expm1(input)", "exp(input) - 1, exact near 0.",
                       lambda g, out, x: g * conjugate(out + 1))  # fmt: skip
sqrt = floating_unary(
    "sqrt", "sqrt(input)", "Square root.", lambda g, out, x: g / conjugate(out * 2)
)
rsqrt = floating_unary("rsqrt", "1 / sqrt(input)", "Reciprocal square root.",
                       lambda g, out, x: g * conjugate(out * out * out) * -0.5)  # fmt: skip
reciprocal = floating_unary("reciprocal", "recip(input)", "1 / input.",
                            lambda g, out, x: -g * conjugate(out * out))  # fmt: skip
sin = floating_unary(
    "sin", "sin(input)", "Sine of radians.", lambda g, out, x: g * conjugate(cos(x))
)
cos = floating_unary(
    "cos", "cos(input)", "Cosine of radians.", lambda g, out, x: -g * conjugate(sin(x))
)
tanh = floating_unary("tanh", "tanh(input)", "Hyperbolic tangent.",
                      lambda g, out, x: g * conjugate(1 - out * out))  # fmt: skip
sigmoid = floating_unary("sigmoid", "sigmoid(input)", "1 / (1 + exp(-input)).",
                         lambda g, out, x: g * conjugate(out * (1 - out)))  # fmt: skip
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


def _positive(x: Any) -> Any:
    if x.meta.dtype is dt.bool_:
        raise RuntimeError(f"positive({x.meta}): not supported on a bool tensor; it has no sign")
    return x


positive = op(
    "positive(input: Tensor) -> Tensor", eager=_positive, methods=("function", "method"),
    doc="The tensor itself.", samples=lambda t: [(t(3, 4),), (t(),)],
)  # fmt: skip
isnan = unary("isnan", "input != input", "Whether elements are NaN.", None,
              dtype=lambda x: Types((x.dtype,), dt.bool_),
              methods=("function", "method"))  # fmt: skip

where = op(
    "where(condition: Tensor, input: Tensor, other: Tensor) -> Tensor",
    expr="where(condition, input, other)", dtype=select,
    doc="``input`` where the condition holds, else ``other``; the other side's NaN never leaks.",
    grad=lambda g, out, c, a, b: (None, where(c, g, 0.0), where(c, 0.0, g)),
    samples=lambda t: [(t.mask(3, 4), t(3, 4), t(4)), (t.mask(2), t(2), 1.0), (t.mask(), t(), t(3))],
    methods=("function",),
)  # fmt: skip


def _clamp_grad(g: Any, out: Any, x: Any, low: Any, high: Any) -> Any:
    inside = ge(x, low) & le(x, high)
    return (where(inside, g, 0.0),)


def _angle(x: Any) -> Any:
    if x.meta.dtype.is_complex:
        from halon.dispatcher.ops.complex import imag_part, real_part
        from halon.dispatcher.ops.transcendental import atan2

        return atan2(imag_part(x), real_part(x))
    return angle_real(x)


angle_real = unary(
    "angle_real", "where(input < 0, pi, where(input != input, input, 0))",
    "pi for negative numbers, 0 for others.", lambda g, out, x: zeros_like(x), dtype=floating,
    methods=(),
)  # fmt: skip
angle = op("angle(input: Tensor) -> Tensor", decompose=_angle, grad=COMPOSE,
           methods=("function", "method"), doc="The angle of complex numbers in radians.",
           samples=lambda t: [(t(3, 4),), (t(),)])  # fmt: skip


def _lerp(input: Any, end: Any, weight: Any) -> Types:
    if input.dtype is not end.dtype:
        raise RuntimeError(f"expected dtype {input.dtype.name} for `end`, got {end}")
    return promote(input, end, weight)


lerp = op(
    "lerp(input: Tensor, end: Tensor, weight: Tensor) -> Tensor", methods=PUBLIC, dtype=_lerp,
    expr="where(abs(weight) < 0.5, input + weight * (end - input), "
    "end - (end - input) * (1 - weight))",
    doc="``input + weight * (end - input)``, exact at both ends.",
    grad=lambda g, out, a, b, w: (
        g * conjugate(1 - w), g * conjugate(w), g * conjugate(b - a)
    ),
    samples=lambda t: [(t.floats(3, 4), t.floats(3, 4), 0.3), (t.floats(3, 1), t.floats(4), t.floats(3, 4)),
                       (t.floats(2), t.floats(2), 0.75)],
)  # fmt: skip


def _no_integers(name: str) -> Any:
    def rule(*operands: Any) -> Types:
        found = promote(*operands)
        if found.out.category < 2:
            raise RuntimeError(
                f"Integer division with {name} is no longer supported; use div with a rounding "
                f"mode: {', '.join(map(str, operands[:3]))}"
            )
        return found

    return rule


addcmul = op(
    "addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor",
    expr="input + value * tensor1 * tensor2", dtype=promote, methods=PUBLIC,
    doc="``input + value * tensor1 * tensor2``.",
    grad=lambda g, out, x, a, b, value: (
        g, g * (conjugate(b) * value), g * (conjugate(a) * value)
    ),
    samples=lambda t: [(t(3, 4), t(3, 4), t(4)), (t(3, 4), t(3, 4), t(3, 1), 2)],
)  # fmt: skip
addcdiv = op(
    "addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor",
    expr="input + value * tensor1 / tensor2", dtype=_no_integers("addcdiv"), methods=PUBLIC,
    doc="``input + value * tensor1 / tensor2``.",
    grad=lambda g, out, x, a, b, value: (
        g, g * (value / conjugate(b)), -g * conjugate(a / (b * b)) * value
    ),
    samples=lambda t: [(t(3, 4), t(3, 4), t(4)), (t(3, 4), t(3, 4), t(3, 1), 2)],
)  # fmt: skip


def _rounded_quotient(a: Any, b: Any, rounding_mode: str | None) -> Any:
    if rounding_mode is None:
        return div(a, b)
    if rounding_mode == "floor":
        return floor_divide(a, b)
    if rounding_mode != "trunc":
        raise RuntimeError(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
            f"'{rounding_mode}'"
        )
    return trunc_divide(a, b)


trunc_divide = binary(
    "trunc_divide", "where((input < 0) == (other < 0), abs(input) // abs(other), "
    "-(abs(input) // abs(other)))",
    "Quotient rounded towards zero.", None, methods=(), samples=tensor_pairs,
)  # fmt: skip

isclose = op(
    "isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, "
    "equal_nan: bool = False) -> Tensor",
    methods=("function", "method"), grad=None,
    doc="Whether ``|input - other| <= atol + rtol * |other|``; equal infinities are close.",
    decompose=lambda a, b, rtol, atol, equal_nan: _close(a, b, rtol, atol, equal_nan),
    samples=lambda t: [(t(3, 4), t(3, 4)), (t(3, 4), t(4), 0.5, 0.1), (t(3), t(3), 0.0, 0.0, True)],
)  # fmt: skip


def _close(a: Any, b: Any, rtol: float, atol: float, equal_nan: bool) -> Any:
    if a.meta.dtype is not b.meta.dtype:
        raise RuntimeError(f"{a.meta.dtype.name} did not match {b.meta.dtype.name}")
    same = eq(a, b)
    if equal_nan:
        same = same | (ne(a, a) & ne(b, b))
    if a.meta.dtype.category < 2:
        a, b = a * 1.0, b * 1.0
    gap = abs(a - b)
    return same | (le(gap, atol + rtol * abs(b)) & lt(gap, float("inf")))


clamp_both = op(
    "clamp_both(input: Tensor, min: Number, max: Number) -> Tensor",
    expr="min(max(input, min), max)", dtype=promote,
    doc="Limit values to [min, max]; NaN stays NaN.", grad=_clamp_grad,
    samples=lambda t: [(t(3, 4), -0.5, 0.5), (t(), 0.0, 1.0)],
)  # fmt: skip
