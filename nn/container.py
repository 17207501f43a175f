"""Sequential and ModuleList: modules under the names "0", "1", …"""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar, overload

from halon.nn.module import Module

Self = TypeVar("Self", bound="_Numbered")


class _Numbered(Module):
    """List behaviour over ``_modules``; keys are numbers unless an OrderedDict named them."""

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def _key(self, index: int) -> str:
        index, size = operator.index(index), len(self)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range")
        return list(self._modules)[index]

    @overload
    def __getitem__(self: Self, index: slice) -> Self: ...
    @overload
    def __getitem__(self, index: int) -> Any: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._of(list(self._modules.items())[index])
        return self._modules[self._key(index)]

    def _of(self: Self, items: list[tuple[str, Module | None]]) -> Self:
        raise NotImplementedError(f"{type(self).__name__} has no slices")

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._key(index), module)

    def __delitem__(self, index: int | slice) -> None:
        keys = list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]
        for key in keys:
            delattr(self, key)
        kept = list(self._modules.values())
        self._modules.clear()
        self._modules.update((str(i), module) for i, module in enumerate(kept))

    def append(self: Self, module: Module) -> Self:
        """Add a module at the end; returns the container."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self: Self, modules: Iterable[Module]) -> Self:
        """Add modules at the end; returns the container."""
        for module in list(modules):
            self.append(module)
        return self

    def insert(self: Self, index: int, module: Module) -> Self:
        """Put a module before ``index``; later ones move up by one."""
        size = len(self)
        if not isinstance(module, Module):
            raise TypeError(f"insert: expected a Module, got {type(module).__name__}")
        if not -size <= index <= size:
            raise IndexError(f"Index out of range: {index}")
        index += size if index < 0 else 0
        for i in range(size, index, -1):
            self._modules[str(i)] = self._modules[str(i - 1)]
        self._modules[str(index)] = module
        return self

    def pop(self, index: int | slice) -> Any:
        """Remove and return the module at ``index``."""
        found = self[index]
        del self[index]
        return found

    def __iadd__(self: Self, other: Iterable[Module]) -> Self:
        return self.extend(other)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.isdigit()]


class Sequential(_Numbered):
    """Sequential(*modules) or Sequential(OrderedDict), each module fed with the one before.

    >>> from halon import nn
    >>> nn.Sequential(nn.Linear(4, 2), nn.ReLU())
    Sequential(
      (0): Linear(in_features=4, out_features=2, bias=True)
      (1): ReLU()
    )
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            named: Iterable[tuple[str, Module]] = args[0].items()
        else:
            named = ((str(i), module) for i, module in enumerate(args))
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input

    def _of(self, items: list[tuple[str, Module | None]]) -> Sequential:
        return type(self)(OrderedDict(items))

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only Sequential objects, but {type(other)} is given"
            )
        return Sequential(*self, *other)

    def __mul__(self, times: int) -> Sequential:
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")
        return Sequential(*(list(self) * times))

    __rmul__ = __mul__


class ModuleList(_Numbered):
    """ModuleList(modules=None), a list whose modules are registered; it computes nothing itself.

    >>> from halon import nn
    >>> layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
    >>> layers
    ModuleList(
      (0-1): 2 x Linear(in_features=3, out_features=3, bias=True)
    )
    >>> len(list(layers.parameters()))
    4
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _of(self, items: list[tuple[str, Module | None]]) -> ModuleList:
        return type(self)(module for _, module in items if module is not None)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __repr__(self) -> str:
        """Neighbours that print alike share a line."""
        runs: list[tuple[int, int, str]] = []
        for i, text in enumerate(repr(module) for module in self):
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], i, text)
            else:
                runs.append((i, i, text))
        if not runs:
            return f"{self._get_name()}()"
        lines = [
            (f"({a}): {text}" if a == b else f"({a}-{b}): {b - a + 1} x {text}").replace(
                "\n", "\n  "
            )
            for a, b, text in runs
        ]
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"
