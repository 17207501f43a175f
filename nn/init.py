"""Initial values: every function fills a tensor in place and returns it.

Sources: X. Glorot and Y. Bengio, "Understanding the difficulty of training deep feedforward neural
networks", 2010 (xavier); K. He et al., "Delving deep into rectifiers", 2015 (kaiming).
"""

from __future__ import annotations

import math
import warnings

from halon.autograd.modes import no_grad
from halon.tensor.random import Generator
from halon.tensor.tensor import Tensor

_LINEAR_GAIN = frozenset(
    ["linear", "conv1d", "conv2d", "conv3d"]
    + ["conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid"]
)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """calculate_gain(nonlinearity, param=None) -> float, the factor that keeps variance.

    Args:
        nonlinearity: ``linear``, ``conv*d``, ``sigmoid``, ``tanh``, ``relu``, ``leaky_relu`` or
            ``selu``.
        param: the negative slope of ``leaky_relu``, 0.01 by default.

    Raises:
        ValueError: an unknown name, or a slope that is no number.

    >>> from halon.nn import init
    >>> init.calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity in _LINEAR_GAIN:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "selu":
        return 3.0 / 4
    if nonlinearity == "leaky_relu":
        if param is not None and (isinstance(param, bool) or not isinstance(param, int | float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope**2))
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """uniform_(tensor, a=0.0, b=1.0, generator=None) -> Tensor, filled from [a, b)."""
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """normal_(tensor, mean=0.0, std=1.0, generator=None) -> Tensor, filled from N(mean, std²)."""
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """constant_(tensor, val) -> Tensor, filled with one value."""
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """ones_(tensor) -> Tensor, filled with one."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """zeros_(tensor) -> Tensor, filled with zero."""
    with no_grad():
        return tensor.zero_()


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """The inputs one output sees and the outputs one input reaches, for an [out, in, …] weight."""
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """xavier_uniform_(tensor, gain=1.0, generator=None) -> Tensor

    Uniform with variance 2·gain²/(fan_in + fan_out). ValueError below two dimensions.
    """
    bound = math.sqrt(3.0) * _xavier_std(tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """xavier_normal_(tensor, gain=1.0, generator=None) -> Tensor

    Normal with variance 2·gain²/(fan_in + fan_out). ValueError below two dimensions.
    """
    return normal_(tensor, 0.0, _xavier_std(tensor, gain), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None)

    Uniform with variance gain²/fan, where ``a`` is leaky ReLU's slope and ``mode`` picks the fan.

    Raises ValueError below two dimensions, for an unknown mode or nonlinearity.

    >>> import halon
    >>> from halon.nn import init
    >>> bool(init.kaiming_uniform_(halon.empty(3, 6)).abs().max() <= 1)
    True
    """
    if _has_no_elements(tensor):
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None)

    Normal with variance gain²/fan; arguments and errors as ``kaiming_uniform_``.
    """
    if _has_no_elements(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def _xavier_std(tensor: Tensor, gain: float) -> float:
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return gain * math.sqrt(2.0 / float(fan_in + fan_out))


def _kaiming_std(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    fans: dict[str, int] = {"fan_in": fan_in, "fan_out": fan_out}
    if mode.lower() not in fans:
        raise ValueError(f"Mode {mode.lower()} not supported, please use one of {list(fans)}")
    return calculate_gain(nonlinearity, a) / math.sqrt(fans[mode.lower()])


def _has_no_elements(tensor: Tensor) -> bool:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return True
    return False
