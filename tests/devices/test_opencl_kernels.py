"""Every other kernel of the OpenCL device against NumPy and PyTorch, without the dispatcher."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from halon.devices.opencl.check import ALL, FLOATS, INTS, RTOL, Runner, same, values
from halon.devices.rows import find_row
from halon.hal.dtypes import SHORT, from_numpy
from halon.hal.errors import IndexOutOfRange
from halon.hal.op_desc import OpSpec


def wide(array: np.ndarray) -> torch.Tensor:
    """For references: f16 as f32."""
    array = array.astype(np.float32) if array.dtype == np.float16 else array
    return torch.from_numpy(np.ascontiguousarray(array))


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
        "stride": stride, "padding": padding, "dilation": dilation, "output_padding": extra,
        "groups": groups, "transposed": transposed,
    }  # fmt: skip
    for op, ins, expected in (
        ("conv", [x, w], ty),
        ("conv_bwd_input", [g, w], tx.grad),
        ("conv_bwd_weight", [g, x], tw.grad),
    ):
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
    want = expected.numpy().astype(np.int64) if dtype in INTS else expected.numpy()
    rtol = RTOL.get(dtype, 0)
    same(got, want.astype(x.dtype), rtol, rtol)


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
