"""Host fallback: counters to the call and byte, warnings once, modes, reports, writes in place."""

from __future__ import annotations

import os
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halon
from halon.dispatcher import fallback
from halon.dispatcher.fallback import Stat
from halon.hal.errors import NotImplementedOnDevice
from tests.hal.fakes import FakeDevice, cap, output, python, register

ROOT = Path(__file__).parents[2]


@pytest.fixture
def npu() -> str:
    """A device that can only add float32."""
    return register(FakeDevice([cap("add", "f32")]))


def texts(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(w.message) for w in caught if w.category is halon.FallbackWarning]


def only(name: str) -> Stat:
    (stat,) = halon.fallback_counters(name).values()
    return stat


# -- counters ------------------------------------------------------------------------------------
def test_every_call_is_counted_with_the_bytes_it_moved(npu: str) -> None:
    x, y = halon.ones(3, 5).to(npu), halon.ones(5).to(npu)
    with halon.fallback("silent"):
        for _ in range(7):
            x * y
    stat = only(npu)
    assert stat.calls == 7
    assert stat.d2h_bytes == 7 * 4 * (15 + 5)
    assert stat.h2d_bytes == 7 * 4 * 15
    assert stat.host_ns > 0
    assert halon.fallback_counters(npu).keys() == {("mul", "f32,f32", "no native mul")}


def test_calls_are_told_apart_by_operator_dtypes_and_reason(npu: str) -> None:
    with halon.fallback("silent"):
        for dtype in (halon.float32, halon.float64):
            x = halon.ones(2, dtype=dtype).to(npu)
            x * x
            x.exp()
        x + x
    assert set(halon.fallback_counters(npu)) == {
        ("mul", "f32,f32", "no native mul"), ("mul", "f64,f64", "no native mul"),
        ("exp", "f32", "no native exp"), ("exp", "f64", "no native exp"),
        ("add", "f64,f64", "add: f64 is not in caps"),
    }  # fmt: skip


def test_every_shape_of_one_operator_is_one_row(npu: str) -> None:
    with halon.fallback("silent"):
        for n in range(5):
            halon.ones(n).to(npu).exp()
    assert only(npu).calls == 4  # the empty one has nothing to run
    assert only(npu).d2h_bytes == only(npu).h2d_bytes == 4 * (1 + 2 + 3 + 4)


def test_a_strided_operand_moves_the_bytes_it_spans(npu: str) -> None:
    x = halon.ones(4, 6).to(npu)[1:3, ::2]  # from element 6 to element 16
    with halon.fallback("silent"):
        x.exp()
    assert only(npu).d2h_bytes == 4 * 11


def test_calls_are_counted_by_resolver_step(npu: str) -> None:
    x = halon.ones(2).to(npu)
    with halon.fallback("silent"):
        for _ in range(3):
            x + x
        x.exp()
    assert fallback.counts(npu) == {"native": 3, "host": 1}
    assert fallback.share(npu) == 0.25


def test_counting_starts_again_after_reset(npu: str) -> None:
    x = halon.ones(2).to(npu)
    with halon.fallback("silent"):
        x.exp()
        x + x
        fallback.reset(npu)
        assert halon.fallback_counters(npu) == {}
        assert fallback.counts(npu) == {}
        assert fallback.share(npu) == 0
        x.exp()
    assert only(npu).calls == 1
    assert only(npu).d2h_bytes == 8
    assert fallback.counts(npu) == {"host": 1}


def test_counts_survive_the_plans_they_were_made_by(npu: str) -> None:
    x = halon.ones(2).to(npu)
    for mode in ("silent", "log", "silent"):
        with halon.fallback(mode):
            x + x
    assert fallback.counts(npu) == {"native": 3}


def test_one_device_does_not_count_for_another(npu: str) -> None:
    other = register(FakeDevice())
    with halon.fallback("silent"):
        halon.ones(2).to(npu).exp()
    assert halon.fallback_counters(other) == {}
    assert fallback.counts(other) == {}


def test_backward_is_counted_as_the_calls_it_makes(npu: str) -> None:
    x = halon.ones(2).to(npu).requires_grad_()
    with halon.fallback("silent"):
        y = x.exp()
        fallback.reset(npu)
        y.backward(halon.ones(2).to(npu))  # one product with the result
    assert halon.fallback_counters(npu).keys() == {("mul", "f32,f32", "no native mul")}
    assert only(npu).calls == 1


# -- modes ---------------------------------------------------------------------------------------
def warned(call: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return texts(caught)


def test_a_warning_comes_once_per_operator_dtypes_and_reason(npu: str) -> None:
    x, y = halon.ones(3).to(npu), halon.ones(2, 2).to(npu)
    d = x.to(halon.float64)
    assert len(warned(x.exp)) == 1
    assert warned(x.exp) == []
    assert warned(y.exp) == []  # another shape is nothing new
    assert len(warned(d.exp)) == 1
    assert len(warned(x.sin)) == 1


def test_the_warning_names_device_operator_operands_reason_line_and_report(npu: str) -> None:
    x = halon.ones(3).to(npu)
    line = warned.__code__.co_firstlineno + 3
    (text,) = warned(x.exp)
    assert text == (
        f"{npu}: exp(f32[3]) ran on the host: no native exp. {__file__}:{line}. "
        f'Details: halon.fallback_report("{npu}")'
    )


def test_the_warning_points_at_the_users_line(npu: str) -> None:
    x = halon.ones(3).to(npu)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x.exp()
    here = test_the_warning_points_at_the_users_line.__code__.co_firstlineno + 4
    assert [(w.filename, w.lineno) for w in caught] == [(__file__, here)]


def test_a_warning_made_an_error_stops_the_call_and_changes_nothing(npu: str) -> None:
    x = halon.ones(3).to(npu)
    with warnings.catch_warnings():
        warnings.simplefilter("error", halon.FallbackWarning)
        with pytest.raises(halon.FallbackWarning):
            x.exp_()
    assert x.tolist() == [1, 1, 1]


def test_silent_says_nothing_and_counts(npu: str, capsys: pytest.CaptureFixture[str]) -> None:
    x = halon.ones(3).to(npu)
    with halon.fallback("silent"):
        assert warned(x.exp) == []
    assert capsys.readouterr().err == ""
    assert only(npu).calls == 1


def test_log_prints_every_call(npu: str, capsys: pytest.CaptureFixture[str]) -> None:
    x = halon.ones(3).to(npu)
    with halon.fallback("log"):
        assert warned(lambda: [x.exp() for _ in range(3)]) == []
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith(f"halon fallback: {npu}: exp(f32[3]) ran on the host: no native exp")


def test_error_raises_before_anything_runs(npu: str) -> None:
    x = halon.ones(3).to(npu)
    with halon.fallback("error"), pytest.raises(NotImplementedOnDevice, match="exp"):
        x.exp()
    assert halon.fallback_counters(npu) == {}


def test_a_plan_made_in_one_mode_does_not_outlive_it(npu: str) -> None:
    x = halon.ones(3).to(npu)
    with halon.fallback("silent"):
        x.exp()
        with halon.fallback("error"), pytest.raises(NotImplementedOnDevice):
            x.exp()
        x.exp()
    assert only(npu).calls == 2


def test_a_mode_ends_with_its_block_even_by_an_exception(npu: str) -> None:
    before = fallback.mode()

    def fails() -> None:
        with halon.fallback("error"):
            assert fallback.mode() == "error"
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert fallback.mode() == before


def test_an_unknown_mode_is_named_and_changes_nothing() -> None:
    before = fallback.mode()
    with pytest.raises(ValueError, match="'loud'"), halon.fallback("loud"):
        pass
    assert fallback.mode() == before


def test_blocks_of_two_threads_end_each_with_its_own_mode() -> None:
    before = fallback.mode()
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with halon.fallback("silent"):
            inside.set()
            leave.wait(20)

    thread = threading.Thread(target=other)
    with halon.fallback("error"):
        thread.start()
        inside.wait(20)
    # the first block has ended, the other thread's has not
    still = fallback.mode()
    leave.set()
    thread.join()
    assert still in ("silent", before)
    assert fallback.mode() == before


# -- writes in place -----------------------------------------------------------------------------
def test_a_host_result_is_written_back_into_a_strided_view(npu: str) -> None:
    array = np.arange(24, dtype="f4").reshape(4, 6) / 8
    x = halon.from_numpy(array.copy()).to(npu)
    with halon.fallback("silent"):
        x[1:, 1::2].exp_()
    want = array.copy()
    want[1:, 1::2] = np.exp(want[1:, 1::2])
    np.testing.assert_allclose(x.cpu().numpy(), want, rtol=1e-6)


def test_columns_that_interleave_may_be_combined_in_place(npu: str, device: str) -> None:
    for name in (npu, device):
        x = halon.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], device=name)
        with halon.fallback("silent"):
            x[:, 0] += x[:, 2]
        assert x.tolist() == [[4, 2, 3], [10, 5, 6]]


@pytest.mark.parametrize("write", [
    lambda v, t: v.mul_(3), lambda v, t: v.mul_(v), lambda v, t: v.copy_(t), lambda v, t: v.zero_(),
    lambda v, t: v.fill_(7), lambda v, t: v.sub_(t), lambda v, t: v.clamp_(0.2, 0.8),
], ids=["number", "itself", "copy", "zero", "fill", "tensor", "clamp"])  # fmt: skip
@pytest.mark.parametrize("view", [
    lambda x: x, lambda x: x[2], lambda x: x[:, 1], lambda x: x[1:, ::2], lambda x: x.t()[1:3],
    lambda x: x[0:0],
], ids=["whole", "row", "column", "stepped", "transposed", "empty"])  # fmt: skip
def test_every_write_through_every_view_changes_what_it_changes_on_the_host(
    npu: str, view: Any, write: Any
) -> None:
    here = halon.linspace(-1, 1, 20).reshape(4, 5).clone()
    there = here.to(npu)
    with halon.fallback("silent"):
        for x in (here, there):
            v = view(x)
            write(v, halon.full(tuple(v.shape), 0.5).to(x.device))
    np.testing.assert_array_equal(there.cpu().numpy(), here.numpy())


def test_setitem_and_out_go_through_the_host_too(npu: str) -> None:
    here = halon.linspace(-1, 1, 20).reshape(4, 5).clone()
    there = here.to(npu)
    with halon.fallback("silent"):
        for x in (here, there):
            x[1:3, 2] = 9.0
            x[0] = x[3]
            halon.exp(x[:, 0], out=x[:, 4])
    np.testing.assert_allclose(there.cpu().numpy(), here.numpy(), rtol=1e-6)


def test_a_write_counts_a_version_and_the_target_once_each_way(npu: str) -> None:
    x = halon.ones(4).to(npu)
    with halon.fallback("silent"):
        x.exp_()
    assert x._version == 1
    stat = only(npu)
    assert (stat.calls, stat.h2d_bytes) == (1, 16)
    assert stat.d2h_bytes in (16, 32)  # the operand, and the target where its gaps matter


def test_a_host_operator_that_raises_leaves_the_device_and_its_target_alone(npu: str) -> None:
    x = halon.tensor([4, 6, 8]).to(npu)
    zero = halon.tensor([2, 0, 2]).to(npu)
    with halon.fallback("silent"), pytest.raises(RuntimeError, match="ZeroDivisionError"):
        x.floor_divide_(zero)
    assert x.tolist() == [4, 6, 8]


# -- reports -------------------------------------------------------------------------------------
def test_the_report_has_shares_calls_bytes_reason_and_line(npu: str) -> None:
    x = halon.ones(4).to(npu)
    with halon.fallback("silent"):
        x + x
        x + x
        x + x
        x.exp()
    lines = halon.fallback_report(npu).splitlines()
    assert lines[0] == f"{npu}: 4 operator calls: native 75.0%, host 25.0%"
    assert lines[1].startswith("  exp(f32): 1 calls, ")
    assert "16 B to the host, 16 B back; no native exp; first at " in lines[1]
    assert f"{__file__}:" in lines[1]
    assert len(lines) == 2


def test_the_report_has_the_most_expensive_first(npu: str) -> None:
    small, large = halon.ones(2).to(npu), halon.ones(300, 300).to(npu)
    with halon.fallback("silent"):
        small.sin()
        large @ large
    assert [line.split("(")[0].strip() for line in halon.fallback_report(npu).splitlines()[1:]] == [
        "matmul", "sin",
    ]  # fmt: skip


def test_an_idle_device_reports_nothing(npu: str) -> None:
    halon.ones(1).to(npu)
    assert halon.fallback_report(npu) == f"{npu}: 0 operator calls: -"


def test_without_a_name_every_open_device_reports(npu: str) -> None:
    halon.ones(1).to(npu)
    text = halon.fallback_report()
    assert f"{npu}: " in text
    assert text.startswith("cpu: ")


# -- the environment -----------------------------------------------------------------------------
PROGRAM = """
import halon
from tests.hal.fakes import FakeDevice, register
x = halon.ones(3).to(register(FakeDevice()))
x.exp()
x.exp()
"""
PATH = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])


def stderr(mode: str) -> str:
    done = python(PROGRAM, PYTHONPATH=PATH, HALON_FALLBACK=mode)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("mode", "warnings_", "lines"), [("", 1, 0), ("silent", 0, 0), ("log", 0, 2)]
)
def test_the_environment_sets_the_mode(mode: str, warnings_: int, lines: int) -> None:
    text = stderr(mode)
    assert text.count("FallbackWarning: fake0:0: exp(f32[3]) ran on the host") == warnings_
    assert text.count("halon fallback: fake0:0: exp(f32[3])") == lines


def test_mode_error_in_the_environment_ends_the_program() -> None:
    done = python(PROGRAM, PYTHONPATH=PATH, HALON_FALLBACK="error")
    assert done.returncode == 1
    assert "NotImplementedOnDevice: fake0:0: exp(f32[3]) would run on the host" in done.stderr


def test_a_summary_is_printed_at_exit() -> None:
    text = stderr("silent,summary")
    assert "fake0:0: 2 operator calls: host 100.0%" in text
    assert "exp(f32): 2 calls" in text
    assert "24 B to the host, 24 B back; no native exp; first at <string>:5" in text


def test_the_log_topic_prints_once_whatever_the_mode() -> None:
    done = python(PROGRAM, PYTHONPATH=PATH, HALON_FALLBACK="silent", HALON_LOG="fallback")
    assert done.stderr.count("halon fallback: fake0:0: exp(f32[3]) ran on the host") == 1


def test_a_block_wins_over_the_environment() -> None:
    code = PROGRAM.replace("x.exp()\nx.exp()", "with halon.fallback('silent'):\n    print(x.exp())")
    assert "2.7183" in output(code, PYTHONPATH=PATH, HALON_FALLBACK="error")
