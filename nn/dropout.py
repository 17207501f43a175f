"""Dropout (N. Srivastava et al., "Dropout", 2014)."""

from __future__ import annotations

from halon.nn import functional as F
from halon.nn.module import Module
from halon.tensor.tensor import Tensor


class Dropout(Module):
    """Dropout(p=0.5, inplace=False), zeroes each element with probability ``p`` in training.

    What is kept is scaled by 1/(1 - p), so the expected value does not change; in evaluation the
    input is returned as it is. ValueError if ``p`` is outside [0, 1].

    >>> import halon
    >>> from halon import nn
    >>> nn.Dropout(0.2).eval()(halon.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    p: float
    inplace: bool

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"
