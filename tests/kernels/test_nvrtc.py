"""Every kernel a GPU would get compiles with NVRTC, without register spills; nothing runs here."""

from __future__ import annotations

import os
import re

import pytest

from halon.hal.dtypes import ALL_DTYPES
from halon.hal.errors import CompileError
from halon.hal.op_desc import OpSpec, TensorSpec
from halon.hal.properties import layout_of
from halon.kernels.pk import (
    conv,
    elementwise,
    generate,
    indexing,
    matmul,
    nvrtc,
    reduce,
    scan,
    sort,
)
from halon.kernels.pk.launch import Launch, Target
from halon.kernels.scalar_ops import SCALAR_OPS
from halon.kernels.tree import Apply, Input, Node, Scalar

GPU = Target(cpu=False, units=64)
ARCHS = ("sm_80", "sm_90")
INTS, FLOATS = ("u8", "i32", "i64"), ("f16", "f32", "f64")
ALL = ("bool", *INTS, *FLOATS)


@pytest.fixture(autouse=True, scope="module")
def _nvrtc() -> None:
    why = nvrtc.why_missing()
    if why and os.environ.get("CI"):
        pytest.fail(why)
    if why:
        pytest.skip(why)


def tensor(dtype: str, *shape: int, strides: tuple[int, ...] | None = None) -> TensorSpec:
    dense, step = [0] * len(shape), 1
    for d in reversed(range(len(shape))):
        dense[d] = step
        step *= shape[d]
    strides = tuple(dense) if strides is None else strides
    return TensorSpec(dtype, shape, strides, layout_of(shape, strides))


def compiles(launch: Launch) -> None:
    for step in launch.steps:
        for arch in ARCHS:
            ptx, log = nvrtc.compile_with_log(step.source, arch, ("--ptxas-options=-v",))
            assert f".visible .entry {step.entry}(" in ptx
            spills = re.findall(r"(\d+) bytes spill", log)
            assert spills, log
            assert set(spills) == {"0"}, log


def tree(op: str, dtype: str) -> Node:
    """All overloads of one operation; f16 through f32, as the dispatcher writes it."""
    work = "f32" if dtype == "f16" else dtype
    arity = SCALAR_OPS[op].arity

    def operand(k: int) -> Node:
        x = Input(k, dtype)
        return x if work == dtype else Apply("cast", (x,), work)

    args = tuple(operand(k) for k in range(arity))
    if op == "where":
        args = (Apply("cast", (args[0],), "bool"), *args[1:])
    node = Apply(op, args, SCALAR_OPS[op].result_dtype(work))
    return Apply("cast", (node,), dtype)


@pytest.mark.parametrize("dtype", [*ALL, "u64", "c64", "c128"])
def test_every_scalar_operation(dtype: str) -> None:
    """One kernel per dtype: the operations in a chain of ``where`` that uses each result."""
    work = "f32" if dtype == "f16" else dtype
    total: Node = Input(0, dtype)
    for op in SCALAR_OPS:
        try:
            SCALAR_OPS[op].template(work)
        except ValueError:
            continue
        flag = Apply("cast", (tree(op, dtype),), "bool")
        total = Apply("where", (flag, total, tree(op, dtype)), dtype)
    t = tensor(dtype, 1000)
    compiles(elementwise.build(OpSpec("all", (t, t, t), (t,), expr=total), GPU))


@pytest.mark.parametrize("dtype", sorted(ALL_DTYPES))
def test_every_cast(dtype: str) -> None:
    """One dtype into all others, and back into it from their sum."""
    for target in sorted(ALL_DTYPES - {dtype}):
        node = Apply("cast", (Input(0, dtype),), target)
        x, y = tensor(dtype, 1000), tensor(target, 1000)
        compiles(elementwise.build(OpSpec("cast", (x,), (y,), expr=node), GPU))


@pytest.mark.parametrize("dtype", [*ALL, "u64"])
def test_scans_and_sorts(dtype: str) -> None:
    x, where = tensor(dtype, 3, 1000), tensor("i64", 3, 1000)
    for op in ("cumsum", "cumprod"):
        for dim in (0, 1):
            attrs = {"dim": dim, "reverse": bool(dim)}
            compiles(scan.scan(OpSpec(op, (x,), (x,), attrs), GPU))
    compiles(sort.sort(OpSpec("sort", (x,), (x, where), {"dim": 1, "descending": True}), GPU))


@pytest.mark.parametrize("rank", range(1, 9))
def test_strided_elementwise_of_every_rank(rank: int) -> None:
    shape = (2,) * rank
    out = tensor("f32", *shape)
    inside = tensor("f32", *shape, strides=tuple(3 ** (rank - d) for d in range(rank)))
    flat = tensor("f32", *shape, strides=(0,) * rank)
    node = Apply(
        "add", (Input(0, "f32"), Apply("mul", (Input(1, "f32"), Scalar(0, "f32")), "f32")), "f32"
    )
    spec = OpSpec("t", (inside, flat), (out,), scalars=(("s", "f32"),), expr=node)
    compiles(elementwise.build(spec, GPU))


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("op", ["sum", "prod", "max_reduce", "min_reduce", "argmax", "argmin"])
def test_reductions(op: str, dtype: str) -> None:
    arg, folds = op.startswith("arg"), op in ("sum", "prod")
    result = "i64" if arg or (folds and dtype not in FLOATS) else dtype
    for shape, axis in [((4, 500000), 1), ((300, 100000), 0), ((7, 5, 6), 1)]:
        kept = tuple(n for d, n in enumerate(shape) if d != axis)
        spec = OpSpec(op, (tensor(dtype, *shape),), (tensor(result, *kept),), {"axes": (axis,)})
        compiles(reduce.build(spec, GPU))


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS])
def test_matmul(dtype: str) -> None:
    for a, b in [
        (tensor(dtype, 500, 300), tensor(dtype, 300, 400)),
        (tensor(dtype, 500, 300, strides=(1, 500)), tensor(dtype, 300, 400, strides=(1, 300))),
        (tensor(dtype, 5, 3), tensor(dtype, 3, 4)),
        (tensor(dtype, 1, 300), tensor(dtype, 300, 1)),
    ]:
        out = tensor(dtype, a.shape[0], b.shape[1])
        compiles(matmul.build(OpSpec("matmul", (a, b), (out,)), GPU))


@pytest.mark.parametrize("dtype", FLOATS)
def test_convolutions(dtype: str) -> None:
    x, w, y = tensor(dtype, 2, 3, 8, 8), tensor(dtype, 5, 3, 3, 3), tensor(dtype, 2, 5, 6, 6)
    two = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "output_padding": (0, 0)}
    attrs = dict(two, groups=1, transposed=False)
    compiles(conv.conv(OpSpec("conv", (x, w), (y,), attrs), GPU))
    compiles(conv.conv_bwd_input(OpSpec("conv_bwd_input", (y, w), (x,), attrs), GPU))
    compiles(conv.conv_bwd_weight(OpSpec("conv_bwd_weight", (y, x), (w,), attrs), GPU))


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS])
def test_windows(dtype: str) -> None:
    x, y, i = tensor(dtype, 2, 3, 8, 8), tensor(dtype, 2, 3, 4, 4), tensor("i64", 2, 3, 4, 4)
    attrs = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1)}
    compiles(
        conv.window_reduce(OpSpec("window_reduce", (x,), (y, i), dict(attrs, mode="max")), GPU)
    )
    compiles(conv.window_reduce(OpSpec("window_reduce", (x,), (y,), dict(attrs, mode="sum")), GPU))


@pytest.mark.parametrize("dtype", ALL)
def test_gather_and_scatter(dtype: str) -> None:
    x, index = tensor(dtype, 30, 40, 50), tensor("i64", 30, 40, 50)
    compiles(indexing.gather(OpSpec("gather", (x, index), (x,), {"dim": 1}), GPU))
    for mode in ("set", "add"):
        spec = OpSpec("scatter", (x, index, x), (x,), {"dim": 1, "mode": mode})
        compiles(indexing.scatter(spec, GPU))
        compiles(indexing.scatter(spec, Target(cpu=False, units=64, atomics64=False)))


@pytest.mark.parametrize("dtype", [*INTS, *FLOATS])
def test_iota(dtype: str) -> None:
    scalars = (("start", dtype), ("step", dtype))
    compiles(generate.iota(OpSpec("iota", (), (tensor(dtype, 99),), scalars=scalars), GPU))


def test_philox() -> None:
    scalars = (("key", "i64"), ("offset", "i64"))
    compiles(generate.philox(OpSpec("philox", (), (tensor("i32", 99),), scalars=scalars), GPU))


def test_a_refused_kernel_shows_log_and_source() -> None:
    with pytest.raises(CompileError, match="no_such_name"):
        nvrtc.compile('extern "C" __global__ void k(int *y) { *y = no_such_name; }')
