"""Elementary and special functions: trigonometric, hyperbolic, logarithms, error and gamma."""

from __future__ import annotations

import math
from typing import Any

from halon.dispatcher.op import COMPOSE, op
from halon.dispatcher.ops.complex import conjugate, real_part
from halon.dispatcher.ops.elementwise import (
    cos,
    eq,
    exp,
    isnan,
    log,
    log1p,
    lt,
    rsqrt,
    square,
    where,
    zeros_like,
)
from halon.dispatcher.ops.families import binary, floating_unary, tensor_pairs, unary
from halon.dispatcher.ops.movement import cast
from halon.dispatcher.promote import Types, default_dtype, floating, promote, result_type
from halon.dispatcher.structures import TensorBase
from halon.hal import dtypes as dt

_LN2, _LN10 = math.log(2.0), math.log(10.0)
_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
_PREDICATE = ("function", "method")


def between(low: float, high: float) -> Any:
    """Samples of one operand inside a function's domain."""
    return lambda t: [(t.between(low, high, 3, 4),), (t.between(low, high),),
                      (t.between(low, high, 4, 3).t(),), (t(0, 2),)]  # fmt: skip


# fmt: off
tan = floating_unary("tan", "tan(input)", "Tangent of radians.",
                     lambda g, out, x: g * conjugate(out * out + 1))
asin = floating_unary("asin", "asin(input)", "Inverse sine, in radians.",
                      lambda g, out, x: g * conjugate(rsqrt(1 - x * x)), samples=between(-0.9, 0.9))
acos = floating_unary("acos", "acos(input)", "Inverse cosine, in radians.",
                      lambda g, out, x: -g * conjugate(rsqrt(1 - x * x)), samples=between(-0.9, 0.9))
atan = floating_unary("atan", "atan(input)", "Inverse tangent, in radians.",
                      lambda g, out, x: g / conjugate(x * x + 1), samples=between(-0.9, 0.9))
sinh = floating_unary("sinh", "sinh(input)", "Hyperbolic sine.",
                      lambda g, out, x: g * conjugate(cosh(x)))
cosh = floating_unary("cosh", "cosh(input)", "Hyperbolic cosine.",
                      lambda g, out, x: g * conjugate(sinh(x)))
asinh = floating_unary("asinh", "asinh(input)", "Inverse hyperbolic sine.",
                       lambda g, out, x: g * conjugate(rsqrt(x * x + 1)))
acosh = floating_unary("acosh", "acosh(input)", "Inverse hyperbolic cosine; NaN below 1.",
                       lambda g, out, x: g * conjugate(rsqrt(x * x - 1)), samples=between(1.2, 5.0))
atanh = floating_unary("atanh", "atanh(input)", "Inverse hyperbolic tangent.",
                       lambda g, out, x: g / conjugate(1 - x * x), samples=between(-0.9, 0.9))
exp2 = floating_unary("exp2", "exp2(input)", "2 to the power ``input``.",
                      lambda g, out, x: g * conjugate(out * _LN2))
log2 = floating_unary("log2", "log2(input)", "Logarithm to base 2.",
                      lambda g, out, x: g / conjugate(x * _LN2), samples=between(0.3, 4.0))
log10 = floating_unary("log10", "log10(input)", "Logarithm to base 10.",
                       lambda g, out, x: g / conjugate(x * _LN10), samples=between(0.3, 4.0))
erf = floating_unary("erf", "erf(input)", "The error function.",
                     lambda g, out, x: g * exp(-square(x)) * _TWO_OVER_ROOT_PI)
erfc = floating_unary("erfc", "erfc(input)", "1 - erf(input), exact far from 0.",
                      lambda g, out, x: g * exp(-square(x)) * -_TWO_OVER_ROOT_PI)
erfinv = floating_unary("erfinv", "erfinv(input)", "The inverse of ``erf``.",
                        lambda g, out, x: g * exp(square(out)) / _TWO_OVER_ROOT_PI,
                        samples=between(-0.9, 0.9))
lgamma = floating_unary("lgamma", "lgamma(input)", "log of the magnitude of the gamma function.",
                        lambda g, out, x: g * digamma(x))
digamma = floating_unary("digamma", "digamma(input)", "The derivative of ``lgamma``.",
                         lambda g, out, x: g * trigamma(x))
trigamma = floating_unary("trigamma", "trigamma(input)", "The derivative of ``digamma``.", None,
                          methods=())
sinc = floating_unary(
    "sinc", "where(input == 0, 1, sin(pi * input) / (pi * input))", "sin(pi x) / (pi x), 1 at 0.",
    lambda g, out, x: g * where(eq(x, 0), 0.0, (cos(x * math.pi) - out) / where(eq(x, 0), 1.0, x)),
)
ceil = unary("ceil", "ceil(input)", "Round up.", lambda g, out, x: zeros_like(x))
frac = unary("frac", "input - trunc(input)", "The part after the point, with the sign.",
             lambda g, out, x: g, dtype=lambda x: _floating_only("frac")(x))
deg2rad = floating_unary("deg2rad", f"input * {math.pi / 180!r}", "Degrees to radians.",
                         lambda g, out, x: g * (math.pi / 180))
rad2deg = floating_unary("rad2deg", f"input * {180 / math.pi!r}", "Radians to degrees.",
                         lambda g, out, x: g * (180 / math.pi))
# fmt: on


def _logit(x: Any, eps: float | None) -> Any:
    if x.meta.dtype.category < 2:
        x = cast(x, default_dtype())
    if eps is not None:
        x = x.clamp(eps, 1 - eps)
    return log(x / (1 - x))


logit = op(
    "logit(input: Tensor, eps: float = None) -> Tensor", methods=("function", "method"),
    doc="log(x / (1 - x)), with ``input`` limited to [eps, 1 - eps] first.", decompose=_logit,
    grad=COMPOSE,
    samples=lambda t: [(t.between(0.1, 0.9, 3, 4),), (t.between(0.0, 1.0, 3, 4), 0.25)],
)  # fmt: skip


# -- predicates of floating elements ---------------------------------------------------------------
def _tested(x: Any) -> Types:
    """Integers are tested as floats: they are all finite, and keep their sign."""
    return Types((x.dtype if x.dtype.category >= 2 else dt.float32,), dt.bool_)


# fmt: off
isinf = unary("isinf", "abs(input) == inf", "Whether elements are infinite.", None,
              dtype=_tested, methods=_PREDICATE)
isfinite = unary("isfinite", "(abs(input) != inf) & (input == input)",
                 "Whether elements are finite.", None, dtype=_tested, methods=_PREDICATE)
isposinf = unary("isposinf", "input == inf", "Whether elements are positive infinity.", None,
                 dtype=_tested, methods=_PREDICATE)
isneginf = unary("isneginf", "input == -inf", "Whether elements are negative infinity.", None,
                 dtype=_tested, methods=_PREDICATE)
signbit = unary("signbit", "copysign(1, input) < 0", "Whether the sign bit is set.", None,
                dtype=_tested, methods=_PREDICATE)
# fmt: on


def _floating_only(name: str) -> Any:
    def rule(*operands: Any) -> Types:
        found = promote(*operands)
        if found.out.category < 2:
            raise NotImplementedError(f'"{name}" not implemented for {found.out.name!r}')
        return found

    return rule


# -- of two operands -------------------------------------------------------------------------------
atan2 = binary(
    "atan2", "atan2(input, other)", "The angle of the point (other, input), in radians.",
    lambda g, out, a, b: (g * (b / (a * a + b * b)), -g * (a / (a * a + b * b))),
    dtype=floating, samples=tensor_pairs,
)  # fmt: skip


def _not_bool(*operands: Any) -> Types:
    found = promote(*operands)
    if found.out is dt.bool_:
        raise RuntimeError("fmod: not supported on bool tensors; convert one of them first")
    return found


fmod = binary("fmod", "fmod(input, other)", "Remainder with the dividend's sign, as C's ``fmod``.",
              lambda g, out, a, b: (g, -g * ((a - out) / b)),
              dtype=_not_bool)  # fmt: skip
hypot = binary(
    "hypot", "hypot(input, other)", "sqrt(input**2 + other**2) without overflow.",
    lambda g, out, a, b: (g * (a / out), g * (b / out)), samples=tensor_pairs,
    dtype=_floating_only("hypot"),
)  # fmt: skip
copysign = binary(
    "copysign", "copysign(input, other)", "The magnitude of ``input`` with the sign of ``other``.",
    lambda g, out, a, b: (g * where(eq(a, 0), 0.0, out / where(eq(a, 0), 1.0, a)), g * 0.0),
    dtype=floating,
)  # fmt: skip
nextafter = binary(
    "nextafter", "nextafter(input, other)", "The next number after ``input`` towards ``other``.",
    None, samples=tensor_pairs, dtype=_floating_only("nextafter"),
)  # fmt: skip
gcd = binary("gcd", "gcd(input, other)", "Greatest common divisor of integers.", None,
             samples=tensor_pairs)  # fmt: skip
lcm = binary(
    "lcm", "abs(input // max(gcd(input, other), 1) * other)",
    "Least common multiple of integers.", None, samples=tensor_pairs,
)  # fmt: skip
logaddexp_real = binary(
    "logaddexp_real", "where((input == other) & (abs(input) == inf), input, "
    "max(input, other) + log1p(exp(-abs(input - other))))",
    "log(exp(input) + exp(other)) without overflow.",
    lambda g, out, a, b: (g * exp(a - out), g * exp(b - out)), samples=tensor_pairs,
    dtype=_floating_only("logaddexp"), methods=(),
)  # fmt: skip


def _logaddexp(a: Any, b: Any) -> Any:
    """Of complex numbers: the one with the larger real part is factored out."""
    if not a.meta.dtype.is_complex and not b.meta.dtype.is_complex:
        return logaddexp_real(a, b)
    swap = lt(real_part(a), real_part(b))
    top, low = where(swap, b, a), where(swap, a, b)
    return top + log1p(exp(low - top))


logaddexp = op(
    "logaddexp(input: Tensor, other: Tensor) -> Tensor", methods=("function", "method"),
    doc="log(exp(input) + exp(other)) without overflow.", decompose=_logaddexp, grad=COMPOSE,
    samples=tensor_pairs,
)  # fmt: skip
logaddexp2 = binary(
    "logaddexp2", "where((input == other) & (abs(input) == inf), input, "
    "max(input, other) + log1p(exp2(-abs(input - other))) * 1.4426950408889634)",
    "log2(2**input + 2**other) without overflow.",
    lambda g, out, a, b: (g * exp2(a - out), g * exp2(b - out)), samples=tensor_pairs,
    dtype=_floating_only("logaddexp2"),
)  # fmt: skip


def _xlogy_grad(g: Any, out: Any, a: Any, b: Any) -> Any:
    if not isinstance(b, TensorBase):
        return g * math.log(b), None
    divisor: Any = b
    by_a = None
    if isinstance(a, TensorBase):
        by_a = where(eq(a, 0) & (divisor <= 0), 0.0, g * log(b))
    return by_a, g * (a / divisor)


xlogy = binary(
    "xlogy", "where(other != other, other, where(input == 0, 0, input * log(other)))",
    "input * log(other), 0 where ``input`` is 0.", _xlogy_grad, dtype=floating, samples=lambda t: [
        (t(3, 4), t.between(0.3, 3.0, 3, 4)), (t(3, 1), t.between(0.3, 3.0, 4)),
    ],
)  # fmt: skip
fmax = binary(
    "fmax", "where(input != input, other, where(other != other, input, max(input, other)))",
    "The larger value; a number wins over NaN.", None, samples=tensor_pairs,
)  # fmt: skip
fmin = binary(
    "fmin", "where(input != input, other, where(other != other, input, min(input, other)))",
    "The smaller value; a number wins over NaN.", None, samples=tensor_pairs,
)  # fmt: skip


@fmax.grad
def _fmax_grad(g: Any, out: Any, a: Any, b: Any) -> Any:
    first = (a >= b) | isnan(b)
    return where(first, g, 0.0), where(first, 0.0, g)


@fmin.grad
def _fmin_grad(g: Any, out: Any, a: Any, b: Any) -> Any:
    first = (a <= b) | isnan(b)
    return where(first, g, 0.0), where(first, 0.0, g)


def _one_dtype(name: str) -> Any:
    def rule(a: Any, b: Any) -> Types:
        if a.dtype is not b.dtype:
            raise RuntimeError(f"{name}: operands must have the same dtype, got {a} and {b}")
        return promote(a, b)

    return rule


heaviside = binary(
    "heaviside", "where(input == 0, other, where(input > 0, 1, 0))",
    "0 below 0, 1 above, ``other`` at 0.", None, samples=tensor_pairs,
    dtype=_one_dtype("heaviside"),
)  # fmt: skip
ldexp = binary(
    "ldexp", "input * exp2(other)", "input * 2**other.",
    lambda g, out, a, b: (g * exp2(b), g * out * _LN2), dtype=floating, samples=tensor_pairs,
)  # fmt: skip


def _double(*operands: Any) -> Types:
    dtype = dt.complex128 if result_type(*operands).is_complex else dt.float64
    return Types((dtype,) * len(operands), dtype)


float_power = binary(
    "float_power", "input ** other", "Power in float64 (complex128).", None, dtype=_double,
    methods=("function", "method"),
    samples=lambda t: [(t.between(0.3, 3.0, 3, 4), t(3, 4)), (t.between(0.3, 3.0, 3), 2)],
)  # fmt: skip


@float_power.grad
def _float_power_grad(g: Any, out: Any, a: Any, b: Any) -> Any:
    da = g * (b * float_power(a, b - 1)) if isinstance(a, TensorBase) else None
    return da, g * (out * log(a)) if isinstance(b, TensorBase) else None


def _polygamma(n: int, x: Any) -> Any:
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if n > 1:
        return NotImplemented
    return (digamma, trigamma)[n](x)


polygamma = op(
    "polygamma(n: int, input: Tensor) -> Tensor", decompose=_polygamma, grad=COMPOSE,
    methods=("function",), doc="The n-th derivative of ``digamma``, for n of 0 and 1.",
    samples=lambda t: [(0, t.between(1, 6, 3, 4)), (1, t.between(1, 6, 3, 4))],
)  # fmt: skip


def _mvlgamma(x: Any, p: int) -> Any:
    total = p * (p - 1) / 4 * math.log(math.pi)
    result = lgamma(x) + total
    for i in range(1, p):
        result = result + lgamma(x - i / 2)
    return result


mvlgamma = op(
    "mvlgamma(input: Tensor, p: int) -> Tensor", decompose=_mvlgamma, grad=COMPOSE,
    methods=("function", "method"), doc="The logarithm of the multivariate gamma function.",
    samples=lambda t: [(t.between(2.0, 5.0, 3, 4), 3)],
)  # fmt: skip
