"""Parameter: a tensor that a Module registers when it is assigned as an attribute."""

from __future__ import annotations

from typing import Any

from halon.tensor.creation import empty
from halon.tensor.tensor import Tensor


class Parameter(Tensor):
    """Parameter(data=None, requires_grad=True), a leaf tensor that a module trains.

    Shares the memory of ``data``; without data it has no elements.

    >>> import halon
    >>> from halon.nn import Parameter
    >>> Parameter(halon.tensor([1.0, 2.0]))
    Parameter containing:
    tensor([1., 2.], requires_grad=True)
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(f"Parameter(): expected a Tensor, got {type(data).__name__}")
        return Tensor._make_subclass(cls, data.detach(), requires_grad)  # type: ignore[return-value]

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        # everything happens in __new__; Tensor's own constructor must not run on top of it
        pass

    def __repr__(self, **kwargs: Any) -> str:
        return "Parameter containing:\n" + super().__repr__()
