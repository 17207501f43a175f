"""Which classes and functions of the user loading may use, beside halon's own list."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

Entry = Callable[..., Any] | tuple[Callable[..., Any], str]

#: what reaches the system or runs text is never allowed, whoever asks.
_NEVER: Final = frozenset({"os", "posix", "nt", "sys", "subprocess", "importlib", "pty", "runpy"})
_NEVER_BUILTINS: Final = (
    eval, exec, compile, open, __import__, getattr, setattr, delattr, globals, vars,
)  # fmt: skip

_allowed: dict[str, Callable[..., Any]] = {}
_lock = threading.Lock()


def _named(entry: Entry) -> tuple[str, Callable[..., Any]]:
    made, name = entry if isinstance(entry, tuple) else (entry, "")
    module, own = getattr(made, "__module__", ""), getattr(made, "__qualname__", "")
    if module.split(".")[0] in _NEVER or any(made is f for f in _NEVER_BUILTINS):
        raise ValueError(f"{module}.{own} can run code of a file and is never allowed")
    return name or f"{module}.{own}", made


def add_safe_globals(entries: Sequence[Entry]) -> None:
    """add_safe_globals(entries) -> None, lets ``load`` make objects of classes you trust.

    An allowed class is called with arguments from the file, and its ``__setstate__`` gets state
    from the file: allow only classes that do nothing else with them than keep them.

    Args:
        entries: classes or functions, or pairs of one and the name it has in files.

    Raises:
        ValueError: one that reaches the system (``os.system``, ``eval``).

    >>> import halon, fractions
    >>> halon.serialization.add_safe_globals([fractions.Fraction])
    >>> halon.serialization.get_safe_globals()
    [<class 'fractions.Fraction'>]
    >>> halon.serialization.clear_safe_globals()
    """
    named = [_named(entry) for entry in entries]
    with _lock:
        _allowed.update(named)


def get_safe_globals() -> list[Callable[..., Any]]:
    """get_safe_globals() -> list, what ``add_safe_globals`` allowed."""
    return list(_allowed.values())


def clear_safe_globals() -> None:
    """clear_safe_globals() -> None, forgets what ``add_safe_globals`` allowed."""
    with _lock:
        _allowed.clear()


@contextmanager
def safe_globals(entries: Sequence[Entry]) -> Iterator[None]:
    """safe_globals(entries), allows them inside a ``with`` block."""
    before = dict(_allowed)
    add_safe_globals(entries)
    try:
        yield
    finally:
        with _lock:
            _allowed.clear()
            _allowed.update(before)


def allowed(name: str) -> Callable[..., Any] | None:
    """What a file's name stands for, or None if nobody allowed it."""
    return _allowed.get(name)


def allowed_class(kind: type) -> bool:
    """Whether objects of a class may be saved and loaded."""
    return any(entry is kind for entry in _allowed.values())
