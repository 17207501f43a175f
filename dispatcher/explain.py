"""``halon.explain``: what the planner decided about the operators a function calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from halon.dispatcher import select
from halon.dispatcher.plan import HOST, STEPS, VIEW, Plan


def explain(function: Callable[[], Any]) -> str:
    """Run ``function`` and describe each operator's plan: promotion, resolver step, launches.

    >>> import halon
    >>> x = halon.ones(3)
    >>> print(halon.explain(lambda: x + 1).splitlines()[0])
    add(f32[3]) -> f32[3] on cpu: native
    """
    seen: list[Plan] = []
    select.watchers.append(seen.append)
    try:
        function()
    finally:
        select.watchers.pop()
    return "\n".join(line for plan in seen for line in describe(plan))


def describe(plan: Plan, indent: str = "") -> list[str]:
    """One line for the plan and one per step below it."""
    lines = [f"{indent}{plan}: {plan.how}"]
    if plan.spec is not None and plan.spec.expr is not None:
        lines.append(f"{indent}  computes {_expression(plan.spec.expr)}")
    lines.extend(f"{indent}  not natively: {reason}" for reason in dict.fromkeys(plan.reasons))
    if plan.kind == VIEW:
        lines.append(f"{indent}  metadata only, {plan.offset} bytes further")
    elif plan.kind == HOST:
        lines.append(f"{indent}  operands to the host, then:")
        lines.extend(describe(plan.steps, indent + "    "))
    elif plan.kind == STEPS:
        for step in plan.steps.list:
            lines.extend(describe(step.plan, indent + "  "))
    elif plan.runs:
        lines.append(f"{indent}  launches {type(plan.kernel).__name__} on {plan.device.name}")
    return lines


def _expression(node: Any) -> str:
    """A typed tree as text, casts included."""
    if hasattr(node, "op"):
        args = ", ".join(_expression(a) for a in node.args)
        return f"{node.op}[{node.dtype}]({args})"
    if hasattr(node, "value"):
        return repr(node.value)
    kind = "in" if type(node).__name__ == "Input" else "number"
    return f"{kind}{node.index}:{node.dtype}"
