"""From a call to its plan: the signature look-up and, on a miss, the resolver.

The resolver's steps, in order: native; native after a relayout copy; native after a widening cast;
decomposition whose every leaf resolves that way; the host; an error that lists why each failed.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from halon.dispatcher import hot, lower, trace
from halon.dispatcher import plan as plans
from halon.dispatcher.op import NUMBER, OPERAND, OPERANDS, OPTIONAL, STATIC, UNCHANGED, Op
from halon.dispatcher.plan import LAUNCH, VIEW, Plan, Signature, Steps
from halon.dispatcher.structures import (
    Meta,
    TensorBase,
    dense_meta,
    modes,
    when_metas_are_cleared,
)
from halon.hal.config import log
from halon.hal.errors import DeclinedAtLaunch, NotImplementedOnDevice
from halon.hal.open_device import OpenDevice

_NUMBERS: Final = (bool, int, float, complex)

#: every plan by signature; emptied when the epoch changes (``clear_plans``).
PLANS: dict[tuple[Any, ...], Plan] = {}
_PLANS_CAP: Final = 1 << 16


def call(op: Op, args: tuple[Any, ...]) -> Any:
    """Run an operator: look its signature up, plan it on a miss, execute the plan.

    ``args`` are in schema order with defaults filled in.
    """
    key: list[Any] = [op]
    tensors: list[TensorBase] = []
    scalars: list[Any] = []
    symbolic = False
    for kind, a in zip(op.kinds, args):  # noqa: B905  (bind made them equally long)
        if isinstance(a, TensorBase):
            tensors.append(a)
            key.append(a.meta)
            if a.storage is None:
                symbolic = True
        elif kind == STATIC:
            key.append(tuple(a) if a.__class__ is list else a)
        elif kind == OPERANDS:
            tensors.extend(a)
            key.append(tuple([t.meta for t in a]))
            symbolic = symbolic or any(t.storage is None for t in a)
        elif a is None:
            key.append(None)
        elif a.__class__ is trace.SymNumber:
            key.append(a.kind)
            symbolic = True
        else:
            scalars.append(a)
            key.append(a.__class__)
    if symbolic or (not tensors and trace.tracing.program is not None):
        return _trace_call(op, args, tuple(key[1:]))
    plan = PLANS.get(tuple(key))
    if plan is None:
        normal = normalise(op, args)
        if normal is not None:
            return call(op, normal)
        plan = miss(op, tuple(key))
    if watchers:
        watchers[-1](plan)
    try:
        return hot.run(plan, tensors, scalars)
    except DeclinedAtLaunch:  # the planner remembers, so this ends
        clear_plans()
        return call(op, args)


def call_composed(op: Op, args: tuple[Any, ...]) -> Any:
    """Run an operator whose gradient is that of the operators it decomposes into."""
    if modes.grad and any(isinstance(a, TensorBase) and a.wants_grad for a in args):
        assert op.decompose is not None
        return op.decompose(*args)
    return call(op, args)


#: ``halon.explain`` pushes a function here that sees each plan before it runs.
watchers: list[Any] = []


def call_into(op: Op, target: TensorBase, args: tuple[Any, ...]) -> None:
    """Run an operator into an existing tensor (in-place and ``out=``)."""
    signature, tensors, scalars = _split(op, args)
    key = (op, *signature, target.meta)
    plan = PLANS.get(key)
    if plan is None:
        normal = normalise(op, args)
        if normal is not None:
            return call_into(op, target, normal)
        plan = build(op, signature, into=target.meta)
        _keep(key, plan)
    if watchers:
        watchers[-1](plan)
    try:
        hot.run_into(plan, target, tensors, scalars)
    except DeclinedAtLaunch:
        clear_plans()
        call_into(op, target, args)


def _split(op: Op, args: tuple[Any, ...]) -> tuple[Signature, list[TensorBase], list[Any]]:
    signature: list[Any] = []
    tensors: list[TensorBase] = []
    scalars: list[Any] = []
    for kind, a in zip(op.kinds, args, strict=True):
        if kind == STATIC:
            signature.append(tuple(a) if isinstance(a, list) else a)
        elif isinstance(a, TensorBase):
            tensors.append(a)
            signature.append(a.meta)
        elif kind == OPERANDS:
            tensors.extend(a)
            signature.append(tuple(t.meta for t in a))
        elif a is None:
            signature.append(None)
        else:
            scalars.append(a)
            signature.append(type(a))
    return tuple(signature), tensors, scalars


def _trace_call(op: Op, args: tuple[Any, ...], signature: Signature) -> Any:
    device = plans.device_of(op, signature)
    if op.view is not None:
        seen = view_plan(op, signature, device)
        if seen is not None:
            return trace.record(op, args, seen.outs)
    return trace.record(op, args, plans.infer(op, signature, device))


def miss(op: Op, key: tuple[Any, ...]) -> Plan:
    """Plan a signature that was not seen before."""
    plan = build(op, key[1:])
    _keep(key, plan)
    return plan


def _keep(key: tuple[Any, ...], plan: Plan) -> None:
    if len(PLANS) >= _PLANS_CAP:
        clear_plans()
    PLANS[key] = plan


def clear_plans() -> None:
    """Forget every plan: called by each setter that could make one stale."""
    from halon.dispatcher import fallback

    fallback.retire(list(PLANS.values()))
    PLANS.clear()


when_metas_are_cleared(clear_plans)


def normalise(op: Op, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Arguments with NumPy scalars made Python numbers and 0-d host tensors moved, or None.

    Raises TypeError for what is neither a tensor nor a number where one is due.
    """
    changed = False
    fixed: list[Any] = []
    away = next(
        (a.meta.device for a in args if isinstance(a, TensorBase) and not a.meta.device.is_host),
        None,
    )
    for p, a in zip(op.params, args, strict=True):
        if p.kind == OPERANDS:
            if not isinstance(a, (tuple, list)) or not all(isinstance(t, TensorBase) for t in a):
                raise TypeError(f"{op.name}(): argument '{p.name}' must be a sequence of Tensors")
            if not a:
                raise RuntimeError(f"{op.name}(): expected a non-empty list of Tensors")
        elif p.kind in (OPERAND, OPTIONAL, NUMBER) and not isinstance(a, TensorBase):
            if isinstance(a, np.generic):
                a, changed = a.item(), True
            elif not isinstance(a, _NUMBERS) and not (a is None and p.kind != OPERAND):
                raise TypeError(
                    f"{op.name}(): argument '{p.name}' must be a Tensor or a number, not "
                    f"{type(a).__name__}"
                )
            elif p.kind == OPERAND and op.expr is None:
                raise TypeError(f"{op.name}(): argument '{p.name}' must be Tensor, not a number")
        elif p.kind == OPERAND and away is not None and isinstance(a, TensorBase):
            if op.expr is not None and a.meta.device.is_host and a.meta.ndim == 0:
                a, changed = a.to(away.device), True  # type: ignore[attr-defined]
        elif p.kind == NUMBER and isinstance(a, TensorBase):
            a, changed = a.item(), True  # type: ignore[attr-defined]
        fixed.append(a)
    return tuple(fixed) if changed else None


# -- the resolver ----------------------------------------------------------------------------------
def build(op: Op, signature: Signature, into: Meta | None = None) -> Plan:
    """Decide everything about a call; raises the error a user should see."""
    device = plans.device_of(op, signature)
    plan = view_plan(op, signature, device) if op.view is not None and into is None else None
    if plan is None:
        outs = plans.infer(op, signature, device)
        if into is not None:
            plans.check_into(op, outs, into)
            outs = (into,)
        plan = resolve(op, signature, device, outs, into)
    plan.op = op
    plan.signature = signature
    log("dispatch", f"{plan}: {plan.how}")
    return plan


def view_plan(op: Op, signature: Signature, device: OpenDevice) -> Plan | None:
    """The plan of a metadata-only operator, or None if this signature needs a copy."""
    assert op.view is not None
    seen = op.view(*signature)
    if seen is None:
        return None
    (source,) = plans.tensor_metas(op, signature)
    shape, strides, offset, *other = seen
    dtype = other[0] if other else source.dtype
    meta = plans.make_meta(tuple(shape), tuple(strides), dtype, device)
    plan = Plan(VIEW, op, device, (meta,), "view")
    plan.offset = offset
    return plan


def resolve(
    op: Op, signature: Signature, device: OpenDevice, outs: tuple[Meta, ...], into: Meta | None
) -> Plan:
    """Steps 1 to 7 for a call whose outputs are known."""
    reasons: list[str] = []
    plan = (
        _empty_plan(op, signature, device, outs, into is not None)
        or _by_kernel(op, signature, device, outs, into is not None, reasons)
        or _by_windows(op, signature, device, outs, into is not None, reasons)
        or _by_decomposition(op, signature, device, outs, into is not None, reasons)
    )
    if plan is None:
        from halon.dispatcher import fallback

        plan = fallback.host_plan(op, signature, device, outs, into, reasons, build)
    plan.reasons = tuple(reasons)
    return plan


def _empty_plan(
    op: Op, signature: Signature, device: OpenDevice, outs: tuple[Meta, ...], into: bool
) -> Plan | None:
    if not any(m.numel for m in outs):
        if op.expr is not None:
            plans.elementwise_spec(op, signature, outs[0])  # refuses dtypes without a meaning
        return Plan(LAUNCH, op, device, outs, "native")  # nothing to launch
    metas = plans.tensor_metas(op, signature)
    if op.expr is not None or op.kernel is None or all(m.numel for m in metas):
        return None
    if op.empty is None:
        raise NotImplementedOnDevice(f"{op.name} of an empty operand: {', '.join(map(str, metas))}")
    if isinstance(op.empty, str):
        raise (IndexError if op.empty.startswith("Expected") else RuntimeError)(op.empty)
    steps = Steps(len(metas) + 1)
    if op.empty is UNCHANGED:
        copy = lower.copy_plan(metas[0], outs[0], [])
        if copy is None:
            return None
        made = [steps.add(copy, (0,))[0]]
    else:
        made = [steps.add(fill_plan(m), (), (op.empty,))[0] for m in outs]
    if not lower.finish(steps, made, outs, outs, [], into):
        return None
    return lower.composite(device, outs, steps, "native")


def _by_kernel(
    op: Op, signature: Signature, device: OpenDevice, outs: tuple[Meta, ...], into: bool,
    reasons: list[str],
) -> Plan | None:  # fmt: skip
    if op.expr is not None:
        spec, metas, bounds = plans.elementwise_spec(op, signature, outs[0])
    else:
        spec, metas = plans.kernel_spec(op, signature, outs)
        bounds = ()
    plan = lower.native(device, spec, metas, outs, reasons, into)
    if plan is None and device.planner.named and spec.expr is not None:
        steps = lower.by_primitives(device, spec, metas, outs[0], reasons, into)
        plan = steps and lower.composite(device, outs, steps, "decomposed", spec)
    if plan is not None:
        plan.bounds = bounds
    return plan


def _by_windows(
    op: Op, signature: Signature, device: OpenDevice, outs: tuple[Meta, ...], into: bool,
    reasons: list[str],
) -> Plan | None:  # fmt: skip
    """An output assembled by strided copies of the operands."""
    if op.windows is None:
        return None
    windows = op.windows(*signature)
    metas = plans.tensor_metas(op, signature)
    (out,) = outs
    dense = plans.dense_like(out)
    steps = Steps(len(metas) + 1)
    if windows.fill is None:
        (target,) = steps.add(lower.allocation(dense), ())
    else:
        (target,) = steps.add(fill_plan(dense), (), (windows.fill,))
    for i, (m, w) in enumerate(zip(metas, windows.places, strict=True)):
        if w is None or not m.numel:
            continue
        place = plans.make_meta(w.shape, w.strides, dense.dtype, device)
        view = Plan(VIEW, None, device, (place,), "view")
        view.offset = w.offset * dense.dtype.itemsize
        copy = lower.copy_plan(m, place, reasons)
        if copy is None:
            return None
        steps.add(copy, (i,), into=steps.add(view, (target,))[0])
    if not lower.finish(steps, [target], [dense], outs, reasons, into):
        return None
    return lower.composite(device, outs, steps, "decomposed")


def _by_decomposition(
    op: Op, signature: Signature, device: OpenDevice, outs: tuple[Meta, ...], into: bool,
    reasons: list[str],
) -> Plan | None:  # fmt: skip
    if op.decompose is None:
        return None
    program = plans.decomposition(op, signature)
    if program is None:
        return None
    steps = Steps(program.inputs + 1)
    slots = _add_program(steps, program, device, reasons)
    if slots is None:
        return None
    metas = [program.metas[s] for s in program.outputs if s is not None]
    for i, s in enumerate(s for s in program.outputs if s is not None):
        if program.shows_input(s) and not op.may_alias and not into:
            copy = lower.copy_plan(metas[i], outs[i], reasons)
            if copy is None:
                return None
            slots[i], metas[i] = steps.add(copy, (slots[i],))[0], outs[i]
    if not lower.finish(steps, slots, metas, outs, reasons, into):
        return None
    return lower.composite(device, outs, steps, "decomposed")


def _add_program(
    steps: Steps, program: trace.Program, device: OpenDevice, reasons: list[str]
) -> list[int] | None:
    """Append a traced program; the slots of its outputs, or None if a leaf would need the host."""
    slots = list(range(program.inputs)) + [-1] * (len(program.metas) - program.inputs)
    for instr in program.instrs:
        plan = _sub_plan(instr.op, _instr_signature(program, instr), device)
        if plan is None or plan.how == "host":
            reasons.append(f"its decomposition needs {instr.op.name}, which runs on the host")
            return None
        made = steps.add(plan, [slots[s] for s in instr.uses()], _instr_scalars(instr))
        for slot, new in zip(instr.slots, made, strict=True):
            slots[slot] = new
    return [slots[s] for s in program.outputs if s is not None]


def _sub_plan(op: Op, signature: Signature, device: OpenDevice) -> Plan | None:
    key = (op, *signature)
    plan = PLANS.get(key)
    if plan is None:
        try:
            plan = build(op, signature)
        except NotImplementedOnDevice:
            if device.is_host:
                raise
            return None
        _keep(key, plan)
    return plan


def _instr_signature(program: trace.Program, instr: trace.Instr) -> Signature:
    def one(kind: int, a: Any) -> Any:
        if isinstance(a, trace.Ref):
            return program.metas[a.slot]
        if isinstance(a, trace.SymNumber):
            return a.kind
        if kind == OPERANDS:
            return tuple(one(OPERAND, x) for x in a)
        if kind == STATIC:
            return tuple(a) if isinstance(a, list) else a
        return None if a is None else type(a)

    return tuple(one(k, a) for k, a in zip(instr.op.kinds, instr.args, strict=True))


def _instr_scalars(instr: trace.Instr) -> list[Any]:
    return [
        a
        for kind, a in zip(instr.op.kinds, instr.args, strict=True)
        if kind != STATIC and kind != OPERANDS and a is not None
        and not isinstance(a, trace.Ref)
    ]  # fmt: skip


def fill_plan(meta: Meta) -> Plan:
    """The plan of filling a tensor with the launch's number."""
    from halon.dispatcher.ops.creation import full

    kind = {0: bool, 1: int, 2: float, 3: complex}[meta.dtype.category]
    dense = dense_meta(meta.shape, meta.dtype, meta.device)
    return build(full, (dense.shape, kind, dense.dtype, dense.device), into=meta)
