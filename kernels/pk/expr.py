"""Printing a typed expression tree as PK statements."""

from __future__ import annotations

from collections.abc import Mapping

from halon.kernels.pk.text import CTYPE, WIDE, cast, literal
from halon.kernels.scalar_ops import SCALAR_OPS
from halon.kernels.tree import Apply, Const, Input, Node, Scalar, walk


def statements(root: Node, inputs: Mapping[int, str], scalars: Mapping[int, str]) -> tuple[
    list[str], str
]:  # fmt: skip
    """One declaration per operation, operands first, and the expression that holds the result.

    ``inputs`` and ``scalars`` name the variables that hold operands and run-time numbers.
    """
    lines: list[str] = []
    names: dict[Node, str] = {}
    for node in walk(root):
        if isinstance(node, Input):
            names[node] = inputs[node.index]
        elif isinstance(node, Scalar):
            names[node] = scalars[node.index]
        elif isinstance(node, Const):
            names[node] = literal(node.value, node.dtype)
        else:
            name = f"v{len(lines)}"
            lines.append(f"const {CTYPE[node.dtype]} {name} = {_apply(node, names)};")
            names[node] = name
    return lines, names[root]


def scalar_dtypes(root: Node) -> set[str]:
    """The dtypes whose ``pk_`` functions the tree may call."""
    used = {a.dtype for n in walk(root) if isinstance(n, Apply) for a in n.args}
    return {WIDE.get(d, d) for d in used}


def _apply(node: Apply, names: Mapping[Node, str]) -> str:
    args = [names[a] for a in node.args]
    if node.op == "cast":
        return cast(args[0], node.args[0].dtype, node.dtype)
    dtype = node.args[-1].dtype
    op = SCALAR_OPS[node.op]
    if dtype not in WIDE or node.op == "where":
        return op.template(dtype).format(*args, t=dtype)
    wide = WIDE[dtype]
    args = [cast(a, n.dtype, wide) for a, n in zip(args, node.args, strict=True)]
    value = op.template(wide).format(*args, t=wide)
    return value if node.dtype == "bool" else cast(f"({value})", wide, dtype)
