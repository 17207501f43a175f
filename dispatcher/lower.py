"""Fitting an operation to what a device accepts: relayout copies, widening casts, primitives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from halon.dispatcher import expr
from halon.dispatcher.plan import LAUNCH, STEPS, Plan, Steps, dense_like, scalar_slot
from halon.dispatcher.shapes import expand_strides
from halon.dispatcher.structures import Meta, dense_meta, make_meta
from halon.hal.dtypes import SHORT
from halon.hal.op_desc import OpSpec
from halon.hal.open_device import OpenDevice
from halon.kernels.scalar_ops import SCALAR_OPS
from halon.kernels.tree import Apply, Const, Input, Node, Scalar, walk

#: the next wider dtype of the same category; narrowing is never automatic.
WIDER: Final = {
    "f16": "f32", "bf16": "f32", "f32": "f64", "u8": "i32", "i8": "i32", "i16": "i32",
    "i32": "i64", "u16": "i32", "u32": "i64", "c64": "c128",
}  # fmt: skip


def native(
    device: OpenDevice, spec: OpSpec, ins: Sequence[Meta], outs: tuple[Meta, ...],
    reasons: list[str], into: bool = False,
) -> Plan | None:  # fmt: skip
    """Resolver steps 1 to 3: as given, after relayout copies, after widening casts."""
    plan, kind = _launch(device, spec, outs, reasons)
    if plan is not None:
        return plan
    if kind == "layout":
        return _relayout(device, spec, ins, outs, reasons, into)
    if kind == "dtype" and (spec.expr is None or device.planner.named) and spec.exact:
        return _widened(device, spec, ins, outs, reasons, into)
    return None


def _launch(
    device: OpenDevice, spec: OpSpec, outs: tuple[Meta, ...], reasons: list[str]
) -> tuple[Plan | None, str]:
    binding, kind, why = device.planner.find(spec)
    if binding is None:
        reasons.append(why)
        return None, kind
    plan = Plan(LAUNCH, None, device, outs, "native")
    plan.launch, plan.kernel, plan.spec = binding.launch, binding.kernel, spec
    return plan, ""


def _relayout(
    device: OpenDevice, spec: OpSpec, ins: Sequence[Meta], outs: tuple[Meta, ...],
    reasons: list[str], into: bool,
) -> Plan | None:  # fmt: skip
    dense_ins = [dense_like(m) for m in ins]
    dense_outs = tuple(dense_like(m) for m in outs)
    core, _ = _launch(device, _with_metas(spec, dense_ins, dense_outs), dense_outs, reasons)
    if core is None:
        return None
    return _around(core, spec, ins, dense_ins, outs, reasons, into, "relayout")


def _widened(
    device: OpenDevice, spec: OpSpec, ins: Sequence[Meta], outs: tuple[Meta, ...],
    reasons: list[str], into: bool,
) -> Plan | None:  # fmt: skip
    narrow = {m.dtype.short for m in (*ins, *outs)} & set(device.planner.widens)
    if len(narrow) != 1 or spec.scalars:
        return None
    source = narrow.pop()
    target = SHORT[WIDER[source]]

    def wide(m: Meta) -> Meta:
        return dense_meta(m.shape, target if m.dtype.short == source else m.dtype, m.device)

    wide_ins, wide_outs = [wide(m) for m in ins], tuple(wide(m) for m in outs)
    core = native(device, _with_metas(spec, wide_ins, wide_outs), wide_ins, wide_outs, reasons)
    if core is None:
        return None
    return _around(core, spec, ins, wide_ins, outs, reasons, into, "widened")


def _with_metas(spec: OpSpec, ins: Sequence[Meta], outs: Sequence[Meta]) -> OpSpec:
    tree = spec.expr
    while isinstance(tree, Apply) and tree.op == "cast" and isinstance(tree.args[0], Apply):
        tree = tree.args[0]  # half precision's rounding, which the wider dtype has no use for
    if isinstance(tree, Apply):  # a primitive of its operands: retype it
        dtype = "bool" if SCALAR_OPS[tree.op].result == "bool" else outs[0].dtype.short
        local = tuple(Input(i, m.dtype.short) for i, m in enumerate(ins))
        tree = Apply(tree.op, local, dtype) if tree.op != "cast" else tree
    return replace(
        spec, ins=tuple(m.spec() for m in ins), outs=tuple(m.spec() for m in outs), expr=tree
    )


def _around(
    core: Plan, spec: OpSpec, ins: Sequence[Meta], given: Sequence[Meta], outs: tuple[Meta, ...],
    reasons: list[str], into: bool, how: str,
) -> Plan | None:  # fmt: skip
    """Copies (or casts) of operands, the operation on them, and copies of its results."""
    steps = Steps(len(ins) + 1)
    slots: list[int] = []
    for i, (m, g) in enumerate(zip(ins, given, strict=True)):
        if m is g:
            slots.append(i)
            continue
        copy = copy_plan(m, g, reasons)
        if copy is None:
            return None
        slots.extend(steps.add(copy, (i,)))
    made = steps.add(core, slots, [scalar_slot(i, float) for i in range(len(spec.scalars))])
    if not finish(steps, list(made), core.outs, outs, reasons, into):
        return None
    return composite(core.device, outs, steps, how, spec)


def finish(
    steps: Steps, slots: list[int], metas: Sequence[Meta], outs: Sequence[Meta],
    reasons: list[str], into: bool,
) -> bool:  # fmt: skip
    """Bring results into the wanted layout, and with ``into`` into the last input slot."""
    target = steps.inputs - 1
    for i, (m, out) in enumerate(zip(metas, outs, strict=True)):
        last = steps.list[-1] if steps.list else None
        if m is not out or (into and (last is None or last.outs != (slots[i],))):
            copy = copy_plan(m, out, reasons)
            if copy is None:
                return False
            slots[i] = steps.add(copy, (slots[i],))[0]
            last = steps.list[-1]
        if into and last is not None:
            if last.plan.kind != LAUNCH or last.plan.spec is None or last.plan.spec.expr is None:
                copy = copy_plan(out, out, reasons)
                if copy is None:
                    return False
                steps.add(copy, (slots[i],))
                last = steps.list[-1]
            # an elementwise step may write where an operand of its own lies
            last.into, last.outs, slots[i] = target, (target,), target
    steps.close(slots)
    return True


def copy_plan(source: Meta, target: Meta, reasons: list[str]) -> Plan | None:
    """Copy (or cast) between two layouts of one shape, if the device can."""
    spec = OpSpec(
        "copy" if source.dtype is target.dtype else "cast",
        (source.spec(),), (target.spec(),), {}, (),
        expr.copy_tree(source.dtype.short, target.dtype.short),
    )  # fmt: skip
    return _launch(source.device, spec, (target,), reasons)[0]


def allocation(meta: Meta) -> Plan:
    """The plan of a temporary whose elements later steps write."""
    plan = Plan(LAUNCH, None, meta.device, (meta,), "native")
    plan.runs = False
    return plan


def by_primitives(
    device: OpenDevice, spec: OpSpec, ins: Sequence[Meta], out: Meta, reasons: list[str], into: bool
) -> Steps | None:
    """An expression as named primitive steps, expanding what the device has no name for."""
    steps = Steps(len(ins) + 1)
    lowering = _Lowering(device, list(ins), out, steps, reasons)
    slot = lowering.lower(spec.expr)
    if slot is None:
        return None
    meta = lowering.expanded(slot)
    return steps if finish(steps, [slot], [meta], [out], reasons, into) else None


class _Lowering:
    """Turns tree nodes into slots of ``steps``; remembers what it has already computed."""

    def __init__(
        self, device: OpenDevice, ins: list[Meta], out: Meta, steps: Steps, reasons: list[str]
    ) -> None:
        self.device = device
        self.out = out
        self.steps = steps
        self.reasons = reasons
        self.metas: dict[int, Meta] = dict(enumerate(ins))
        self.done: dict[Node, int] = {}

    def lower(self, root: Node) -> int | None:
        for node in walk(root):
            if node not in self.done:
                slot = self._one(node)
                if slot is None:
                    return None
                self.done[node] = slot
        return self.done[root]

    def _one(self, node: Node) -> int | None:
        if isinstance(node, Input):
            return node.index
        if isinstance(node, (Scalar, Const)):
            return self._number(node)
        ins = [self.expanded(self.done[a]) for a in node.args]
        out = dense_meta(self.out.shape, SHORT[node.dtype], self.device)
        local = tuple(Input(i, a.dtype) for i, a in enumerate(node.args))
        spec = OpSpec(
            node.op, tuple(m.spec() for m in ins), (out.spec(),), {}, (),
            Apply(node.op, local, node.dtype),
        )  # fmt: skip
        tried: list[str] = []
        plan = native(self.device, spec, ins, (out,), tried)
        if plan is None:
            expanded = expr.expand(node)
            if expanded is None:
                self.reasons.extend(tried)
                return None
            return self.lower(expanded)
        return self._add(plan, [self.done[a] for a in node.args], (), out)

    def _number(self, node: Scalar | Const) -> int | None:
        """A number as a 0-d tensor, which later steps expand."""
        out = dense_meta((), SHORT[node.dtype], self.device)
        spec = OpSpec(
            "fill", (), (out.spec(),), {}, (("value", node.dtype),), expr.fill_tree(node.dtype)
        )
        plan = native(self.device, spec, (), (out,), self.reasons)
        if plan is None:
            return None
        if isinstance(node, Const):
            return self._add(plan, [], (node.value,), out)
        return self._add(plan, [], (scalar_slot(node.index, float),), out)

    def expanded(self, slot: int) -> Meta:
        m = self.metas[slot]
        strides = expand_strides(m.shape, m.strides, self.out.shape)
        return make_meta(self.out.shape, strides, m.dtype, m.device)

    def _add(self, plan: Plan, ins: list[int], scalars: tuple, out: Meta) -> int:
        (slot,) = self.steps.add(plan, ins, scalars)
        self.metas[slot] = out
        return slot


def composite(
    device: OpenDevice, outs: tuple[Meta, ...], steps: Steps, how: str, spec: OpSpec | None = None
) -> Plan:
    """A plan that runs steps; a single launch of the operands as they are stays a launch."""
    only = steps.list[0] if len(steps.list) == 1 else None
    if (
        only is not None
        and only.plan.kind == LAUNCH
        and only.plan.outs == outs
        and only.ins == tuple(range(steps.inputs - 1))
        and only.outs == steps.outputs
        and only.into is None
        and not only.scalars
    ):
        plan = Plan(LAUNCH, None, device, outs, how)
        plan.launch, plan.kernel = only.plan.launch, only.plan.kernel
        plan.spec, plan.runs = only.plan.spec, only.plan.runs
        return plan
    plan = Plan(STEPS, None, device, outs, how)
    plan.steps = steps
    plan.spec = spec
    return plan
