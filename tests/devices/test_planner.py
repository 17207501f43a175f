"""The planner: rows and capabilities matched, misses explained, launches bound."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from halon.devices.planner import KernelPlanner, OpPlanner, attach
from halon.devices.rows import ELEMENTWISE, Row, find_row, row
from halon.hal.errors import Declined
from halon.hal.op_desc import OpSpec, TensorSpec
from halon.hal.open_device import OpenDevice
from halon.hal.properties import ANY, Caps, Layout, layout_of
from halon.kernels.tree import Apply, Input, Scalar
from tests.hal.fakes import FakeDevice, cap

F32 = frozenset({"f32"})


def tensor(dtype: str, *shape: int, strides: tuple[int, ...] | None = None) -> TensorSpec:
    dense, step = [], 1
    for n in reversed(shape):
        dense.insert(0, step)
        step *= n
    strides = tuple(dense) if strides is None else strides
    return TensorSpec(dtype, shape, strides, layout_of(shape, strides))


def spec(op: str, *ins: TensorSpec, out: TensorSpec | None = None, **options: Any) -> OpSpec:
    return OpSpec(op, ins, (out or ins[0],), **options)


X = tensor("f32", 2, 3)
T = tensor("f32", 2, 3, strides=(1, 2))
ADD = Apply("add", (Input(0, "f32"), Input(1, "f32")), "f32")


def entry(device: Any, spec: OpSpec) -> tuple[str, OpSpec]:
    return "kernel", spec


# -- rows ----------------------------------------------------------------------------------------
def test_the_first_row_that_takes_a_signature_is_found() -> None:
    rows = [row("add", F32, layouts=Layout.CONTIG, entry=entry, cost="a"),
            row("add", F32, layouts=ANY, entry=entry, cost="b")]  # fmt: skip
    assert find_row(rows, spec("add", X, X))[0] is rows[0]
    assert find_row(rows, spec("add", X, T))[0] is rows[1]


def test_an_expression_without_a_row_of_its_own_is_elementwise() -> None:
    general = row(ELEMENTWISE, F32, layouts=ANY, entry=entry)
    own = row("add", F32, layouts=ANY, entry=entry)
    named = spec("add", X, X, expr=ADD)
    assert find_row([general], named)[0] is general
    assert find_row([general, own], named)[0] is own
    assert find_row([general], spec("matmul", X, X)) == (None, "op", "no native matmul")


@pytest.mark.parametrize(("ins", "out", "kind", "reason"), [
    ((tensor("f64", 2, 3), X), X, "dtype", "f64 is not in the row's ['f32']"),
    ((X, X), tensor("f64", 2, 3), "dtype", "f64 is not in the row's ['f32']"),
    ((X, T), X, "layout", "operand f32[2, 3] is TRANSPOSED"),
    ((X, X), T, "layout", "output f32[2, 3] is TRANSPOSED"),
])  # fmt: skip
def test_a_miss_says_which_operand_and_why(
    ins: tuple[TensorSpec, ...], out: TensorSpec, kind: str, reason: str
) -> None:
    rows = [row("add", F32, layouts=Layout.CONTIG, entry=entry)]
    assert find_row(rows, spec("add", *ins, out=out)) == (None, kind, f"add: {reason}")


def test_of_several_misses_a_layout_is_the_nearest() -> None:
    rows: list[Row] = [
        row("add", frozenset({"f64"}), layouts=ANY, entry=entry),
        row("add", F32, layouts=Layout.CONTIG, entry=entry),
    ]
    assert find_row(rows, spec("add", X, T))[1] == "layout"


def test_an_empty_operand_fits_any_layout() -> None:
    nothing = tensor("f32", 0, 3)
    found = find_row([row("add", F32, layouts=Layout.CONTIG, entry=entry)], spec("add", nothing))
    assert found[0] is not None


# -- kernel devices ------------------------------------------------------------------------------
class Kernels(FakeDevice):
    rows = (row("add", F32, layouts=ANY, entry=entry),)

    def run_plan(self, plan: Any, handles: Any, offsets: Any, scalars: Any) -> None:
        self.calls["run_plan"] += 1


def opened(device: FakeDevice) -> OpenDevice:
    made = OpenDevice("fake", 0, device, False)
    attach(made)
    return made


def test_a_device_with_rows_gets_the_planner_of_kernels() -> None:
    assert isinstance(opened(Kernels()).planner, KernelPlanner)
    assert isinstance(opened(FakeDevice()).planner, OpPlanner)


def test_a_binding_holds_what_the_rows_entry_built() -> None:
    made = opened(Kernels())
    wanted = spec("add", X, X)
    binding, _, _ = made.planner.find(wanted)
    assert binding.kernel == ("kernel", wanted)
    binding.launch(SimpleNamespace(kernel=binding.kernel), [1, 2, 3], [0, 0, 0], [])
    assert made.impl.calls["run_plan"] == 1


def test_an_entry_that_declines_is_a_miss_with_its_reason() -> None:
    class Declines(Kernels):
        def _entry(self, spec: OpSpec) -> None:
            raise Declined("no double precision")

        rows = (row("add", F32, layouts=ANY, entry=_entry),)

    assert opened(Declines()).planner.find(spec("add", X, X)) == (
        None, "declined", "add: no double precision",
    )  # fmt: skip


# -- op devices ----------------------------------------------------------------------------------
def test_a_capability_is_matched_by_dtypes_layouts_and_rank() -> None:
    planner = opened(FakeDevice([cap("add", "f32", layouts=Layout.CONTIG, rank=(1, 2))])).planner
    assert planner.find(spec("add", X, X))[0] is not None
    deep = tensor("f32", 1, 2, 3)
    for wanted, kind, reason in (
        (spec("mul", X, X), "op", "no native mul"),
        (spec("add", X, tensor("f64", 2, 3)), "dtype", "add: f64 is not in caps"),
        (spec("add", X, X, out=tensor("bool", 2, 3)), "dtype", "add: result bool is not in caps"),
        (spec("add", X, T), "layout", "add: f32[2, 3] is TRANSPOSED"),
        (spec("add", deep, deep), "rank", "add: rank 3 is outside (1, 2)"),
    ):
        assert planner.find(wanted) == (None, kind, reason)


def test_the_nearest_of_several_capabilities_explains_the_miss() -> None:
    planner = opened(
        FakeDevice([cap("add", "f64"), cap("add", "f32", layouts=Layout.CONTIG)])
    ).planner
    assert planner.find(spec("add", X, T))[1] == "layout"
    assert planner.find(spec("add", X, X))[0] is not None


@pytest.mark.parametrize(("options", "why"), [
    ({"expr": ADD, "exact": False}, "a hidden cast"),
    ({"expr": ADD, "scalars": (("n", "f32"),)}, "a number"),
])  # fmt: skip
def test_a_name_is_not_enough_where_the_tree_says_more(options: Any, why: str) -> None:
    planner = opened(FakeDevice([cap("add", "f32")])).planner
    assert planner.find(spec("add", X, X, **options))[1] == "expr", why


def test_fill_and_cast_say_all_they_mean_by_name() -> None:
    planner = opened(FakeDevice([cap("fill", "f32"), cap("cast", "f32 f64")])).planner
    number = OpSpec("fill", (), (X,), {}, (("value", "f32"),), Scalar(0, "f32"))
    assert planner.find(number)[0] is not None
    wide = Apply("cast", (Input(0, "f32"),), "f64")
    assert planner.find(spec("cast", X, out=tensor("f64", 2, 3), expr=wide, exact=False))[0]


def test_op_support_sees_the_signature_with_handles_of_zero() -> None:
    seen = []

    class Asked(FakeDevice):
        def op_support(self, op: Any) -> bool | str:
            seen.append(op)
            return False

    planner = opened(Asked([cap("add", "f32")])).planner
    assert planner.find(spec("add", X, X)) == (None, "declined", "add: refused by op_support")
    assert [t.buf for t in (*seen[0].ins, *seen[0].outs)] == [0, 0, 0]


def test_a_launch_gives_the_device_handles_offsets_attributes_and_numbers() -> None:
    seen = []

    class Sees(FakeDevice):
        def op_run(self, op: Any, stream: Any = None) -> None:
            seen.append(op)

    planner = opened(Sees([cap("sum", "f32")])).planner
    wanted = OpSpec("sum", (X,), (tensor("f32", 2),), {"axes": (1,)}, (("n", "f32"),))
    binding, _, _ = planner.find(wanted)
    binding.launch(SimpleNamespace(kernel=binding.kernel), [7, 9], [4, 8], [2.5])
    (op,) = seen
    assert [(t.buf, t.byte_offset) for t in (*op.ins, *op.outs)] == [(7, 4), (9, 8)]
    assert dict(op.attrs) == {"axes": (1,), "n": 2.5}
    assert op.ins[0].strides == (3, 1)


@pytest.mark.parametrize("kind", [Kernels, FakeDevice])
@pytest.mark.parametrize("flags", [Caps(0), Caps.THREADSAFE])
def test_launches_hold_the_devices_lock_unless_it_is_thread_safe(
    kind: type[FakeDevice], flags: Caps
) -> None:
    held: list[bool] = []

    class Asks(kind):  # type: ignore[misc, valid-type]
        def op_run(self, op: Any, stream: Any = None) -> None:
            held.append(made.lock._is_owned())

        def run_plan(self, *args: Any) -> None:
            held.append(made.lock._is_owned())

    if kind is FakeDevice:
        del Asks.run_plan
    made = opened(Asks([cap("add", "f32")], flags))
    binding, _, _ = made.planner.find(spec("add", X, X))
    binding.launch(SimpleNamespace(kernel=binding.kernel), [1, 2, 3], [0, 0, 0], [])
    assert held == [flags == Caps(0)]
