"""``halon.explain``: one block of text per operator, in the order they ran."""

from __future__ import annotations

import pytest

import halon
from halon.devices.reference import kernels
from halon.dispatcher import select
from halon.hal.properties import Layout
from tests.hal.fakes import FakeDevice, cap, register


def lines(function: object) -> list[str]:
    return halon.explain(function).splitlines()  # type: ignore[arg-type]


def test_a_native_operator_shows_its_signature_expression_and_launch() -> None:
    x = halon.ones(2, 3)
    text = lines(lambda: x * 2)
    assert text[0] == "mul(f32[2, 3]) -> f32[2, 3] on cpu: native"
    assert text[1] == "  computes mul[f32](in0:f32, number0:f32)"
    assert text[2].startswith("  launches ")
    assert text[2].endswith(" on cpu")
    assert len(text) == 3


def test_promotion_is_seen_as_casts() -> None:
    x, y = halon.ones(2, dtype=halon.float16), halon.ones(2, dtype=halon.int32)
    text = lines(lambda: x + y)
    assert text[0] == "add(f16[2], i32[2]) -> f16[2] on cpu: native"
    assert text[1] == ("  computes cast[f16](add[f32](cast[f32](in0:f16), cast[f32](in1:i32)))")


def test_literals_are_shown_as_they_are() -> None:
    x = halon.ones(2)
    assert lines(lambda: x.relu())[1] == "  computes max[f32](in0:f32, 0)"


def test_a_view_is_metadata_and_bytes() -> None:
    x = halon.ones(4, 3)
    text = lines(lambda: x[2:])
    assert text == [
        "slice_(f32[4, 3]) -> f32[2, 3] on cpu: view", "  metadata only, 24 bytes further",
    ]  # fmt: skip


def test_operators_come_in_the_order_they_ran() -> None:
    x = halon.ones(3)
    heads = [s for s in lines(lambda: (x + x).exp().sum()) if not s.startswith(" ")]
    assert [h.split("(")[0] for h in heads] == ["add", "exp", "sum"]


def test_a_relayout_shows_why_and_each_copy() -> None:
    name = register(FakeDevice([cap("neg", "f32", layouts=Layout.CONTIG), cap("copy", "f32")]))
    x = halon.ones(2, 3).to(name).t()
    text = lines(lambda: -x)
    assert text[0] == f"neg(f32[3, 2]) -> f32[3, 2] on {name}: relayout"
    assert "  not natively: neg: f32[3, 2] is TRANSPOSED" in text
    below = [s.strip().split("(")[0] for s in text if s.endswith(": native")]
    assert below == ["copy", "neg", "copy"]


def test_a_decomposition_shows_its_primitives() -> None:
    name = register(FakeDevice(kernels.caps()))
    x = halon.ones(3).to(name)
    text = lines(lambda: x - x)
    assert text[0] == f"sub(f32[3], f32[3]) -> f32[3] on {name}: decomposed"
    assert "  not natively: no native sub" in text
    assert [s.strip().split("(")[0] for s in text if s.endswith(": native")] == ["neg", "add"]


def test_the_host_shows_why_and_the_hosts_own_plan() -> None:
    name = register(FakeDevice())
    x = halon.ones(3).to(name)
    with halon.fallback("silent"):
        text = lines(lambda: x.exp())
    assert text[0] == f"exp(f32[3]) -> f32[3] on {name}: host"
    assert "  not natively: no native exp" in text
    assert "  operands to the host, then:" in text
    assert "    exp(f32[3]) -> f32[3] on cpu: native" in text


def test_a_reason_is_said_once() -> None:
    name = register(FakeDevice())
    x = halon.ones(3).to(name)
    with halon.fallback("silent"):
        text = lines(lambda: x.softmax(0))
    reasons = [s for s in text if "not natively" in s]
    assert len(reasons) == len(set(reasons))


def test_writes_in_place_and_backward_are_explained_too() -> None:
    x = halon.ones(3, requires_grad=True)
    heads = [s for s in lines(lambda: x.exp().sum().backward()) if not s.startswith(" ")]
    assert [h.split("(")[0] for h in heads][:2] == ["exp", "sum"]
    assert len(heads) > 2
    y = halon.ones(3)
    assert lines(lambda: y.add_(1))[0].startswith("add(f32[3]) -> f32[3] on cpu: native")


def test_the_function_runs_once_and_really() -> None:
    x = halon.ones(3)
    halon.explain(lambda: x.add_(1))
    assert x.tolist() == [2, 2, 2]


def test_explanations_nest_and_end() -> None:
    x = halon.ones(3)
    inner: list[str] = []
    outer = lines(lambda: (x + x, inner.extend(lines(lambda: x * x))))
    assert [s.split("(")[0] for s in inner if not s.startswith(" ")] == ["mul"]
    assert [s.split("(")[0] for s in outer if not s.startswith(" ")] == ["add"]
    with pytest.raises(ZeroDivisionError):
        halon.explain(lambda: 1 // 0)
    assert select.watchers == []


def test_nothing_to_explain_is_an_empty_text() -> None:
    assert halon.explain(lambda: None) == ""
