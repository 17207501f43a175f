"""The CPU's kernels beside PyTorch: one thread, CPU time, interleaved; above 1 is faster.

Run it as ``python bench/cpu_kernels.py``; both sides write into outputs that exist.
"""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"  # before either library reads it

import math
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from halon.devices.cpu.driver import CpuDriver
from halon.devices.rows import find_row
from halon.hal.dtypes import from_numpy
from halon.hal.op_desc import OpSpec, TensorSpec
from halon.hal.properties import layout_of
from halon.kernels.tree import Apply, Const, Input, Node

Call = Callable[[], Any]


def describe(a: np.ndarray) -> TensorSpec:
    strides = tuple(s // a.itemsize for s in a.strides)
    return TensorSpec(from_numpy(a.dtype).short, a.shape, strides, layout_of(a.shape, strides))


def launch(
    op: str, ins: Sequence[np.ndarray], shape: Sequence[int], dtype: Any = np.float32,
    expr: Node | None = None, **attrs: Any,
) -> Call:  # fmt: skip
    """A planned launch over the arrays' memory."""
    device = CpuDriver().open(0)
    out = np.zeros(shape, dtype)
    arrays = [*ins, out]
    spec = OpSpec(op, tuple(map(describe, ins)), (describe(out),), attrs, (), expr)
    row, _, reason = find_row(device.rows, spec)
    assert row is not None, reason
    plan = SimpleNamespace(kernel=row.entry(device, spec))
    handles, offsets = [a.ctypes.data for a in arrays], [0] * len(arrays)

    def call(keep: Any = arrays) -> None:
        device.run_plan(plan, handles, offsets, [])

    return call


def _apply(name: str, *args: Node) -> Apply:
    return Apply(name, args, "f32")


def _conv_cases(rng: np.random.Generator) -> list[tuple[str, Call, Call]]:
    x = rng.normal(size=(8, 64, 56, 56)).astype(np.float32)
    w = rng.normal(size=(64, 64, 3, 3)).astype(np.float32)
    attrs = {
        "stride": (1, 1), "padding": (1, 1), "dilation": (1, 1), "output_padding": (0, 0),
        "groups": 1, "transposed": False,
    }  # fmt: skip
    tx, tw = torch.from_numpy(x), torch.from_numpy(w)
    grad = torch.nn.grad
    return [
        ("conv 3x3 64 of 8x64x56x56", launch("conv", (x, w), x.shape, **attrs),
         lambda: torch.conv2d(tx, tw, padding=1)),
        ("conv to its input", launch("conv_bwd_input", (x, w), x.shape, **attrs),
         lambda: grad.conv2d_input(x.shape, tw, tx, padding=1)),
        ("conv to its weight", launch("conv_bwd_weight", (x, x), w.shape, **attrs),
         lambda: grad.conv2d_weight(tx, w.shape, tx, padding=1)),
    ]  # fmt: skip


def _elementwise_cases(rng: np.random.Generator) -> list[tuple[str, Call, Call]]:
    found: list[tuple[str, Call, Call]] = []
    a, b = Input(0, "f32"), Input(1, "f32")
    for n in (4, 2**16, 2**20):
        x, y = rng.normal(size=(2, n)).astype(np.float32)
        tx, ty, out = torch.from_numpy(x), torch.from_numpy(y), torch.empty(n)
        found.append((f"add {n}", launch("add", (x, y), (n,), expr=_apply("add", a, b)),
                      lambda tx=tx, ty=ty, out=out: torch.add(tx, ty, out=out)))  # fmt: skip
    x = rng.normal(size=2**20).astype(np.float32)
    tx, out = torch.from_numpy(x), torch.empty(2**20)
    for f in (torch.exp, torch.tanh, torch.sin, torch.sigmoid):
        name = f.__name__
        found.append((f"{name} 1M", launch(name, (x,), x.shape, expr=_apply(name, a)),
                      lambda f=f: f(tx, out=out)))  # fmt: skip
    positive = np.abs(x)
    tp = torch.from_numpy(positive)
    found.append(("log 1M", launch("log", (positive,), x.shape, expr=_apply("log", a)),
                  lambda: torch.log(tp, out=out)))  # fmt: skip
    m = rng.normal(size=(1024, 1024)).astype(np.float32)
    row, tm, trow = m[0], torch.from_numpy(m), torch.from_numpy(m[0])
    wide = np.broadcast_to(row, m.shape)
    square = torch.empty(1024, 1024)
    found += [
        ("add a row 1024x1024", launch("add", (m, wide), m.shape, expr=_apply("add", a, b)),
         lambda: torch.add(tm, trow, out=square)),
        ("copy of a transpose", launch("copy", (m.T,), m.shape, expr=a),
         lambda: square.copy_(tm.T)),
        ("add a transpose", launch("add", (m, m.T), m.shape, expr=_apply("add", a, b)),
         lambda: torch.add(tm, tm.T, out=square)),
        ("x * sigmoid(1.7 x) + x, 1M",
         launch("f", (x,), x.shape, expr=_apply(
             "add", _apply("mul", a, _apply("sigmoid", _apply("mul", a, Const(1.7, "f32")))), a)),
         lambda: tx * torch.sigmoid(1.7 * tx) + tx),
    ]  # fmt: skip
    return found


def _reduction_cases(rng: np.random.Generator) -> list[tuple[str, Call, Call]]:
    found: list[tuple[str, Call, Call]] = []
    m = rng.normal(size=(1024, 1024)).astype(np.float32)
    tm = torch.from_numpy(m)
    for axes in ((0, 1), (0,), (1,)):
        shape = tuple(n for d, n in enumerate(m.shape) if d not in axes)
        for op, reference in (("sum", torch.sum), ("max_reduce", torch.amax)):
            found.append((f"{op} 1024x1024 over {axes}",
                          launch(op, (m,), shape, axes=axes, keepdim=False),
                          lambda f=reference, axes=axes: f(tm, axes)))  # fmt: skip
    found.append(("argmax 1024x1024 over (1,)",
                  launch("argmax", (m,), (1024,), np.int64, axes=(1,), keepdim=False),
                  lambda: torch.argmax(tm, 1)))  # fmt: skip
    return found


def _matmul_cases(rng: np.random.Generator) -> list[tuple[str, Call, Call]]:
    found: list[tuple[str, Call, Call]] = []
    f32, f64 = np.float32, np.float64
    for m, n, dtype in (
        (32, 32, f32), (1, 1024, f32), (8, 1024, f32), (256, 256, f32), (1024, 1024, f32),
        (512, 512, f64),
    ):  # fmt: skip
        a, b = rng.normal(size=(m, n)).astype(dtype), rng.normal(size=(n, n)).astype(dtype)
        ta, tb = torch.from_numpy(a), torch.from_numpy(b)
        out = torch.empty_like(ta)
        found.append((f"matmul {m} x {n} x {n} {np.dtype(dtype).name}",
                      launch("matmul", (a, b), (m, n), dtype),
                      lambda ta=ta, tb=tb, out=out: torch.mm(ta, tb, out=out)))  # fmt: skip
    return found


def cpu_time(call: Call, repeats: int) -> float:
    """Seconds of this thread for one call."""
    start = time.thread_time()
    for _ in range(repeats):
        call()
    return (time.thread_time() - start) / repeats


def compare(ours: Call, theirs: Call, rounds: int = 7) -> tuple[float, float]:
    """Best seconds of either side, measured in turn."""
    repeats = max(1, math.ceil(0.02 / max(cpu_time(ours, 3), cpu_time(theirs, 3), 1e-7)))
    best = [math.inf, math.inf]
    for _ in range(rounds):
        for side, call in enumerate((ours, theirs)):
            best[side] = min(best[side], cpu_time(call, repeats))
    return best[0], best[1]


def main() -> None:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    makers = (_elementwise_cases, _reduction_cases, _matmul_cases, _conv_cases)
    print(f"{'case':<34}{'halon us':>12}{'torch us':>12}{'ratio':>8}")
    for name, ours, theirs in (case for make in makers for case in make(rng)):
        mine, other = compare(ours, theirs)
        print(f"{name:<34}{mine * 1e6:>12.1f}{other * 1e6:>12.1f}{other / mine:>8.2f}")


if __name__ == "__main__":
    main()
