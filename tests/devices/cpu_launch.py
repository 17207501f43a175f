"""What the tests of the CPU's kernels share: planning and launching over NumPy arrays."""

from __future__ import annotations

import itertools
import os
import subprocess
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from halon.devices.cpu.driver import CpuDriver
from halon.devices.cpu.native import lib
from halon.devices.rows import find_row
from halon.hal.dtypes import from_numpy
from halon.hal.op_desc import OpSpec, TensorSpec
from halon.hal.properties import layout_of
from halon.kernels.scalar_ops import SCALAR_OPS
from halon.kernels.tree import Apply, Input, Node

NUMPY = {
    "bool": np.bool_, "u8": np.uint8, "i32": np.int32, "i64": np.int64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
#: what the operations that make complex numbers give
RESULTS = {**NUMPY, "c64": np.complex64, "c128": np.complex128}
F32 = np.float32
CPU = CpuDriver().open(0)

#: instruction-set levels, x86-64-v1 …; one above the machine's repeats its best
LEVELS = (1, 3, 4)
_SHARDS = 4


@contextmanager
def isa(level: int) -> Iterator[None]:
    """Run the kernels of one instruction-set level."""
    lib.hl_set_isa(level)
    try:
        yield
    finally:
        lib.hl_set_isa(max(LEVELS))


@cache
def shard() -> tuple[int, int]:
    """(k, n): run the cases whose name hashes to k of n.

    ``HALON_TEST_FULL=1`` runs everything and ``HALON_TEST_SHARD=k/n`` names the part; otherwise it
    is one of four, chosen by the commit, so that a few commits cover the whole matrix.
    """
    if os.environ.get("HALON_TEST_FULL") == "1":
        return 0, 1
    named = os.environ.get("HALON_TEST_SHARD")
    if named:
        k, n = map(int, named.split("/"))
        if not 0 <= k < n:
            raise ValueError(f"HALON_TEST_SHARD is {named!r}: k/n with 0 <= k < n")
        return k, n
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return int(done.stdout.strip() or "0", 16) % _SHARDS, _SHARDS


def matrix(**axes: Collection[Any]) -> pytest.MarkDecorator:
    """Parametrise with the cross product of the axes, cut to this run's shard."""
    k, n = shard()
    rows = {"-".join(map(str, row)): row for row in itertools.product(*axes.values())}
    kept = {name: row for name, row in rows.items() if zlib.crc32(name.encode()) % n == k}
    return pytest.mark.parametrize(tuple(axes), list(kept.values()), ids=list(kept))


def describe(a: np.ndarray) -> TensorSpec:
    strides = tuple(s // a.itemsize for s in a.strides)
    return TensorSpec(from_numpy(a.dtype).short, a.shape, strides, layout_of(a.shape, strides))


def plan(spec: OpSpec) -> SimpleNamespace:
    """What the planner would make of a spec on the CPU."""
    row, _, reason = find_row(CPU.rows, spec)
    assert row is not None, reason
    return SimpleNamespace(kernel=row.entry(CPU, spec))


def run(
    op: str, ins: Sequence[np.ndarray], outs: Sequence[np.ndarray], *, expr: Node | None = None,
    scalars: Sequence[tuple[str, Any]] = (), **attrs: Any,
) -> np.ndarray:  # fmt: skip
    """Plans and launches over the arrays' own memory; returns the first output."""
    spec = OpSpec(
        op, tuple(map(describe, ins)), tuple(map(describe, outs)), attrs,
        tuple((f"s{i}", t) for i, (t, _) in enumerate(scalars)), expr,
    )  # fmt: skip
    addresses = [a.ctypes.data for a in (*ins, *outs)]
    CPU.run_plan(plan(spec), addresses, [0] * len(addresses), [v for _, v in scalars])
    return outs[0]


def apply(op: str, *ins: np.ndarray) -> np.ndarray:
    """One scalar operation over arrays that broadcast."""
    shape = np.broadcast_shapes(*(a.shape for a in ins))
    ins = tuple(np.broadcast_to(a, shape) for a in ins)
    short = [from_numpy(a.dtype).short for a in ins]
    result = SCALAR_OPS[op].result_dtype(short[-1])
    tree = Apply(op, tuple(Input(i, t) for i, t in enumerate(short)), result)
    return run(op, ins, [np.empty(shape, RESULTS[result])], expr=tree)


def same(got: np.ndarray, want: Any, ulps: int = 0) -> None:
    """Equal with NaN = NaN and -0 ≠ 0; floats may be ``ulps`` apart."""
    want = np.asarray(want)
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, want)
        return
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    if ulps == 0:
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got[finite]), np.signbit(want[finite]))
    else:
        far = np.abs(got[finite].astype(np.float64) - want[finite].astype(np.float64))
        assert np.all(far <= ulps * np.spacing(np.abs(want[finite])))
