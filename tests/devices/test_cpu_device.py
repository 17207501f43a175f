"""The CPU device: its memory, forked children and threads."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from halon.hal.errors import OutOfMemoryError
from halon.hal.op_desc import OpSpec
from halon.kernels.tree import Apply, Input
from tests.devices.cpu_launch import CPU, F32, describe, plan, run, same


def test_memory_is_aligned_copied_filled_and_seen() -> None:
    for nbytes in (0, 5, 3 << 20):
        h = CPU.alloc(nbytes)
        assert h > 0
        assert h % 64 == 0
        CPU.free(h)
    h = CPU.alloc(16)
    CPU.h2d(h, 4, memoryview(b"abcdef"))
    got = bytearray(3)
    CPU.d2h(memoryview(got), h, 6)
    assert got == b"cde"
    CPU.fill(h, 0, 16, b"xyz")
    CPU.d2d(h, 1, h, 0, 15)
    assert bytes(CPU.host_view(h, 16)) == b"xxyzxyzxyzxyzxyz"
    CPU.host_view(h, 16)[0] = ord("q")
    assert bytes(CPU.host_view(h, 1)) == b"q"
    CPU.free(h)


def test_an_impossible_allocation_raises() -> None:
    for nbytes in (2**60, 2**70):
        with pytest.raises(OutOfMemoryError):
            CPU.alloc(nbytes)


def test_adopted_memory_is_used_in_place_and_not_freed() -> None:
    owner = np.arange(4, dtype=F32)
    first, second = (CPU.adopt(memoryview(owner).cast("B")) for _ in range(2))
    assert first == second == owner.ctypes.data
    CPU.free(first)
    CPU.free(second)
    same(owner, np.arange(4, dtype=F32))
    assert CPU.adopt(memoryview(b"read only")) > 0


def test_offsets_are_added_to_handles() -> None:
    x = np.arange(8, dtype=F32)
    out = np.zeros(8, F32)
    spec = OpSpec(
        "neg", (describe(x[:4]),), (describe(out[:4]),),
        expr=Apply("neg", (Input(0, "f32"),), "f32"),
    )  # fmt: skip
    CPU.run_plan(plan(spec), [x.ctypes.data, out.ctypes.data], [16, 8], [])
    same(out, np.array([0, 0, -4, -5, -6, -7, 0, 0], F32))


# -- processes and threads -----------------------------------------------------------------------
def _product_of_ones(n: int) -> float:
    ones = np.ones((n, n), F32)
    return float(run("matmul", [ones, ones], [np.empty((n, n), F32)]).sum())


def test_a_forked_child_multiplies_after_its_parent_did() -> None:
    assert _product_of_ones(300) == 300**3
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a hang ends as a failure
        try:
            os._exit(_product_of_ones(300) != 300**3)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_threads_may_share_a_kernel() -> None:
    rng = np.random.default_rng(18)
    x, w = rng.normal(size=(2, 8, 20, 20)).astype(F32), rng.normal(size=(16, 8, 3, 3)).astype(F32)
    attrs = {
        "stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "output_padding": (0, 0),
        "groups": 1, "transposed": False,
    }  # fmt: skip
    out = describe(np.empty((2, 16, 20, 20), F32))
    spec = OpSpec("conv", (describe(x), describe(w)), (out,), attrs)
    kernel = plan(spec)
    want = torch.conv2d(torch.from_numpy(x), torch.from_numpy(w), padding=1).numpy()

    def work(_: int) -> None:
        for _ in range(50):
            out = np.empty_like(want)
            CPU.run_plan(kernel, [a.ctypes.data for a in (x, w, out)], [0, 0, 0], [])
            np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-4)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
