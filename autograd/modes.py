"""Switching gradient recording on and off, per thread."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from halon.dispatcher.structures import modes


class _GradMode:
    """A context manager, decorator and (for ``set_grad_enabled``) immediate setter."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self.before: list[bool] = []

    def __enter__(self) -> None:
        self.before.append(modes.grad)
        modes.grad = self.enabled

    def __exit__(self, *error: object) -> None:
        modes.grad = self.before.pop()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with _GradMode(self.enabled):
                return function(*args, **kwargs)

        return wrapped


class no_grad(_GradMode):
    """Record no history inside: results do not require grad.

    >>> import halon
    >>> x = halon.ones(2, requires_grad=True)
    >>> with halon.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    def __init__(self) -> None:
        super().__init__(False)


class enable_grad(_GradMode):
    """Record history inside, also within ``no_grad``."""

    def __init__(self) -> None:
        super().__init__(True)


class set_grad_enabled(_GradMode):
    """Switch recording at once; as a context manager, until the block ends."""

    def __init__(self, mode: bool) -> None:
        super().__init__(mode)
        self._at_once = modes.grad
        modes.grad = mode

    def __enter__(self) -> None:
        self.before.append(self._at_once)
        modes.grad = self.enabled


def is_grad_enabled() -> bool:
    """Whether this thread records history."""
    return modes.grad
