"""PK sources compiled as C++ and run on the CPU, in forward and in reversed item order."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from halon.hal.dtypes import SHORT, from_numpy
from halon.hal.op_desc import OpSpec, TensorSpec
from halon.hal.properties import layout_of
from halon.kernels.pk import conv, cpp, elementwise, generate, indexing, matmul, reduce
from halon.kernels.pk.launch import Launch, Step, Target
from halon.kernels.pk.text import assemble, read
from halon.kernels.tree import Apply, Input, Scalar

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")

CPU, GPU = Target(cpu=True, units=2), Target(cpu=False, units=2)
SANITIZE = ("-fsanitize=undefined", "-fno-sanitize-recover=all", "-static-libubsan")


@pytest.fixture(params=[False, True], ids=["forward", "reversed"])
def reverse(request: pytest.FixtureRequest) -> bool:
    return request.param


def tensor(array: np.ndarray) -> TensorSpec:
    strides = tuple(s // array.itemsize for s in array.strides)
    dtype = from_numpy(array.dtype).short
    return TensorSpec(dtype, array.shape, strides, layout_of(array.shape, strides))


def run(
    build: object, op: str, target: Target, ins: list[np.ndarray], out: tuple[str, tuple[int, ...]],
    reverse: bool = False, expr: object = None, scalars: tuple = (),
    raises: tuple[int, int] = (0, 0), **attrs: object,
) -> np.ndarray:  # fmt: skip
    y = np.full(out[1], 7, SHORT[out[0]].numpy)
    spec = OpSpec(
        op, tuple(map(tensor, ins)), (tensor(y),), attrs,
        tuple((f"s{k}", d) for k, (d, _) in enumerate(scalars)), expr,
    )  # fmt: skip
    launch: Launch = build(spec, target)  # type: ignore[operator]
    operands = [*ins, y]
    raised = cpp.run(
        launch, [a.ctypes.data for a in operands], [0] * len(operands), [v for _, v in scalars],
        reverse=reverse, flags=SANITIZE,
    )  # fmt: skip
    assert raised == raises
    return y


@pytest.mark.parametrize("target", [CPU, GPU], ids=["cpu", "gpu"])
def test_elementwise(reverse: bool, target: Target) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(30, 20)).astype("f4"), rng.normal(size=(20, 30)).astype("f2")
    wide = Apply("cast", (Input(1, "f16"),), "f32")
    tree = Apply("add", (Apply("mul", (Input(0, "f32"), Scalar(0, "f32")), "f32"), wide), "f32")
    got = run(
        elementwise.build, "t", target, [a, b.T], ("f32", a.shape), reverse, tree, (("f32", 0.5),)
    )
    np.testing.assert_array_equal(got, a * np.float32(0.5) + b.T.astype("f4"))


def test_half_conversions_are_those_of_numpy() -> None:
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    tree = Apply("cast", (Input(0, "f16"),), "f32")
    got = run(elementwise.build, "cast", CPU, [every], ("f32", every.shape), expr=tree)
    np.testing.assert_array_equal(got, every.astype(np.float32))
    rng = np.random.default_rng(0)
    wide = np.concatenate([got, got * np.float32(1.0003), rng.normal(0, 1e-6, 999).astype("f4")])
    tree = Apply("cast", (Input(0, "f32"),), "f16")
    got = run(elementwise.build, "cast", CPU, [wide], ("f16", wide.shape), expr=tree)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, wide.astype(np.float16))


@pytest.mark.parametrize("dtype", ["u8", "i32", "i64"])
@pytest.mark.parametrize("op", ["add", "mul", "idiv", "mod", "pow", "shl", "shr", "sub"])
def test_integer_arithmetic_is_defined_everywhere(op: str, dtype: str) -> None:
    kind = SHORT[dtype].numpy
    edge = np.array(
        [np.iinfo(kind).min, np.iinfo(kind).max, 0, 1, 2, 7, 63, -1 % 256 if dtype == "u8" else -1]
    )
    a, b = (t.astype(kind).ravel() for t in np.meshgrid(edge, edge))
    tree = Apply(op, (Input(0, dtype), Input(1, dtype)), dtype)
    divides = op in ("idiv", "mod")
    raises = (1, 0) if divides else (0, 0)
    got = run(  # under UBSan
        elementwise.build, op, CPU, [a, b], (dtype, a.shape), expr=tree, raises=raises
    )  # fmt: skip
    if divides:
        zero = b == 0
        assert (got[zero] == 0).all()


@pytest.mark.parametrize("target", [CPU, GPU], ids=["cpu", "gpu"])
@pytest.mark.parametrize("op", ["sum", "max_reduce", "argmin"])
def test_reductions(reverse: bool, target: Target, op: str) -> None:
    a = np.random.default_rng(0).integers(-99, 99, (5, 70, 31)).astype("f4")
    a[2, 40, 3] = np.nan
    name = {"max_reduce": "max"}.get(op, op)
    for axis in range(3):
        expected = getattr(np, name)(a, axis=axis)
        out = "i64" if op == "argmin" else "f32", expected.shape
        got = run(reduce.build, op, target, [a], out, reverse, axes=(axis,), keepdim=False)
        np.testing.assert_array_equal(got, expected)
    long = np.arange(60001, dtype="f4")[::-1] % 1000
    expected = np.asarray(getattr(np, name)(long.astype("f8")))
    out = "i64" if op == "argmin" else "f32", ()
    got = run(reduce.build, op, target, [long.copy()], out, reverse, axes=(0,), keepdim=False)
    np.testing.assert_array_equal(got, expected.astype(got.dtype))


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64", "i32", "i64"])
def test_tiled_matmul(reverse: bool, dtype: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 8, s).astype(SHORT[dtype].numpy) for s in ((2, 70, 33), (2, 90, 33)))
    got = run(matmul.build, "matmul", GPU, [a, b.swapaxes(1, 2)], (dtype, (2, 70, 90)), reverse)
    np.testing.assert_array_equal(got, a.astype("f8") @ b.swapaxes(1, 2).astype("f8"))


@pytest.mark.parametrize("target", [CPU, GPU], ids=["lines", "atomic"])
@pytest.mark.parametrize("dtype", ["bool", "u8", "i32", "i64", "f16", "f32", "f64"])
def test_scatter_add_and_gather(reverse: bool, target: Target, dtype: str) -> None:
    rng = np.random.default_rng(0)
    shape = (9, 200)
    x, src = (rng.integers(0, 3, shape).astype(SHORT[dtype].numpy) for _ in range(2))
    index = rng.integers(0, 9, shape)
    got = run(
        indexing.scatter,
        "scatter",
        target,
        [x, index, src],
        (dtype, shape),
        reverse,
        dim=0,
        mode="add",
    )
    expected = x.copy()
    (np.logical_or if dtype == "bool" else np.add).at(expected, (index, np.arange(200)), src)
    np.testing.assert_array_equal(got, expected)
    got = run(indexing.gather, "gather", target, [x, index], (dtype, shape), reverse, dim=0)
    np.testing.assert_array_equal(got, np.take_along_axis(x, index, 0))


def test_an_index_out_of_bounds_raises_the_flag_and_writes_nothing() -> None:
    x, index = np.arange(6.0), np.array([1, 6, 2])
    y = np.full(3, 5.0)
    spec = OpSpec("gather", (tensor(x), tensor(index)), (tensor(y),), {"dim": 0})
    raised = cpp.run(
        indexing.gather(spec, GPU), [t.ctypes.data for t in (x, index, y)], [0] * 3, flags=SANITIZE
    )
    assert raised == (1, 6)
    assert y.tolist() == [1, 0, 2]


def test_convolution() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.integers(-3, 4, (2, 3, 8)).astype("f4"), rng.integers(-3, 4, (10, 3, 3)).astype("f4")
    attrs = {
        "stride": (1,),
        "padding": (1,),
        "dilation": (1,),
        "output_padding": (0,),
        "groups": 1,
        "transposed": False,
    }
    got = run(conv.conv, "conv", GPU, [x, w], ("f32", (2, 10, 8)), **attrs)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 3, 2)
    np.testing.assert_array_equal(got, np.einsum("ncpk,ock->nop", windows, w))


PHILOX = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("counter", "key", "words"), PHILOX)
def test_philox_published_answers(counter: tuple, key: tuple, words: tuple) -> None:
    body = """
KERNEL rounds(PK_IDS GLOBAL u32 *c, i64 oc, i64 k0, i64 k1) { pk_philox(c, (u32)k0, (u32)k1); }
"""
    source = assemble(read("philox.cl") + body)
    state = np.array(counter, np.uint32)
    step = Step(source, "rounds", (0,), key, (1, 1, 1))
    cpp.run(Launch((step,), (4,)), [state.ctypes.data], [0])
    assert tuple(state.tolist()) == words


def test_philox_and_iota() -> None:
    got = run(generate.philox, "philox", GPU, [], ("i32", (4,)), scalars=(("i64", 0), ("i64", 0)))
    assert got.view(np.uint32).tolist() == list(PHILOX[0][2])
    got = run(generate.iota, "iota", CPU, [], ("i64", (9,)), scalars=(("i64", 5), ("i64", -2)))
    assert got.tolist() == list(range(5, -13, -2))


def test_a_missing_barrier_shows_in_reversed_order() -> None:
    """The harness can see what it is for."""
    body = """
KERNEL shift(PK_IDS GLOBAL i32 *y, i64 oy) {
    LOCALMEM i32 line[8];
    const i64 me = LID(0);
    line[me] = (i32)me + 1;
    WAIT;
    y[oy + me] = line[(me + 7) % 8];
    BARRIER();
}
"""
    right = [8, 1, 2, 3, 4, 5, 6, 7]
    for wait, backwards, good in [
        ("BARRIER()", True, True),
        ("BARRIER()", False, True),
        ("", True, False),
    ]:
        y = np.zeros(8, np.int32)
        step = Step(assemble(body.replace("WAIT", wait)), "shift", (0,), (), (8, 1, 1), (8, 1, 1))
        cpp.run(Launch((step,), (4,)), [y.ctypes.data], [0], reverse=backwards)
        assert (y.tolist() == right) is good
