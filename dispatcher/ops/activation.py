"""Activation functions of neural networks, with their derivatives."""

from __future__ import annotations

import math
from typing import Any

from halon.dispatcher.op import COMPOSE, Op, op
from halon.dispatcher.ops.complex import conjugate
from halon.dispatcher.ops.elementwise import (
    abs,
    exp,
    ge,
    gt,
    le,
    lt,
    mul,
    sigmoid,
    square,
    tanh,
    where,
)
from halon.dispatcher.ops.transcendental import erf
from halon.dispatcher.ops.views import narrow
from halon.dispatcher.promote import Types, promote
from halon.dispatcher.shapes import wrap_dim

_FUNCTION = ("function",)
_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946
_ROOT_HALF = math.sqrt(0.5)
_ROOT_TWO_OVER_PI = math.sqrt(2 / math.pi)


def _floating(name: str) -> Any:
    def rule(*operands: Any) -> Types:
        found = promote(*operands)
        if found.out.category != 2:
            raise NotImplementedError(f'"{name}" not implemented for {found.out.name!r}')
        return found

    return rule


def _inexact(name: str) -> Any:
    def rule(x: Any) -> Types:
        if x.dtype.category < 2:
            raise NotImplementedError(f'"{name}" not implemented for {x.dtype.name!r}')
        return promote(x)

    return rule


def _limited(x: Any, *bounds: Any) -> Types:
    """Limits take the operand's dtype, integers too."""
    if x.dtype.category not in (1, 2):
        raise NotImplementedError(f'"hardtanh" not implemented for {x.dtype.name!r}')
    if not x.dtype.is_signed and len(bounds) == 2:
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    return Types((x.dtype,) * (1 + len(bounds)), x.dtype)


def _activation(params: str, expr: str, doc: str, grad: Any, **rules: Any) -> Op:
    """An elementwise function of floating tensors, perhaps with numbers as parameters."""
    name, _, rest = params.partition("(")
    rules.setdefault("samples", lambda t: [(t(3, 4),), (t(),), (t(0, 2),), (t(4, 3).t(),)])
    rules.setdefault("methods", _FUNCTION)
    rest = f", {rest}" if rest != ")" else ")"
    rules.setdefault("dtype", _floating(name))
    return op(f"{name}(input: Tensor{rest} -> Tensor", expr=expr, doc=doc, grad=grad, **rules)


def _numbers(*more: Any) -> Any:
    """Samples with default numbers and with these."""
    return lambda t: [(t(3, 4),), (t(),), (t(4, 3).t(), *more)]


silu = _activation(
    "silu()", "input / (1 + exp(-input))", "input * sigmoid(input) (arXiv:1702.03118).",
    lambda g, out, x: g * conjugate(sigmoid(x) * (x * (1 - sigmoid(x)) + 1)),
    dtype=_inexact("silu"),
)  # fmt: skip
mish = _activation(
    "mish()", "input * tanh(log1p(exp(-abs(input))) + max(input, 0))",
    "input * tanh(softplus(input)) (arXiv:1908.08681).", None,
)  # fmt: skip


@mish.grad
def _mish_grad(g: Any, out: Any, x: Any) -> Any:
    gate = tanh(softplus(x))
    return g * (gate + x * (1 - square(gate)) * sigmoid(x))


softplus = _activation(
    "softplus(beta: Number = 1.0, threshold: Number = 20.0)",
    "where(input * beta > threshold, input, log1p(exp(input * beta)) / beta)",
    "log(1 + exp(beta * input)) / beta; linear where beta * input exceeds ``threshold``.",
    lambda g, out, x, beta, threshold: where(
        gt(x * beta, threshold), g, g * sigmoid(x * beta)
    ),
    samples=_numbers(2.0, 1.0),
)  # fmt: skip
logsigmoid = _activation(
    "logsigmoid()", "min(input, 0) - log1p(exp(-abs(input)))", "log(sigmoid(input)).",
    lambda g, out, x: g * sigmoid(-x),
)  # fmt: skip
elu = _activation(
    "elu(alpha: Number = 1.0)", "where(input > 0, input, alpha * expm1(input))",
    "alpha * (exp(input) - 1) below 0 (arXiv:1511.07289).",
    lambda g, out, x, alpha: where(gt(x, 0), g, g * (exp(x) * alpha)), samples=_numbers(0.5),
)  # fmt: skip
celu = _activation(
    "celu(alpha: Number = 1.0)", "max(input, 0) + min(alpha * expm1(input / alpha), 0)",
    "alpha * (exp(input / alpha) - 1) below 0 (arXiv:1704.07483).",
    lambda g, out, x, alpha: where(gt(x, 0), g, g * exp(x / alpha)), samples=_numbers(0.5),
)  # fmt: skip
selu = _activation(
    "selu()", f"{_SELU_SCALE} * where(input > 0, input, {_SELU_ALPHA} * expm1(input))",
    "Scaled ``elu`` that keeps mean 0 and variance 1 (arXiv:1706.02515).",
    lambda g, out, x: g * _SELU_SCALE * where(gt(x, 0), 1.0, exp(x) * _SELU_ALPHA),
)  # fmt: skip
leaky_relu = _activation(
    "leaky_relu(negative_slope: Number = 0.01)", "where(input > 0, input, input * negative_slope)",
    "input, times ``negative_slope`` below 0.",
    lambda g, out, x, slope: where(gt(x, 0), g, g * slope), samples=_numbers(0.3),
)  # fmt: skip
hardtanh = _activation(
    "hardtanh(min_val: Number = -1.0, max_val: Number = 1.0)",
    "min(max(input, min_val), max_val)", "Values limited to [min_val, max_val].",
    lambda g, out, x, low, high: where(gt(x, low) & lt(x, high), g, 0.0),
    samples=lambda t: [(t(3, 4),), (t(),), (t.floats(4, 3).t(), -0.5, 0.7)], dtype=_limited,
)  # fmt: skip
relu6 = _activation(
    "relu6()", "min(max(input, 0), 6)", "Values limited to [0, 6].",
    lambda g, out, x: where(gt(x, 0) & lt(x, 6), g, 0.0), dtype=_limited,
)  # fmt: skip
hardsigmoid = _activation(
    "hardsigmoid()", "min(max(input + 3, 0), 6) / 6", "A piecewise linear ``sigmoid``.",
    lambda g, out, x: where(gt(x, -3) & lt(x, 3), g / 6, 0.0),
)  # fmt: skip
hardswish = _activation(
    "hardswish()", "input * min(max(input + 3, 0), 6) / 6", "input * hardsigmoid(input).",
    lambda g, out, x: where(lt(x, -3), 0.0, where(le(x, 3), g * (x / 3 + 0.5), g)),
)  # fmt: skip
softsign = op(
    "softsign(input: Tensor) -> Tensor", decompose=lambda x: x / (abs(x) + 1), grad=COMPOSE,
    doc="input / (1 + |input|).", methods=_FUNCTION,
    samples=lambda t: [(t(3, 4),), (t(),), (t(4, 3).t(),)],
)  # fmt: skip
tanhshrink = op(
    "tanhshrink(input: Tensor) -> Tensor", decompose=lambda x: x - tanh(x), grad=COMPOSE,
    doc="input - tanh(input).", methods=_FUNCTION,
    samples=lambda t: [(t(3, 4),), (t(),), (t(4, 3).t(),)],
)  # fmt: skip
hardshrink = _activation(
    "hardshrink(lambd: Number = 0.5)",
    "where((input >= -lambd) & (input <= lambd), 0, input)", "0 within ``lambd`` of 0.",
    lambda g, out, x, lambd: where(ge(x, -lambd) & le(x, lambd), 0.0, g), samples=_numbers(1.0),
    methods=("function", "method"),
)  # fmt: skip
softshrink = _activation(
    "softshrink(lambd: Number = 0.5)",
    "where(input > lambd, input - lambd, where(input < -lambd, input + lambd, input * 0))",
    "Moved towards 0 by ``lambd``.",
    lambda g, out, x, lambd: where(ge(x, -lambd) & le(x, lambd), 0.0, g), samples=_numbers(1.0),
)  # fmt: skip
threshold = op(
    "threshold(input: Tensor, threshold: Number, value: Number) -> Tensor",
    expr="where(input <= threshold, value, input)", methods=_FUNCTION,
    doc="``value`` where ``input`` does not exceed ``threshold``.",
    dtype=lambda x, threshold, value: Types((x.dtype,) * 3, x.dtype),
    grad=lambda g, out, x, threshold, value: (where(gt(x, threshold), g, 0.0),),
    samples=lambda t: [(t(3, 4), 1, 2), (t.floats(3, 4), 0.5, -2.0), (t(), 0, 1)],
)  # fmt: skip

gelu_exact = _activation(
    "gelu_exact()", f"0.5 * input * (1 + erf(input * {_ROOT_HALF}))",
    "input times the normal distribution function (arXiv:1606.08415).",
    lambda g, out, x: g * (
        0.5 * (erf(x * _ROOT_HALF) + 1)
        + x * exp(square(x) * -0.5) * (1 / math.sqrt(2 * math.pi))
    ),
    methods=(),
)  # fmt: skip
gelu_tanh = _activation(
    "gelu_tanh()",
    f"0.5 * input * (1 + tanh({_ROOT_TWO_OVER_PI} * (input + 0.044715 * input * input * input)))",
    "The tanh approximation of ``gelu``.", None, methods=(),
)  # fmt: skip


@gelu_tanh.grad
def _gelu_tanh_grad(g: Any, out: Any, x: Any) -> Any:
    gate = tanh((x + mul(x * x, x) * 0.044715) * _ROOT_TWO_OVER_PI)
    slope = (square(x) * (3 * 0.044715) + 1) * _ROOT_TWO_OVER_PI
    return g * (0.5 * (gate + 1) + 0.5 * x * (1 - square(gate)) * slope)


def _gelu(x: Any, approximate: str) -> Any:
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return gelu_exact(x) if approximate == "none" else gelu_tanh(x)


gelu = op(
    'gelu(input: Tensor, *, approximate: str = "none") -> Tensor', decompose=_gelu, grad=COMPOSE,
    methods=_FUNCTION, doc="input * Phi(input), exactly or by tanh (arXiv:1606.08415).",
    samples=lambda t: [(t(3, 4),), (t(3, 4), "tanh"), (t(),)],
)  # fmt: skip


def _prelu(x: Any, weight: Any) -> Any:
    from halon.dispatcher.ops.views import reshape

    n = x.meta.ndim
    if weight.meta.numel != 1:
        channels = x.meta.shape[1] if n > 1 else 1
        if weight.meta.numel != channels:
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight.meta.numel} and channel size = {channels}."
            )
        weight = reshape(weight, (1, -1) + (1,) * (n - 2) if n > 1 else (-1,))
    elif weight.meta.ndim:
        weight = reshape(weight, (1,) * max(n, 1) if n else ())
    return where(gt(x, 0), x, x * weight)


prelu = op(
    "prelu(input: Tensor, weight: Tensor) -> Tensor", decompose=_prelu, grad=COMPOSE,
    methods=("function", "method"),
    doc="input, times a learned ``weight`` (one, or one per channel) below 0.",
    samples=lambda t: [(t.floats(2, 3, 4), t.floats(3)), (t.floats(3, 4), t.floats(1)), (t.floats(4), t.floats(1))],
)  # fmt: skip


def _glu(x: Any, dim: int) -> Any:
    if not x.meta.ndim:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    d = wrap_dim(dim, x.meta.ndim)
    n = x.meta.shape[d]
    if n % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {d} is size {n}")
    return narrow(x, d, 0, n // 2) * sigmoid(narrow(x, d, n // 2, n // 2))


glu = op(
    "glu(input: Tensor, dim: int = -1) -> Tensor", decompose=_glu, grad=COMPOSE, methods=_FUNCTION,
    doc="The first half times the sigmoid of the second (arXiv:1612.08083).",
    samples=lambda t: [(t.floats(3, 4),), (t.floats(4, 3), 0)],
)  # fmt: skip
