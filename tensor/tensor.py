"""The Tensor class: arithmetic, properties and what cannot be derived from a record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from halon.dispatcher import hot, trace
from halon.dispatcher.ops import contraction, movement, views
from halon.dispatcher.ops import elementwise as ew
from halon.dispatcher.select import call
from halon.hal import aliases
from halon.hal.device_name import device
from halon.hal.dtypes import DType
from halon.hal.registry import registry
from halon.tensor import indexing, transfer
from halon.tensor.doors import Doors
from halon.tensor.inplace import update


class Size(tuple):
    """A shape; prints as torch's.

    >>> import halon
    >>> halon.zeros(2, 3).shape, halon.zeros(2, 3).shape.numel()
    (halon.Size([2, 3]), 6)
    """

    def numel(self) -> int:
        """The product of the sizes."""
        n = 1
        for size in self:
            n *= size
        return n

    def __repr__(self) -> str:
        return f"halon.Size({list(self)})"


class Tensor(Doors):
    """An n-dimensional array on a device, with a gradient history.

    Made by ``halon.tensor``, ``halon.zeros`` and their kin. Methods of operators are documented at
    the operators' records.

    >>> import halon
    >>> x = halon.tensor(2.0, requires_grad=True)
    >>> (x**3 + 2 * x).backward()
    >>> x.grad
    tensor(14.)
    """

    # -- arithmetic --------------------------------------------------------------------------------
    def __add__(self, other: Any) -> Tensor:
        return call(ew.add, (self, other))

    def __radd__(self, other: Any) -> Tensor:
        return call(ew.add, (self, other))

    def __sub__(self, other: Any) -> Tensor:
        return call(ew.sub, (self, other))

    def __rsub__(self, other: Any) -> Tensor:
        return call(ew.sub, (other, self))

    def __mul__(self, other: Any) -> Tensor:
        return call(ew.mul, (self, other))

    def __rmul__(self, other: Any) -> Tensor:
        return call(ew.mul, (self, other))

    def __truediv__(self, other: Any) -> Tensor:
        return call(ew.div, (self, other))

    def __rtruediv__(self, other: Any) -> Tensor:
        return call(ew.div, (other, self))

    def __floordiv__(self, other: Any) -> Tensor:
        return call(ew.floor_divide, (self, other))

    def __rfloordiv__(self, other: Any) -> Tensor:
        return call(ew.floor_divide, (other, self))

    def __mod__(self, other: Any) -> Tensor:
        return call(ew.remainder, (self, other))

    def __rmod__(self, other: Any) -> Tensor:
        return call(ew.remainder, (other, self))

    def __pow__(self, other: Any) -> Tensor:
        return call(ew.pow, (self, other))

    def __rpow__(self, other: Any) -> Tensor:
        return call(ew.pow, (other, self))

    def __matmul__(self, other: Any) -> Tensor:
        return contraction.matmul(self, other)

    def __neg__(self) -> Tensor:
        return call(ew.neg, (self,))

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return call(ew.abs, (self,))

    def __invert__(self) -> Tensor:
        return call(ew.bitwise_not, (self,))

    def __and__(self, other: Any) -> Tensor:
        return call(ew.bitwise_and, (self, other))

    def __or__(self, other: Any) -> Tensor:
        return call(ew.bitwise_or, (self, other))

    def __xor__(self, other: Any) -> Tensor:
        return call(ew.bitwise_xor, (self, other))

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __lshift__(self, other: Any) -> Tensor:
        return call(ew.bitwise_left_shift, (self, other))

    def __rshift__(self, other: Any) -> Tensor:
        return call(ew.bitwise_right_shift, (self, other))

    def __eq__(self, other: Any) -> Tensor:  # type: ignore[override]
        return call(ew.eq, (self, other))

    def __ne__(self, other: Any) -> Tensor:  # type: ignore[override]
        return call(ew.ne, (self, other))

    def __lt__(self, other: Any) -> Tensor:
        return call(ew.lt, (self, other))

    def __le__(self, other: Any) -> Tensor:
        return call(ew.le, (self, other))

    def __gt__(self, other: Any) -> Tensor:
        return call(ew.gt, (self, other))

    def __ge__(self, other: Any) -> Tensor:
        return call(ew.ge, (self, other))

    __hash__ = object.__hash__

    def __iadd__(self, other: Any) -> Tensor:
        return update(ew.add, self, (self, other))

    def __isub__(self, other: Any) -> Tensor:
        return update(ew.sub, self, (self, other))

    def __imul__(self, other: Any) -> Tensor:
        return update(ew.mul, self, (self, other))

    def __itruediv__(self, other: Any) -> Tensor:
        return update(ew.div, self, (self, other))

    def __iand__(self, other: Any) -> Tensor:
        return update(ew.bitwise_and, self, (self, other))

    def __ior__(self, other: Any) -> Tensor:
        return update(ew.bitwise_or, self, (self, other))

    # -- properties --------------------------------------------------------------------------------
    @property
    def shape(self) -> Size:
        return Size(self.meta.shape)

    @property
    def dtype(self) -> DType:
        return self.meta.dtype

    @property
    def device(self) -> device:
        return self.meta.device.device

    @property
    def ndim(self) -> int:
        return self.meta.ndim

    @property
    def itemsize(self) -> int:
        return self.meta.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.meta.numel * self.meta.dtype.itemsize

    @property
    def T(self) -> Tensor:
        return self.permute(*range(self.meta.ndim - 1, -1, -1))

    @property
    def mT(self) -> Tensor:
        return views.transpose(self, -2, -1)

    @property
    def is_leaf(self) -> bool:
        return self.node is None

    @property
    def grad_fn(self) -> Any:
        return self.node

    @property
    def grad(self) -> Tensor | None:
        return self.grad_value  # type: ignore[return-value]

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None and (value.meta.shape, value.meta.device) != (
            self.meta.shape, self.meta.device,
        ):  # fmt: skip
            raise RuntimeError(
                f"assigned grad {value.meta} on {value.meta.device.name} does not fit the tensor "
                f"{self.meta} on {self.meta.device.name}"
            )
        self.grad_value = value

    @property
    def requires_grad(self) -> bool:
        return self.wants_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Ask for gradients of this leaf (or stop asking)."""
        if requires_grad and self.meta.dtype.category < 2:
            raise RuntimeError(
                "only Tensors of floating point and complex dtype can require gradients, not "
                f"{self.meta}"
            )
        if self.node is not None and not requires_grad:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a "
                "computed variable in a subgraph that doesn't require differentiation use "
                "var_no_grad = var.detach()."
            )
        self.wants_grad = requires_grad
        return self

    @property
    def data(self) -> Tensor:
        return self.detach()

    @data.setter
    def data(self, value: Tensor) -> None:
        self.storage, self.offset, self.meta = value.storage, value.offset, value.meta

    @property
    def _version(self) -> int:
        return self.storage.version

    @property
    def _base(self) -> Tensor | None:
        return self.base  # type: ignore[return-value]

    def size(self, dim: int | None = None) -> Any:
        """The shape, or one size."""
        return self.shape if dim is None else self.shape[dim]

    def stride(self, dim: int | None = None) -> Any:
        """Strides in elements, or one of them."""
        return self.meta.strides if dim is None else self.meta.strides[dim]

    def storage_offset(self) -> int:
        """Elements before the first one in the storage."""
        return self.offset // self.meta.dtype.itemsize

    def dim(self) -> int:
        return self.meta.ndim

    def numel(self) -> int:
        return self.meta.numel

    nelement = numel

    def element_size(self) -> int:
        return self.meta.dtype.itemsize

    def is_contiguous(self) -> bool:
        return self.meta.contiguous

    def is_floating_point(self) -> bool:
        return self.meta.dtype.is_floating_point

    def __len__(self) -> int:
        if not self.meta.ndim:
            raise TypeError("len() of a 0-d tensor")
        return self.meta.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.meta.ndim:
            raise TypeError("iteration over a 0-d tensor")
        return (views.select(self, 0, i) for i in range(self.meta.shape[0]))

    # -- moving and converting ---------------------------------------------------------------------
    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """This tensor with another device and/or dtype; itself if nothing changes.

        Args:
            device, dtype, non_blocking, copy: as ``torch.Tensor.to``; the first positional argument
                may be a device, a dtype or a tensor to match.

        >>> import halon
        >>> halon.ones(2).to(halon.int64)
        tensor([1, 1])
        """
        target, dtype, copy = transfer.parse_to(args, kwargs)
        result = self
        if dtype is not None and dtype is not self.meta.dtype:
            result = movement.cast(result, dtype)
        if target is not None and registry.open(target) is not self.meta.device:
            result = transfer.to_device(result, registry.open(target))
        return movement.clone(self) if copy and result is self else result

    def type(self, dtype: DType | None = None) -> Any:
        """The type's name, or this tensor converted."""
        return f"halon.{self.meta.dtype.name}" if dtype is None else self.to(dtype)

    def type_as(self, other: Tensor) -> Tensor:
        return self.to(other.dtype)

    def contiguous(self) -> Tensor:
        """This tensor if its elements lie in row-major order, else a copy that does."""
        return self if self.meta.contiguous else movement.dense(self)

    def detach(self) -> Tensor:
        """The same memory without history."""
        t = hot.wrap((self.storage, self.offset), self.meta)
        return t

    def detach_(self) -> Tensor:
        """Forget the history."""
        self.node, self.wants_grad = None, False
        return self

    # -- shapes ------------------------------------------------------------------------------------
    def view(self, *size: Any) -> Tensor:
        """The same memory in another shape."""
        return views.view(self, ints(size))

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in another shape: a view where possible."""
        return views.reshape(self, ints(shape))

    def view_as(self, other: Tensor) -> Tensor:
        return self.view(*other.shape)

    def reshape_as(self, other: Tensor) -> Tensor:
        return self.reshape(*other.shape)

    def expand(self, *size: Any) -> Tensor:
        """Repeat dimensions of size 1 without copying."""
        return views.expand(self, ints(size))

    def expand_as(self, other: Tensor) -> Tensor:
        return self.expand(*other.shape)

    def permute(self, *dims: Any) -> Tensor:
        """Dimensions in another order."""
        return views.permute(self, ints(dims))

    def t(self) -> Tensor:
        """A matrix transposed; vectors and 0-d tensors as they are."""
        if self.meta.ndim > 2:
            raise RuntimeError(
                f"t() expects a tensor with <= 2 dimensions, but self is {self.ndim}D"
            )
        return views.transpose(self, 0, 1) if self.meta.ndim == 2 else self

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """Dimensions ``start_dim`` to ``end_dim`` as one."""
        shape = list(self.meta.shape or (1,))
        first, last = start_dim % len(shape), end_dim % len(shape)
        if first > last:
            raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
        merged = 1
        for n in shape[first : last + 1]:
            merged *= n
        return self.reshape(*shape[:first], merged, *shape[last + 1 :])

    # -- indexing ----------------------------------------------------------------------------------
    def __getitem__(self, index: Any) -> Tensor:
        return indexing.get(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        indexing.set(self, index, value)

    # -- autograd ----------------------------------------------------------------------------------
    def backward(
        self, gradient: Tensor | None = None, retain_graph: bool | None = None,
        create_graph: bool = False, inputs: Any = None,
    ) -> None:  # fmt: skip
        """Accumulate gradients of this tensor in the leaves it depends on."""
        autograd_backward[0](self, gradient, retain_graph, create_graph, inputs)

    def retain_grad(self) -> None:
        """Keep ``.grad`` of this non-leaf in backward."""
        if not self.wants_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        self.retains_grad = True
        if self.node is not None:
            retained[0](self)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Any:
        """Call ``hook(grad)`` when this tensor's gradient is known; it may return another."""
        if not self.wants_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        return hook_registrar[0](self, hook)

    @staticmethod
    def _make_subclass(subclass: type, data: Tensor, require_grad: bool = False) -> Any:
        """A tensor of a subclass sharing ``data``'s memory, without its history."""
        t = hot.wrap((data.storage, data.offset), data.meta)
        t.__class__ = subclass
        t.wants_grad = require_grad
        return t


class Symbol(Tensor):
    """A tensor inside a traced rule: metadata without memory."""

    def item(self, *args: Any, **kwargs: Any) -> Any:
        """Refused: a rule is traced once and may not depend on values."""
        raise TypeError(
            f"a traced rule cannot look at the values of {self.meta}; use where(), or make the "
            "parameter static"
        )

    tolist = numpy = __bool__ = __dlpack__ = item  # type: ignore[assignment]


def ints(args: Sequence[Any]) -> tuple[int, ...]:
    """A shape given as ``2, 3`` or as one sequence."""
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = args[0]
    return tuple(int(a) for a in args)


#: set by ``halon.autograd.install``: the engine's entry, retained gradients, tensor hooks.
autograd_backward: list[Callable[..., None]] = []
retained: list[Callable[[Tensor], None]] = []
hook_registrar: list[Callable[..., Any]] = []

hot.tensor_class[0] = Tensor
trace.symbolic_class.append(Symbol)


def _mover(name: str, target: str) -> Callable[..., Tensor]:
    def move(self: Tensor, index: int | None = None, non_blocking: bool = False) -> Tensor:
        return self.to(target if index is None else device(target, index))

    move.__name__ = name
    move.__doc__ = f"This tensor on {target}."
    return move


for _name, _target in aliases.MOVERS.items():
    setattr(Tensor, _name, _mover(_name, _target))
