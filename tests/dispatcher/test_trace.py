"""Tracing rules: what a Program keeps, run-time numbers, and what a rule may not do."""

from __future__ import annotations

from typing import Any

import pytest

import halon
from halon.dispatcher import trace
from halon.dispatcher.op import OPS
from halon.dispatcher.structures import Meta, dense_meta
from halon.dispatcher.trace import SymNumber
from halon.hal import dtypes as dt
from halon.hal.registry import host


def meta(*shape: int) -> Meta:
    return dense_meta(shape, dt.float32, host())


def names(program: trace.Program) -> list[str]:
    return [i.op.name for i in program.instrs]


# -- programs ------------------------------------------------------------------------------------
def test_a_rule_leaves_its_operators_in_order() -> None:
    program = trace.trace(lambda s: (s[0] + s[1]).exp().sum(0), (meta(3, 4), meta(4)))
    assert names(program) == ["add", "exp", "sum"]
    assert [program.metas[s].shape for s in program.outputs if s is not None] == [(4,)]


def test_prune_drops_what_no_output_needs() -> None:
    def rule(s: list[Any]) -> Any:
        unused = (s[0] * s[1]).exp()
        assert unused.shape == (3,)
        return s[0] + 1

    program = trace.trace(rule, (meta(3), meta(3)))
    assert names(program) == ["mul", "exp", "add"]
    program.prune()
    assert names(program) == ["add"]


def test_prune_tells_which_inputs_are_read() -> None:
    program = trace.trace(lambda s: (s[0] + s[2], None), (meta(3), meta(3), meta(3)))
    assert program.prune() == {0, 2}
    assert program.outputs[1] is None


def test_metadata_use_reads_no_value() -> None:
    def rule(s: list[Any]) -> Any:
        return s[0].reshape(s[1].shape) * float(s[1].numel())

    program = trace.trace(rule, (meta(6), meta(2, 3)))
    assert program.prune() == {0}


def test_an_input_that_is_an_output_is_read() -> None:
    program = trace.trace(lambda s: s[1], (meta(2), meta(3)))
    assert program.prune() == {1}
    assert program.instrs == []


def test_an_operator_with_several_results_stays_for_any_of_them() -> None:
    pool = OPS["max_pool_with_indices"]
    program = trace.trace(
        lambda s: pool(s[0], (2, 2), (2, 2), (0, 0), (1, 1), False)[1], (meta(1, 1, 4, 4),)
    )
    assert program.prune() == {0}
    assert names(program) == [pool.name]


def test_a_program_replays_on_real_tensors_with_other_values() -> None:
    program = trace.trace(lambda s: (s[0] * s[1], s[0] - 2), (meta(2), meta(2)))
    a, b = halon.tensor([1.0, 2.0]), halon.tensor([3.0, 4.0])
    product, difference = trace.replay(program, [a, b], [])
    assert product.tolist() == [3, 8]
    assert difference.tolist() == [-1, 0]


def test_a_replayed_program_is_differentiable() -> None:
    program = trace.trace(lambda s: s[0] * s[0], (meta(2),))
    x = halon.tensor([1.0, 2.0], requires_grad=True)
    (y,) = trace.replay(program, [x], [])
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2, 4]


def test_traces_nest_and_the_outer_one_goes_on() -> None:
    inner: list[trace.Program] = []

    def rule(s: list[Any]) -> Any:
        inner.append(trace.trace(lambda t: t[0].exp(), (meta(5),)))
        return s[0] + s[0]

    outer = trace.trace(rule, (meta(2),))
    assert names(inner[0]) == ["exp"]
    assert names(outer) == ["add"]
    assert trace.tracing.program is None


def test_a_rule_that_raises_ends_its_trace() -> None:
    with pytest.raises(ZeroDivisionError):
        trace.trace(lambda s: 1 / 0, (meta(2),))
    assert trace.tracing.program is None
    assert (halon.ones(2) + 1).tolist() == [2, 2]


def test_a_tensor_from_outside_is_refused() -> None:
    outside = halon.ones(3)
    with pytest.raises(TypeError, match="not among its arguments"):
        trace.trace(lambda s: s[0] + outside, (meta(3),))


@pytest.mark.parametrize("look", [bool, float, int, lambda x: x.item(), lambda x: x.tolist()])
def test_a_rule_cannot_look_at_values(look: Any) -> None:
    with pytest.raises(TypeError, match="cannot look at the values"):
        trace.trace(lambda s: s[0] * look(s[0]), (meta(),))


# -- run-time numbers ----------------------------------------------------------------------------
def number(index: int = 0, kind: type = float) -> SymNumber:
    return SymNumber(lambda scalars: scalars[index], kind)


@pytest.mark.parametrize(("build", "want"), [
    (lambda n: n + 1, 8.0), (lambda n: 1 + n, 8.0), (lambda n: n - 1, 6.0), (lambda n: 1 - n, -6.0),
    (lambda n: n * 2, 14.0), (lambda n: 2 * n, 14.0), (lambda n: n / 2, 3.5),
    (lambda n: 14 / n, 2.0), (lambda n: -n, -7.0), (lambda n: (n + 1) * (n - 1), 48.0),
])  # fmt: skip
def test_arithmetic_happens_at_each_launch(build: Any, want: float) -> None:
    result = build(number())
    assert isinstance(result, SymNumber)
    assert result.value([7.0]) == want
    assert result.value([7.0 + 0]) == want


def test_two_run_time_numbers_combine() -> None:
    assert (number(0) * number(1) + number(0)).value([3.0, 4.0]) == 15.0


@pytest.mark.parametrize(("build", "kind"), [
    (lambda: number(kind=int) + 1, int), (lambda: number(kind=int) + 1.0, float),
    (lambda: number(kind=int) / 2, float), (lambda: number(kind=float) * 2, float),
    (lambda: number(kind=int) - number(kind=float), float), (lambda: -number(kind=bool), int),
    (lambda: 1j * number(kind=float), complex),
])  # fmt: skip
def test_the_kind_of_a_result_is_pythons(build: Any, kind: type) -> None:
    assert build().kind is kind


def test_a_number_times_a_tensor_is_the_tensors_operator() -> None:
    program = trace.trace(lambda s: number() * s[0], (meta(2),))
    assert names(program) == ["mul"]
    (y,) = trace.replay(program, [halon.tensor([1.0, 2.0])], [3.0])
    assert y.tolist() == [3, 6]


@pytest.mark.parametrize("branch", [
    lambda n: 1 if n else 2, lambda n: n and 1, lambda n: not n, lambda n: 1 if n == 0 else 2,
    lambda n: 1 if n != 0 else 2, lambda n: 1 if n < 0 else 2, lambda n: n >= 1, lambda n: float(n),
    lambda n: int(n), lambda n: n in (0, 1),
], ids=["if", "and", "not", "==", "!=", "<", ">=", "float", "int", "in"])  # fmt: skip
def test_a_branch_on_a_run_time_number_is_refused(branch: Any) -> None:
    with pytest.raises(TypeError):
        branch(number())


def test_the_refusal_says_what_to_do() -> None:
    with pytest.raises(TypeError, match="make the parameter static"):
        bool(number())


def test_a_plan_serves_every_value_of_a_number() -> None:
    x = halon.tensor([-3.0, 0.25, 3.0], requires_grad=True)
    for low, high in ((-1.0, 1.0), (-2.0, 0.0)):
        y = x.clamp(low, high)
        assert y.tolist() == [min(max(v, low), high) for v in (-3.0, 0.25, 3.0)]
        (g,) = halon.autograd.grad(y.sum(), x)
        assert g.tolist() == [float(low <= v <= high) for v in (-3.0, 0.25, 3.0)]
