"""Elementwise programs on the CPU: fused trees, fills, copies and operands of any layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from halon.hal.dtypes import from_numpy
from halon.kernels.tree import Apply, Const, Input, Node, Scalar
from tests.devices.cpu_launch import F32, LEVELS, NUMPY, apply, isa, matrix, run, same


def test_a_chain_with_scalars_constants_and_a_repeated_operand() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 70, 65)).astype(F32)
    a, b = Input(0, "f32"), Input(1, "f32")
    s = Apply("mul", (Apply("add", (a, b), "f32"), Scalar(0, "f32")), "f32")
    tree = Apply(
        "where",
        (Apply("lt", (a, Const(0.5, "f32")), "bool"), s, Apply("mul", (s, a), "f32")),
        "f32",
    )
    got = run("fused", [x, y], [np.empty_like(x)], expr=tree, scalars=[("f32", 2.5)])
    s_want = (x + y) * F32(2.5)
    same(got, np.where(x < F32(0.5), s_want, s_want * x))


@pytest.mark.parametrize("depth", [2, 6])
def test_mixed_widths_never_overwrite_a_live_tile(depth: int) -> None:
    x = np.random.default_rng(2).integers(-9, 9, 5000).astype(np.int32)
    node: Node = Input(0, "i32")
    want: Any = x
    for _ in range(depth):
        wide = Apply("cast", (node,), "f64")
        half = Apply("cast", (wide,), "f32")
        node = Apply("cast", (Apply("add", (wide, Apply("cast", (half,), "f64")), "f64"),), "i32")
        node = Apply("sub", (node, Input(0, "i32")), "i32")
        want = (2 * want.astype(np.int64) - x).astype(np.int32)
        node, want = Apply("mod", (node, Const(1000, "i32")), "i32"), want % 1000
    same(run("f", [x], [np.empty_like(x)], expr=node), want)


@pytest.mark.parametrize(("value", "dtype"), [
    (True, "bool"), (200, "u8"), (-3, "i32"), (-(2**63), "i64"), (0.1, "f16"), (0.1, "f32"),
    (float("nan"), "f64"), (-0.0, "f32"),
])  # fmt: skip
def test_fill_by_scalar_and_by_constant(value: Any, dtype: str) -> None:
    for shape in ((), (3,), (1000, 7)):
        want = np.full(shape, value, NUMPY[dtype])
        got = run(
            "fill",
            [],
            [np.empty(shape, NUMPY[dtype])],
            expr=Scalar(0, dtype),
            scalars=[(dtype, value)],
        )
        same(got, want)
        same(run("fill", [], [np.empty(shape, NUMPY[dtype])], expr=Const(value, dtype)), want)


def test_an_output_may_be_an_input() -> None:
    x = np.arange(10_000, dtype=F32).reshape(100, 100)
    want = (x + x.T.copy()) * x
    tree = Apply(
        "mul", (Apply("add", (Input(0, "f32"), Input(1, "f32")), "f32"), Input(0, "f32")), "f32"
    )
    other = np.ascontiguousarray(x.T).T.T
    run("f", [x, other.copy()], [x], expr=tree)
    same(x, want)


def _views(rng: np.random.Generator) -> dict[str, tuple[np.ndarray, ...]]:
    def base(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(F32)

    return {
        "0-d": (base()[...], base()[...]),
        "contiguous": (base(5, 300), base(5, 300)),
        "transposed": (base(130, 90).T, base(90, 130)),
        "both transposed": (base(33, 65).T, base(33, 65).T),
        "permuted": (base(7, 40, 9).transpose(2, 0, 1), base(9, 7, 40)),
        "row broadcast": (base(1, 300), base(40, 300)),
        "column broadcast": (base(40, 1), base(40, 300)),
        "short rows": (base(500, 3), base(3)),
        "outer product": (base(200, 1), base(1, 3)),
        "one element": (base(1), base(50, 60)),
        "stepped": (base(60, 80)[::2, ::3], base(30, 27)),
        "an offset": (base(20, 20)[3:, 5:], base(17, 15)),
        "rank 6": (base(2, 3, 1, 4, 1, 5), base(3, 2, 1, 6, 5)),
        "rank 8": (base(2, 1, 2, 1, 2, 1, 2, 1), base(1, 3, 1, 3, 1, 3, 1, 3)),
    }


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", _views(np.random.default_rng(0)))
def test_operands_of_any_layout(level: int, case: str) -> None:
    with isa(level):
        x, y = _views(np.random.default_rng(3))[case]
        same(apply("sub", x, y), x - y)
        same(apply("lt", x, y), x < y)


@matrix(
    case=_views(np.random.default_rng(0)), dtype=["u1", "f2", "f4", "i8", "c16"],
)  # fmt: skip
def test_copies_between_layouts(case: str, dtype: str) -> None:
    for x in _views(np.random.default_rng(4))[case]:
        with np.errstate(invalid="ignore"):
            x = np.asarray(x.astype(dtype, order="K"))
        short = from_numpy(x.dtype).short
        same_bytes = run("copy", [x], [np.empty(x.shape, dtype)], expr=Input(0, short))
        np.testing.assert_array_equal(same_bytes, x)
        out = np.zeros(tuple(2 * n for n in x.shape), dtype)[
            (..., *(slice(None, None, 2) for _ in x.shape))
        ]
        np.testing.assert_array_equal(run("copy", [x], [out], expr=Input(0, short)), x)


def test_an_output_of_any_layout_keeps_its_gaps() -> None:
    x, y = np.random.default_rng(5).normal(size=(2, 40, 50)).astype(F32)
    frame = np.full((50, 80), 7, F32)
    out = frame.T[::2, :]
    tree = Apply("add", (Input(0, "f32"), Input(1, "f32")), "f32")
    run("add", [x, y], [out], expr=tree)
    same(np.ascontiguousarray(out), x + y)
    assert np.all(frame[:, 1::2] == 7)
