"""Runs a pickle without being able to run anything else.

``pickle.Unpickler`` with a guarded ``find_class`` would still set attributes of whatever it was
allowed to find, grow its memo to the index a file names and hash keys of any depth. So this reads
the opcodes (``pickletools.genops``, which checks every length against the bytes there are) and
executes the few that saved tensors need: each pushes at most one value, containers are Python's
own, and the only callables are entries of a table. Memory is bounded by the file's size.
"""

from __future__ import annotations

import pickletools
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from halon.hal.device_name import device
from halon.hal.dtypes import DType
from halon.serialization.errors import ArchiveError, ForbiddenObject

#: a key that costs more to hash or compare than its bytes in the file could stall the reader
_LONGEST_KEY_TUPLE: Final = 64
_LARGEST_KEY: Final = 1 << 60
_KEYS: Final = (str, bytes, float, complex, bool, type(None), frozenset, DType, device)


class Callee:
    """Something a file may call: it stays inert until REDUCE or NEWOBJ meets it.

    ``new`` makes an object for NEWOBJ where that differs from a call; ``setstate`` takes BUILD.
    """

    __slots__ = ("call", "kind", "name", "new")

    def __init__(
        self, name: str, call: Callable[..., Any], new: Callable[..., Any] | None = None,
        kind: type | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.call = call
        self.new = new or call
        self.kind = kind  # the class whose objects BUILD may fill: one the user allowed


class Stateful:
    """An object of halon's own whose state BUILD may set."""

    def set_state(self, state: Any) -> None:
        raise NotImplementedError


def check_key(key: Any) -> Any:
    """The key, if it is one that saved dictionaries and sets may have; ValueError if not."""
    if type(key) is tuple:
        if len(key) > _LONGEST_KEY_TUPLE or any(type(k) is tuple for k in key):
            raise ValueError("a key is a long or nested tuple")
        for part in key:
            check_key(part)
    elif type(key) is int:
        if not -_LARGEST_KEY < key < _LARGEST_KEY:
            raise ValueError(f"a key is an integer of {key.bit_length()} bits")
    elif not isinstance(key, _KEYS):
        raise ValueError(f"a key is a {type(key).__name__}")
    return key


class Machine:
    """One run over one pickle.

    Args:
        find: (module, name) → the value that a file's global stands for; raises ForbiddenObject.
        persistent: the tuple of a persistent id → the value, or raises ValueError.
    """

    def __init__(
        self, find: Callable[[str, str], Any], persistent: Callable[[tuple[Any, ...]], Any]
    ) -> None:
        self._find = find
        self._persistent = persistent
        self._stack: list[Any] = []
        self._marks: list[list[Any]] = []
        self._memo: dict[int, Any] = {}

    def run(self, stream: Any) -> Any:
        """The object of the pickle that begins at the stream's position and ends at its STOP.

        Raises ForbiddenObject for what may not be made and ArchiveError for a damaged pickle.
        """
        position = 0
        try:
            for opcode, argument, at in pickletools.genops(stream):
                position = at or 0
                step = _STEPS.get(opcode.name)
                if step is None:
                    raise ForbiddenObject(
                        f"the opcode {opcode.name} at byte {position} is not used by saved tensors"
                    )
                step(self, argument)
            (result,) = self._stack
            self._plain(result)
        except ArchiveError:
            raise
        except RecursionError as error:
            raise ArchiveError("the pickle nests too deeply") from error
        except _DAMAGE as error:
            what = str(error) or type(error).__name__
            raise ArchiveError(f"the pickle is damaged near byte {position}: {what}") from error
        return result

    # -- what opcodes do ---------------------------------------------------------------------------
    def push(self, value: Any) -> None:
        self._stack.append(value)

    def pop(self) -> Any:
        if not self._stack:
            raise ValueError("a value is missing on the stack")
        return self._stack.pop()

    def top(self) -> Any:
        if not self._stack:
            raise ValueError("a value is missing on the stack")
        return self._stack[-1]

    def mark(self) -> None:
        self._marks.append(self._stack)
        self._stack = []

    def since_mark(self) -> list[Any]:
        if not self._marks:
            raise ValueError("a mark is missing on the stack")
        items, self._stack = self._stack, self._marks.pop()
        return items

    def put(self, index: int) -> None:
        self._memo[index] = self.top()

    def memoize(self) -> None:
        self._memo[len(self._memo)] = self.top()

    def get(self, index: int) -> None:
        if index not in self._memo:
            raise ValueError(f"the memo has no entry {index}")
        self.push(self._memo[index])

    def tuple_of(self, count: int) -> None:
        if len(self._stack) < count:
            raise ValueError("a value is missing on the stack")
        items = tuple(self._stack[len(self._stack) - count :])
        del self._stack[len(self._stack) - count :]
        self.push(items)

    def append(self, items: list[Any]) -> None:
        target = self.top()
        if type(target) is not list:
            raise ValueError(f"items for a {type(target).__name__}, which is no list")
        target.extend(map(self._plain, items))

    def set_items(self, items: list[Any]) -> None:
        target = self.top()
        if type(target) not in (dict, OrderedDict):
            raise ValueError(f"keys for a {type(target).__name__}, which is no dict")
        if len(items) % 2:
            raise ValueError("a key without a value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[check_key(key)] = self._plain(value)

    def add_items(self, items: list[Any]) -> None:
        target = self.top()
        if type(target) is not set:
            raise ValueError(f"elements for a {type(target).__name__}, which is no set")
        target.update(map(check_key, items))

    def find(self, module: Any, name: Any) -> None:
        if type(module) is not str or type(name) is not str:
            raise ValueError("a global's name is no text")
        self.push(self._find(module, name))

    def reduce(self) -> None:
        arguments, callee = self.pop(), self.pop()
        self.push(_callee(callee).call(*_tuple(arguments)))

    def new_object(self, keywords: Any = None) -> None:
        arguments, callee = self.pop(), self.pop()
        if keywords is None:
            self.push(_callee(callee).new(*_tuple(arguments)))
        elif _callee(callee).kind is None or type(keywords) is not dict:
            raise ValueError("keyword arguments for an object that takes none")
        else:
            self.push(callee.new(*_tuple(arguments), **keywords))

    def build(self) -> None:
        state, target = self.pop(), self.top()
        if type(target) is OrderedDict:
            _set_attributes(target, state)
        elif isinstance(target, Stateful):
            target.set_state(state)
        elif _user_made(target):
            _set_user_state(target, state)
        else:
            raise ForbiddenObject(f"state for a {type(target).__name__}, which takes none")

    def persistent(self) -> None:
        self.push(self._persistent(_tuple(self.pop())))

    def _plain(self, value: Any) -> Any:
        if type(value) is Callee:
            raise ForbiddenObject(f"{value.name} is kept as a value, not called")
        return value


#: what damaged pickles make the steps above raise
_DAMAGE: Final = (
    ValueError, TypeError, KeyError, IndexError, OverflowError, AttributeError, EOFError,
)  # fmt: skip


def _callee(value: Any) -> Callee:
    if type(value) is not Callee:
        raise ForbiddenObject(f"a call of {type(value).__name__}, which is not callable here")
    return value


def _tuple(value: Any) -> tuple[Any, ...]:
    if type(value) is not tuple:
        raise ValueError(f"a {type(value).__name__} where a tuple is due")
    return value


def _set_attributes(target: Any, state: Any) -> None:
    """``_metadata`` and the like of a state dict; nothing that would hide a method."""
    if type(state) is not dict:
        raise ValueError("the attributes of a dict are no dict")
    for name, value in state.items():
        if type(name) is not str or not name.isidentifier() or hasattr(OrderedDict, name):
            raise ValueError(f"a dict with the attribute {str(name)[:40]!r}")
        target.__dict__[name] = value


def _user_made(target: Any) -> bool:
    from halon.serialization.safe import allowed_class

    return allowed_class(type(target))


def _set_user_state(target: Any, state: Any) -> None:
    if hasattr(target, "__setstate__"):
        target.__setstate__(state)
        return
    fields, slots = state if type(state) is tuple and len(state) == 2 else (state, None)
    if fields:
        target.__dict__.update(fields)
    for name, value in (slots or {}).items():
        setattr(target, name, value)


def _old_text(m: Machine, text: str) -> None:
    """A ``str`` of Python 2, whose bytes were UTF-8 more often than Latin-1."""
    raw = text.encode("latin-1")
    try:
        m.push(raw.decode())
    except UnicodeDecodeError:
        m.push(text)


def _pop_or_mark(m: Machine) -> None:
    if m._stack:
        m.pop()
    else:
        m.since_mark()


def _global(m: Machine, names: str) -> None:
    module, _, name = names.partition(" ")
    m.find(module, name)


def _stack_global(m: Machine) -> None:
    name, module = m.pop(), m.pop()
    m.find(module, name)


def _dict_of(m: Machine) -> None:
    items = m.since_mark()
    m.push({})
    m.set_items(items)


def _frozen_set(m: Machine) -> None:
    m.push(frozenset(map(check_key, m.since_mark())))


def _key_value(m: Machine) -> None:
    value, key = m.pop(), m.pop()
    m.set_items([key, value])


_Step = Callable[[Machine, Any], None]
_STEPS: Final[dict[str, _Step]] = {
    "PROTO": lambda m, a: None,
    "FRAME": lambda m, a: None,
    "STOP": lambda m, a: None,
    **dict.fromkeys(
        ("BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT",
         "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE", "BINBYTES",
         "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
        Machine.push,
    ),
    **dict.fromkeys(("STRING", "BINSTRING", "SHORT_BINSTRING"), _old_text),
    "NONE": lambda m, a: m.push(None),
    "NEWTRUE": lambda m, a: m.push(True),
    "NEWFALSE": lambda m, a: m.push(False),
    "EMPTY_TUPLE": lambda m, a: m.push(()),
    "EMPTY_LIST": lambda m, a: m.push([]),
    "EMPTY_DICT": lambda m, a: m.push({}),
    "EMPTY_SET": lambda m, a: m.push(set()),
    "MARK": lambda m, a: m.mark(),
    "POP": lambda m, a: _pop_or_mark(m),
    "POP_MARK": lambda m, a: (m.since_mark(), None)[1],
    "DUP": lambda m, a: m.push(m.top()),
    "TUPLE": lambda m, a: m.push(tuple(m.since_mark())),
    "TUPLE1": lambda m, a: m.tuple_of(1),
    "TUPLE2": lambda m, a: m.tuple_of(2),
    "TUPLE3": lambda m, a: m.tuple_of(3),
    "LIST": lambda m, a: m.push(list(map(m._plain, m.since_mark()))),
    "DICT": lambda m, a: _dict_of(m),
    "FROZENSET": lambda m, a: _frozen_set(m),
    "APPEND": lambda m, a: m.append([m.pop()]),
    "APPENDS": lambda m, a: m.append(m.since_mark()),
    "SETITEM": lambda m, a: _key_value(m),
    "SETITEMS": lambda m, a: m.set_items(m.since_mark()),
    "ADDITEMS": lambda m, a: m.add_items(m.since_mark()),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), Machine.put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), Machine.get),
    "MEMOIZE": lambda m, a: m.memoize(),
    "GLOBAL": _global,
    "STACK_GLOBAL": lambda m, a: _stack_global(m),
    "REDUCE": lambda m, a: m.reduce(),
    "NEWOBJ": lambda m, a: m.new_object(),
    "NEWOBJ_EX": lambda m, a: m.new_object(m.pop()),
    "BUILD": lambda m, a: m.build(),
    "BINPERSID": lambda m, a: m.persistent(),
}  # fmt: skip
