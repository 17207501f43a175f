"""Running an operator on the host when its device cannot, and counting every time it happens."""

from __future__ import annotations

import atexit
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from halon.dispatcher.plan import HOST, Plan, Signature, tensor_metas
from halon.dispatcher.structures import Meta, Storage, make_meta, new_storage, user_place
from halon.hal.config import config, log
from halon.hal.errors import NotImplementedOnDevice
from halon.hal.open_device import OpenDevice
from halon.hal.registry import host, registry

Value = tuple[Storage, int]
Key = tuple[str, str, str]  # operator, operand dtypes, reason


class FallbackWarning(UserWarning):
    """An operator ran on the host because its device has no way to run it."""


@dataclass(slots=True)
class Stat:
    """Host runs of one (operator, dtypes, reason): calls, time, bytes each way, first line."""

    calls: int = 0
    host_ns: int = 0
    h2d_bytes: int = 0
    d2h_bytes: int = 0
    first_loc: str = ""


_stats: dict[str, dict[Key, Stat]] = {}
_retired: dict[str, Counter[str]] = {}
_baseline: dict[str, Counter[str]] = {}
_mode: list[list[str]] = []


def mode() -> str:
    """ "warn", "silent", "log" or "error"."""
    return _mode[-1][0] if _mode else config.fallback_mode


@contextmanager
def fallback(new: str) -> Iterator[None]:
    """Use another fallback mode inside a ``with`` block.

    Args:
        new: ``"warn"`` (once per operator, dtypes and reason), ``"silent"``, ``"log"`` (every
            call, on stderr) or ``"error"``.

    Raises:
        ValueError: an unknown mode.

    >>> import halon
    >>> with halon.fallback("error"):
    ...     halon.ones(2) + 1
    tensor([2., 2.])
    """
    from halon.dispatcher import select

    if new not in ("warn", "silent", "log", "error"):
        raise ValueError(f"fallback mode {new!r}: use warn, silent, log or error")
    mine = [new]
    _mode.append(mine)
    select.clear_plans()
    try:
        yield
    finally:  # another thread's block may be above this one
        _mode[:] = [m for m in _mode if m is not mine]
        select.clear_plans()


def host_plan(
    op: Any, signature: Signature, device: OpenDevice, outs: tuple[Meta, ...], into: Meta | None,
    reasons: list[str], build: Callable[..., Plan],
) -> Plan:  # fmt: skip
    """Resolver step 6, or step 7's error on the host itself or in mode "error"."""
    metas = tensor_metas(op, signature)
    shown = f"{op.name}({', '.join(map(str, metas))})"
    why = "; ".join(dict.fromkeys(reasons)) or "no way to run it"
    if device.is_host:
        raise NotImplementedOnDevice(f"{shown} is not implemented on {device.name}: {why}")
    if mode() == "error":
        raise NotImplementedOnDevice(
            f"{device.name}: {shown} would run on the host, and fallback is an error: {why}"
        )
    plan = Plan(HOST, op, device, outs, "host")
    moved = tuple(_on_host(s) for s in signature)
    plan.steps = build(op, moved, into=_on_host(into) if into is not None else None)
    dtypes = ",".join(m.dtype.short for m in metas)
    table = _stats.setdefault(device.name, {})
    plan.stat = table.setdefault((op.name, dtypes, why), Stat())
    plan.spec = None
    return plan


def _on_host(s: Any) -> Any:
    if isinstance(s, tuple):
        return tuple(_on_host(x) for x in s)
    if isinstance(s, Meta):
        return make_meta(s.shape, s.strides, s.dtype, host())
    return host() if isinstance(s, OpenDevice) else s


def execute_on_host(
    plan: Plan, values: Sequence[Value], scalars: Sequence[Any], into: Value | None,
    execute: Callable[..., list[Value]],
) -> list[Value]:  # fmt: skip
    """Copy the operands to the host, run the host's plan, copy every result (or target) back."""
    started = time.perf_counter_ns()
    stat: Stat = plan.stat
    _announce(plan, stat)
    metas = tensor_metas(plan.op, plan.signature)  # type: ignore[arg-type]
    local = [_download(v, m, stat) for v, m in zip(values, metas, strict=True)]
    target = None if into is None else _download(into, plan.outs[0], stat)
    results = execute(plan.steps, local, scalars, target)
    moved = []
    for value, meta in zip(results, plan.outs, strict=True):
        place = into or (new_storage(plan.device, meta.span), 0)
        view = host().impl.host_view(value[0].handle, value[0].nbytes)
        plan.device.write(place[0].handle, place[1], view[value[1] : value[1] + meta.span])
        stat.h2d_bytes += meta.span
        moved.append(place)
    stat.calls += 1
    stat.host_ns += time.perf_counter_ns() - started
    return moved


def _download(value: Value, meta: Meta, stat: Stat) -> Value:
    local = new_storage(host(), meta.span)
    view = host().impl.host_view(local.handle, local.nbytes)
    value[0].device.read(value[0].handle, value[1], view[: meta.span])
    stat.d2h_bytes += meta.span
    return local, 0


def _announce(plan: Plan, stat: Stat) -> None:
    current = mode()
    if stat.calls and current != "log":
        return
    place = str(user_place())
    stat.first_loc = stat.first_loc or place
    name = plan.device.name
    operands = ", ".join(map(str, tensor_metas(plan.op, plan.signature)))  # type: ignore[arg-type]
    text = (
        f"{name}: {plan.op.name}({operands}) ran on the host: "  # type: ignore[union-attr]
        f"{'; '.join(dict.fromkeys(plan.reasons))}. {place}. "
        f'Details: halon.fallback_report("{name}")'
    )
    log("fallback", text)
    if current == "warn":
        filename, _, line = place.rpartition(":")
        warnings.warn_explicit(text, FallbackWarning, filename, int(line))
    elif current == "log":
        print(f"halon fallback: {text}", file=sys.stderr)


# -- counters --------------------------------------------------------------------------------------
def retire(plans: Sequence[Plan]) -> None:
    """Keep the counts of plans that are being forgotten."""
    for plan in plans:
        if plan.calls:
            _retired.setdefault(plan.device.name, Counter())[plan.how] += plan.calls
            plan.calls = 0


def counts(device: str) -> Counter[str]:
    """Operator calls by resolver step since the last ``reset``; views are not counted."""
    from halon.dispatcher import select

    name = registry.open(device).name
    total = Counter(_retired.get(name, Counter()))
    for plan in list(select.PLANS.values()):
        if plan.device.name == name and plan.calls:
            total[plan.how] += plan.calls
    total.subtract(_baseline.get(name, Counter()))
    total.pop("view", None)
    return +total


def fallback_counters(device: str) -> dict[Key, Stat]:
    """Every (operator, dtypes, reason) that ran on the host for a device, with its Stat."""
    table = _stats.get(registry.open(device).name, {})
    return {key: stat for key, stat in table.items() if stat.calls}


def share(device: str) -> float:
    """The part of a device's operator calls that ran on the host, 0.0 to 1.0."""
    found = counts(device)
    total = sum(found.values())
    return found["host"] / total if total else 0.0


def reset(device: str) -> None:
    """Start counting again."""
    from halon.dispatcher import select

    retire(list(select.PLANS.values()))
    name = registry.open(device).name
    _baseline[name] = Counter(_retired.get(name, Counter()))
    for stat in _stats.get(name, {}).values():
        stat.calls = stat.host_ns = stat.h2d_bytes = stat.d2h_bytes = 0


def fallback_report(device: str | None = None) -> str:
    """A table of host fallbacks, most time first, and the share of each resolver step.

    >>> import halon
    >>> print(halon.fallback_report("cpu").splitlines()[0].split(":")[0])
    cpu
    """
    names = [registry.open(device).name] if device else [d.name for d in registry.opened()]
    return "\n".join(_report(name) for name in names)


def _report(name: str) -> str:
    found = counts(name)
    total = sum(found.values())
    steps = ", ".join(f"{how} {n / total:.1%}" for how, n in found.most_common()) if total else "-"
    lines = [f"{name}: {total} operator calls: {steps}"]
    stats = sorted(fallback_counters(name).items(), key=lambda item: -item[1].host_ns)
    for (op, dtypes, reason), s in stats:
        lines.append(
            f"  {op}({dtypes}): {s.calls} calls, {s.host_ns / 1e6:.2f} ms, {s.d2h_bytes} B to the "
            f"host, {s.h2d_bytes} B back; {reason}; first at {s.first_loc}"
        )
    return "\n".join(lines)


@atexit.register
def _summary_at_exit() -> None:
    if config.fallback_summary:
        print(fallback_report(), file=sys.stderr)
