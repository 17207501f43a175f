"""Writes the pickle of a saved object: only what loading takes back, under torch's names.

Written here and not with ``pickle.Pickler`` because that looks every name up in its module, and
the modules of torch's names need not be installed.
"""

from __future__ import annotations

import pickle
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np

from halon.dispatcher.structures import Storage
from halon.hal.device_name import device
from halon.hal.dtypes import DType
from halon.nn.module import Module
from halon.nn.parameter import Parameter
from halon.nn.state import StateDict
from halon.serialization import names
from halon.serialization.safe import allowed_class
from halon.tensor.tensor import Size, Tensor

_BATCH: Final = 1000


class _Opcodes:
    """Protocol 2, the one that every reader of torch files knows."""

    GLOBAL, REDUCE, BUILD, NEWOBJ = b"c", b"R", b"b", b"\x81"
    MARK, STOP, POP = b"(", b".", b"0"
    PERSISTENT = b"Q"


class Writer:
    """Collects the pickle of one object and the storages it refers to."""

    def __init__(self) -> None:
        self._out = bytearray(b"\x80\x02")
        self._memo: dict[Any, int] = {}
        self._kept: list[Any] = []  # an id names an object only while it lives
        self.storages: list[Storage] = []
        self._storage_keys: dict[int, tuple[int, DType | None]] = {}

    def dump(self, value: Any) -> bytes:
        """The pickle of ``value``; PicklingError names what cannot be saved and where it is."""
        try:
            self._save(value, "the object")
        except RecursionError:
            raise pickle.PicklingError("save: the object nests too deeply") from None
        return bytes(self._out + _Opcodes.STOP)

    # -- values ------------------------------------------------------------------------------------
    def _save(self, value: Any, where: str) -> None:
        kind = type(value)
        simple = _SIMPLE.get(kind)
        if simple is not None:
            simple(self, value)
            return
        if id(value) in self._memo:
            self._get(self._memo[id(value)])
            return
        save = _SHARED.get(kind)
        if save is not None:
            save(self, value, where)
        elif isinstance(value, np.generic) and value.dtype.kind in "biufc":
            self._numpy_scalar(value)
        elif allowed_class(kind):
            self._user_object(value, where)
        else:
            raise pickle.PicklingError(_refusal(value, where))

    def _number(self, value: int) -> None:
        if 0 <= value < 256:
            self._out += b"K" + bytes([value])
        elif 0 <= value < 65536:
            self._out += b"M" + struct.pack("<H", value)
        elif -(1 << 31) <= value < 1 << 31:
            self._out += b"J" + struct.pack("<i", value)
        else:
            raw = pickle.encode_long(value)
            head = b"\x8a" + bytes([len(raw)]) if len(raw) < 256 else _length(b"\x8b", raw)
            self._out += head + raw

    def _text(self, value: str) -> None:
        if value in self._memo:
            self._get(self._memo[value])
            return
        raw = value.encode("utf-8", "surrogatepass")
        self._out += _length(b"X", raw) + raw
        self._put(value)

    def _bytes(self, value: bytes) -> None:
        self._call(("_codecs", "encode"), lambda: self._plain(value.decode("latin-1"), "latin1"))

    def _plain(self, *values: Any) -> None:
        """A tuple of simple values."""
        self._tuple(values, "")

    def _global(self, module: str, name: str) -> None:
        key = (module, name)
        if key in self._memo:
            self._get(self._memo[key])
            return
        self._out += _Opcodes.GLOBAL + f"{module}\n{name}\n".encode()
        self._put(key)

    def _call(self, function: tuple[str, str], arguments: Callable[[], None]) -> None:
        self._global(*function)
        arguments()
        self._out += _Opcodes.REDUCE

    # -- the memo ----------------------------------------------------------------------------------
    def _put(self, key: Any) -> None:
        index = self._memo[key] = len(self._memo)
        self._out += b"q" + bytes([index]) if index < 256 else b"r" + struct.pack("<I", index)

    def _put_object(self, value: Any) -> None:
        self._kept.append(value)
        self._put(id(value))

    def _get(self, index: int) -> None:
        self._out += b"h" + bytes([index]) if index < 256 else b"j" + struct.pack("<I", index)

    # -- containers --------------------------------------------------------------------------------
    def _tuple(self, value: tuple[Any, ...], where: str) -> None:
        if not value:
            self._out += b")"
            return
        if len(value) > 3:
            self._out += _Opcodes.MARK
        for i, item in enumerate(value):
            self._save(item, f"{where}[{i}]")
        if id(value) in self._memo:  # it contains itself: what was written is dropped
            self._out += b"1" if len(value) > 3 else _Opcodes.POP * len(value)
            self._get(self._memo[id(value)])
            return
        self._out += (b"", b"\x85", b"\x86", b"\x87")[len(value)] if len(value) <= 3 else b"t"
        self._put_object(value)

    def _list(self, value: list[Any], where: str) -> None:
        self._out += b"]"
        self._put_object(value)
        for start in range(0, len(value), _BATCH):
            self._out += _Opcodes.MARK
            for i, item in enumerate(value[start : start + _BATCH], start):
                self._save(item, f"{where}[{i}]")
            self._out += b"e"

    def _dict(self, value: dict[Any, Any], where: str) -> None:
        self._out += b"}"
        self._put_object(value)
        self._items(value, where)

    def _ordered(self, value: OrderedDict[Any, Any], where: str) -> None:
        self._call(("collections", "OrderedDict"), lambda: self._tuple((), ""))
        self._put_object(value)
        self._items(value, where)
        if value.__dict__:
            self._save(dict(value.__dict__), f"{where}.__dict__")
            self._out += _Opcodes.BUILD

    def _items(self, value: Mapping[Any, Any], where: str) -> None:
        pairs = list(value.items())
        for start in range(0, len(pairs), _BATCH):
            self._out += _Opcodes.MARK
            for key, item in pairs[start : start + _BATCH]:
                self._save(key, f"a key of {where}")
                self._save(item, f"{where}[{key!r}]")
            self._out += b"u"

    def _elements(self, value: Iterable[Any], where: str) -> None:
        name = "set" if type(value) is set else "frozenset"
        items = list(value)
        self._call(("__builtin__", name), lambda: self._tuple((items,), f"an element of {where}"))
        self._put_object(value)

    # -- halon's objects ---------------------------------------------------------------------------
    def _tensor(self, t: Tensor, where: str) -> None:
        typed = t.dtype in names.STORAGE_OF
        self._global(*(names.REBUILD_TYPED if typed else names.REBUILD_UNTYPED))
        self._out += _Opcodes.MARK
        self._reference(t, where)
        self._number(t.storage_offset())
        for sizes in (tuple(t.shape), tuple(t.stride())):
            self._save(sizes, where)
        self._flag(t.requires_grad)
        self._no_hooks()
        if not typed:
            self._dtype(t.dtype)
        self._out += b"t" + _Opcodes.REDUCE
        self._put_object(t)

    def _parameter(self, t: Parameter, where: str) -> None:
        self._global(*names.REBUILD_PARAMETER)
        data = t.detach()
        self._kept.append(data)
        self._save(data, where)
        self._flag(t.requires_grad)
        self._no_hooks()
        self._out += b"\x87" + _Opcodes.REDUCE
        self._put_object(t)

    def _flag(self, value: bool) -> None:
        self._out += b"\x88" if value else b"\x89"

    def _no_hooks(self) -> None:
        self._call(("collections", "OrderedDict"), lambda: self._tuple((), ""))

    def _reference(self, t: Tensor, where: str) -> None:
        """The persistent id of a tensor's storage."""
        storage, kind = t.storage, t.dtype if t.dtype in names.STORAGE_OF else None
        fresh = (len(self.storages), kind)
        key, known = self._storage_keys.setdefault(id(storage), fresh)
        if key == len(self.storages):
            self.storages.append(storage)
        if known is not kind:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different "
                f"types: {where} has {t.dtype}"
            )
        self._out += _Opcodes.MARK
        self._text("storage")
        self._global(*(names.UNTYPED if kind is None else ("torch", names.STORAGE_OF[kind])))
        self._text(str(key))
        self._text(str(t.device))
        self._number(storage.nbytes // (1 if kind is None else kind.itemsize))
        self._out += b"t" + _Opcodes.PERSISTENT

    def _dtype(self, value: DType) -> None:
        self._global("torch", value.name)

    def _size(self, value: Size, where: str) -> None:
        self._call(("torch", "Size"), lambda: self._tuple((tuple(value),), where))
        self._put_object(value)

    def _device(self, value: device, where: str) -> None:
        self._call(("torch", "device"), lambda: self._plain(str(value)))
        self._put_object(value)

    def _complex(self, value: complex) -> None:
        self._call(("__builtin__", "complex"), lambda: self._plain(value.real, value.imag))

    def _bytearray(self, value: bytearray, where: str) -> None:
        self._call(("__builtin__", "bytearray"), lambda: self._plain(bytes(value)))
        self._put_object(value)

    def _numpy_scalar(self, value: np.generic) -> None:
        self._global("numpy.core.multiarray", "scalar")
        spec = value.dtype.newbyteorder("<").str.lstrip("<|")
        self._call(("numpy", "dtype"), lambda: self._plain(spec, False, True))
        self._plain(3, "<", None, None, None, -1, -1, 0)
        self._out += _Opcodes.BUILD
        self._bytes(value.astype(value.dtype.newbyteorder("<")).tobytes())
        self._out += b"\x86" + _Opcodes.REDUCE

    def _user_object(self, value: Any, where: str) -> None:
        """An object of an allowed class, as its ``__reduce_ex__`` describes it."""
        described: Any = value.__reduce_ex__(2)
        if not isinstance(described, tuple) or any(described[3:]):
            raise pickle.PicklingError(_refusal(value, where))
        function, arguments = described[:2]
        state = described[2] if len(described) > 2 else None
        make = _Opcodes.REDUCE
        if getattr(function, "__name__", "") == "__newobj__":
            function, arguments, make = arguments[0], arguments[1:], _Opcodes.NEWOBJ
        if not allowed_class(function):
            raise pickle.PicklingError(_refusal(function, where))
        self._global(function.__module__, function.__qualname__)
        self._save(tuple(arguments), where)
        self._out += make
        self._put_object(value)
        if state is not None:
            self._save(state, f"{where}.__dict__")
            self._out += _Opcodes.BUILD


def _length(opcode: bytes, raw: bytes) -> bytes:
    return opcode + struct.pack("<I", len(raw))


def _refusal(value: Any, where: str) -> str:
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    hint = ""
    if isinstance(value, Module):
        hint = ". Save its .state_dict() and load it into a module that your program makes"
    elif isinstance(value, np.ndarray):
        hint = ". Save halon.from_numpy(array)"
    elif isinstance(value, Tensor):
        hint = ". Save .as_subclass or .detach(): subclasses of Tensor are not kept"
    return (
        f"save: {where} is a {name}, which load would refuse: files hold tensors, numbers, text "
        f"and containers of them{hint}"
    )


def _float(w: Writer, value: float) -> None:
    w._out += b"G" + struct.pack(">d", value)


def _none(w: Writer, value: None) -> None:
    w._out += b"N"


_SIMPLE: Final[dict[type, Callable[[Writer, Any], None]]] = {
    type(None): _none, bool: Writer._flag, int: Writer._number, float: _float,
    str: Writer._text, bytes: Writer._bytes, complex: Writer._complex, DType: Writer._dtype,
}  # fmt: skip
_SHARED: Final[dict[type, Callable[[Writer, Any, str], None]]] = {
    tuple: Writer._tuple, list: Writer._list, dict: Writer._dict, OrderedDict: Writer._ordered,
    StateDict: Writer._ordered, set: Writer._elements, frozenset: Writer._elements,
    bytearray: Writer._bytearray, Tensor: Writer._tensor, Parameter: Writer._parameter,
    Size: Writer._size, device: Writer._device,
}  # fmt: skip
