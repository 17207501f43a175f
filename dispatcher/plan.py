"""Plans: every decision about one signature, made once.

``build`` asks the record for dtypes and shapes, the resolver for a way to run them on the device,
and returns what ``hot.execute`` repeats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from halon.dispatcher import expr
from halon.dispatcher.op import NUMBER, OPERAND, OPERANDS, OPTIONAL, STATIC, KernelCall, Op
from halon.dispatcher.promote import Types, can_cast
from halon.dispatcher.shapes import broadcast_shapes, elementwise_strides, expand_strides
from halon.dispatcher.structures import Meta, contiguous_strides, dense_meta, make_meta
from halon.dispatcher.trace import Program, SymNumber, trace
from halon.hal.dtypes import SHORT, DType
from halon.hal.errors import NotImplementedOnDevice
from halon.hal.op_desc import OpSpec
from halon.hal.open_device import OpenDevice
from halon.kernels.tree import Apply, Input, Node, Scalar

LAUNCH: Final = 0
VIEW: Final = 1
STEPS: Final = 2
HOST: Final = 3

Signature = tuple[Any, ...]  # per parameter: Meta, tuple of Metas, number type, or fixed value


class Plan:
    """How one signature runs.

    Attributes:
        kind: LAUNCH, VIEW, STEPS or HOST.
        outs: Metas of the outputs.
        launch: ``launch(plan, handles, offsets, scalars)`` of the device; LAUNCH only.
        kernel: what the device's op table built for ``launch``.
        how: the resolver step: "native", "relayout", "widened", "decomposed", "host" or "view".
        reasons: why earlier resolver steps failed.
        calls: how often user code (or backward) ran it.
        rows: derivative per mask of inputs that want a gradient.
    """

    __slots__ = (
        "bounds", "calls", "device", "how", "kernel", "kind", "launch", "offset", "op", "outs",
        "reasons", "rows", "runs", "signature", "spec", "stat", "steps",
    )  # fmt: skip

    def __init__(
        self, kind: int, op: Op | None, device: OpenDevice, outs: tuple[Meta, ...], how: str
    ) -> None:
        self.kind = kind
        self.op = op
        self.device = device
        self.outs = outs
        self.how = how
        self.signature: Signature = ()
        self.spec: OpSpec | None = None
        self.launch: Callable[..., None] | None = None
        self.kernel: Any = None
        self.runs = any(m.numel for m in outs)
        self.offset = 0
        self.steps: Any = None  # Steps, or the host's plan
        self.stat: Any = None  # fallback.Stat of a HOST plan
        self.bounds: tuple[tuple[int, int, int, str], ...] = ()
        self.reasons: tuple[str, ...] = ()
        self.calls = 0
        self.rows: dict[int, Any] = {}

    def __str__(self) -> str:
        name = self.op.name if self.op else self.spec.op if self.spec else "step"
        ins = [m for s in self.signature for m in (s if isinstance(s, tuple) else (s,))]
        shown = ", ".join(str(m) for m in ins if isinstance(m, Meta))
        return f"{name}({shown}) -> {', '.join(map(str, self.outs))} on {self.device.name}"


class Step:
    """One plan of a composite: which slots it reads, its numbers, where results go."""

    __slots__ = ("drops", "ins", "into", "outs", "plan", "scalars")

    def __init__(
        self, plan: Plan, ins: tuple[int, ...], scalars: tuple[Any, ...], outs: tuple[int, ...],
        into: int | None,
    ) -> None:  # fmt: skip
        self.plan = plan
        self.ins = ins
        self.scalars = scalars  # SymNumbers of the composite's numbers, or plain numbers
        self.outs = outs
        self.into = into
        self.drops: tuple[int, ...] = ()


class Steps:
    """A composite plan's body; slots 0 … inputs - 1 are operands, then possibly the output."""

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.size = inputs
        self.list: list[Step] = []
        self.outputs: tuple[int, ...] = ()

    def add(
        self, plan: Plan, ins: Sequence[int], scalars: Sequence[Any] = (), into: int | None = None
    ) -> tuple[int, ...]:
        """Append a step; returns the slots of its results (``into`` itself if given)."""
        if into is not None:
            outs: tuple[int, ...] = (into,)
        else:
            outs = tuple(range(self.size, self.size + len(plan.outs)))
            self.size += len(plan.outs)
        self.list.append(Step(plan, tuple(ins), tuple(scalars), outs, into))
        return outs

    def close(self, outputs: Sequence[int]) -> Steps:
        """Fix the outputs and say after which step each temporary's memory can go."""
        self.outputs = tuple(outputs)
        keep = set(outputs)
        for step in reversed(self.list):
            ended = {s for s in (*step.ins, *step.outs) if s >= self.inputs and s not in keep}
            step.drops = tuple(ended)
            keep |= ended
        return self


def device_of(op: Op, signature: Signature) -> OpenDevice:
    """The one device of a call; an error names every operand if there are two."""
    found: OpenDevice | None = None
    for s in signature:
        for m in s if isinstance(s, tuple) else (s,):
            if isinstance(m, Meta):
                if found is not None and m.device is not found:
                    raise RuntimeError(different_devices(op, signature))
                found = m.device
            elif isinstance(m, OpenDevice):
                found = m
    assert found is not None, f"{op.name} has no operand and no device"
    return found


def different_devices(op: Op, signature: Signature) -> str:
    """The message for operands on different devices."""
    shown = []
    for p, s in zip(op.params, signature, strict=True):
        for m in s if isinstance(s, tuple) else (s,):
            if isinstance(m, Meta):
                shown.append(f"{p.name} {m} on {m.device.name}")
    first = next(m for s in signature for m in (s if isinstance(s, tuple) else (s,))
                 if isinstance(m, Meta))  # fmt: skip
    return (
        f"{op.name}: operands are on different devices: {', '.join(shown)}. "
        f'Move one with .to("{first.device.name}")'
    )


def operand_signature(op: Op, signature: Signature) -> list[Any]:
    """Metas and number types of the parameters an expression or dtype rule sees."""
    return [
        s
        for p, s in zip(op.params, signature, strict=True)
        if p.kind in (OPERAND, OPTIONAL, NUMBER) and s is not None
    ]


def tensor_metas(op: Op, signature: Signature) -> tuple[Meta, ...]:
    """Metas of the tensor operands in the order launches receive them."""
    metas: list[Meta] = []
    for kind, s in zip(op.kinds, signature, strict=True):
        if kind == OPERANDS:
            metas.extend(s)
        elif isinstance(s, Meta):
            metas.append(s)
    return tuple(metas)


def infer(op: Op, signature: Signature, device: OpenDevice) -> tuple[Meta, ...]:
    """Metas of the outputs of a call that is not a view."""
    if op.expr is not None:
        operands = operand_signature(op, signature)
        metas = [m for m in operands if isinstance(m, Meta)]
        shape = (
            op.shape(*signature)
            if op.shape is not None
            else broadcast_shapes(*(m.shape for m in metas))
        )
        types = types_of(op, signature)
        strides = (
            elementwise_strides(shape, metas) if op.shape is None else contiguous_strides(shape)
        )
        return (make_meta(shape, strides, types.out, device),)
    if op.shape is None:
        program = decomposition(op, signature)
        if program is None:
            shown = ", ".join(map(str, tensor_metas(op, signature)))
            raise NotImplementedOnDevice(f"{op.name} is not defined for {shown}")
        slots = [s for s in program.outputs if s is not None]
        return tuple(
            dense_like(program.metas[s])
            if program.shows_input(s) and not op.may_alias
            else program.metas[s]
            for s in slots
        )
    assert op.dtype is not None, op.name
    shapes, types_ = op.shape(*signature), op.dtype(*signature)
    if op.outputs == 1:
        dtype = types_.out if isinstance(types_, Types) else types_
        return (dense_meta(shapes, dtype, device),)
    return tuple(dense_meta(s, d, device) for s, d in zip(shapes, types_, strict=True))


def types_of(op: Op, signature: Signature) -> Types:
    """What an expression computes in; a DType parameter decides the result outright."""
    operands = operand_signature(op, signature)
    target = next((s for s in signature if isinstance(s, DType)), None)
    if target is None:
        assert op.dtype is not None, op.name
        return op.dtype(*operands)
    return Types(tuple(s.dtype if isinstance(s, Meta) else target for s in operands), target)


def decomposition(op: Op, signature: Signature) -> Program | None:
    """The record's decomposition as a program over its tensor operands, if it has one for them."""
    assert op.decompose is not None, f"{op.name} has neither a shape rule nor a decomposition"
    rule = op.decompose
    metas = tensor_metas(op, signature)
    served = True

    def apply(syms: list[Any]) -> Any:
        nonlocal served
        result = rule(*symbolic_args(op, signature, syms))
        served = result is not NotImplemented
        return result if served else ()

    program = trace(apply, metas)
    program.prune()
    return program if served else None


def symbolic_args(op: Op, signature: Signature, syms: Sequence[Any]) -> list[Any]:
    """The arguments of a rule: symbols for tensors, SymNumbers for run-time numbers."""
    args: list[Any] = []
    tensors = iter(syms)
    scalar = 0
    for kind, s in zip(op.kinds, signature, strict=True):
        if kind == OPERANDS:
            args.append(tuple(next(tensors) for _ in s))
        elif isinstance(s, Meta):
            args.append(next(tensors))
        elif kind != STATIC and s is not None:
            args.append(scalar_slot(scalar, s))
            scalar += 1
        else:
            args.append(s)
    return args


def scalar_slot(index: int, kind: type) -> SymNumber:
    """Run-time number ``index`` of the call being planned."""
    return SymNumber(lambda scalars: scalars[index], kind)


def elementwise_spec(
    op: Op, signature: Signature, out: Meta
) -> tuple[OpSpec, tuple[Meta, ...], tuple[tuple[int, int, int, str], ...]]:
    """The OpSpec of an expression, its operands expanded to the output, and bounds of numbers."""
    assert op.expr is not None
    operands = operand_signature(op, signature)
    types = types_of(op, signature)
    names = [
        p.name
        for p, s in zip(op.params, signature, strict=True)
        if p.kind in (OPERAND, OPTIONAL, NUMBER) and s is not None
    ]
    nodes: dict[str, Node] = {}
    metas: list[Meta] = []
    scalars: list[tuple[str, str]] = []
    movement = isinstance(op.expr, expr.Name)
    exact = True
    for name, operand, dtype in zip(names, operands, types.ins, strict=True):
        compute = dtype.short if movement else expr.computed(dtype.short)
        if isinstance(operand, Meta):
            stored = operand.dtype.short
            nodes[name] = expr.cast(Input(len(metas), stored), compute)
            strides = expand_strides(operand.shape, operand.strides, out.shape)
            metas.append(make_meta(out.shape, strides, operand.dtype, operand.device))
            exact = exact and operand.dtype is dtype
        else:
            nodes[name] = Scalar(len(scalars), compute)
            scalars.append((name, compute))
    tree = expr.typed(op.expr, nodes, types.out.short, types.out.short)
    tree = expr.cast(tree, out.dtype.short)
    spec = OpSpec(
        primitive_name(op, tree, len(metas)), tuple(m.spec() for m in metas), (out.spec(),), {},
        tuple(scalars), tree, exact and out.dtype is types.out,
    )  # fmt: skip
    kinds = [s for s in operands if not isinstance(s, Meta)]
    return spec, tuple(metas), number_bounds(scalars, kinds)


def primitive_name(op: Op, tree: Node, operands: int) -> str:
    """The primitive's name where the expression is one primitive of all operands in order."""
    if isinstance(tree, Scalar) and not operands:
        return "fill"
    bare = tree.args[0] if isinstance(tree, Apply) and tree.op == "cast" else tree
    if isinstance(bare, (Input, Scalar)):
        if isinstance(bare, Input) and operands == 1:
            return "copy" if bare is tree else "cast"
        return f"{op.name} (expression)"  # an operand is ignored: no primitive's name fits
    while isinstance(tree, Apply) and tree.op == "cast":
        tree = tree.args[0]
    if isinstance(tree, Apply) and len(tree.args) == operands:
        inner = [a.args[0] if isinstance(a, Apply) and a.op == "cast" else a for a in tree.args]
        if all(isinstance(a, Input) and a.index == i for i, a in enumerate(inner)):
            return tree.op
    return op.name


def number_bounds(
    scalars: Sequence[tuple[str, str]], kinds: Sequence[type]
) -> tuple[tuple[int, int, int, str], ...]:
    """(index, low, high, dtype) for each number that may not fit the integer dtype it becomes."""
    bounds = []
    for i, ((_, dtype), kind) in enumerate(zip(scalars, kinds, strict=True)):
        d = SHORT[dtype]
        if d.category == 0 and kind is not bool:
            bounds.append((i, 0, 0, d.name))
        elif d.category == 1 and (d.itemsize < 8 or kind is float):
            bits = 8 * d.itemsize
            low, high = 0, (1 << bits) - 1
            if d.is_signed:
                low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
            bounds.append((i, low, high, d.name))
    return tuple(bounds)


def kernel_spec(
    op: Op, signature: Signature, outs: tuple[Meta, ...]
) -> tuple[OpSpec, tuple[Meta, ...]]:
    """The OpSpec of a named operation and the Metas of its operands."""
    call = op.kernel(*signature) if op.kernel is not None else _default_call(op, signature)
    metas = tuple(call.operands)
    spec = OpSpec(
        call.op, tuple(m.spec() for m in metas), tuple(m.spec() for m in outs), call.attrs,
        call.scalars,
    )  # fmt: skip
    return spec, metas


def _default_call(op: Op, signature: Signature) -> KernelCall:
    attrs: dict[str, Any] = {}
    scalars: list[tuple[str, str]] = []
    for p, s in zip(op.params, signature, strict=True):
        if p.kind == NUMBER:
            scalars.append((p.name, "f64" if s is float else "i64"))
        elif p.kind == STATIC and not isinstance(s, (DType, OpenDevice)) and s is not None:
            attrs[p.name] = s
    return KernelCall(op.name, tensor_metas(op, signature), attrs, tuple(scalars))


def check_into(op: Op, outs: tuple[Meta, ...], into: Meta) -> None:
    """Refuse an in-place or ``out=`` target of the wrong shape or category, as torch does."""
    result = outs[0]
    if result.shape != into.shape:
        raise RuntimeError(
            f"{op.name}: output with shape {list(into.shape)} doesn't match the broadcast shape "
            f"{list(result.shape)}"
        )
    if not can_cast(result.dtype, into.dtype):
        raise RuntimeError(
            f"{op.name}: result type {result.dtype.name} can't be cast to the desired output type "
            f"{into.dtype.name}"
        )


def dense_like(meta: Meta) -> Meta:
    """The row-major Meta with the shape and dtype of ``meta``."""
    return dense_meta(meta.shape, meta.dtype, meta.device)
