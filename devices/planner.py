"""One planner for every tier: finds what a device can run natively and binds it for launching.

Kernel devices list ``rows``; op devices answer ``op_caps``, ``op_support`` and ``op_run``. Above
this file both look the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from halon.devices.rows import find_row
from halon.hal.allocator import Block
from halon.hal.dtypes import SHORT
from halon.hal.errors import (
    Declined,
    DeclinedAtLaunch,
    DeviceLost,
    NotImplementedOnDevice,
)
from halon.hal.op_desc import OpCap, OpDesc, OpSpec, TensorRef, TensorSpec, describe
from halon.hal.open_device import OpenDevice
from halon.hal.properties import Caps, Layout
from halon.hal.registry import registry
from halon.kernels.tree import Scalar

#: dtypes that an op device without them gets as the next wider one (``dispatcher/lower.py``)
WIDENS = ("f16", "bf16", "f32", "u8", "i8", "i16", "i32", "u16", "u32", "c64")

Launch = Callable[[Any, list[int], list[int], Sequence[Any]], None]


@dataclass(slots=True)
class Binding:
    """``launch(plan, handles, offsets, scalars)`` with what it finds in ``plan.kernel``."""

    launch: Launch
    kernel: Any


class KernelPlanner:
    """For devices with ``rows`` and ``run_plan``."""

    named = False
    #: what named kernels need not know: they get such operands converted to the next wider dtype
    widens: frozenset[str] = frozenset({"i8", "i16", "u16", "u32", "bf16"})

    def __init__(self, opened: OpenDevice) -> None:
        self.device: Any = opened.impl
        launch = self.device.run_plan
        serialise = not opened.props.caps & Caps.THREADSAFE
        self.launch: Launch = _serialised(opened, launch) if serialise else launch

    def find(self, spec: OpSpec) -> tuple[Binding | None, str, str]:
        """A binding, or (None, kind of miss, reason); see ``rows.find_row``."""
        row, kind, reason = find_row(self.device.rows, spec)
        if row is None:
            return None, kind, reason
        try:
            return Binding(self.launch, row.entry(self.device, spec)), "", ""
        except Declined as declined:
            return None, "declined", f"{spec.op}: {declined}"


class OpPlanner:
    """For devices that run named operations; also those that run none at all."""

    named = True

    def __init__(self, opened: OpenDevice) -> None:
        self.opened = opened
        self.device = opened.impl
        self.caps: dict[str, list[OpCap]] = {}
        self.declined: dict[Any, str] = {}  # what op_run refused, kept for the device's life
        for cap in self.device.op_caps():
            self.caps.setdefault(cap.op, []).append(cap)
        serialise = not opened.props.caps & Caps.THREADSAFE
        self.launch: Launch = self._run
        self.launch_at_zero: Launch = self._run_at_zero
        if serialise:
            self.launch = _serialised(opened, self._run)
            self.launch_at_zero = _serialised(opened, self._run_at_zero)
        self.widens = frozenset(WIDENS)

    def find(self, spec: OpSpec) -> tuple[Binding | None, str, str]:
        """A binding, or (None, kind of miss, reason)."""
        caps = self.caps.get(spec.op)
        if not caps:
            return None, "op", f"no native {spec.op}"
        if spec.expr is not None and not _by_name(spec):
            return None, "expr", f"{spec.op}: operands are not all stored in the computed dtype"
        misses = [(*_cap_refusal(cap, spec), cap) for cap in caps]
        kind, reason, cap = min(misses, key=lambda m: ("", "layout", "rank", "dtype").index(m[0]))
        if kind:
            return None, kind, f"{spec.op}: {reason}"
        said = self.declined.get(_verdict_key(spec))
        if said is not None:
            return None, "declined", f"{spec.op}: {said}"
        support = self.device.op_support(_describe(spec))
        if support is not True:
            return None, "declined", f"{spec.op}: {support or 'refused by op_support'}"
        anywhere = cap.layouts & Layout.OFFSET
        return Binding(self.launch if anywhere else self.launch_at_zero, spec), "", ""

    def _run_at_zero(
        self, plan: Any, handles: list[int], offsets: list[int], scalars: Sequence[Any]
    ) -> None:
        """Run where operands must start their buffers: those that do not are copied first."""
        spec: OpSpec = plan.kernel
        moved: list[tuple[int, Block, int]] = []
        handles = list(handles)
        allocator = self.opened.allocator
        try:
            for i, (t, offset) in enumerate(zip((*spec.ins, *spec.outs), offsets, strict=True)):
                if offset:
                    block = allocator.alloc(_span(t), self.opened.stream)
                    moved.append((i, block, handles[i]))
                    self.opened.copy(block.handle, 0, handles[i], offset, _span(t))
                    handles[i] = block.handle
            self._run(plan, handles, [0] * len(handles), scalars)
            for i, block, home in moved:
                if i >= len(spec.ins):
                    t = spec.outs[i - len(spec.ins)]
                    self.opened.copy(home, offsets[i], block.handle, 0, _span(t))
        finally:
            for _, block, _ in moved:
                allocator.free(block)

    def _run(
        self, plan: Any, handles: list[int], offsets: list[int], scalars: Sequence[Any]
    ) -> None:
        spec: OpSpec = plan.kernel
        self.opened.check()
        refs = [
            TensorRef(t.dtype, h, o, t.shape, t.strides, t.layout)
            for t, h, o in zip((*spec.ins, *spec.outs), handles, offsets, strict=True)
        ]
        n = len(spec.ins)
        attrs = {**spec.attrs, **{k: v for (k, _), v in zip(spec.scalars, scalars, strict=True)}}
        try:
            self.device.op_run(OpDesc(spec.op, tuple(refs[:n]), tuple(refs[n:]), attrs), None)
        except (Declined, NotImplementedOnDevice) as error:
            self.declined[_verdict_key(spec)] = str(error)
            raise DeclinedAtLaunch(f"{spec.op}: {error}") from error
        except DeviceLost as error:
            self.opened.lost = self.opened.lost or str(error)
            raise


def _verdict_key(spec: OpSpec) -> tuple[Any, ...]:
    return spec.op, spec.ins, spec.outs, tuple(sorted(spec.attrs.items()))


def _span(t: TensorSpec) -> int:
    """Bytes from an operand's first element to the end of its last."""
    if 0 in t.shape:
        return 0
    last = sum((n - 1) * s for n, s in zip(t.shape, t.strides, strict=True))
    return (last + 1) * SHORT[t.dtype].itemsize


def _by_name(spec: OpSpec) -> bool:
    """Whether the name alone says everything: no numbers but fill's, no hidden casts."""
    if spec.op in ("fill", "cast", "copy"):
        return spec.op != "fill" or isinstance(spec.expr, Scalar)
    return spec.exact and not spec.scalars


def _cap_refusal(cap: OpCap, spec: OpSpec) -> tuple[str, str]:
    for t in spec.ins:
        if t.dtype not in cap.in_dtypes:
            return "dtype", f"{t.dtype} is not in caps"
    for t in spec.outs:
        if t.dtype not in cap.out_dtypes:
            return "dtype", f"result {t.dtype} is not in caps"
    for t in (*spec.ins, *spec.outs):
        if not cap.rank[0] <= len(t.shape) <= cap.rank[1]:
            return "rank", f"rank {len(t.shape)} is outside {cap.rank}"
        if not t.layout & (cap.layouts | Layout.EMPTY):
            return "layout", f"{describe(t)} is {t.layout.name}"
    return "", ""


def _describe(spec: OpSpec) -> OpDesc:
    def ref(t: TensorSpec) -> TensorRef:
        return TensorRef(t.dtype, 0, 0, t.shape, t.strides, t.layout)

    return OpDesc(spec.op, tuple(map(ref, spec.ins)), tuple(map(ref, spec.outs)), spec.attrs)


def _serialised(opened: OpenDevice, launch: Launch) -> Launch:
    def locked(plan: Any, handles: list[int], offsets: list[int], scalars: Sequence[Any]) -> None:
        with opened.lock:
            launch(plan, handles, offsets, scalars)

    return locked


def attach(opened: OpenDevice) -> None:
    """Give a newly opened device its planner."""
    kernel_device = hasattr(opened.impl, "rows") and hasattr(opened.impl, "run_plan")
    opened.planner = KernelPlanner(opened) if kernel_device else OpPlanner(opened)


registry.on_open = attach
