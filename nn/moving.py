"""Moving a module tree between devices and dtypes, and switching its modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from halon.autograd.modes import no_grad
from halon.hal import aliases, dtypes
from halon.hal.device_name import device as device_class
from halon.hal.dtypes import DType
from halon.nn.traversal import Traversal
from halon.tensor.creation import empty_like
from halon.tensor.tensor import Tensor

Self = TypeVar("Self", bound="Moving")


class Moving(Traversal):
    """The part of Module that changes every tensor of the tree at once, in place."""

    training: bool

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """to(device=None, dtype=None, non_blocking=False), or to(dtype), or to(tensor)

        Moves parameters and buffers; ``dtype`` converts those that are floating-point or complex.
        Parameters keep their identity, so an optimizer built before still holds them.

        Raises:
            TypeError: ``dtype`` is an integer or bool type.

        >>> import halon
        >>> from halon import nn
        >>> nn.Linear(2, 1).to(halon.float64).weight.dtype
        halon.float64
        """
        device, dtype, non_blocking = _parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )

        def moved(t: Tensor) -> Tensor:
            converts = dtype is not None and (t.dtype.is_floating_point or t.dtype.is_complex)
            return t.to(
                device=t.device if device is None else device,
                dtype=dtype if converts else t.dtype,
                non_blocking=non_blocking,
            )

        return self._apply(moved)

    def to_empty(self: Self, *, device: Any, recurse: bool = True) -> Self:
        """Move to ``device`` without copying values: the tensors there are uninitialised."""
        return self._apply(lambda t: empty_like(t, device=device), recurse)

    def type(self: Self, dst_type: DType) -> Self:
        """Convert every parameter and buffer, integer ones too."""
        return self._apply(lambda t: t.to(dst_type))

    def float(self: Self) -> Self:
        """Convert floating-point parameters and buffers to float32."""
        return self._apply(_converter(dtypes.float32))

    def double(self: Self) -> Self:
        """Convert floating-point parameters and buffers to float64."""
        return self._apply(_converter(dtypes.float64))

    def half(self: Self) -> Self:
        """Convert floating-point parameters and buffers to float16."""
        return self._apply(_converter(dtypes.float16))

    def bfloat16(self: Self) -> Self:
        """Convert floating-point parameters and buffers to bfloat16."""
        return self._apply(_converter(dtypes.bfloat16))

    def _apply(self: Self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Put ``fn(tensor)`` in the place of every parameter, gradient and buffer."""
        if recurse:
            for child in self.children():
                child._apply(fn)
        for parameter in self._parameters.values():
            if parameter is None:
                continue
            gradient = parameter.grad
            with no_grad():
                # a gradient must match its tensor, so it is off while the tensor changes
                parameter.grad = None
                parameter.data = fn(parameter.detach())
                if gradient is not None:
                    moved = fn(gradient.detach())
                    parameter.grad = moved.requires_grad_(gradient.requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def train(self: Self, mode: bool = True) -> Self:
        """Switch the tree to training (``mode=False``: evaluation) behaviour.

        Raises ValueError if ``mode`` is no bool.
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self: Self) -> Self:
        """Switch the tree to evaluation behaviour: dropout off, running statistics in use."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Freeze or unfreeze every parameter of the tree."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop every gradient, or fill it with zeros where ``set_to_none`` is False."""
        for parameter in self.parameters():
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                parameter.grad = parameter.grad.detach().zero_()


def _converter(dtype: DType) -> Callable[[Tensor], Tensor]:
    return lambda t: t.to(dtype) if t.dtype.is_floating_point else t


def _parse_to(*args: Any, **kwargs: Any) -> tuple[device_class | None, DType | None, bool]:
    """The device, dtype and non_blocking of the three call forms of ``to``."""
    device = kwargs.pop("device", None)
    dtype = kwargs.pop("dtype", None)
    non_blocking = kwargs.pop("non_blocking", False)
    other = kwargs.pop("tensor", None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    rest = list(args)
    if rest and isinstance(rest[0], Tensor):
        other = rest.pop(0)
    elif rest and isinstance(rest[0], DType):
        dtype = rest.pop(0)
    elif rest:
        device = rest.pop(0)
        if rest and (rest[0] is None or isinstance(rest[0], DType)):
            dtype = rest.pop(0)
    if rest:
        non_blocking = rest.pop(0)
    if rest or not isinstance(non_blocking, bool):
        raise TypeError(f"to() received an invalid combination of arguments: {args}")
    if other is not None:
        device, dtype = other.device, other.dtype
    return (None if device is None else device_class(device)), dtype, non_blocking


def _mover(name: str) -> Callable[..., Moving]:
    def move(self: Moving, index: int | None = None) -> Moving:
        return self.to(device_class(name, index))

    move.__doc__ = f"Move parameters and buffers to {name}."
    return move


# .cpu(), .cuda(), …: one method for each name in the alias table
for _method, _target in aliases.MOVERS.items():
    setattr(Moving, _method, _mover(_target))
