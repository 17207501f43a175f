"""Tensors over memory that another Python object holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from halon.hal.dtypes import DType
from halon.tensor import transfer


def frombuffer(
    buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Any:
    """frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False) -> Tensor, 1-D.

    Shares the memory of a writable buffer. Of a read-only one, and where ``offset`` leaves the
    elements misaligned, it holds a copy: tensors can be written, and that memory cannot.

    Args:
        buffer: an object with the buffer protocol (bytes, bytearray, array, mmap, …).
        dtype: how the bytes are read.
        count: elements to read; a negative count reads all.
        offset: bytes to skip before the first element.

    Raises:
        ValueError: no buffer, or ``count`` and ``offset`` do not fit in it.
        RuntimeError: the buffer is not contiguous.

    >>> import halon
    >>> raw = bytearray(8)
    >>> t = halon.frombuffer(raw, dtype=halon.int32)
    >>> raw[0] = 3
    >>> t
    tensor([3, 0], dtype=halon.int32)
    """
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    if not view.c_contiguous:
        raise RuntimeError("could not retrieve buffer from object: it is not contiguous")
    length, size = view.nbytes, dtype.itemsize
    if not length or not count:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({length} bytes) minus 1"
        )
    if count < 0:
        if (length - offset) % size:
            raise ValueError(
                f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a "
                f"multiple of element size ({size})"
            )
        count = (length - offset) // size
    elif offset + count * size > length:
        raise ValueError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must "
            f"not be greater than actual buffer length ({length} bytes)"
        )
    raw = np.frombuffer(view, np.uint8)[offset : offset + count * size]
    return transfer.from_array(raw.view(dtype.numpy)).requires_grad_(requires_grad)
