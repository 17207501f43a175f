"""Filling, gathering, scattering and windows on the CPU against NumPy and PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from halon.hal.errors import IndexOutOfRange
from tests.devices.cpu_launch import F32, NUMPY, run, same


@pytest.mark.parametrize(("start", "step", "dtype"), [
    (5, -2, "i64"), (0, 1, "i32"), (250, 1, "u8"), (0.5, 0.25, "f32"), (0.0, 0.1, "f64"),
    (1.0, 0.5, "f16"),
])  # fmt: skip
def test_iota(start: Any, step: Any, dtype: str) -> None:
    wide = np.arange(1001) * (np.float64(step) if dtype[0] == "f" else step) + start
    got = run("iota", [], [np.empty(1001, NUMPY[dtype])], scalars=[(dtype, start), (dtype, step)])
    same(got, wide.astype(NUMPY[dtype]))


def _philox_reference(counter: Sequence[int], key: Sequence[int]) -> list[int]:
    """Philox4x32-10 with all four counter words, as in the SC11 paper."""
    (a, b, c, d), (k0, k1) = counter, key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = (
            (p1 >> 32) ^ b ^ k0, p1 & 0xFFFFFFFF, (p0 >> 32) ^ d ^ k1, p0 & 0xFFFFFFFF,
        )  # fmt: skip
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return [a, b, c, d]


ONES = 0xFFFFFFFF
#: Random123's kat_vectors for philox4x32 with 10 rounds: counter, key, result.
KNOWN = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([ONES] * 4, [ONES] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    ([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0],
     [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
]  # fmt: skip


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_the_philox_reference_gives_the_published_vectors(
    counter: list[int], key: list[int], words: list[int]
) -> None:
    assert _philox_reference(counter, key) == words


@pytest.mark.parametrize("offset", [0, 5, 2**32 - 1, 2**40])
@pytest.mark.parametrize("key", [0, 1234567890123456789, -1])
def test_philox_words(key: int, offset: int) -> None:
    got = run("philox", [], [np.empty(11, np.int32)], scalars=[("i64", key), ("i64", offset)])
    k = [key & ONES, key >> 32 & ONES]
    want = []
    for c in range(offset, offset + 3):
        want += _philox_reference([c & ONES, c >> 32, 0, 0], k)
    np.testing.assert_array_equal(got.view(np.uint32), np.array(want[:11], np.uint32))


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.float16, F32, np.int64, np.complex128])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_gather_and_scatter_along_any_dimension(dtype: Any, dim: int) -> None:
    rng = np.random.default_rng(10)
    x = rng.integers(0, 9, (6, 7, 8)).astype(dtype)
    shape = (4, 5, 6)
    index = rng.permuted(
        np.broadcast_to(
            np.arange(6).reshape([-1 if d == dim else 1 for d in range(3)]),
            [6 if d == dim else n for d, n in enumerate(shape)],
        ),
        axis=dim,
    )
    index = np.ascontiguousarray(index[tuple(slice(n) for n in shape)])
    t = torch.from_numpy(x)
    want = torch.gather(t, dim, torch.from_numpy(index)).numpy()
    for v in (x, np.asfortranarray(x)):
        same_bytes = run("gather", [v, index], [np.empty(shape, dtype)], dim=dim)
        np.testing.assert_array_equal(same_bytes, want)
    src = rng.integers(0, 9, shape).astype(dtype)
    want = torch.scatter(t, dim, torch.from_numpy(index), torch.from_numpy(src)).numpy()
    for v in (x, np.asfortranarray(x)):
        got = run("scatter", [v, index, src], [np.empty_like(x)], dim=dim, mode="set")
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", NUMPY)
def test_scatter_adds_repeated_indices(dtype: str) -> None:
    rng = np.random.default_rng(11)
    x = rng.integers(0, 3, (5, 6)).astype(NUMPY[dtype])
    src = rng.integers(0, 3, (20, 6)).astype(NUMPY[dtype])
    rows = rng.integers(0, 5, (20, 1))
    index = np.broadcast_to(rows, (20, 6))
    want = x.copy()
    np.add.at(want, rows[:, 0], src)
    for i in (index, np.ascontiguousarray(index)):
        same(run("scatter", [x, i, src], [np.empty_like(x)], dim=0, mode="add"), want)
    run("scatter", [x, index, src], [x], dim=0, mode="add")
    same(x, want)


def test_gather_of_rows_and_of_a_0_d_tensor() -> None:
    table = np.random.default_rng(12).normal(size=(100, 33)).astype(F32)
    rows = np.random.default_rng(13).integers(0, 100, 40)
    index = np.broadcast_to(rows[:, None], (40, 33))
    same(run("gather", [table, index], [np.empty((40, 33), F32)], dim=0), table[rows])
    x = np.array(3.0, F32)
    same(run("gather", [x, np.array(0)], [np.empty((), F32)], dim=0), x)


@pytest.mark.parametrize("bad", [3, -1, 2**62])
def test_an_index_out_of_range_is_named_and_nothing_is_written(bad: int) -> None:
    x, index = np.zeros((4, 3), F32), np.zeros((4, 2), np.int64)
    index[3, 1] = bad
    out = np.full((4, 2), 5, F32)
    with pytest.raises(IndexOutOfRange, match=f"index {bad} .* dimension 1 with size 3"):
        run("gather", [x, index], [out], dim=1)
    assert np.all(out == 5)
    y = np.full((4, 3), 5, F32)
    with pytest.raises(IndexOutOfRange, match=f"index {bad} .* dimension 1 with size 3"):
        run("scatter", [x, index, out], [y], dim=1, mode="set")
    assert np.all(y == 5)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["f16", "f32", "f64", "i64"])
def test_max_windows_agree_with_pytorch(rank: int, dtype: str) -> None:
    x = np.random.default_rng(14).integers(0, 6, (2, 3, 9, 8, 7)[: 2 + rank]).astype(NUMPY[dtype])
    if dtype[0] == "f":
        x[0, 0, 4] = np.nan
    pool = getattr(torch.nn.functional, f"max_pool{rank}d")
    wide = torch.from_numpy(x).double()
    for kernel, stride, padding, dilation in ((2, 2, 0, 1), (3, 2, 1, 1), (3, 1, 1, 2)):
        values, indices = pool(wide, kernel, stride, padding, dilation, return_indices=True)
        out, at = np.empty(values.shape, NUMPY[dtype]), np.empty(values.shape, np.int64)
        run("window_reduce", [x], [out, at], mode="max", kernel=(kernel,) * rank,
            stride=(stride,) * rank, padding=(padding,) * rank, dilation=(dilation,) * rank,
        )  # fmt: skip
        same(out, values.numpy().astype(NUMPY[dtype]))
        np.testing.assert_array_equal(at, indices.numpy())


def test_sum_windows_of_a_strided_input() -> None:
    x = np.random.default_rng(15).normal(size=(2, 10, 12, 3)).transpose(0, 3, 1, 2)
    want = (
        torch.nn.functional.avg_pool2d(torch.from_numpy(x.copy()), (3, 2), (2, 1), (1, 1)).numpy()
        * 6
    )
    got = run("window_reduce", [x], [np.empty(want.shape)], mode="sum", kernel=(3, 2),
        stride=(2, 1), padding=(1, 1), dilation=(1, 1),
    )  # fmt: skip
    np.testing.assert_allclose(got, want, rtol=1e-12)
