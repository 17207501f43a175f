"""The compiled extension as the CPU device uses it: kernels, their errors, their op indices."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from halon.hal.errors import DeviceExecutionError, IndexOutOfRange, OutOfMemoryError

#: Why the extension is missing; empty where it is not.
import_failure = ""
ffi: Any = None
lib: Any = None
try:
    from halon.kernels._native import ffi, lib  # type: ignore[import-not-found]
except ImportError as failure:
    import_failure = f"halon.kernels._native: {failure}"

#: Dtypes in the order of ``enum hl_dtype``.
DTYPES: Final = ("bool", "u8", "i32", "i64", "f16", "f32", "f64")
CODE: Final = {name: code for code, name in enumerate(DTYPES)}
FLOATS: Final = frozenset({"f16", "f32", "f64"})


class Kernel:
    """What a row's entry returns: a C structure, and how a launch's numbers are packed for it.

    Attributes:
        address: the structure; ``run_plan`` passes it to ``hl_run``.
        pack: puts addresses and scalars into the 8-byte words the structure expects.
    """

    __slots__ = ("_dim", "_keep", "address", "pack")

    def __init__(
        self, address: Any, operands: int, scalars: Sequence[str] = (), *,
        keep: Sequence[Any] = (), dim: int = 0,
    ) -> None:  # fmt: skip
        self.address = ffi.cast("void *", address)
        self.pack: Callable[..., bytes] = struct.Struct(
            "@" + "q" * operands + "".join("d" if t in FLOATS else "q" for t in scalars)
        ).pack
        self._keep = (address, *keep)  # cffi frees what nothing refers to
        self._dim = dim

    def failure(self, status: int) -> Exception:
        """The exception for a status of this kernel's last run in this thread."""
        detail = ffi.new("int64_t[3]")
        lib.hl_error_detail(detail)
        if status == lib.HL_ZERO_DIVISION:
            return RuntimeError("ZeroDivisionError")
        if status == lib.HL_INDEX:
            index, size = detail[0], detail[2]
            return IndexOutOfRange(
                f"index {index} is out of bounds for dimension {self._dim} with size {size}"
            )
        if status == lib.HL_NO_MEMORY:
            return OutOfMemoryError("cpu: no memory for a kernel's temporary")
        return DeviceExecutionError(f"cpu: oneDNN failed with status {detail[0]}")


@cache
def op_indices() -> dict[str, int]:
    """Name of every tile operation → its index."""
    names: dict[str, int] = {}
    while (name := lib.hl_op_name(len(names))) != ffi.NULL:
        names[ffi.string(name).decode()] = len(names)
    return names
