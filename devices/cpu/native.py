"""The compiled extension as the CPU device uses it: kernels, their errors, their op indices."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

from halon.hal.dtypes import COMPLEX
from halon.hal.errors import DeviceExecutionError, OutOfMemoryError, bad_index

#: Why the extension is missing; empty where it is not.
import_failure = ""
ffi: Any = None
lib: Any = None
try:
    from halon.kernels._native import ffi, lib  # type: ignore[import-not-found]
except ImportError as failure:
    import_failure = f"halon.kernels._native: {failure}"

#: Dtypes in the order of ``enum hl_dtype``.
DTYPES: Final = (
    "bool", "u8", "i32", "i64", "f16", "f32", "f64", "c64", "c128",
    "u64", "i8", "i16", "u16", "u32", "bf16", "f8e4m3", "f8e5m2",
)  # fmt: skip
CODE: Final = {name: code for code, name in enumerate(DTYPES)}
#: What a number of a dtype is in a launch's words; 8-byte integers for the dtypes not listed.
_FORMAT: Final = {
    **dict.fromkeys(("f16", "bf16", "f8e4m3", "f8e5m2", "f32", "f64"), "d"),
    **dict.fromkeys(("c64", "c128"), "dd"), "u64": "Q",
}  # fmt: skip


def word_format(dtype: str) -> str:
    """The ``struct`` format of a number: a character for each of its 8-byte words."""
    return _FORMAT.get(dtype, "q")


def as_words(value: int | float | complex | bool, dtype: str) -> tuple[int | float, ...]:
    """What ``word_format`` packs for a number."""
    if dtype in COMPLEX:
        return complex(value).real, complex(value).imag
    return (int(value) % 2**64,) if dtype == "u64" else (value,)  # type: ignore[return-value]


def _packer(operands: int, scalars: Sequence[str]) -> Callable[..., bytes]:
    """Packs addresses and numbers; plain ``struct`` where a number is one word as it comes."""
    layout = "@" + "q" * operands + "".join(map(word_format, scalars))
    pack = struct.Struct(layout).pack
    if not any(t == "u64" or t in COMPLEX for t in scalars):
        return pack

    def pack_words(*args: int | float | complex | bool) -> bytes:
        numbers = zip(args[operands:], scalars, strict=True)
        return pack(*args[:operands], *(w for v, t in numbers for w in as_words(v, t)))

    return pack_words


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
        self.pack = _packer(operands, scalars)
        self._keep = (address, *keep)  # cffi frees what nothing refers to
        self._dim = dim

    def failure(self, status: int) -> Exception:
        """The exception for a status of this kernel's last run in this thread."""
        detail = ffi.new("int64_t[3]")
        lib.hl_error_detail(detail)
        if status == lib.HL_ZERO_DIVISION:
            return RuntimeError("ZeroDivisionError")
        if status == lib.HL_INDEX:
            return bad_index(detail[0], self._dim, detail[2])
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
