"""Forward hooks: the order they run in and the handle that removes one."""

from __future__ import annotations

import itertools
import warnings
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_ids = itertools.count()


@dataclass(frozen=True)
class Hook:
    """A registered function; ``always`` runs it even when forward raised."""

    function: Callable[..., Any]
    with_kwargs: bool
    always: bool = False


class RemovableHandle:
    """Returned by every ``register_*_hook``; also a context manager that removes on exit.

    >>> from halon import nn
    >>> layer = nn.ReLU()
    >>> handle = layer.register_forward_hook(lambda module, args, output: None)
    >>> handle.remove()
    """

    def __init__(self, hooks: OrderedDict[int, Hook], hook: Hook, prepend: bool) -> None:
        self.id = next(_ids)
        self._hooks = hooks
        hooks[self.id] = hook
        if prepend:
            hooks.move_to_end(self.id, last=False)

    def remove(self) -> None:
        """Remove the hook; doing it twice is harmless."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def call_with_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run pre-hooks, ``forward`` and hooks; hooks may replace the arguments and the result."""
    for hook in tuple(module._forward_pre_hooks.values()):
        args, kwargs = _before(hook, module, args, kwargs)
    finished: set[int] = set()
    try:
        output = module.forward(*args, **kwargs)
        for key, hook in tuple(module._forward_hooks.items()):
            finished.add(key)
            output = _after(hook, module, args, kwargs, output)
        return output
    except Exception:
        # the error that is already on its way matters more than one from a clean-up hook
        for key, hook in tuple(module._forward_hooks.items()):
            if hook.always and key not in finished:
                _after_failure(hook, module, args, kwargs)
        raise


def _before(
    hook: Hook, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if not hook.with_kwargs:
        changed = hook.function(module, args)
        if changed is None:
            return args, kwargs
        return (changed if isinstance(changed, tuple) else (changed,)), kwargs
    changed = hook.function(module, args, kwargs)
    if changed is None:
        return args, kwargs
    if isinstance(changed, tuple) and len(changed) == 2:
        return changed
    raise RuntimeError(
        "forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got "
        f"{changed}."
    )


def _after(
    hook: Hook, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
) -> Any:
    given = (args, kwargs) if hook.with_kwargs else (args,)
    changed = hook.function(module, *given, output)
    return output if changed is None else changed


def _after_failure(hook: Hook, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    try:
        _after(hook, module, args, kwargs, None)
    except Exception as error:
        warnings.warn(
            f"a forward hook with always_call=True raised {type(error).__name__}: {error}; the "
            "error of forward() itself is the one that goes on",
            stacklevel=2,
        )
