"""Activations as layers."""

from __future__ import annotations

from halon.nn import functional as F
from halon.nn.module import Module
from halon.tensor.tensor import Tensor


class ReLU(Module):
    """ReLU(inplace=False), ``max(x, 0)``.

    >>> import halon
    >>> from halon import nn
    >>> nn.ReLU()(halon.tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, inplace=self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Sigmoid(Module):
    """Sigmoid(), ``1 / (1 + exp(-x))``.

    >>> import halon
    >>> from halon import nn
    >>> nn.Sigmoid()(halon.tensor([0.0])).tolist()
    [0.5]
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.sigmoid(input)


class Tanh(Module):
    """Tanh(), the hyperbolic tangent.

    >>> import halon
    >>> from halon import nn
    >>> nn.Tanh()(halon.tensor([0.0])).tolist()
    [0.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanh(input)


class Softmax(Module):
    """Softmax(dim=None), positive values that sum to one along ``dim``.

    >>> import halon
    >>> from halon import nn
    >>> nn.Softmax(dim=0)(halon.tensor([1.0, 1.0])).tolist()
    [0.5, 0.5]
    """

    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """LogSoftmax(dim=None), the logarithm of ``Softmax``, computed without overflow.

    >>> import halon
    >>> from halon import nn
    >>> nn.LogSoftmax(dim=0)(halon.tensor([1000.0, 0.0])).tolist()
    [0.0, -1000.0]
    """

    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"
