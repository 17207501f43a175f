"""Reductions on the CPU: every dtype and layout, accuracy, NaN and ties."""

from __future__ import annotations

import numpy as np
import pytest

from tests.devices.cpu_launch import F32, LEVELS, NUMPY, isa, matrix, run, same


def _reduction_cases() -> dict[str, tuple[np.ndarray, tuple[int, ...]]]:
    rng = np.random.default_rng(6)

    def ints(*shape: int) -> np.ndarray:
        return rng.integers(-50, 50, shape)

    return {
        "all": (ints(100_001), (0,)),
        "one element": (ints(1), (0,)),
        "last": (ints(30, 513), (1,)),
        "first": (ints(513, 700), (0,)),
        "short last": (ints(300, 3), (1,)),
        "folded first": (ints(1001, 3), (0,)),
        "folded first of few": (ints(5, 3), (0,)),
        "middle": (ints(6, 70, 33), (1,)),
        "channels": (ints(4, 5, 9, 40), (0, 2, 3)),
        "transposed": (ints(80, 90).T, (0,)),
        "transposed last": (ints(80, 90).T, (1,)),
        "transposed all": (ints(80, 90).T, (0, 1)),
        "stepped": (ints(60, 80)[::2, ::3], (1,)),
        "stepped all": (ints(60, 80)[::2, ::3], (0, 1)),
        "broadcast": (np.broadcast_to(ints(1, 40), (30, 40)), (0,)),
        "rank 6": (ints(2, 3, 4, 5, 2, 3), (1, 3, 4)),
    }


REDUCE = {"sum": np.sum, "prod": np.prod, "max_reduce": np.max, "min_reduce": np.min}


@matrix(op=REDUCE, dtype=NUMPY, case=_reduction_cases())
def test_reductions_of_every_dtype(op: str, dtype: str, case: str) -> None:
    values, axes = _reduction_cases()[case]
    x = _as_layout(values if dtype[0] != "u" else np.abs(values), dtype, op)
    result = "i64" if op in ("sum", "prod") and dtype[0] != "f" else dtype
    accumulate = "f64" if dtype[0] == "f" else result
    wide = x.astype(NUMPY[accumulate])
    want = REDUCE[op](wide, axis=axes).astype(NUMPY[result])
    got = run(op, [x], [np.empty(want.shape, NUMPY[result])], axes=axes, keepdim=False)
    np.testing.assert_allclose(got, want, rtol=2e-3 if dtype == "f16" else 1e-5, atol=0)


def _as_layout(values: np.ndarray, dtype: str, op: str) -> np.ndarray:
    """The same values and strides in another dtype; factors near 1 keep products finite."""
    if op == "prod" and dtype[0] == "f":
        values = 1 + values / 50_000
    if op == "sum" and dtype == "f16":
        values = np.abs(values) / 64
    return np.asarray(values.astype(NUMPY[dtype], order="K")) if 0 not in values.strides else (
        np.broadcast_to(values[:1].astype(NUMPY[dtype]), values.shape)
    )  # fmt: skip


@pytest.mark.parametrize("level", LEVELS)
def test_the_error_of_a_long_float_sum_stays_small(level: int) -> None:
    with isa(level):
        x = np.random.default_rng(7).uniform(0, 1, 4_000_000).astype(F32)
        for shape in ((4_000_000,), (1_000_000, 4), (4000, 1000)):
            v = x.reshape(shape)
            want = v.sum(0, dtype=np.float64)
            got = run("sum", [v], [np.empty(want.shape, F32)], axes=(0,), keepdim=False)
            np.testing.assert_allclose(got, want, rtol=1e-6)


def test_float_sums_may_be_asked_in_double() -> None:
    x = np.full(1_000_000, 0.1, F32)
    got = run("sum", [x], [np.empty((), np.float64)], axes=(0,), keepdim=False)
    np.testing.assert_allclose(got, x.sum(dtype=np.float64), rtol=1e-13)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("op", ["max_reduce", "min_reduce", "argmax", "argmin"])
@pytest.mark.parametrize("axis", [0, 1])
def test_nan_wins_and_the_first_index_wins(level: int, op: str, axis: int) -> None:
    with isa(level):
        x = np.random.default_rng(8).integers(0, 5, (200, 190)).astype(F32)
        x[17, 3] = x[18, 3] = x[5, 150] = np.nan
        x[:, 9] = -np.inf
        function = {"max_reduce": np.max, "min_reduce": np.min}.get(op) or getattr(np, op)
        want = function(x, axis=axis)
        same(run(op, [x], [np.empty_like(want)], axes=(axis,), keepdim=False), want)


@pytest.mark.parametrize("op", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", NUMPY)
def test_flattened_arg_reductions_number_elements_in_order(op: str, dtype: str) -> None:
    x = np.random.default_rng(9).integers(0, 100, (60, 70)).astype(NUMPY[dtype])
    for v in (x, x.T, x[::2, 1::3], x[:1, :1]):
        want = np.asarray(getattr(np, op)(v))
        same(run(op, [v], [np.empty((), np.int64)], axes=(0, 1), keepdim=False), want)
