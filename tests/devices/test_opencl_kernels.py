"""Every kernel of the OpenCL device against NumPy and PyTorch, driven without the dispatcher."""

from __future__ import annotations

import itertools
import os
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from halon.devices.opencl import platforms
from halon.devices.opencl.driver import OpenCLDevice, OpenCLDriver
from halon.devices.rows import find_row
from halon.hal.dtypes import SHORT, from_numpy
from halon.hal.errors import (
    IndexOutOfRange,
)  # fmt: skip
from halon.hal.op_desc import OpSpec, TensorSpec
from halon.hal.properties import layout_of
from halon.kernels.pk.launch import Target
from halon.kernels.scalar_ops import SCALAR_OPS
from halon.kernels.tree import Apply, Const, Input, Scalar

INTS = ("u8", "i32", "i64")
FLOATS = ("f16", "f32", "f64")
ALL = ("bool", *INTS, *FLOATS)
GUARD = 0xA5
RTOL = {"f16": 2e-3, "f32": 2e-6, "f64": 1e-13}


class Runner:
    """Uploads operands (with their strides, at an offset), runs one operation, checks the margins."""

    def __init__(self, device: OpenCLDevice) -> None:
        self.device = device

    def upload(self, array: np.ndarray) -> tuple[int, int, TensorSpec]:
        item = array.itemsize
        strides = tuple(s // item for s in array.strides)
        span = 1 + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True))
        data = np.lib.stride_tricks.as_strided(array, (span if array.size else 0,), (item,))
        offset = 3 * item
        handle = self.device.alloc(offset + data.nbytes)
        if data.size:
            host = np.ascontiguousarray(data)
            self.device.h2d(handle, offset, memoryview(host.view(np.uint8)))
        dtype = from_numpy(array.dtype).short
        return (
            handle,
            offset,
            TensorSpec(dtype, array.shape, strides, layout_of(array.shape, strides)),
        )

    def __call__(
        self, op: str, ins: list[np.ndarray], outs: list[tuple[str, tuple[int, ...]]],
        expr: object = None, scalars: tuple = (), **attrs: object,
    ) -> list[np.ndarray]:  # fmt: skip
        handles, offsets, specs = [], [], []
        for array in ins:
            handle, offset, spec = self.upload(array)
            handles.append(handle)
            offsets.append(offset)
            specs.append(spec)
        results, where = [], []
        for dtype, shape in outs:
            empty = np.empty(shape, SHORT[dtype].numpy)
            margin = 5 * empty.itemsize
            handle = self.device.alloc(empty.nbytes + 2 * margin)
            self.device.fill(handle, 0, empty.nbytes + 2 * margin, bytes([GUARD]))
            strides = tuple(s // empty.itemsize for s in empty.strides)
            results.append(TensorSpec(dtype, shape, strides, layout_of(shape, strides)))
            where.append((handle, margin, empty))
        spec = OpSpec(
            op, tuple(specs), tuple(results), attrs,
            tuple((f"s{k}", d) for k, (d, _) in enumerate(scalars)), expr,
        )  # fmt: skip
        row, _, why = find_row(self.device.rows, spec)
        assert row is not None, why
        plan = SimpleNamespace(kernel=row.entry(self.device, spec))
        handles += [h for h, _, _ in where]
        offsets += [m for _, m, _ in where]
        try:
            self.device.run_plan(plan, handles, offsets, [v for _, v in scalars])
            self.device.synchronize()
            return [self._download(*w) for w in where]
        finally:
            for handle in set(handles):
                self.device.free(handle)

    def _download(self, handle: int, margin: int, empty: np.ndarray) -> np.ndarray:
        whole = np.empty(empty.nbytes + 2 * margin, np.uint8)
        self.device.d2h(memoryview(whole), handle, 0)
        around = np.concatenate([whole[:margin], whole[margin + empty.nbytes :]])
        assert (around == GUARD).all(), "wrote outside its output"
        return whole[margin : margin + empty.nbytes].view(empty.dtype).reshape(empty.shape)


def _open(target: Target | None) -> Runner:
    if not platforms.devices():
        if os.environ.get("CI"):
            pytest.fail(OpenCLDriver().diagnose())
        pytest.skip(OpenCLDriver().diagnose())
    return Runner(OpenCLDevice(platforms.devices()[0], target))


@pytest.fixture(scope="module")
def run() -> Runner:
    """The device with its own launch policy."""
    return _open(None)


@pytest.fixture(scope="module")
def run_as_gpu() -> Runner:
    """The same device with a GPU's launch policy: groups, local memory, grid strides."""
    runner = _open(None)
    f64, atomics64 = runner.device.target.f64, runner.device.target.atomics64
    return _open(Target(cpu=False, units=4, f64=f64, atomics64=atomics64))


@pytest.fixture(params=["own policy", "GPU policy"])
def either(request: pytest.FixtureRequest, run: Runner, run_as_gpu: Runner) -> Runner:
    return run if request.param == "own policy" else run_as_gpu


def values(dtype: str, shape: tuple[int, ...], seed: int = 0, special: bool = True) -> np.ndarray:
    """Numbers of a dtype; floats include NaN, infinities and both zeros if ``special``."""
    rng = np.random.default_rng(seed)
    kind = SHORT[dtype].numpy
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(kind)
    if dtype in INTS:
        info = np.iinfo(kind)
        a = rng.integers(-9 if info.min else 0, 10, shape).astype(kind)
        if special and a.size > 8:
            a.flat[[1, 4]] = info.min, info.max
        return a
    a = rng.normal(0, 2, shape).astype(kind)
    if special and a.size > 8:
        a.flat[[1, 3, 4, 6, 7]] = np.nan, np.inf, -np.inf, 0.0, -0.0
    return a


def same(got: np.ndarray, expected: np.ndarray, rtol: float = 0.0, atol: float = 0.0) -> None:
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol, equal_nan=True)


def wide(array: np.ndarray) -> torch.Tensor:
    """For references: f16 as f32."""
    array = array.astype(np.float32) if array.dtype == np.float16 else array
    return torch.from_numpy(np.ascontiguousarray(array))


# -- elementwise -----------------------------------------------------------------------------------
def int_reference(op: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Exact in Python's integers, then wrapped."""
    bits, signed = 8 * a.itemsize, a.dtype.kind == "i"

    def wrap(n: int) -> int:
        n &= (1 << bits) - 1
        return n - (1 << bits) if signed and n >> (bits - 1) else n

    def power(x: int, n: int) -> int:
        if n >= 0:
            return pow(x, n, 1 << bits)
        return {1: 1, -1: -1 if n % 2 else 1}.get(x, 0)

    functions = {
        "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
        "idiv": lambda x, y: x // y if y else 0, "mod": lambda x, y: x % y if y else 0,
        "max": max, "min": min, "pow": power, "and": lambda x, y: x & y, "or": lambda x, y: x | y,
        "xor": lambda x, y: x ^ y,
        "shl": lambda x, y: x << y if 0 <= y < bits else 0,
        "shr": lambda x, y: x >> y if 0 <= y < bits else (-1 if x < 0 else 0),
    }  # fmt: skip
    f = functions[op]
    return np.array([wrap(f(int(x), int(y))) for x, y in zip(a, b, strict=True)], a.dtype)


UNARY = {
    "neg": torch.neg, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "sin": torch.sin,
    "recip": torch.reciprocal, "cos": torch.cos, "floor": torch.floor, "trunc": torch.trunc,
    "round": torch.round, "abs": torch.abs, "log1p": torch.log1p, "expm1": torch.expm1,
    "tanh": torch.tanh, "sigmoid": torch.sigmoid,
}  # fmt: skip
BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div,
    "idiv": torch.floor_divide, "mod": torch.remainder, "max": torch.maximum, "min": torch.minimum,
    "pow": torch.pow,
}  # fmt: skip
COMPARE = {"lt": np.less, "eq": np.equal, "le": np.less_equal, "ne": np.not_equal}


def apply(op: str, dtype: str, *args: object, result: str | None = None) -> Apply:
    """The tree of an operation: f16 is computed in f32."""
    if dtype != "f16":
        return Apply(op, args, result or dtype)
    node = Apply(op, tuple(Apply("cast", (a,), "f32") for a in args), result or "f32")
    return node if result else Apply("cast", (node,), "f16")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", UNARY)
def test_unary_float(run: Runner, op: str, dtype: str) -> None:
    a = values(dtype, (300,))
    (got,) = run(op, [a], [(dtype, a.shape)], apply(op, dtype, Input(0, dtype)))
    expected = UNARY[op](wide(a)).numpy().astype(a.dtype)
    same(got, expected, RTOL[dtype], 1e-7 if dtype == "f32" else 1e-15)


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize("op", ["neg", "abs", "floor", "trunc", "round", "not"])
def test_unary_int(run: Runner, op: str, dtype: str) -> None:
    a = values(dtype, (300,))
    (got,) = run(op, [a], [(dtype, a.shape)], apply(op, dtype, Input(0, dtype)))
    with np.errstate(over="ignore"):
        expected = {"neg": np.negative, "abs": np.abs, "not": np.invert}.get(op, np.positive)(a)
    same(got, expected)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", BINARY)
def test_binary_float(run: Runner, op: str, dtype: str) -> None:
    a, b = values(dtype, (400,)), values(dtype, (400,), 1)
    b[8:300] = np.round(b[8:300])  # divisors and exponents that are whole, zero among them
    a[300:316], b[300:316] = np.repeat([np.nan, np.inf, -np.inf, -1], 4), [np.nan, np.inf, 0, 1] * 4
    node = apply(op, dtype, Input(0, dtype), Input(1, dtype))
    (got,) = run(op, [a, b], [(dtype, a.shape)], node)
    with np.errstate(over="ignore"):
        expected = BINARY[op](wide(a), wide(b)).numpy().astype(a.dtype)
    same(got, expected, 4 * RTOL[dtype])


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize(
    "op",
    ["add", "sub", "mul", "idiv", "mod", "max", "min", "pow", "and", "or", "xor", "shl", "shr"],
)
def test_binary_int(run: Runner, op: str, dtype: str) -> None:
    a, b = values(dtype, (300,)), values(dtype, (300,), 1)
    b[50:120] = np.arange(70)
    a[:3], b[:3] = np.iinfo(a.dtype).min, [-1 if dtype != "u8" else 255, 0, 1]
    node = Apply(op, (Input(0, dtype), Input(1, dtype)), dtype)
    (got,) = run(op, [a, b], [(dtype, a.shape)], node)
    same(got, int_reference(op, a, b))


@pytest.mark.parametrize("op", ["add", "mul", "max", "min", "and", "or", "xor"])
def test_binary_bool(run: Runner, op: str) -> None:
    a, b = values("bool", (64,)), values("bool", (64,), 1)
    node = Apply(op, (Input(0, "bool"), Input(1, "bool")), "bool")
    (got,) = run(op, [a, b], [("bool", a.shape)], node)
    meaning = {"add": a | b, "max": a | b, "or": a | b, "xor": a ^ b}
    same(got, meaning.get(op, a & b))


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("op", COMPARE)
def test_comparison(run: Runner, op: str, dtype: str) -> None:
    a, b = values(dtype, (90,)), values(dtype, (90,), 1)
    b[::3] = a[::3]
    node = apply(op, dtype, Input(0, dtype), Input(1, dtype), result="bool")
    same(run(op, [a, b], [("bool", a.shape)], node)[0], COMPARE[op](a, b))


@pytest.mark.parametrize(("source", "target"), list(itertools.product(ALL, ALL)))
def test_cast(run: Runner, source: str, target: str) -> None:
    a = values(source, (200,), special=target == "bool" or target in FLOATS)
    (got,) = run("cast", [a], [(target, a.shape)], Apply("cast", (Input(0, source),), target))
    expected = torch.from_numpy(a).to(getattr(torch, SHORT[target].name)).numpy()
    same(got, expected)


@pytest.mark.parametrize("dtype", ALL)
def test_where_copies_bits(run: Runner, dtype: str) -> None:
    c, a, b = values("bool", (99,)), values(dtype, (99,)), values(dtype, (99,), 1)
    node = Apply("where", (Input(0, "bool"), Input(1, dtype), Input(2, dtype)), dtype)
    (got,) = run("where", [c, a, b], [(dtype, a.shape)], node)
    assert got.tobytes() == np.where(c, a, b).tobytes()


@pytest.mark.parametrize("dtype", ALL)
def test_fill_takes_a_run_time_scalar(run: Runner, dtype: str) -> None:
    for number in (True, 0) if dtype == "bool" else (3, -1, 2**40 + 5) if dtype in INTS else (
        -0.0, 1e300, float("nan"), 0.1):  # fmt: skip
        (got,) = run("fill", [], [(dtype, (7, 5))], Scalar(0, dtype), ((dtype, number),))
        with np.errstate(over="ignore"):
            expected = np.full((7, 5), number, np.int64 if dtype in INTS else got.dtype)
        expected = expected.astype(got.dtype)
        same(got, expected)
        if dtype in FLOATS and number == number:
            assert (np.signbit(got) == np.signbit(expected)).all()


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(float("inf"), "f32"), (float("nan"), "f64"), (-(2**63), "i64"), (-(2**31), "i32"), (0.1, "f16"),
     (True, "bool"), (255, "u8"), (1e39, "f32"), (-0.0, "f64")],
)  # fmt: skip
def test_constants_are_exact(run: Runner, value: float, dtype: str) -> None:
    (got,) = run("fill", [], [(dtype, (4,))], Const(value, dtype))
    with np.errstate(over="ignore"):
        expected = np.array([value] * 4).astype(got.dtype)
    same(got, expected)
    assert dtype[0] != "f" or (np.signbit(got) == np.signbit(expected)).all()


def add_tree(dtype: str = "f32") -> Apply:
    return Apply("add", (Input(0, dtype), Input(1, dtype)), dtype)


BASE = np.arange(2 * 3 * 4 * 5 * 6, dtype=np.float32).reshape(2, 3, 4, 5, 6)
LAYOUTS = {
    "transposed": (BASE[0, 0, 0].T, BASE[1, 1, 1].T),
    "one transposed": (BASE[0, 0, 0].T, np.ones((6, 5), np.float32)),
    "steps": (BASE[:, :, ::2, ::3, 1::2], BASE[:, :, 1::2, 1::3, ::2]),
    "broadcast rows": (BASE, np.broadcast_to(BASE[0, 0, 0], BASE.shape)),
    "broadcast columns": (BASE, np.broadcast_to(BASE[..., :1], BASE.shape)),
    "broadcast scalar": (BASE, np.broadcast_to(np.float32(7), BASE.shape)),
    "permuted": (BASE.transpose(3, 0, 4, 2, 1), BASE.transpose(3, 0, 4, 2, 1)),
    "no dimension": (np.array(2, np.float32), np.array(3, np.float32)),
    "rank 8": (
        np.arange(2**8, dtype=np.float32).reshape((2,) * 8).transpose(7, 6, 5, 4, 3, 2, 1, 0),
        np.ones((2,) * 8, np.float32),
    ),
    "large": (np.ones((300, 700), np.float32), np.arange(210000, dtype=np.float32).reshape(300, 700)),
    "large transposed": (BASE.repeat(50, 4).reshape(600, 60).T, np.ones((60, 600), np.float32)),
    "long and narrow": (np.ones((40000, 3), np.float32)[:, :2], np.ones((40000, 3), np.float32)[:, 1:]),
}  # fmt: skip


@pytest.mark.parametrize("case", LAYOUTS)
def test_layouts(either: Runner, case: str) -> None:
    a, b = LAYOUTS[case]
    (got,) = either("add", [a, b], [("f32", a.shape)], add_tree())
    same(got, a + b)


def test_output_may_be_an_operand_and_strided(run: Runner) -> None:
    device = run.device
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    handle, offset, _spec = run.upload(a)
    columns = TensorSpec("f32", (4, 3), (6, 2), layout_of((4, 3), (6, 2)))
    tree = Apply("mul", (Input(0, "f32"), Const(10.0, "f32")), "f32")
    row, _, _ = find_row(device.rows, OpSpec("mul", (columns,), (columns,), expr=tree))
    assert row is not None
    kernel = row.entry(device, OpSpec("mul", (columns,), (columns,), expr=tree))
    device.run_plan(SimpleNamespace(kernel=kernel), [handle, handle], [offset, offset], [])
    got = np.empty_like(a)
    device.d2h(memoryview(got.view(np.uint8).reshape(-1)), handle, offset)
    a[:, ::2] *= 10
    same(got, a)


def test_every_scalar_operation_is_covered() -> None:
    tested = {*UNARY, *BINARY, *COMPARE, "not", "and", "or", "xor", "shl", "shr", "where", "cast"}
    assert set(SCALAR_OPS) == tested


# -- reductions ------------------------------------------------------------------------------------
REDUCTIONS = ("sum", "prod", "max_reduce", "min_reduce", "argmax", "argmin")
SHAPES = [
    ((7, 33), (1,)), ((7, 33), (0,)), ((5, 6, 70), (0, 2)), ((5, 6, 70), (1,)),
    ((4, 3, 8), (0, 1, 2)), ((100003,), (0,)), ((3, 60000), (1,)), ((60000, 3), (0,)),
    ((300, 40), (0,)), ((1, 9), (0,)),
]  # fmt: skip


def reduce_reference(op: str, a: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    if op in ("sum", "prod"):
        kind = np.int64 if a.dtype.kind in "biu" else np.float64
        return getattr(np, op)(a, axis=axes, dtype=kind)
    if op.startswith("arg"):
        flat = a.reshape(-1) if len(axes) == a.ndim else np.moveaxis(a, axes[0], -1)
        kind = a.dtype if a.dtype.kind != "b" else np.uint8
        return np.asarray(getattr(np, op)(flat.astype(kind), axis=-1))
    return np.asarray(getattr(np, op[:3])(a, axis=axes))


def reduced(run: Runner, op: str, a: np.ndarray, axes: tuple[int, ...]) -> None:
    dtype = from_numpy(a.dtype).short
    if op.startswith("arg") and len(axes) not in (1, a.ndim):
        return
    result = (
        "i64" if op.startswith("arg") or (op in ("sum", "prod") and dtype not in FLOATS) else dtype
    )
    shape = tuple(n for d, n in enumerate(a.shape) if d not in axes)
    with np.errstate(all="ignore"):
        expected = reduce_reference(op, a, axes)
        expected = expected.astype(SHORT[result].numpy).reshape(shape)
    (got,) = run(op, [a], [(result, shape)], axes=axes, keepdim=False)
    if op in ("sum", "prod") and dtype in FLOATS:
        scale = np.abs(a[np.isfinite(a)].astype(float)).sum() if op == "sum" else 1.0
        same(got, expected, 5 * RTOL[dtype], RTOL[dtype] * 1e-2 * scale)
    else:
        same(got, expected)


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("op", REDUCTIONS)
def test_reduction(either: Runner, op: str, dtype: str) -> None:
    for shape, axes in [((7, 33), (1,)), ((5, 6, 70), (0, 2)), ((40, 9), (0,)), ((20003,), (0,))]:
        a = values(dtype, shape, special=False)
        if op == "prod":
            a = np.sign(a) if dtype in FLOATS else np.ones_like(a)
            a.flat[::7] = 1 if dtype == "bool" else 3 if dtype in INTS else 0.5
        reduced(either, op, a, axes)


@pytest.mark.parametrize(("shape", "axes"), SHAPES)
def test_reduction_shapes(either: Runner, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    a = values("f32", shape, special=False)
    for op in ("sum", "max_reduce", "argmin"):
        reduced(either, op, a, axes)
        if len(shape) > 1:
            reduced(either, op, a.T, tuple(sorted(len(shape) - 1 - d for d in axes)))
            reduced(either, op, np.broadcast_to(a[:, :1], shape), axes)


@pytest.mark.parametrize("op", ["max_reduce", "min_reduce", "argmax", "argmin", "sum"])
def test_nan_wins_and_the_first_index_of_a_tie(either: Runner, op: str) -> None:
    a = np.zeros((6, 5000), np.float32)
    a[1, [70, 4000]] = np.nan
    a[2, [90, 4100]] = [np.inf, np.inf]
    a[3, [17, 33]] = -np.inf
    a[4, 4999] = np.nan
    reduced(either, op, a, (1,))
    reduced(either, op, np.ascontiguousarray(a.T), (0,))


def test_sums_of_many_floats_stay_accurate(either: Runner) -> None:
    a = np.full((2, 3_000_000), 0.1, np.float32)
    (got,) = either("sum", [a], [("f32", (2,))], axes=(1,), keepdim=False)
    np.testing.assert_allclose(got, 3_000_000 * np.float64(np.float32(0.1)), rtol=2e-6)


# -- contractions ----------------------------------------------------------------------------------
def product(run: Runner, a: np.ndarray, b: np.ndarray) -> None:
    dtype = from_numpy(a.dtype).short
    up = {"f16": np.float32, "f32": np.float64}.get(dtype, a.dtype)
    expected = np.matmul(a.astype(up), b.astype(up)).astype(a.dtype)
    (got,) = run("matmul", [a, b], [(dtype, expected.shape)])
    rtol = RTOL.get(dtype, 0) * 4
    same(got, expected, rtol, rtol * np.sqrt(a.shape[-1]) * 4)


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS])
@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 70, 1), (65, 33, 130), (130, 65, 7), (1, 80, 90)])
def test_matmul(either: Runner, dtype: str, shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, b = values(dtype, (m, k), special=False), values(dtype, (k, n), 1, special=False)
    product(either, a, b)


def test_matmul_of_integers_wraps(either: Runner) -> None:
    big = np.full((40, 40), 2**31 - 5, np.int32)
    with np.errstate(over="ignore"):
        same(either("matmul", [big, big], [("i32", (40, 40))])[0], big @ big)


@pytest.mark.parametrize("transposed", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_matmul_reads_transposed_and_strided_matrices(either: Runner, transposed: tuple) -> None:
    for m, k, n in [(70, 90, 80), (5, 100, 6)]:
        a, b = values("f32", (m, k), special=False), values("f32", (k, n), 1, special=False)
        a = np.ascontiguousarray(a.T).T if transposed[0] else a
        b = np.ascontiguousarray(b.T).T if transposed[1] else b
        product(either, a, b)
        product(either, a[::2, ::3], b[::3, 1::2])


def test_matmul_batches(either: Runner) -> None:
    a = values("f32", (4, 3, 40, 50), special=False)
    b = values("f32", (4, 3, 50, 60), 1, special=False)
    product(either, a, b)
    product(either, a, np.broadcast_to(b[0, 0], b.shape))
    product(either, np.broadcast_to(a[:, :1], a.shape), np.broadcast_to(b[:1], b.shape))
    product(either, a.transpose(1, 0, 2, 3), b.transpose(1, 0, 2, 3))
    product(either, a[:, :, :1], b)
    heads = values("f32", (2, 30, 3, 20), special=False)
    product(either, heads.transpose(0, 2, 1, 3), heads.transpose(0, 2, 3, 1))


CONVS = [
    # images, in, out, extents, kernel, stride, padding, dilation, groups, output padding
    (2, 3, 5, (9, 8), (3, 3), (1, 1), (1, 1), (1, 1), 1, (0, 0)),
    (1, 4, 6, (11, 7), (3, 2), (2, 3), (2, 0), (2, 1), 2, (1, 0)),
    (3, 8, 8, (6, 6), (3, 3), (1, 1), (0, 0), (1, 1), 8, (0, 0)),
    (2, 3, 20, (30,), (5,), (2,), (3,), (2,), 1, (1,)),
    (1, 2, 3, (5, 6, 7), (2, 3, 3), (1, 2, 1), (1, 1, 0), (1, 1, 2), 1, (0, 1, 0)),
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("case", CONVS)
def test_convolution_and_its_gradients(
    either: Runner, case: tuple, transposed: bool, dtype: str
) -> None:
    images, cin, cout, extents, kernel, stride, padding, dilation, groups, extra = case
    extra = extra if transposed else (0,) * len(extents)
    x = values(dtype, (images, cin, *extents), special=False)
    left, right = (cin, cout) if transposed else (cout, cin)
    w = values(dtype, (left, right // groups, *kernel), 1, special=False)
    tx, tw = (wide(t).double().requires_grad_() for t in (x, w))
    ty = torch.ops.aten.convolution(
        tx, tw, None, stride, padding, dilation, transposed, extra, groups
    )
    g = values(dtype, tuple(ty.shape), 2, special=False)
    ty.backward(wide(g).double())
    attrs = {
        "stride": stride, "padding": padding, "dilation": dilation, "output_padding": extra, "groups": groups,
        "transposed": transposed,
    }  # fmt: skip
    for op, ins, expected in (
        ("conv", [x, w], ty), ("conv_bwd_input", [g, w], tx.grad), ("conv_bwd_weight", [g, x], tw.grad),
    ):  # fmt: skip
        want = expected.detach().numpy().astype(x.dtype)
        (got,) = either(op, ins, [(dtype, want.shape)], **attrs)
        same(got, want, RTOL[dtype] * 5, RTOL[dtype] * 50)


# -- windows ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [*INTS, *FLOATS])
def test_max_window_with_indices(either: Runner, dtype: str) -> None:
    x = values(dtype, (2, 3, 11, 9), special=False)
    attrs = {
        "mode": "max",
        "kernel": (3, 2),
        "stride": (2, 1),
        "padding": (1, 1),
        "dilation": (2, 1),
    }
    expected, indices = torch.nn.functional.max_pool2d(
        wide(x).double(), (3, 2), (2, 1), (1, 1), (2, 1), return_indices=True
    )
    got, at = either(
        "window_reduce",
        [x],
        [(dtype, tuple(expected.shape)), ("i64", tuple(indices.shape))],
        **attrs,
    )
    same(got, expected.numpy().astype(x.dtype))
    same(at, indices.numpy())


def test_max_window_keeps_nan_and_int64(run: Runner) -> None:
    x = np.array([[[1, np.nan, 2, 5, -np.inf, -np.inf]]], np.float32)
    attrs = {"mode": "max", "kernel": (2,), "stride": (2,), "padding": (0,), "dilation": (1,)}
    got, at = run("window_reduce", [x], [("f32", (1, 1, 3)), ("i64", (1, 1, 3))], **attrs)
    same(got, np.array([[[np.nan, 5, -np.inf]]], np.float32))
    same(at, np.array([[[1, 3, 4]]]))
    big = np.array([[[2**60 + 1, 2**60, -(2**62), -(2**61)]]])
    got, at = run("window_reduce", [big], [("i64", (1, 1, 2)), ("i64", (1, 1, 2))], **attrs)
    same(got, np.array([[[2**60 + 1, -(2**61)]]]))


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS])
def test_sum_window(either: Runner, dtype: str) -> None:
    x = values(dtype, (2, 2, 4, 6, 5), special=False)
    attrs = {
        "mode": "sum",
        "kernel": (2, 3, 2),
        "stride": (1, 2, 2),
        "padding": (1, 1, 0),
        "dilation": (1,) * 3,
    }
    ones = torch.ones((2, 1, 2, 3, 2), dtype=torch.float64)
    expected = torch.conv3d(wide(x).double(), ones, None, (1, 2, 2), (1, 1, 0), 1, 2)
    (got,) = either("window_reduce", [x], [(dtype, tuple(expected.shape))], **attrs)
    want = expected.numpy()
    same(got, (want.astype(np.int64) if dtype in INTS else want).astype(x.dtype), RTOL.get(dtype, 0),
         RTOL.get(dtype, 0))  # fmt: skip


# -- indexing --------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_gather(either: Runner, dtype: str, dim: int) -> None:
    x = values(dtype, (5, 6, 7))
    shape = [4, 5, 6]
    shape[dim] = 9
    index = np.random.default_rng(3).integers(0, x.shape[dim], shape)
    expected = torch.gather(torch.from_numpy(x), dim, torch.from_numpy(index)).numpy()
    (got,) = either("gather", [x, index], [(dtype, tuple(shape))], dim=dim)
    assert got.tobytes() == expected.tobytes()
    (got,) = either("gather", [x.transpose(2, 1, 0), index.transpose(2, 1, 0)],
                    [(dtype, tuple(reversed(shape)))], dim=2 - dim)  # fmt: skip
    assert got.tobytes() == np.ascontiguousarray(expected.T).tobytes()


def test_gather_reads_rows_through_a_broadcast_index(either: Runner) -> None:
    table = values("f32", (1000, 40), special=False)
    rows = np.random.default_rng(0).integers(0, 1000, (300, 1))
    (got,) = either(
        "gather", [table, np.broadcast_to(rows, (300, 40))], [("f32", (300, 40))], dim=0
    )
    same(got, table[rows[:, 0]])


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("shape", [(5, 6), (50, 300), (2000,)])
def test_scatter_add(either: Runner, dtype: str, shape: tuple[int, ...]) -> None:
    x, src = values(dtype, shape, special=False), values(dtype, shape, 1, special=False)
    if dtype in FLOATS:  # sums that are exact in any order
        x, src = np.round(x), np.round(src)
    index = np.random.default_rng(3).integers(0, min(shape[0], 40), shape)
    (got,) = either("scatter", [x, index, src], [(dtype, shape)], dim=0, mode="add")
    expected = x.copy()
    where = (index, *np.indices(shape)[1:])
    (np.logical_or if dtype == "bool" else np.add).at(expected, where, src)
    same(got, expected)


@pytest.mark.parametrize("dtype", ALL)
def test_scatter_set(either: Runner, dtype: str) -> None:
    for shape, dim in [((6, 5), 0), ((6, 5), 1), ((30, 200), 0), ((200, 300), 1)]:
        x, src = values(dtype, shape), values(dtype, shape, 1)
        index = np.random.default_rng(3).random(shape).argsort(axis=dim)  # no repetitions
        expected = x.copy()
        np.put_along_axis(expected, index, src, dim)
        (got,) = either("scatter", [x, index, src], [(dtype, shape)], dim=dim, mode="set")
        assert got.tobytes() == expected.tobytes()
        (got,) = either(
            "scatter", [x, index[:, :2], src[:, :3:2]], [(dtype, shape)], dim=dim, mode="set"
        )
        few = [torch.from_numpy(np.ascontiguousarray(t)) for t in (x, index[:, :2], src[:, :3:2])]
        expected = torch.scatter(few[0], dim, few[1], few[2]).numpy()
        assert got.tobytes() == expected.tobytes()


def test_scatter_in_place_leaves_out_the_copy(run: Runner) -> None:
    device = run.device
    y = np.arange(6, dtype=np.float32)
    index, src = np.array([1, 1, 5]), np.array([10, 20, 30], np.float32)
    operands = [run.upload(a) for a in (y, index, src)]
    operands.append(operands[0])
    spec = OpSpec(
        "scatter", tuple(o[2] for o in operands[:3]), (operands[0][2],), {"dim": 0, "mode": "add"}
    )
    row, _, _ = find_row(device.rows, spec)
    assert row is not None
    plan = SimpleNamespace(kernel=row.entry(device, spec))
    device.run_plan(plan, [o[0] for o in operands], [o[1] for o in operands], [])
    got = np.empty_like(y)
    device.d2h(memoryview(got.view(np.uint8)), *operands[0][:2])
    same(got, np.array([0, 31, 2, 3, 4, 35], np.float32))


@pytest.mark.parametrize("bad", [-1, 5, 2**40])
def test_an_index_out_of_bounds_is_reported_once_at_synchronisation(
    either: Runner, bad: int
) -> None:
    x, index = values("f32", (5, 3), special=False), np.zeros((2, 3), np.int64)
    index[1, 1] = bad
    with pytest.raises(IndexOutOfRange, match=f"gather: index {bad} .*dimension 0 with size 5"):
        either("gather", [x, index], [("f32", (2, 3))], dim=0)
    with pytest.raises(IndexOutOfRange, match=f"scatter: index {bad} .*dimension 0 with size 5"):
        either("scatter", [x, index, x[:2]], [("f32", (5, 3))], dim=0, mode="add")
    either.device.synchronize()


# -- generators ------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [*INTS, *FLOATS])
def test_iota(either: Runner, dtype: str) -> None:
    start, step = (3, 2) if dtype in INTS else (-1.5, 0.25)
    (got,) = either("iota", [], [(dtype, (100,))], None, ((dtype, start), (dtype, step)))
    same(got, (start + np.arange(100) * step).astype(got.dtype))


def test_philox_published_answer_and_positions(either: Runner) -> None:
    def words(key: int, offset: int, n: int) -> np.ndarray:
        scalars = (("i64", key), ("i64", offset))
        return either("philox", [], [("i32", (n,))], None, scalars)[0].view(np.uint32)

    assert words(0, 0, 4).tolist() == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    long = words(-5, 2**33 - 3, 41)
    assert (words(-5, 2**33 - 1, 7) == long[8:15]).all()
    assert len(set(long.tolist())) == 41
