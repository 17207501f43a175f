"""The typed expression tree of an elementwise operation.

Every node carries the short name of its result's dtype, and casts are explicit: an operand stored
as f16 and computed in f32 reads ``Apply("cast", (Input(0, "f16"),), "f32")``. The operands of an
arithmetic node all have the node's dtype; those of a comparison share one dtype and the node is
``bool``; ``where`` takes a bool and two values of the node's dtype. The root has the
output's dtype.

Nodes are interned: equal trees are one object, so comparing, hashing and memoising them costs the
same for a shared subtree however often it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

_NODES: WeakValueDictionary[tuple[Any, ...], Any] = WeakValueDictionary()


class _Interned(type):
    """Calling the class with the same fields returns the same object."""

    def __call__(cls, *fields: Any) -> Any:
        # repr tells 0.0 from -0.0 and 1 from True, which compare equal
        key = (cls, *(f if isinstance(f, (str, tuple)) else repr(f) for f in fields))
        found = _NODES.get(key)
        return found if found is not None else _NODES.setdefault(key, super().__call__(*fields))


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Input(metaclass=_Interned):
    """The element of operand ``index``."""

    index: int
    dtype: str


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Scalar(metaclass=_Interned):
    """Run-time number ``index`` of the launch."""

    index: int
    dtype: str


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Const(metaclass=_Interned):
    """A number written in the expression."""

    value: int | float | bool
    dtype: str


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Apply(metaclass=_Interned):
    """A scalar operation (a key of ``scalar_ops.SCALAR_OPS``) applied to nodes."""

    op: str
    args: tuple[Node, ...]
    dtype: str


Node: TypeAlias = Input | Scalar | Const | Apply


def walk(node: Node) -> list[Node]:
    """Every distinct node, operands before users, without recursion.

    >>> x = Input(0, "f32")
    >>> [type(n).__name__ for n in walk(Apply("mul", (x, x), "f32"))]
    ['Input', 'Apply']
    """
    order: list[Node] = []
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(node, False)]
    while stack:
        n, ready = stack.pop()
        if n in seen:
            continue
        if ready or not isinstance(n, Apply):
            seen.add(n)
            order.append(n)
            continue
        stack.append((n, True))
        stack.extend((a, False) for a in reversed(n.args))
    return order
