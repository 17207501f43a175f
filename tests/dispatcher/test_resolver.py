"""Every step of the resolver, forced with devices that can do little; and never a wrong number."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import halon
from halon.devices.reference import kernels
from halon.dispatcher import fallback
from halon.dispatcher.op import OPS, Op
from halon.hal.errors import Declined, HalonError, NotImplementedOnDevice
from halon.hal.op_desc import OpCap, OpDesc
from halon.hal.properties import ANY, Layout
from halon.hal.registry import registry
from halon.testing import Maker, assert_close
from tests.hal.fakes import FakeDevice, cap, output, register

ALL = "bool u8 i8 i16 i32 i64 f16 f32 f64"
MOVES = (cap("copy", ALL), cap("cast", ALL), cap("fill", ALL))


def device(*caps: OpCap) -> tuple[FakeDevice, str]:
    """A new device with these capability rows, and its name."""
    made = FakeDevice(caps)
    return made, register(made)


def on(name: str, *arrays: Any, dtype: str = "f4") -> list[halon.Tensor]:
    return [halon.tensor(np.asarray(a, dtype), device=name) for a in arrays]


def steps(name: str) -> dict[str, int]:
    return dict(fallback.counts(name))


X = [[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]]
Y = [[0.5, 0.25, 2.0], [1.0, -1.0, 8.0]]


# -- step 1: native ------------------------------------------------------------------------------
def test_what_a_device_lists_runs_there_as_it_is() -> None:
    fake, name = device(cap("add", "f32"))
    x, y = on(name, X, Y)
    assert (x + y).tolist() == np.add(X, Y).tolist()
    assert fake.ran == ["add"]
    assert steps(name) == {"native": 1}
    assert halon.fallback_counters(name) == {}


def test_the_device_sees_views_as_they_are_where_it_takes_them() -> None:
    fake, name = device(cap("add", "f32"))
    x, y = on(name, X, Y)
    got = x.t()[1:] + y[0, 1]
    assert got.tolist() == (np.transpose(X)[1:] + 0.25).tolist()
    assert fake.ran == ["add"]


def test_a_veto_by_op_support_is_a_reason() -> None:
    class Vetoes(FakeDevice):
        def op_support(self, op: OpDesc) -> bool | str:
            return True if op.ins[0].shape[0] < 3 else "at most two rows"

    name = register(Vetoes([cap("neg", "f32")]))
    assert (-on(name, X)[0]).tolist() == np.negative(X).tolist()
    with halon.fallback("silent"):
        (x,) = on(name, [[1.0], [2.0], [3.0]])
        assert (-x).tolist() == [[-1], [-2], [-3]]
    assert [key[2] for key in halon.fallback_counters(name)] == ["neg: at most two rows"]
    assert steps(name) == {"native": 1, "host": 1}


@pytest.mark.parametrize("signal", [Declined, NotImplementedOnDevice])
def test_a_device_that_declines_at_launch_has_its_operation_resolved_again(
    signal: type[Exception],
) -> None:
    class Declines(FakeDevice):
        def op_run(self, op: OpDesc, stream: Any = None) -> None:
            self.calls[op.op] += 1
            if op.op == "neg":
                raise signal("not today")
            super().op_run(op)

    fake = Declines([cap("neg", "f32")])
    (x,) = on(register(fake), X)
    with halon.fallback("silent"):
        assert (-x).tolist() == np.negative(X).tolist()
        assert (-x).tolist() == np.negative(X).tolist()
        x.neg_()
    assert x.tolist() == np.negative(X).tolist()
    assert fake.calls["neg"] <= 2  # the verdict is kept, per signature
    ((_, _, reason),) = halon.fallback_counters(str(x.device))
    assert "not today" in reason


# -- step 2: relayout ----------------------------------------------------------------------------
def test_operands_a_device_does_not_take_are_copied_first() -> None:
    fake, name = device(cap("add", "f32", layouts=Layout.CONTIG), cap("copy", "f32"))
    x, y = on(name, X, Y)
    assert (x + y.t().contiguous().t()).tolist() == np.add(X, Y).tolist()
    assert fake.ran[-2:] == ["copy", "add"]
    assert steps(name)["relayout"] == 1
    assert "host" not in steps(name)


def test_a_result_of_another_layout_is_copied_back() -> None:
    fake, name = device(cap("add", "f32", layouts=Layout.CONTIG), cap("copy", "f32"))
    x, y = (t.t() for t in on(name, X, Y))
    got = x + y
    assert got.tolist() == np.add(X, Y).T.tolist()
    assert got.stride() == (1, 3)
    assert fake.ran == ["copy", "copy", "add", "copy"]
    assert steps(name) == {"relayout": 1}


def test_a_broadcast_operand_is_written_out() -> None:
    fake, name = device(cap("mul", "f32", layouts=Layout.CONTIG), cap("copy", "f32"))
    x, y = on(name, X, [2.0, 3.0, 4.0])
    assert (x * y).tolist() == np.multiply(X, [2, 3, 4]).tolist()
    assert fake.ran == ["copy", "mul"]


def test_without_a_copy_the_relayout_is_no_way() -> None:
    _, name = device(cap("add", "f32", layouts=Layout.CONTIG))
    x, y = on(name, X, Y)
    with halon.fallback("silent"):
        assert (x + y[0]).tolist() == np.add(X, Y[0]).tolist()
    assert steps(name) == {"host": 1}


def test_an_operand_at_an_offset_is_moved_for_a_device_that_takes_none() -> None:
    fake, name = device(cap("add", "f32", layouts=ANY & ~Layout.OFFSET))
    x, y = on(name, X, Y)
    before = fake.held
    for _ in range(3):
        assert (x[1] + y[1]).tolist() == np.add(X[1], Y[1]).tolist()
    x[1].add_(y[1])
    assert x.tolist() == [X[0], np.add(X[1], Y[1]).tolist()]
    registry.open(name).allocator.empty_cache()
    assert fake.held == before


def test_memory_moved_for_an_offset_is_given_back_when_the_operation_fails() -> None:
    class Fails(FakeDevice):
        def op_run(self, op: OpDesc, stream: Any = None) -> None:
            raise RuntimeError("E42")

    fake = Fails([cap("add", "f32", layouts=Layout.CONTIG)])
    name = register(fake)
    x, y = on(name, X, Y)
    stats = registry.open(name).allocator.stats
    before = stats.allocated_bytes
    for _ in range(2):
        with pytest.raises(RuntimeError, match="E42"):
            x[1] + y[1]
    assert stats.allocated_bytes == before


# -- step 3: widened -----------------------------------------------------------------------------
@pytest.mark.parametrize(("stored", "computed"), [
    ("f16", "f32"), ("f16", "f64"), ("f32", "f64"), ("u8", "i32"), ("i8", "i32"), ("i16", "i64"),
    ("i32", "i64"),
])  # fmt: skip
def test_a_narrow_dtype_is_computed_in_a_wider_one(stored: str, computed: str) -> None:
    fake, name = device(cap("mul", computed), *MOVES)
    kind = {"f16": "f2", "f32": "f4", "u8": "u1", "i8": "i1", "i16": "i2", "i32": "i4"}[stored]
    x, y = on(name, [1, 100, 7], [3, 2, 5], dtype=kind)
    got = x * y
    assert got.dtype == x.dtype
    assert_close(got, np.asarray([1, 100, 7], kind) * np.asarray([3, 2, 5], kind))
    assert set(fake.ran) == {"cast", "mul"}
    assert fake.ran.count("mul") == 1
    assert steps(name) == {"widened": 1}


def test_integers_wrap_in_the_dtype_they_are_stored_in() -> None:
    _, name = device(cap("mul", "i32"), cap("neg", "i32"), *MOVES)
    x, y = on(name, [200, 255, 16], [2, 255, 16], dtype="u1")
    assert (x * y).tolist() == [144, 1, 0]
    assert (-x).tolist() == [56, 1, 240]


def test_nothing_is_ever_narrowed() -> None:
    fake, name = device(cap("mul", "f32"), cap("add", "i32"), *MOVES)
    with halon.fallback("silent"):
        x, y = on(name, [1e300, 1.0], [2.0, 3.0], dtype="f8")
        assert (x * y).tolist() == [2e300, 3.0]
        i, j = on(name, [2**40, 1], [1, 1], dtype="i8")
        assert (i + j).tolist() == [2**40 + 1, 2]
    assert fake.ran == []
    assert steps(name) == {"host": 2}


def test_without_a_cast_the_widening_is_no_way() -> None:
    _, name = device(cap("mul", "f32"))
    x, y = on(name, [1, 2], [3, 4], dtype="f2")
    with halon.fallback("silent"):
        assert (x * y).tolist() == [3, 8]
    assert steps(name) == {"host": 1}


# -- step 4: decomposed --------------------------------------------------------------------------
def test_an_expression_runs_by_primitives() -> None:
    fake, name = device(cap("add", "f32"), cap("neg", "f32"))
    x, y = on(name, X, Y)
    assert (x - y).tolist() == np.subtract(X, Y).tolist()
    assert fake.ran == ["neg", "add"]
    assert steps(name) == {"decomposed": 1}


def test_native_comes_before_a_decomposition_at_every_level() -> None:
    prims = [cap("add", "f32"), cap("neg", "f32"), cap("exp", "f32"), cap("recip", "f32"), *MOVES]

    class Sigmoid(FakeDevice):
        def op_run(self, op: OpDesc, stream: Any = None) -> None:
            if op.op != "sigmoid":
                return super().op_run(op)
            self.ran.append(op.op)
            self.array(op.outs[0])[...] = 1 / (1 + np.exp(-self.array(op.ins[0])))

    fake = Sigmoid([*prims, cap("sigmoid", "f32")])
    (x,) = on(register(fake), X)
    assert_close(x.sigmoid(), 1 / (1 + np.exp(-np.float32(X))), op="sigmoid")
    assert fake.ran == ["sigmoid"]
    fake, name = device(*prims)
    (x,) = on(name, X)
    assert_close(x.sigmoid(), 1 / (1 + np.exp(-np.float32(X))), op="sigmoid")
    assert fake.ran == ["fill", "neg", "exp", "add", "recip"]


def test_a_shared_subexpression_is_computed_once() -> None:
    fake, name = device(*kernels.caps())
    (x,) = on(name, X)
    x.tanh()
    assert fake.ran.count("exp") == 2  # exp(2a) and exp(-2a)


def test_numbers_in_an_expression_become_tensors_of_one_element() -> None:
    fake, name = device(cap("mul", "f32"), cap("fill", "f32"))
    (x,) = on(name, X)
    for factor in (2.0, 3.5):
        assert (x * factor).tolist() == np.multiply(X, factor).tolist()
    assert fake.ran == ["fill", "mul"] * 2
    assert steps(name) == {"decomposed": 2}


def test_a_record_decomposes_into_records() -> None:
    fake, name = device(*kernels.caps())
    (x,) = on(name, X)
    assert_close(x.softmax(1), halon.tensor(X).softmax(1))
    assert {"max_reduce", "exp", "sum"} <= set(fake.ran)
    assert steps(name) == {"decomposed": 1}


def test_one_missing_leaf_sends_the_whole_operator_to_the_host() -> None:
    listed = [c for c in kernels.caps() if c.op != "exp"]
    fake, name = device(*listed)
    (x,) = on(name, X)
    with halon.fallback("silent"):
        assert_close(x.softmax(1), halon.tensor(X).softmax(1))
    assert fake.ran == []  # no ping-pong: nothing of it ran on the device
    assert steps(name) == {"host": 1}
    ((op, dtypes, reason),) = halon.fallback_counters(name)
    assert (op, dtypes) == ("softmax", "f32")
    assert "its decomposition needs exp, which runs on the host" in reason


def test_an_output_of_windows_is_made_of_copies() -> None:
    fake, name = device(*MOVES)
    x, y = on(name, X, Y)
    assert halon.cat([x, y], 1).tolist() == np.concatenate([X, Y], 1).tolist()
    assert fake.ran == ["copy", "copy"]
    assert steps(name) == {"decomposed": 1}


# -- steps 6 and 7: the host, and errors ---------------------------------------------------------
def test_a_device_without_operations_computes_everything_on_the_host() -> None:
    fake, name = device()
    x, y = on(name, X, Y)
    with halon.fallback("silent"):
        assert_close((x @ y.t()).exp().sum(0), (halon.tensor(X) @ halon.tensor(Y).t()).exp().sum(0))
    assert fake.ran == []
    assert steps(name) == {"host": 3}


def test_views_cost_no_device_anything() -> None:
    fake, name = device()
    (x,) = on(name, X)
    before = dict(fake.calls)
    v = x.t()[1:].unsqueeze(0).expand(4, 2, 2).squeeze()
    assert dict(fake.calls) == before
    assert steps(name) == {}
    assert v.shape == (4, 2, 2)


def test_the_host_itself_has_nobody_to_fall_back_to() -> None:
    x = halon.ones(1, 1, 3, 3, dtype=halon.int64)
    with pytest.raises(
        NotImplementedOnDevice, match=r"convolution\(i64.*is not implemented on cpu"
    ):
        halon.nn.functional.conv2d(x, x)


def test_mode_error_names_operator_operands_and_every_reason() -> None:
    _, name = device(cap("exp", "f64"))
    (x,) = on(name, X)
    with halon.fallback("error"), pytest.raises(NotImplementedOnDevice) as caught:
        x.exp()
    text = str(caught.value)
    assert f"{name}: exp(f32[2, 3]) would run on the host, and fallback is an error" in text
    assert "exp: f32 is not in caps" in text
    assert isinstance(caught.value, NotImplementedError)


def test_mode_error_lets_pass_what_the_device_can_do() -> None:
    _, name = device(*kernels.caps())
    (x,) = on(name, X)
    with halon.fallback("error"):
        assert_close(x.softmax(1), halon.tensor(X).softmax(1))


# -- never a wrong number ------------------------------------------------------------------------
def _only(dtypes: str) -> tuple[OpCap, ...]:
    """Every primitive in a few dtypes (results of comparisons and indices aside), and casts."""
    kept = frozenset(dtypes.split()) | {"bool"}
    rows = []
    for c in kernels.caps():
        if c.op not in ("copy", "cast", "fill"):
            ins = c.in_dtypes & (kept | ({"i64"} if c.op in ("gather", "scatter") else set()))
            outs = c.out_dtypes if c.out_dtypes != c.in_dtypes else c.out_dtypes & (kept | {"i64"})
            rows.append(OpCap(c.op, ins, outs))
    return (*rows, *MOVES)


KINDS: dict[str, tuple[OpCap, ...]] = {
    "no operation": (),
    "a few": (cap("add", "f32"), cap("mul", "f32"), cap("copy", "f32"), cap("fill", "f32")),
    "singles": _only("f32 i32"),
    "doubles": _only("f64 i64"),
    "contiguous": (*kernels.caps(Layout.CONTIG), cap("copy", ALL), cap("cast", ALL)),
    "contiguous, copies too": kernels.caps(Layout.CONTIG),
    "no offset": kernels.caps(ANY & ~Layout.OFFSET),
    "rank 2": tuple(OpCap(c.op, c.in_dtypes, c.out_dtypes, ANY, (1, 2)) for c in kernels.caps()),
}
DTYPES = ("bool", "uint8", "int32", "int64", "float16", "float32", "float64")
_devices: dict[str, str] = {}


@pytest.fixture
def fake(request: pytest.FixtureRequest) -> str:
    """One device per kind for the whole run, so that plans meet each other."""
    if request.param not in _devices:
        _devices[request.param] = register(FakeDevice(KINDS[request.param]))
    return _devices[request.param]


@pytest.mark.parametrize("fake", KINDS, indirect=True)
@pytest.mark.parametrize("op", [o for o in OPS.values() if o.samples], ids=lambda o: o.name)
def test_every_operator_gives_the_cpus_numbers(op: Op, fake: str) -> None:
    assert op.samples is not None
    for dtype in DTYPES:
        here = op.samples(Maker(halon.from_numpy, np.dtype(dtype)))
        there = op.samples(Maker(lambda a: halon.tensor(a, device=fake), np.dtype(dtype)))
        for mine, theirs in zip(there, here, strict=True):
            try:
                want = op(*theirs)
            except (HalonError, RuntimeError, TypeError, IndexError) as error:
                with pytest.raises(type(error)), halon.fallback("silent"):
                    op(*mine)
                continue
            with halon.fallback("silent"):
                got = op(*mine)
            _compare(op, got, want)


def _compare(op: Op, got: Any, want: Any) -> None:
    pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
    terms = 32 if "mm" in op.name or "mat" in op.name or "conv" in op.name else 1
    for a, b in pairs:
        if not isinstance(b, halon.Tensor):
            assert a == b
            continue
        assert a.dtype == b.dtype, op.name
        assert tuple(a.shape) == tuple(b.shape), op.name
        assert_close(a, b, op=op.name, terms=max(terms, 2))


# -- the scratch operator ------------------------------------------------------------------------
SCRATCH = """
import numpy as np
import halon
from halon.dispatcher import fallback
from halon.dispatcher.ops.elementwise import abs as abs_
from halon.dispatcher.ops.families import unary
from halon.dispatcher.promote import floating
from halon.hal.registry import registry
from halon.testing import assert_close

softsign = unary(
    "scratch_softsign", "input / (1 + abs(input))", "input / (1 + |input|).",
    lambda g, out, x: g / ((1 + abs_(x)) * (1 + abs_(x))), dtype=floating,
)
"""


def scratch(code: str, **environment: str) -> list[str]:
    """Run a program after the declaration, in a process of its own: the records stay clean."""
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    return output(SCRATCH + code, PYTHONPATH=path, **environment).splitlines()


def test_a_record_declared_in_a_script_agrees_with_numpy_and_its_gradient_with_differences() -> (
    None
):
    assert scratch("""
for dtype in (np.float16, np.float32, np.float64, np.int32):
    x = np.linspace(-3, 3, 12).reshape(3, 4).astype(dtype)
    f = x.astype(np.float32) if dtype in (np.int32, np.float16) else x
    want = (f / (1 + abs(f))).astype(np.float32 if dtype == np.int32 else dtype)
    assert_close(softsign(halon.from_numpy(x)), want)
    assert_close(softsign(halon.from_numpy(x).t()), want.T)
d = halon.linspace(-2, 2, 6, dtype=halon.float64).requires_grad_()
print(halon.autograd.gradcheck(softsign, d), halon.autograd.gradgradcheck(softsign, d))
""") == ["True True"]


@pytest.mark.parametrize("where", ["cpu", "opencl:0", "reference:0"])
def test_a_record_declared_in_a_script_gives_values_and_gradients_on_every_device(
    where: str,
) -> None:
    if where not in registry.available():
        row = next(
            r for r in registry.table()
            if where.startswith(r.name)
        )  # fmt: skip
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{where}: {row.reason}")
    lines = scratch(f"""
results = []
for where in ("cpu", {where!r}):
    x = halon.linspace(-2, 2, 12).reshape(3, 4).to(where).requires_grad_()
    y = softsign(x * 2)
    (y * y).sum().backward()
    results.append((y, x.grad))
for a, b in zip(*results):
    assert_close(b, a)
print(results[1][1].device, dict(fallback.counts({where!r})).get("host", 0))
print(halon.explain(lambda: softsign(x)).splitlines()[0].split(": ")[-1])
""")  # fmt: skip
    how = "decomposed" if where.startswith("reference") else "native"
    assert lines == [f"{where} 0", how]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_the_cuda_form_of_a_record_declared_in_a_script_compiles(arch: str) -> None:
    from halon.kernels.pk import nvrtc

    missing = nvrtc.why_missing()
    if missing:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    lines = scratch(f"""
from halon.dispatcher import select
from halon.kernels.pk import elementwise, nvrtc
from halon.kernels.pk.launch import Target
seen = []
select.watchers.append(seen.append)
for dtype in (halon.float16, halon.float32, halon.float64):
    softsign(halon.ones(8, 5, dtype=dtype).t())
select.watchers.clear()
for plan in [p for p in seen if p.op is softsign]:
    launch = elementwise.build(plan.spec, Target(cpu=False, units=64))
    for step in launch.steps:
        ptx = nvrtc.compile(step.source, {arch!r})
        print(f".visible .entry {{step.entry}}(" in ptx, ".target {arch}" in ptx)
""")  # fmt: skip
    assert lines == ["True True"] * 3
