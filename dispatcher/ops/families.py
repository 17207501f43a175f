"""Constructors for families of records, so that most operators are one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from halon.dispatcher.op import Op, op
from halon.dispatcher.promote import compare, floating, logical, promote
from halon.dispatcher.shapes import reduced_shape, wrap_dims

PUBLIC = ("function", "method", "inplace")


def tensor_pairs(t: Any) -> list[tuple[Any, ...]]:
    """Samples of operators whose torch form takes no number."""
    return [(t(3, 4), t(3, 4)), (t(3, 1), t(4)), (t(), t(2)), (t(2, 0), t(1)),
            (t(4, 3).t(), t(3, 4))]  # fmt: skip


def unary(name: str, expr: str, doc: str, grad: Callable[..., Any] | None, **rules: Any) -> Op:
    """An elementwise operator of one tensor ``input``; ``dtype`` defaults to ``promote``."""
    rules.setdefault("dtype", promote)
    rules.setdefault("methods", PUBLIC)
    rules.setdefault("samples", lambda t: [(t(3, 4),), (t(),), (t(0, 2),), (t(4, 3).t(),)])
    return op(f"{name}(input: Tensor) -> Tensor", expr=expr, doc=doc, grad=grad, **rules)


def floating_unary(
    name: str, expr: str, doc: str, grad: Callable[..., Any] | None, **rules: Any
) -> Op:
    """As ``unary``; integers and bool become the default floating dtype."""
    return unary(name, expr, doc, grad, dtype=floating, **rules)


def binary(name: str, expr: str, doc: str, grad: Callable[..., Any] | None, **rules: Any) -> Op:
    """An elementwise operator of ``input`` and ``other`` with broadcasting."""
    rules.setdefault("dtype", promote)
    rules.setdefault("methods", PUBLIC)
    rules.setdefault(
        "samples",
        lambda t: [*tensor_pairs(t), (t(3, 4), 2)],
    )
    return op(
        f"{name}(input: Tensor, other: Tensor) -> Tensor", expr=expr, doc=doc, grad=grad, **rules
    )


def comparison(name: str, expr: str, doc: str) -> Op:
    """A binary operator with a bool result."""
    return binary(name, expr, doc, None, dtype=compare)


def truth(name: str, expr: str, doc: str) -> Op:
    """A binary operator on truth values."""
    return binary(name, expr, doc, None, dtype=logical, samples=tensor_pairs)


def reduction_shape(input: Any, dim: Any = None, keepdim: bool = False, *_: Any) -> tuple[int, ...]:
    """The shape rule of ``(input, dim, keepdim, …)``."""
    return reduced_shape(input.shape, wrap_dims(dim, input.ndim), keepdim)
