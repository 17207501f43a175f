"""Derivative rows: a record's gradient rule traced once per signature and mask.

The trace tells which values the rule reads; only those are saved, with the version they had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from halon.dispatcher import hot
from halon.dispatcher.op import OPERAND, OPERANDS, OPTIONAL, Op
from halon.dispatcher.plan import Plan, symbolic_args
from halon.dispatcher.structures import Meta, Node, Storage, TensorBase, dense_meta, recording
from halon.dispatcher.trace import Program, replay, trace
from halon.hal.errors import VersionError


class Saved:
    """A value kept for backward, with the version of its storage when it was saved."""

    __slots__ = ("is_output", "meta", "offset", "position", "storage", "version")

    def __init__(self, t: TensorBase, is_output: bool, position: int) -> None:
        self.storage: Storage = t.storage
        self.offset = t.offset
        self.meta = t.meta
        self.version = t.storage.version
        self.is_output = is_output
        self.position = position


class Row:
    """The derivative of one signature for the inputs in ``mask``.

    The program's inputs are: one gradient per output, the outputs, the tensor operands.
    """

    def __init__(self, plan: Plan, metas: tuple[Meta, ...], mask: int) -> None:
        assert plan.op is not None
        self.op: Op = plan.op
        self.signature = plan.signature
        self.metas = metas
        self.outs = plan.outs
        self.mask = mask
        self.name = "".join(w.capitalize() for w in self.op.name.split("_")) + "Backward0"
        self._programs: dict[tuple[Meta, ...], tuple[Program, frozenset[int]]] = {}
        grads = tuple(dense_meta(m.shape, m.dtype, m.device) for m in plan.outs)
        _, used = self.program(grads)
        n = len(plan.outs)
        self.saved_outputs = tuple(i for i in range(n) if n + i in used)
        self.saved_inputs = tuple(i for i in range(len(metas)) if 2 * n + i in used)

    def program(self, grads: tuple[Meta, ...]) -> tuple[Program, frozenset[int]]:
        """The rule's program for gradients with these Metas, and the input slots it reads."""
        found = self._programs.get(grads)
        if found is None:
            program = trace(self._apply_rule, (*grads, *self.outs, *self.metas))
            found = self._programs[grads] = program, program.prune()
        return found

    def _apply_rule(self, syms: list[TensorBase]) -> list[Any]:
        n = len(self.outs)
        grads, outs, tensors = syms[:n], syms[n : 2 * n], syms[2 * n :]
        args = symbolic_args(self.op, self.signature, tensors)
        single = self.op.outputs == 1
        assert self.op.rule is not None
        result = self.op.rule(
            grads[0] if single else tuple(grads), outs[0] if single else tuple(outs), *args
        )
        per_tensor = _per_tensor(self.op, self.signature, result)
        return [
            _fit(g, t.meta) if g is not None and self.mask >> i & 1 else None
            for i, (g, t) in enumerate(zip(per_tensor, tensors, strict=True))
        ]

    def save(
        self, tensors: Sequence[TensorBase], results: Sequence[TensorBase]
    ) -> tuple[Saved, ...]:
        """What the rule reads, from a call's operands and results."""
        return tuple(
            [Saved(results[i], True, i) for i in self.saved_outputs]
            + [Saved(tensors[i], False, i) for i in self.saved_inputs]
        )

    def backward(self, node: Node, grads: Sequence[Any], create_graph: bool) -> list[Any]:
        """Input gradients of a node from its output gradients (None: no gradient arrived)."""
        program, used = self.program(
            tuple(o if g is None else g.meta for g, o in zip(grads, self.outs, strict=True))
        )
        n = len(self.outs)
        inputs: list[Any] = [None] * program.inputs
        for i, g in enumerate(grads):
            if i in used:
                inputs[i] = zeros(self.outs[i]) if g is None else g
        for s in check_saved(node):
            inputs[(n if s.is_output else 2 * n) + s.position] = self._unpack(node, s, create_graph)
        with recording(create_graph):
            return replay(program, inputs, node.scalars)

    def _unpack(self, node: Node, s: Saved, create_graph: bool) -> Any:
        if not create_graph:
            return hot.wrap((s.storage, s.offset), s.meta)
        if not s.is_output:
            edge = node.edges[s.position]
            if isinstance(edge, TensorBase):
                return edge
        t = hot.wrap((s.storage, s.offset), s.meta)
        if s.is_output:
            t.node, t.node_index, t.wants_grad = node, s.position, True
        elif node.edges[s.position] is not None:
            t.node, t.node_index = node.edges[s.position]
            t.wants_grad = True
        return t


def check_saved(node: Node) -> tuple[Saved, ...]:
    """The node's saved values; an error if they were freed or written since."""
    if node.saved is None:
        raise RuntimeError(
            "Trying to backward through the graph a second time (or directly access saved tensors "
            f"after they have already been freed): {node.name}. Specify retain_graph=True if you "
            "need to backward through the graph a second time"
        )
    for s in node.saved:
        if s.storage.version != s.version:
            write = s.storage.last_write
            what = "output" if s.is_output else "input"
            raise VersionError(
                "one of the variables needed for gradient computation has been modified by an "
                f"inplace operation: {node.row.op.name} at {node.place} saved its {what} "
                f"{s.meta} at version {s.version}, but "
                + (f"{write[0]}_ at {write[1]} wrote it" if write else "it was written")
                + f" (now version {s.storage.version}). Clone it before one of the two lines"
            )
    return node.saved


def zeros(meta: Meta) -> Any:
    """A zero gradient for an output nothing used."""
    from halon.dispatcher.ops.creation import full

    return full(meta.shape, 0.0, meta.dtype, meta.device)


def _per_tensor(op: Op, signature: tuple[Any, ...], result: Any) -> list[Any]:
    """One gradient per tensor operand from a rule's answer (one per operand parameter)."""
    params = [
        (k, s)
        for k, s in zip(op.kinds, signature, strict=True)
        if k in (OPERAND, OPTIONAL, OPERANDS)
    ]
    answers = list(result) if isinstance(result, (tuple, list)) else [result]
    if len(params) == 1 and params[0][0] == OPERANDS and len(answers) != 1:
        answers = [answers]
    if len(answers) != len(params):
        raise TypeError(f"{op.name}: the gradient rule gave {len(answers)} for {len(params)}")
    flat: list[Any] = []
    for (kind, s), answer in zip(params, answers, strict=True):
        if kind == OPERANDS:
            flat.extend(answer)
        elif isinstance(s, Meta):
            flat.append(answer)
    return flat


def _fit(grad: Any, meta: Meta) -> Any:
    """A gradient summed to the operand's shape and cast to its dtype."""
    from halon.dispatcher.ops.movement import cast
    from halon.dispatcher.ops.reduction import sum_to

    if grad.meta.shape != meta.shape:
        grad = sum_to(grad, meta.shape)
    return cast(grad, meta.dtype) if grad.meta.dtype is not meta.dtype else grad
