"""Expressions of records: parsed once from Python syntax, typed once per signature.

Operators and the names of ``kernels/scalar_ops.py`` are allowed: ``"a + b"``,
``"where(x > 0, x, 0)"``. Half precision computes in float32 and rounds once, at the end.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from halon.hal.errors import NotImplementedOnDevice
from halon.kernels.scalar_ops import SCALAR_OPS
from halon.kernels.tree import Apply, Const, Input, Node, Scalar

_BINARY: Final[dict[type, str]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "idiv",
    ast.Mod: "mod", ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
    ast.LShift: "shl", ast.RShift: "shr",
}  # fmt: skip
_UNARY: Final[dict[type, str]] = {ast.USub: "neg", ast.Invert: "not"}
#: comparison → (scalar op, operands swapped)
_COMPARE: Final[dict[type, tuple[str, bool]]] = {
    ast.Lt: ("lt", False), ast.LtE: ("le", False), ast.Gt: ("lt", True), ast.GtE: ("le", True),
    ast.Eq: ("eq", False), ast.NotEq: ("ne", False),
}  # fmt: skip
_CONSTANTS: Final = {"inf": math.inf, "nan": math.nan, "pi": math.pi}


@dataclass(frozen=True, slots=True)
class Name:
    """An operand or number of the record."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A number in the expression; takes the dtype of what it is combined with."""

    value: int | float | bool


@dataclass(frozen=True, slots=True)
class Call:
    """A scalar operation, not yet typed."""

    op: str
    args: tuple[Untyped, ...]


Untyped = Name | Literal | Call


def parse(text: str, names: Sequence[str]) -> Untyped:
    """Parse an expression over ``names``; ValueError points at what is not understood."""
    return _convert(ast.parse(text, mode="eval").body, frozenset(names), text)


@cache
def expansion(op: str, dtype: str) -> Untyped | None:
    """A non-primitive scalar operation of operands of ``dtype`` over primitives of ``a``, ``b``."""
    text = SCALAR_OPS[op].expansion(dtype)
    return _convert(_parse_calls(text), frozenset("ab"), text) if text else None


def _parse_calls(text: str) -> ast.expr:
    # or, and, not are Python keywords: the parser sees or_, and_, not_
    return ast.parse(re.sub(r"\b(or|and|not)\(", r"\1_(", text), mode="eval").body


def _convert(node: ast.expr, names: frozenset[str], text: str) -> Untyped:
    def sub(*parts: ast.expr) -> tuple[Untyped, ...]:
        return tuple(_convert(p, names, text) for p in parts)

    match node:
        case ast.Name(id=name) if name in names:
            return Name(name)
        case ast.Name(id=name) if name in _CONSTANTS:
            return Literal(_CONSTANTS[name])
        case ast.Constant(value=bool() | int() | float() as value):
            return Literal(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return Literal(-value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id=name)) if name in _CONSTANTS:
            return Literal(-_CONSTANTS[name])
        case ast.UnaryOp(op=operator, operand=x) if type(operator) in _UNARY:
            return Call(_UNARY[type(operator)], sub(x))
        case ast.BinOp(left=a, op=operator, right=b) if type(operator) in _BINARY:
            return Call(_BINARY[type(operator)], sub(a, b))
        case ast.Compare(left=a, ops=[operator], comparators=[b]) if type(operator) in _COMPARE:
            name, swapped = _COMPARE[type(operator)]
            return Call(name, sub(b, a) if swapped else sub(a, b))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if (
            name.rstrip("_") in SCALAR_OPS
        ):
            found = SCALAR_OPS[name.rstrip("_")]
            if len(args) != found.arity:
                raise ValueError(f"{found.name} takes {found.arity} operands in {text!r}")
            return Call(found.name, sub(*args))
    raise ValueError(f"{ast.unparse(node)!r} is not understood in expression {text!r}")


def typed(root: Untyped, operands: Mapping[str, Node], out: str, default: str) -> Node:
    """The typed tree of an expression.

    Args:
        operands: the node of each name, already cast to the dtype it is computed in.
        out: short dtype name of the result; the root is cast to it.
        default: dtype of an expression that has only literals.

    Raises:
        NotImplementedOnDevice: a scalar operation has no meaning for its dtype.
    """
    memo: dict[Untyped, Node | None] = {}
    default = computed(default)

    def build(n: Untyped, wanted: str | None) -> Node:
        if isinstance(n, Literal):
            return Const(n.value, wanted or default)
        if n not in memo:
            memo[n] = operands[n.name] if isinstance(n, Name) else apply(n)
        found = memo[n]
        assert found is not None
        return found

    def apply(n: Call) -> Node:
        scalar = SCALAR_OPS[n.op]
        values = n.args[1:] if n.op == "where" else n.args
        fixed = next((build(v, None) for v in values if not isinstance(v, Literal)), None)
        wanted = fixed.dtype if fixed is not None else default
        args = tuple(build(v, wanted) for v in values)
        if n.op == "where":
            args = (build(n.args[0], "bool"), *args)
        if not _defined(scalar.name, wanted):
            found = expansion(n.op, wanted) if wanted[0] in "fc" else None
            if found is None:
                raise NotImplementedOnDevice(f'"{n.op}" not implemented for {wanted!r}')
            inner = dict(zip("ab", args, strict=False))
            return typed(found, inner, scalar.result_dtype(wanted), wanted)
        return Apply(n.op, args, scalar.result_dtype(wanted))

    return cast(build(root, out), out)


def _defined(op: str, dtype: str) -> bool:
    try:
        SCALAR_OPS[op].template(dtype)
    except ValueError:
        return False
    return True


def cast(node: Node, dtype: str) -> Node:
    """``node`` in another dtype; nothing if it has it already."""
    return node if node.dtype == dtype else Apply("cast", (node,), dtype)


#: stored dtype → the dtype its arithmetic runs in. Wrapping commutes with the operations of
#: integers, so that narrow ones compute in a wider type and wrap once, when the result is stored.
COMPUTED: Final = {
    "f16": "f32", "bf16": "f32", "f8e4m3": "f32", "f8e5m2": "f32",
    "i8": "i32", "i16": "i32", "u16": "i32", "u32": "i64",
}  # fmt: skip


def computed(dtype: str) -> str:
    """The dtype arithmetic on ``dtype`` runs in."""
    return COMPUTED.get(dtype, dtype)


def expand(node: Apply) -> Node | None:
    """One level of a scalar operation's expansion over primitives; None for a primitive."""
    body = expansion(node.op, node.args[0].dtype)
    if body is None:
        return None
    operands: dict[str, Any] = dict(zip("ab", node.args, strict=False))
    return typed(body, operands, node.dtype, node.args[0].dtype)


def fill_tree(dtype: str) -> Node:
    """The tree of ``fill``: the launch's number in every element."""
    return Scalar(0, dtype)


def copy_tree(source: str, target: str) -> Node:
    """The tree of ``copy`` (equal dtypes) and ``cast``."""
    return cast(Input(0, source), target)
