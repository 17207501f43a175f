"""Conv2d."""

from __future__ import annotations

import math
from typing import Any

from halon.hal.dtypes import DType
from halon.nn import functional as F
from halon.nn import init
from halon.nn.module import Module
from halon.nn.pairs import Pair, pair
from halon.nn.parameter import Parameter
from halon.tensor.creation import empty
from halon.tensor.tensor import Tensor

_PADDING_NAMES = ("valid", "same")


class Conv2d(Module):
    """Conv2d(in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1,
    bias=True, padding_mode="zeros", device=None, dtype=None), cross-correlation over images.

    Input [N, in_channels, H, W] or without N; ``weight`` is [out_channels, in_channels/groups, kH,
    kW]. Sizes are an int or a pair; ``padding`` may be ``"valid"`` or ``"same"`` (stride 1). Both
    parameters start uniform in ±1/sqrt(fan_in).

    Raises:
        ValueError: channels are not divisible by groups, or a padding that does not exist.
        NotImplementedError: a ``padding_mode`` other than ``"zeros"``.

    >>> import halon
    >>> from halon import nn
    >>> nn.Conv2d(1, 4, 3, padding=1)(halon.zeros(2, 1, 8, 8)).shape == (2, 4, 8, 8)
    True
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Pair,
        stride: int | Pair = 1,
        padding: str | int | Pair = 0,
        dilation: int | Pair = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = pair(kernel_size)
        self.stride = pair(stride)
        self.padding = padding if isinstance(padding, str) else pair(padding)
        self.dilation = pair(dilation)
        self.groups = groups
        self.padding_mode = padding_mode
        self._check()
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty((out_channels,), device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _check(self) -> None:
        if self.groups <= 0:
            raise ValueError("groups must be a positive integer")
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if self.out_channels % self.groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(self.padding, str):
            if self.padding not in _PADDING_NAMES:
                raise ValueError(
                    f"Invalid padding string {self.padding!r}, should be one of {_PADDING_NAMES}"
                )
            if self.padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if self.padding_mode in ("reflect", "replicate", "circular"):
            raise NotImplementedError(
                f"Conv2d: padding_mode={self.padding_mode!r} does not exist in halon; 'zeros' "
                "does. Pad the input beforehand and use padding=0"
            )
        if self.padding_mode != "zeros":
            raise ValueError(
                f"padding_mode must be one of ['zeros'], but got padding_mode='{self.padding_mode}'"
            )

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        # kaiming_uniform_ with a = sqrt(5) is uniform in ±1/sqrt(fan_in)
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.conv2d(
            input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )

    def extra_repr(self) -> str:
        parts = [f"{self.in_channels}, {self.out_channels}"]
        parts.append(f"kernel_size={self.kernel_size}, stride={self.stride}")
        if self.padding != (0, 0):
            parts.append(f"padding={self.padding}")
        if self.dilation != (1, 1):
            parts.append(f"dilation={self.dilation}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        return ", ".join(parts)
