"""Elementwise kernels of the OpenCL device against PyTorch: operations, dtypes, layouts."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from halon.devices.opencl.check import ALL, FLOATS, INTS, RTOL, Runner, same, values
from halon.devices.rows import find_row
from halon.hal.dtypes import SHORT
from halon.hal.op_desc import OpSpec, TensorSpec
from halon.hal.properties import layout_of
from halon.kernels.scalar_ops import SCALAR_OPS
from halon.kernels.tree import Apply, Const, Input, Scalar


def wide(array: np.ndarray) -> torch.Tensor:
    """For references: f16 as f32."""
    array = array.astype(np.float32) if array.dtype == np.float16 else array
    return torch.from_numpy(np.ascontiguousarray(array))


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
    if op in ("idiv", "mod"):
        with pytest.raises(RuntimeError, match=f"ZeroDivisionError: {op}"):
            run(op, [a, b], [(dtype, a.shape)], node)
        b[b == 0] = 5
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
    [(float("inf"), "f32"), (float("nan"), "f64"), (-(2**63), "i64"), (-(2**31), "i32"),
     (0.1, "f16"),     (True, "bool"), (255, "u8"), (1e39, "f32"), (-0.0, "f64")],
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
    "large": (
        np.ones((300, 700), np.float32), np.arange(210000, dtype=np.float32).reshape(300, 700),
    ),
    "large transposed": (BASE.repeat(50, 4).reshape(600, 60).T, np.ones((60, 600), np.float32)),
    "long and narrow": (
        np.ones((40000, 3), np.float32)[:, :2], np.ones((40000, 3), np.float32)[:, 1:],
    ),
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
    """Here, or (what arrived later and complex numbers) by an operator of tests/operators."""
    tested = {*UNARY, *BINARY, *COMPARE, "not", "and", "or", "xor", "shl", "shr", "where", "cast"}
    elsewhere = {name for name, op in SCALAR_OPS.items() if op.expand or op.expand_complex}
    elsewhere |= {"real", "imag", "complex", "fmod", "nextafter", "gcd"}
    assert set(SCALAR_OPS) == tested | elsewhere
