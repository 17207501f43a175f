"""The typed expression tree of an elementwise operation.

Every node carries the short name of its result's dtype, and casts are explicit: an operand stored
as f16 and computed in f32 reads ``Apply("cast", (Input(0, "f16"),), "f32")``. The operands of an
arithmetic node all have the node's dtype; those of a comparison share one dtype and the node is
``bool``; ``where`` takes a bool and two values of the node's dtype. The root has the
output's dtype.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Input:
    """The element of operand ``index``."""

    index: int
    dtype: str


@dataclass(frozen=True, slots=True)
class Scalar:
    """Run-time number ``index`` of the launch."""

    index: int
    dtype: str


@dataclass(frozen=True, slots=True)
class Const:
    """A number written in the expression."""

    value: int | float | bool
    dtype: str


@dataclass(frozen=True, slots=True)
class Apply:
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
