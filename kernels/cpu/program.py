"""Expression trees as flat programs of tile operations (``elementwise.c`` runs them)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from halon.hal.dtypes import dtype_of
from halon.kernels.scalar_ops import SCALAR_OPS
from halon.kernels.tree import Apply, Const, Input, Node, Scalar, walk

#: Stored dtype → the dtype its casts go through; the dtypes not listed are computed in themselves.
WIDE: Final = {
    "f16": "f32", "bf16": "f32", "f8e4m3": "f32", "f8e5m2": "f32",
    "i8": "i32", "i16": "i32", "u16": "i32", "u32": "i64",
}  # fmt: skip
_INTEGERS: Final = ("u8", "i8", "i16", "u16", "i32", "u32", "i64", "u64", "bool")


def cast_path(src: str, dst: str) -> list[str]:
    """The dtypes a conversion passes: each step is a tile operation.

    >>> cast_path("bf16", "i8"), cast_path("f32", "f64"), cast_path("f64", "f16")
    (['f32', 'i64', 'i8'], ['f64'], ['f16'])
    """
    if src == dst:
        return []
    if dst == "f16" and src in ("f64", "c128"):  # rounded once
        return ["f16"] if src == "f64" else ["f64", "f16"]
    if (src, dst) == ("f16", "f64"):
        return ["f64"]
    path = []
    if src in WIDE:
        # integers widen into what the destination takes next
        src = "i64" if src in _INTEGERS and dst in ("i64", "u64", "u32") else WIDE[src]
        path.append(src)
    if dst not in WIDE:
        return path if src == dst else [*path, dst]
    middle = WIDE[dst]
    if dst in _INTEGERS and (src not in _INTEGERS or src in ("i64", "u64")):
        middle = "i64"  # wide values wrap, as two integer conversions do
    return [*path, *([middle] if src != middle else []), dst]


@dataclass(frozen=True, slots=True)
class Instruction:
    """Tile operation ``op`` (``"add_f32"``) over registers; ``args`` has one to three of them."""

    op: str
    dst: int
    args: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fill:
    """A register that holds one number: run-time scalar ``scalar``, or ``value`` if it is None."""

    register: int
    dtype: str
    scalar: int | None
    value: int | float | complex | bool = 0


@dataclass
class Program:
    """Registers ``0 … n_inputs - 1`` are the operands and ``n_inputs`` is the output; the others
    live in tile slots, which are reused: ``slot`` maps such a register to its slot."""

    n_inputs: int
    n_registers: int
    itemsize: int  # of the widest register
    code: list[Instruction] = field(default_factory=list)
    fills: list[Fill] = field(default_factory=list)
    slot: dict[int, int] = field(default_factory=dict)
    n_slots: int = 0


class _Compiler:
    """Emits the code of one tree: registers first, slots once every last use is known."""

    def __init__(self, n_inputs: int, out_dtype: str) -> None:
        self.output = n_inputs
        self.dtypes: dict[int, str] = {n_inputs: out_dtype}
        self.code: list[Instruction] = []
        self.fills: list[Fill] = []
        self.of_node: dict[Node, int] = {}
        self.next_register = n_inputs + 1

    def register(self, dtype: str) -> int:
        number = self.next_register
        self.next_register += 1
        self.dtypes[number] = dtype
        return number

    def emit(self, op: str, dtype: str, args: tuple[int, ...]) -> int:
        dst = self.register(dtype)
        self.code.append(Instruction(op, dst, args))
        return dst

    def cast(self, source: int, dtype: str) -> int:
        have = self.dtypes[source]
        for step in cast_path(have, dtype):
            source = self.emit(f"cast_{have}_{step}", step, (source,))
            have = step
        return source

    def leaf(self, node: Input | Scalar | Const) -> int:
        if isinstance(node, Input):
            self.dtypes[node.index] = node.dtype
            return node.index
        number = self.register(node.dtype)
        scalar = node.index if isinstance(node, Scalar) else None
        value = node.value if isinstance(node, Const) else 0
        self.fills.append(Fill(number, node.dtype, scalar, value))
        return number

    def apply(self, node: Apply) -> int:
        args = tuple(self.of_node[a] for a in node.args)
        if node.op == "cast":
            return self.cast(args[0], node.dtype)
        operand = self.dtypes[args[-1]]
        if operand in WIDE:
            operand = WIDE[operand]
            args = tuple(self.cast(a, WIDE.get(self.dtypes[a], self.dtypes[a])) for a in args)
        result = SCALAR_OPS[node.op].result_dtype(operand)
        return self.cast(self.emit(f"{node.op}_{operand}", result, args), node.dtype)

    def compile(self, root: Node) -> int:
        for node in walk(root):
            self.of_node[node] = self.apply(node) if isinstance(node, Apply) else self.leaf(node)
        return self.of_node[root]

    def finish(self, result: int) -> None:
        """The result is written by the last instruction, which gains the output as destination."""
        last = self.code[-1] if self.code else None
        if last is not None and last.dst == result:
            self.code[-1] = Instruction(last.op, self.output, last.args)
            return
        size = dtype_of(self.dtypes[result]).itemsize
        self.code.append(Instruction(f"move_{size}", self.output, (result,)))


def _assign_slots(compiler: _Compiler) -> tuple[dict[int, int], int]:
    """A slot is free after its register's last use; a result may replace an operand in place only
    where their elements have one size, because the loop would overtake itself otherwise."""
    last_use = {a: i for i, c in enumerate(compiler.code) for a in c.args}
    slot = {f.register: n for n, f in enumerate(compiler.fills)}
    constant = frozenset(slot)
    count = len(slot)
    free: list[int] = []
    size = {r: dtype_of(t).itemsize for r, t in compiler.dtypes.items()}
    for i, c in enumerate(compiler.code):
        dying = {a for a in c.args if a in slot and a not in constant and last_use[a] == i}
        if c.dst != compiler.output:
            heir = next((a for a in dying if size[a] == size[c.dst]), None)
            if heir is not None:
                slot[c.dst] = slot[heir]
                dying.remove(heir)
            elif free:
                slot[c.dst] = free.pop()
            else:
                slot[c.dst] = count
                count += 1
        free.extend(slot[a] for a in dying)
    return slot, count


def compile_tree(root: Node, n_inputs: int) -> Program:
    """The program of a tree over ``n_inputs`` operands.

    >>> x = Input(0, "f32")
    >>> p = compile_tree(Apply("add", (x, Apply("neg", (x,), "f32")), "f32"), 1)
    >>> [(c.op, c.dst, c.args) for c in p.code]
    [('neg_f32', 2, (0,)), ('add_f32', 1, (0, 2))]
    """
    compiler = _Compiler(n_inputs, root.dtype)
    compiler.finish(compiler.compile(root))
    slot, n_slots = _assign_slots(compiler)
    return Program(
        n_inputs=n_inputs,
        n_registers=compiler.next_register,
        itemsize=max(dtype_of(t).itemsize for t in compiler.dtypes.values()),
        code=compiler.code,
        fills=compiler.fills,
        slot=slot,
        n_slots=n_slots,
    )
