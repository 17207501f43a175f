"""Flatten."""

from __future__ import annotations

from halon.nn.module import Module
from halon.tensor.tensor import Tensor


class Flatten(Module):
    """Flatten(start_dim=1, end_dim=-1), joins a range of dimensions into one.

    >>> import halon
    >>> from halon import nn
    >>> nn.Flatten()(halon.zeros(2, 3, 4)).shape == (2, 12)
    True
    """

    start_dim: int
    end_dim: int

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
