"""Methods through which a tensor leaves halon: Python, NumPy, DLPack, pickle, notebooks."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from halon.dispatcher.ops import reduction
from halon.hal.registry import host
from halon.tensor import transfer
from halon.tensor.forms import Forms

#: ufuncs of two operands that have an operator: with it gradients and devices are kept.
_OPERATORS: Final[dict[np.ufunc, Callable[[Any, Any], Any]]] = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul,
    np.true_divide: operator.truediv, np.floor_divide: operator.floordiv,
    np.remainder: operator.mod, np.power: operator.pow,
    np.equal: operator.eq, np.not_equal: operator.ne, np.less: operator.lt,
    np.less_equal: operator.le, np.greater: operator.gt, np.greater_equal: operator.ge,
    np.bitwise_and: operator.and_, np.bitwise_or: operator.or_, np.bitwise_xor: operator.xor,
}  # fmt: skip


class Doors(Forms):
    """What ``Tensor`` answers to Python, NumPy, DLPack, pickle and notebooks."""

    __slots__ = ()

    #: libraries that arrange operands by priority let tensors decide
    __array_priority__ = 1000

    # -- Python ------------------------------------------------------------------------------------
    def item(self: Any) -> Any:
        """The only element as a Python number; RuntimeError if there is not exactly one."""
        if self.meta.numel != 1:
            raise RuntimeError(
                f"a Tensor with {self.meta.numel} elements cannot be converted to Scalar"
            )
        return transfer.to_array(self).item()

    def tolist(self: Any) -> Any:
        """Nested lists of Python numbers (a number for a 0-d tensor), for every dtype."""
        return transfer.to_array(self).tolist()

    def __float__(self: Any) -> float:
        return float(self.item())

    def __int__(self: Any) -> int:
        return int(self.item())

    def __complex__(self: Any) -> complex:
        return complex(self.item())

    def __index__(self: Any) -> int:
        if self.meta.dtype.category > 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __bool__(self: Any) -> bool:
        if self.meta.numel > 1:
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        if not self.meta.numel:
            raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
        return bool(self.item())

    def __contains__(self: Any, value: Any) -> bool:
        return bool(reduction.any(self == value))

    def __repr__(self: Any) -> str:
        from halon.tensor.printing import tensor_repr

        return tensor_repr(self)

    def _repr_html_(self: Any) -> str:
        """The table a notebook shows."""
        from halon.tensor.html import tensor_html

        return tensor_html(self)

    def __format__(self: Any, spec: str) -> str:
        return format(self.item(), spec) if not self.meta.ndim else object.__format__(self, spec)

    # -- NumPy -------------------------------------------------------------------------------------
    def numpy(self: Any, *, force: bool = False) -> np.ndarray:
        """A NumPy array that shares this tensor's memory; host tensors without gradient only.

        bfloat16 and float8 give arrays of the ``ml_dtypes`` types of the same name.

        Args:
            force: detach, and copy to the host if the tensor is elsewhere, instead of raising.

        >>> import halon
        >>> t = halon.zeros(2)
        >>> t.numpy()[0] = 7
        >>> t
        tensor([7., 0.])
        """
        if force:
            if self.meta.device.is_host:
                return transfer.shared_array(self)
            return transfer.to_array(self)
        if self.wants_grad:
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. "
                "Use tensor.detach().numpy() instead."
            )
        return transfer.shared_array(self)

    def __array__(self: Any, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """What ``np.asarray`` and ``np.array`` ask for.

        Args:
            dtype: the dtype wanted, or None for the tensor's.
            copy: True copies, None only if the dtype differs, False raises ValueError then.
        """
        array = self.numpy()
        if dtype is None or np.dtype(dtype) == array.dtype:
            return array.copy() if copy else array
        if copy is False:
            raise ValueError(
                f"Unable to avoid copy while creating an array of {np.dtype(dtype)} from "
                f"{self.meta} as requested"
            )
        return array.astype(dtype)

    def __array_wrap__(
        self: Any, array: np.ndarray, context: Any = None, return_scalar: bool = False
    ) -> Any:
        """A tensor of what a NumPy function computed from this one."""
        return transfer.from_array(np.asarray(array))

    def __array_ufunc__(
        self: Any, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any
    ) -> Any:
        """``np.sin(t)`` and ``array * t``: a tensor, unless ``out`` is an array.

        Operators on two operands are halon's and keep gradients and devices. Other functions run in
        NumPy, on host tensors without gradient.
        """
        apply = _OPERATORS.get(ufunc)
        if apply is not None and method == "__call__" and not kwargs and len(inputs) == 2:
            first, second = (
                _operand(x, self) if isinstance(x, (np.ndarray, np.generic)) else x for x in inputs
            )
            return apply(first, second)
        arrays = [x.numpy() if isinstance(x, Doors) else x for x in inputs]
        out = kwargs.get("out", ())
        if out:
            kwargs["out"] = tuple(x.numpy() if isinstance(x, Doors) else x for x in out)
        result = getattr(ufunc, method)(*arrays, **kwargs)
        if out:
            return out[0] if len(out) == 1 else out
        if isinstance(result, tuple):
            return tuple(transfer.from_array(np.asarray(r)) for r in result)
        return None if result is None else transfer.from_array(np.asarray(result))

    def __buffer__(self: Any, flags: int) -> memoryview:
        """The elements as a buffer over this memory; Python 3.12 and later ask for it.

        Before that, ``memoryview(t.numpy())`` is the same view.
        """
        try:
            return memoryview(self.numpy())
        except (RuntimeError, TypeError, ValueError) as error:
            raise BufferError(f"{self.meta} on {self.device} has no buffer: {error}") from error

    # -- DLPack ------------------------------------------------------------------------------------
    def __dlpack__(
        self: Any, *, stream: Any = None, max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None, copy: bool | None = None,
    ) -> Any:  # fmt: skip
        """A DLPack capsule over this memory, for ``from_dlpack`` of another library.

        Args:
            stream: the consumer's stream on this device; None or -1 on the host.
            max_version: the newest DLPack version the consumer reads; a legacy capsule without it.
            dl_device: the device wanted; ``(1, 0)`` brings any tensor to host memory.
            copy: True exports a copy, False raises BufferError where one is needed.

        Raises:
            BufferError: the tensor requires grad or cannot be exported as asked.
        """
        from halon.tensor import dlpack

        return dlpack.export(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self: Any) -> tuple[int, int]:
        """(device type, index) as DLPack numbers them; ``(1, 0)`` is the host."""
        from halon.tensor import dlpack

        return dlpack.device_of(self)

    # -- copying and pickling ----------------------------------------------------------------------
    def __deepcopy__(self: Any, memo: dict[int, Any]) -> Any:
        from halon.tensor import sharing

        return sharing.deepcopy(self, memo)

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        from halon.tensor import sharing

        return sharing.reduce(self)


def _operand(value: Any, beside: Any) -> Any:
    """An array operand as a tensor, a 0-d one on the device of the tensor beside it."""
    if isinstance(value, np.generic):
        return value.item()
    t = transfer.from_array(value)
    away = beside.meta.device is not host() and not value.ndim
    return transfer.to_device(t, beside.meta.device) if away else t
