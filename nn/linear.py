"""Linear and Identity."""

from __future__ import annotations

import math
from typing import Any

from halon.hal.dtypes import DType
from halon.nn import functional as F
from halon.nn import init
from halon.nn.module import Module
from halon.nn.parameter import Parameter
from halon.tensor.creation import empty
from halon.tensor.tensor import Tensor


class Identity(Module):
    """Identity(*args, **kwargs), returns its input; arguments are ignored.

    >>> from halon import nn
    >>> nn.Identity(54, unused=True)
    Identity()
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """Linear(in_features, out_features, bias=True, device=None, dtype=None)

    ``x @ weight.T + bias``: input [*, in_features], output [*, out_features], ``weight``
    [out_features, in_features]. Both parameters start uniform in ±1/sqrt(in_features).

    >>> import halon
    >>> from halon import nn
    >>> nn.Linear(3, 2)(halon.zeros(4, 3)).shape == (4, 2)
    True
    """

    in_features: int
    out_features: int
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty((out_features, in_features), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty((out_features,), device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        # kaiming_uniform_ with a = sqrt(5) is uniform in ±1/sqrt(fan_in)
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )
