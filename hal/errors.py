"""The error taxonomy: each class is a HalonError and the builtin that PyTorch users catch."""

from __future__ import annotations

from typing import Final


class HalonError(Exception):
    """Base of everything halon raises on purpose."""


class HalInvalidArgument(HalonError, ValueError):
    """A driver was called with an argument it must refuse: a bug in the host or the plug-in."""


class OutOfMemoryError(HalonError, RuntimeError, MemoryError):
    """A device has no memory left, after its cache was flushed and the request tried again."""


class NotImplementedOnDevice(HalonError, NotImplementedError, RuntimeError):
    """No step of the resolver could run an operator; the message lists why each one failed."""


class CompileError(HalonError, RuntimeError):
    """A device compiler refused a kernel; the message ends with its log."""


class DeviceExecutionError(HalonError, RuntimeError):
    """A kernel failed; sticky on its stream."""


class DeviceTimeout(HalonError, TimeoutError, RuntimeError):
    """Work did not end in time; sticky on its stream."""


class DeviceLost(HalonError, RuntimeError):
    """The device is gone; sticky on the device, its buffers are invalid."""


class DeviceBusy(HalonError, RuntimeError):
    """A quota or context limit was met five times with back-off between."""


class PluginABIError(HalonError, ImportError):
    """A plug-in speaks another ABI major; it is not loaded."""


class DriverInternalError(HalonError, RuntimeError):
    """The driver reports a failure of its own."""


class DevicePermissionError(HalonError, PermissionError):
    """The operating system denies access to the device."""


class UnknownDevice(HalonError, RuntimeError):
    """No such device, or its driver did not load; the message says which and why."""


class Declined(HalonError):
    """Raised by a driver's ``op_run`` or an op-table entry: try the next resolver step."""


class DeclinedAtLaunch(Declined):
    """``op_run`` declined a planned call; the verdict is kept and the call is planned again."""


class NotProvided(HalonError):
    """Raised by an optional Device method that the driver did not write; the host emulates it."""


class VersionError(HalonError, RuntimeError):
    """Backward needs a value that was changed in place after it was saved."""


class IndexOutOfRange(HalonError, IndexError):
    """An index is outside its dimension; the message names both."""


_BAD_INDEX: Final = 1 << 62
_HALF: Final = 1 << 28  # shown indices and sizes are exact up to here


def marked_index(dim: int, size: int) -> int:
    """What is added to an index outside ``size``: no valid position, and it names both.

    Combining the indices of several dimensions into one loses which was wrong; the mark keeps it
    until a kernel that checks bounds reports the value to ``bad_index``.
    """
    return -_BAD_INDEX + (dim << 58) + (min(size, _HALF) << 29) + _HALF


def bad_index(index: int, dim: int, size: int) -> IndexOutOfRange:
    """The error for a position a kernel refused; undoes ``marked_index``.

    >>> str(bad_index(marked_index(1, 3) + 7, 0, 12))
    'index 7 is out of bounds for dimension 1 with size 3'
    """
    if index < -(1 << 61):
        rest = index + _BAD_INDEX
        dim, size = rest >> 58, rest >> 29 & ((1 << 29) - 1)
        index = (rest & ((1 << 29) - 1)) - _HALF
    return IndexOutOfRange(f"index {index} is out of bounds for dimension {dim} with size {size}")


#: C status code of a plug-in → the class raised for it (PLUGIN 3a).
STATUS_ERRORS: Final[dict[int, type[HalonError]]] = {
    2: Declined,
    -1: HalInvalidArgument,
    -2: OutOfMemoryError,
    -3: NotImplementedOnDevice,
    -4: CompileError,
    -5: DeviceExecutionError,
    -6: DeviceTimeout,
    -7: DeviceLost,
    -8: DeviceBusy,
    -9: PluginABIError,
    -10: DriverInternalError,
    -11: DevicePermissionError,
}
