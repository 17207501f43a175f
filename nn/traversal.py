"""Walking a module tree: children, parameters, buffers and look-ups by dotted name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar, cast

from halon.nn.parameter import Parameter
from halon.tensor.tensor import Tensor

if TYPE_CHECKING:
    from halon.nn.module import Module

T = TypeVar("T")
Self = TypeVar("Self", bound="Traversal")


class Traversal:
    """The part of Module that walks the tree below it."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]  # Module or None

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """named_modules(memo=None, prefix="", remove_duplicate=True) -> iterator of (name, module)

        This module first, under ``prefix``, then everything below it, depth first.

        >>> from halon import nn
        >>> [name for name, _ in nn.Sequential(nn.ReLU(), nn.Sequential(nn.Tanh())).named_modules()]
        ['', '0', '1', '1.0']
        """
        memo = set() if memo is None else memo
        module = cast("Module", self)
        if module in memo:
            return
        if remove_duplicate:
            memo.add(module)
        yield prefix, module
        for name, child in self._modules.items():
            if child is not None:
                below = f"{prefix}.{name}" if prefix else name
                yield from child.named_modules(memo, below, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """Every module of the tree once, this one first."""
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The direct children with their names, each module once."""
        seen = set()
        for name, child in self._modules.items():
            if child is not None and child not in seen:
                seen.add(child)
                yield name, child

    def children(self) -> Iterator[Module]:
        """The direct children, each once."""
        for _, child in self.named_children():
            yield child

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Every parameter with its dotted name; a shared one once unless told otherwise."""
        return self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Every parameter once, in registration order: what an optimizer is given."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Every buffer with its dotted name; a shared one once unless told otherwise."""
        return self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Every buffer once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def _named_members(
        self,
        members_of: Callable[[Traversal], Iterable[tuple[str, T | None]]],
        prefix: str,
        recurse: bool,
        remove_duplicate: bool,
    ) -> Iterator[tuple[str, T]]:
        # by identity: comparing tensors compares their elements
        seen: set[int] = set()
        tree: Iterable[Any] = [(prefix, self)]
        if recurse:
            tree = self.named_modules(None, prefix, remove_duplicate)
        for path, module in cast("Iterable[tuple[str, Any]]", tree):
            for name, member in members_of(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield (f"{path}.{name}" if path else name), member

    def get_submodule(self, target: str) -> Module:
        """The module under a dotted name; ``""`` is this one.

        Raises AttributeError if a step is missing or is no module.
        """
        module: Any = self
        for step in target.split(".") if target else ():
            if not hasattr(module, step):
                raise AttributeError(f"{type(module).__name__} has no attribute `{step}`")
            module = getattr(module, step)
            if not isinstance(module, Traversal):
                raise AttributeError(f"`{step}` is not an nn.Module")
        return cast("Module", module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter under a dotted name; AttributeError if there is none."""
        return self._get_tensor(target, "_parameters", "an nn.Parameter")

    def get_buffer(self, target: str) -> Tensor:
        """The buffer under a dotted name; AttributeError if there is none."""
        return self._get_tensor(target, "_buffers", "a buffer")

    def _get_tensor(self, target: str, table: str, kind: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        found = getattr(module, table).get(name)
        if found is None:
            raise AttributeError(f"`{name}` is not {kind}")
        return found

    def apply(self: Self, fn: Callable[[Module], object]) -> Self:
        """Call ``fn`` on every module below, then on this one; returns this one.

        >>> from halon import nn
        >>> visited = []
        >>> _ = nn.Sequential(nn.ReLU()).apply(lambda m: visited.append(type(m).__name__))
        >>> visited
        ['ReLU', 'Sequential']
        """
        for child in self.children():
            child.apply(fn)
        fn(cast("Module", self))
        return self
