"""The table of what a file may name, and the harmless functions behind the names."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from halon.hal import dtypes as dt
from halon.hal.device_name import device
from halon.hal.dtypes import DType
from halon.serialization import safe
from halon.serialization.errors import ForbiddenObject
from halon.serialization.machine import Callee, Stateful, check_key
from halon.serialization.names import RENAMED, STORAGES, UNTYPED
from halon.tensor.tensor import Size


class StorageKind:
    """A storage class a file names: the dtype of its elements, None for plain bytes."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: DType | None) -> None:
        self.dtype = dtype


def _encode(text: str, encoding: str) -> bytes:
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise ValueError("bytes in an encoding other than latin1")
    return text.encode("latin-1")


def _bytes() -> bytes:
    return b""


def _bytearray(content: Any = b"", encoding: str = "latin-1") -> bytearray:
    if type(content) is str:
        content = _encode(content, encoding)
    if type(content) is not bytes:  # a number would be a size
        raise ValueError(f"a bytearray of a {type(content).__name__}")
    return bytearray(content)


def _elements(items: Any = ()) -> list[Any]:
    if type(items) not in (list, tuple):
        raise ValueError(f"a set of a {type(items).__name__}")
    return [check_key(item) for item in items]


def _complex(real: float, imag: float) -> complex:
    if type(real) not in (int, float) or type(imag) not in (int, float):
        raise ValueError("a complex number of something else than numbers")
    return complex(real, imag)


def _ordered(pairs: Any = ()) -> OrderedDict[Any, Any]:
    if type(pairs) not in (list, tuple):
        raise ValueError(f"an OrderedDict of a {type(pairs).__name__}")
    found: OrderedDict[Any, Any] = OrderedDict()
    for key, value in pairs:
        found[check_key(key)] = value
    return found


def _size(sizes: Any = ()) -> Size:
    if type(sizes) not in (list, tuple) or any(type(n) is not int for n in sizes):
        raise ValueError("a Size of something else than integers")
    return Size(sizes)


def _device(name: str, index: int | None = None) -> device:
    if type(name) is not str or not (index is None or type(index) is int):
        raise ValueError("a device without a name")
    try:
        return device(name, index)
    except RuntimeError as error:
        raise ValueError(str(error)) from error


class _NumpyType(Stateful):
    """A NumPy dtype while it is being read: its state only says the byte order."""

    def __init__(self, spec: str, align: Any = False, copy: Any = True) -> None:
        if type(spec) is not str or not re.fullmatch(r"[<>|=]?([iufc]\d{1,2}|b1)", spec):
            raise ValueError(f"the NumPy dtype {str(spec)[:40]!r}")
        self.dtype = np.dtype(spec)

    def set_state(self, state: Any) -> None:
        if type(state) is not tuple or len(state) < 2 or state[1] not in ("<", ">", "|", "="):
            raise ValueError("the state of a NumPy dtype")
        if state[1] in "<>":
            self.dtype = self.dtype.newbyteorder(state[1])


def _numpy_scalar(kind: Any, content: Any) -> np.generic:
    if type(kind) is not _NumpyType or type(content) is not bytes:
        raise ValueError("a NumPy scalar without dtype or bytes")
    if len(content) != kind.dtype.itemsize:
        raise ValueError(f"a NumPy scalar of {kind.dtype} with {len(content)} bytes")
    return np.frombuffer(content, kind.dtype)[0]


def _set(items: Any = ()) -> set[Any]:
    return set(_elements(items))


def _frozenset(items: Any = ()) -> frozenset[Any]:
    return frozenset(_elements(items))


#: name in a file → what calling it does here; the rebuilding of tensors is added per file.
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "_codecs.encode": _encode,
    "builtins.bytes": _bytes,
    "builtins.bytearray": _bytearray,
    "builtins.set": _set,
    "builtins.frozenset": _frozenset,
    "builtins.complex": _complex,
    "collections.OrderedDict": _ordered,
    "torch.Size": _size,
    "torch.device": _device,
    "numpy.dtype": _NumpyType,
    "numpy.core.multiarray.scalar": _numpy_scalar,
}
_DTYPES: Final[dict[str, DType]] = {f"torch.{d.name}": d for d in dt.ALL}


def finder(rebuilders: dict[str, Callable[..., Any]]) -> Callable[[str, str], Any]:
    """The function that looks names up: halon's list, then what the user allowed."""
    callees = {name: Callee(name, call) for name, call in (_FUNCTIONS | rebuilders).items()}

    def find(module: str, name: str) -> Any:
        module = RENAMED.get(module, module)
        full = f"{module}.{name}"
        found = callees.get(full) or _DTYPES.get(full)
        if found is not None:
            return found
        if name in STORAGES and module.split(".")[0] == "torch":
            return StorageKind(STORAGES[name])
        if (module, name) == UNTYPED or full == "torch.UntypedStorage":
            return StorageKind(None)
        own = safe.allowed(full)
        if own is None:
            raise ForbiddenObject(_refusal(full))
        if isinstance(own, type):
            return Callee(full, own, lambda *args, **kw: own.__new__(own, *args, **kw), own)
        return Callee(full, own)

    return find


def _refusal(full: str) -> str:
    shown = full if len(full) <= 200 else full[:200] + "…"
    return (
        f"the file asks for {shown}, which loading does not make: a file may hold tensors, "
        "numbers, text and containers of them. Nothing was run. A class of yours that only keeps "
        "what it is given can be allowed: halon.serialization.add_safe_globals"
    )
