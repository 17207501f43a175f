"""Symbolic tensors: run a rule once per signature and keep what it did as a Program.

Derivative rules and decompositions are Python functions over tensors. Called with symbolic ones,
which carry only metadata, they leave a list of instructions; metadata they looked at costs nothing,
values they used are the program's inputs.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Sequence
from typing import Any

from halon.dispatcher.structures import Meta, TensorBase


class Ref:
    """The value of a slot, as an argument of an instruction."""

    __slots__ = ("slot",)

    def __init__(self, slot: int) -> None:
        self.slot = slot


class SymNumber:
    """A run-time number inside a trace: arithmetic on it happens at each launch."""

    __slots__ = ("kind", "value")

    def __init__(self, value: Callable[[Sequence[Any]], Any], kind: type) -> None:
        self.value = value
        self.kind = kind

    def _with(self, f: Callable[[Any, Any], Any], other: Any, swapped: bool = False) -> SymNumber:
        if isinstance(other, TensorBase):
            return NotImplemented
        mine = self.value
        if isinstance(other, SymNumber):
            theirs, sample = other.value, other.kind(1)
        else:
            theirs, sample = (lambda scalars: other), type(other)(1)
        kind = type(f(self.kind(1), sample))
        if swapped:
            return SymNumber(lambda s: f(theirs(s), mine(s)), kind)
        return SymNumber(lambda s: f(mine(s), theirs(s)), kind)

    def __add__(self, other: Any) -> SymNumber:
        return self._with(operator.add, other)

    def __radd__(self, other: Any) -> SymNumber:
        return self._with(operator.add, other, True)

    def __sub__(self, other: Any) -> SymNumber:
        return self._with(operator.sub, other)

    def __rsub__(self, other: Any) -> SymNumber:
        return self._with(operator.sub, other, True)

    def __mul__(self, other: Any) -> SymNumber:
        return self._with(operator.mul, other)

    def __rmul__(self, other: Any) -> SymNumber:
        return self._with(operator.mul, other, True)

    def __truediv__(self, other: Any) -> SymNumber:
        return self._with(operator.truediv, other)

    def __rtruediv__(self, other: Any) -> SymNumber:
        return self._with(operator.truediv, other, True)

    def __neg__(self) -> SymNumber:
        return self * -1

    def __eq__(self, other: object) -> bool:
        return self.__bool__()

    __ne__ = __eq__
    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TypeError("a rule cannot branch on a run-time number; make the parameter static")


class Instr:
    """One operator call of a program: ``args`` hold Refs, SymNumbers and fixed values."""

    __slots__ = ("args", "metas", "op", "slots")

    def __init__(
        self, op: Any, args: tuple[Any, ...], metas: tuple[Meta, ...], slots: tuple[int, ...]
    ) -> None:
        self.op = op
        self.args = args
        self.metas = metas
        self.slots = slots

    def uses(self) -> list[int]:
        """Slots it reads."""
        return [a.slot for a in _flat(self.args) if isinstance(a, Ref)]


class Program:
    """Instructions in order. Slots 0 … ``inputs - 1`` are the inputs."""

    __slots__ = ("inputs", "instrs", "metas", "outputs")

    def __init__(self, inputs: tuple[Meta, ...]) -> None:
        self.inputs = len(inputs)
        self.metas = list(inputs)
        self.instrs: list[Instr] = []
        self.outputs: tuple[int | None, ...] = ()

    def append(self, op: Any, args: tuple[Any, ...], metas: tuple[Meta, ...]) -> tuple[int, ...]:
        slots = tuple(range(len(self.metas), len(self.metas) + len(metas)))
        self.metas.extend(metas)
        self.instrs.append(Instr(op, args, metas, slots))
        return slots

    def shows_input(self, slot: int) -> bool:
        """Whether a slot is an input or a view of one."""
        made = {s: instr for instr in self.instrs for s in instr.slots}
        while slot >= self.inputs:
            instr = made[slot]
            if instr.op.view is None:
                return False
            slot = instr.uses()[0]
        return True

    def prune(self) -> frozenset[int]:
        """Drop instructions that no output needs; return the input slots that are read."""
        live = {s for s in self.outputs if s is not None}
        kept = []
        for instr in reversed(self.instrs):
            if live.intersection(instr.slots):
                live.update(instr.uses())
                kept.append(instr)
        self.instrs = kept[::-1]
        return frozenset(s for s in live if s < self.inputs)


class _Tracing(threading.local):
    program: Program | None = None


tracing = _Tracing()
#: the symbolic subclass of Tensor; ``halon.tensor`` sets it.
symbolic_class: list[type[TensorBase]] = []


def symbol(program: Program, slot: int) -> TensorBase:
    """The symbolic tensor of a slot."""
    sym = symbolic_class[0].__new__(symbolic_class[0])
    sym.storage = None  # type: ignore[assignment]
    sym.offset = 0
    sym.meta = program.metas[slot]
    sym.wants_grad = False
    sym.node = None
    sym.node_index = slot
    sym.grad_value = sym.base = sym.base_node = sym.hooks = None
    sym.retains_grad = False
    return sym


def trace(rule: Callable[[list[TensorBase]], Any], inputs: tuple[Meta, ...]) -> Program:
    """Run ``rule`` on symbols of the inputs; its result (a tensor, None or a sequence) is kept."""
    outer = tracing.program
    program = tracing.program = Program(inputs)
    try:
        result = rule([symbol(program, i) for i in range(len(inputs))])
    finally:
        tracing.program = outer
    results = result if isinstance(result, (tuple, list)) else (result,)
    flat: list[int | None] = []
    for r in results:
        for one in r if isinstance(r, (tuple, list)) else (r,):
            flat.append(None if one is None else one.node_index)
    program.outputs = tuple(flat)
    return program


def record(op: Any, args: tuple[Any, ...], metas: tuple[Meta, ...]) -> Any:
    """Append a call to the program being traced; returns its symbols."""
    program = tracing.program
    assert program is not None
    slots = program.append(op, tuple(_as_argument(a) for a in args), metas)
    symbols = tuple(symbol(program, s) for s in slots)
    return symbols[0] if op.outputs == 1 else symbols


def _as_argument(a: Any) -> Any:
    if isinstance(a, (tuple, list)) and any(isinstance(x, TensorBase) for x in a):
        return tuple(_as_argument(x) for x in a)
    if not isinstance(a, TensorBase):
        return a
    if a.storage is not None:
        raise TypeError("a traced rule used a tensor that is not among its arguments")
    return Ref(a.node_index)


def _flat(args: Sequence[Any]) -> list[Any]:
    flat: list[Any] = []
    for a in args:
        if isinstance(a, tuple):
            flat.extend(_flat(a))
        else:
            flat.append(a)
    return flat


def substitute(args: tuple[Any, ...], slots: Sequence[Any], scalars: Sequence[Any]) -> tuple:
    """Arguments of an instruction with slots and run-time numbers filled in."""
    filled = []
    for a in args:
        if isinstance(a, Ref):
            filled.append(slots[a.slot])
        elif isinstance(a, SymNumber):
            filled.append(a.value(scalars))
        elif isinstance(a, tuple) and any(isinstance(x, Ref) for x in a):
            filled.append(substitute(a, slots, scalars))
        else:
            filled.append(a)
    return tuple(filled)


def replay(program: Program, inputs: Sequence[Any], scalars: Sequence[Any]) -> list[Any]:
    """Run a program as ordinary operator calls on real tensors, so that autograd sees them."""
    slots: list[Any] = list(inputs) + [None] * (len(program.metas) - program.inputs)
    for instr in program.instrs:
        result = instr.op.call(instr.op, substitute(instr.args, slots, scalars))
        results = (result,) if instr.op.outputs == 1 else result
        for slot, value in zip(instr.slots, results, strict=True):
            slots[slot] = value
    return [None if s is None else slots[s] for s in program.outputs]
