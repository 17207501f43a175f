"""The executor: repeats plans. Plain Python, the twin that any faster core must agree with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from halon.dispatcher import fallback
from halon.dispatcher.expr import Name
from halon.dispatcher.plan import HOST, LAUNCH, VIEW, Plan
from halon.dispatcher.rewrite import refresh
from halon.dispatcher.structures import (
    Meta,
    Node,
    Storage,
    TensorBase,
    modes,
    new_storage,
    user_place,
)
from halon.dispatcher.structures import recording as recording_mode
from halon.dispatcher.trace import SymNumber

Value = tuple[Storage, int]  # a storage and a byte offset; the plan knows the metadata

#: the public Tensor class; ``halon.tensor`` sets it.
tensor_class: list[type[TensorBase]] = [TensorBase]


def wrap(value: Value, meta: Meta, base: TensorBase | None = None) -> Any:
    """A tensor without history over a value."""
    cls = tensor_class[0]
    t = cls.__new__(cls)
    t.storage, t.offset = value
    t.meta = meta
    t.wants_grad = False
    t.node = None
    t.node_index = 0
    t.grad_value = None
    t.base = base
    t.base_node = None if base is None else base.node
    t.hooks = None
    t.retains_grad = False
    return t


def run(plan: Plan, tensors: Sequence[TensorBase], scalars: Sequence[Any]) -> Any:
    """Execute a plan on tensors and record history: the path of every operator call."""
    handles: list[int] = []
    offsets: list[int] = []
    recording = False
    for t in tensors:
        handles.append(t.storage.handle)
        offsets.append(t.offset)
        if modes.grad:
            if t.base is not None and t.base.node is not t.base_node:
                bring_up_to_date(t)
            recording = recording or t.wants_grad
    if plan.kind == LAUNCH and len(plan.outs) == 1:
        if plan.bounds:
            scalars = fitted(plan, scalars)
        meta = plan.outs[0]
        storage = new_storage(meta.device, meta.span)
        handles.append(storage.handle)
        offsets.append(0)
        if plan.runs:
            plan.launch(plan, handles, offsets, scalars)  # type: ignore[misc]
        results = [wrap((storage, 0), meta)]
    else:
        values = execute(plan, [(t.storage, t.offset) for t in tensors], scalars)
        base = None
        if plan.kind == VIEW:
            base = tensors[0] if tensors[0].base is None else tensors[0].base
        results = [wrap(v, m, base) for v, m in zip(values, plan.outs, strict=True)]
    plan.calls += 1
    if recording:
        record(plan, tensors, scalars, results)
    return results[0] if plan.op.outputs == 1 else tuple(results)  # type: ignore[union-attr]


def run_into(
    plan: Plan, target: TensorBase, tensors: Sequence[TensorBase], scalars: Sequence[Any]
) -> None:
    """Execute a plan into an existing tensor; the caller has checked that history allows it."""
    recording = modes.grad and any(t.wants_grad for t in tensors)
    originals = _originals(plan, target, tensors) if recording else tensors
    execute(
        plan, [(t.storage, t.offset) for t in tensors], scalars, (target.storage, target.offset)
    )
    plan.calls += 1
    touch(target, plan)
    if recording:
        record(plan, tensors, scalars, [target], originals)


def _originals(
    plan: Plan, target: TensorBase, tensors: Sequence[TensorBase]
) -> Sequence[TensorBase]:
    """The operands, with copies of those the derivative reads and the write is about to change."""
    assert plan.op is not None
    if plan.op.rule is None:
        return tensors
    row = derivative_row(plan, tensors)
    kept = list(tensors)
    for i in row.saved_inputs:
        if tensors[i].storage is target.storage:
            from halon.dispatcher.ops.movement import clone

            with recording_mode(False):
                kept[i] = clone(tensors[i])
    return kept


def bring_up_to_date(t: TensorBase) -> None:
    """Give a view the history of its base, which was written after the view was made."""
    if refresh(t):
        return
    write = t.storage.last_write
    raise RuntimeError(
        f"{t.meta} is a view made before its base was modified in place"
        + (f" by {write[0]}_ at {write[1]}" if write else "")
        + ", and it repeats elements or its base is not row-major; take the view again after the "
        "write"
    )


def touch(target: TensorBase, plan: Plan) -> None:
    """Count a write to the storage and remember where it happened."""
    storage = target.storage
    storage.version += 1
    assert plan.op is not None
    storage.last_write = (plan.op.name, user_place())


def execute(
    plan: Plan, values: Sequence[Value], scalars: Sequence[Any], into: Value | None = None
) -> list[Value]:
    """Execute a plan on storages, without tensors or history."""
    if plan.bounds:
        scalars = fitted(plan, scalars)
    if plan.kind == LAUNCH:
        outs = [into] if into else [(new_storage(plan.device, m.span), 0) for m in plan.outs]
        if plan.runs:
            every = [*values, *outs]
            assert plan.launch is not None
            plan.launch(plan, [v[0].handle for v in every], [v[1] for v in every], scalars)
        return outs
    if plan.kind == VIEW:
        return [(values[0][0], values[0][1] + plan.offset)]
    if plan.kind == HOST:
        return fallback.execute_on_host(plan, values, scalars, into, execute)
    return run_steps(plan, values, scalars, into)


def run_steps(
    plan: Plan, values: Sequence[Value], scalars: Sequence[Any], into: Value | None
) -> list[Value]:
    """Execute a composite plan; temporaries go back to the allocator after their last use."""
    steps = plan.steps
    slots: list[Any] = [*values]
    if into is not None:
        slots.append(into)
    slots.extend([None] * (steps.size - len(slots)))
    for step in steps.list:
        numbers = [s.value(scalars) if isinstance(s, SymNumber) else s for s in step.scalars]
        target = None if step.into is None else slots[step.into]
        results = execute(step.plan, [slots[i] for i in step.ins], numbers, target)
        for slot, value in zip(step.outs, results, strict=True):
            slots[slot] = value
        for slot in step.drops:
            slots[slot] = None
    return [slots[s] for s in steps.outputs]


def fitted(plan: Plan, scalars: Sequence[Any]) -> list[Any]:
    """Python numbers as the bool or integer dtype they become; RuntimeError if one does not fit.

    Filling and copying truncate, as torch's do; anything else refuses a fraction.
    """
    result = list(scalars)
    movement = plan.op is not None and isinstance(plan.op.expr, Name)
    for index, low, high, name in plan.bounds:
        value = result[index]
        if name == "bool":
            result[index] = bool(value)
            continue
        whole = value == value and abs(value) != float("inf") and int(value) == value
        if not (whole or movement) or not low <= value <= high:
            raise RuntimeError(
                f"{plan}: value {value} cannot be converted to type {name} without overflow"
            )
        result[index] = int(value)
    return result


def derivative_row(plan: Plan, tensors: Sequence[TensorBase]) -> Any:
    """The plan's derivative for the operands that want a gradient."""
    from halon.dispatcher import derivative  # imports this module

    mask = 0
    for i, t in enumerate(tensors):
        if t.wants_grad:
            mask |= 1 << i
    row = plan.rows.get(mask)
    if row is None:
        row = plan.rows[mask] = derivative.Row(plan, tuple(t.meta for t in tensors), mask)
    return row


def record(
    plan: Plan, tensors: Sequence[TensorBase], scalars: Sequence[Any], results: Sequence[Any],
    originals: Sequence[TensorBase] | None = None,
) -> None:  # fmt: skip
    """Attach the node of a differentiable call to its results.

    ``originals`` are the operands as they were before an in-place call wrote them.
    """
    assert plan.op is not None
    if plan.op.rule is None:
        return
    row = derivative_row(plan, tensors)
    edges = tuple(
        None if not t.wants_grad else t if t.node is None else (t.node, t.node_index)
        for t in tensors
    )
    saved = row.save(tensors if originals is None else originals, results)
    place = user_place() if saved else None
    node = Node(row.name, row, edges, saved, list(scalars), plan.outs, place)
    for i, result in enumerate(results):
        if result.meta.dtype.category >= 2:
            result.node = node
            result.node_index = i
            result.wants_grad = True
