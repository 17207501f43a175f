"""OpenCL kernels beside NumPy and pyopencl.array: interleaved, best of many, ratios.

Run: ``python bench/opencl_kernels.py``. Times jump on a shared machine; the ratios are what counts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from halon.devices.opencl.driver import OpenCLDevice, OpenCLDriver
from halon.devices.rows import find_row
from halon.hal.op_desc import OpSpec, TensorSpec
from halon.hal.properties import Layout
from halon.kernels.tree import Apply, Input

ROUNDS = 60
LAUNCHES = 400


def best_of(cases: dict[str, Callable[[], Any]], rounds: int = ROUNDS) -> dict[str, float]:
    """Seconds of each case, all cases in turn, the shortest of ``rounds``."""
    best = dict.fromkeys(cases, float("inf"))
    for call in cases.values():
        call()
    for _ in range(rounds):
        for name, call in cases.items():
            started = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - started)
    return best


def report(title: str, best: dict[str, float], own: str = "halon", scale: float = 1e6) -> None:
    print(f"{title}")
    for name, seconds in best.items():
        ratio = "" if name == own else f"   halon / it = {best[own] / seconds:.2f}"
        print(f"  {name:28} {seconds * scale:10.2f} us{ratio}")


def planned(device: OpenCLDevice, op: str, ins: list[tuple[int, ...]], out: tuple[int, ...],
            expr: Any = None) -> SimpleNamespace:  # fmt: skip
    """A plan as the planner makes it, for contiguous f32 operands."""

    def spec(shape: tuple[int, ...]) -> TensorSpec:
        strides = tuple(int(s) // 4 for s in np.empty(shape, np.float32).strides)
        return TensorSpec("f32", shape, strides, Layout.CONTIG)

    what = OpSpec(op, tuple(map(spec, ins)), (spec(out),), expr=expr)
    row, _, why = find_row(device.rows, what)
    assert row is not None, why
    return SimpleNamespace(kernel=row.entry(device, what))


def upload(device: OpenCLDevice, a: np.ndarray) -> int:
    handle = device.alloc(a.nbytes)
    device.h2d(handle, 0, memoryview(a.reshape(-1).view(np.uint8)))
    return handle


ADD = Apply("add", (Input(0, "f32"), Input(1, "f32")), "f32")


def add(device: OpenCLDevice, n: int = 1 << 20) -> None:
    import pyopencl as cl
    import pyopencl.array as cla
    from pyopencl.tools import ImmediateAllocator, MemoryPool

    a, b, c = np.random.rand(n).astype("f4"), np.random.rand(n).astype("f4"), np.empty(n, "f4")
    plan = planned(device, "add", [(n,), (n,)], (n,), ADD)
    handles = [upload(device, a), upload(device, b), device.alloc(a.nbytes)]
    queue = cl.CommandQueue(device.context)
    pool = MemoryPool(ImmediateAllocator(queue))
    x, y = cla.to_device(queue, a, allocator=pool), cla.to_device(queue, b, allocator=pool)

    def halon() -> None:
        device.run_plan(plan, handles, [0, 0, 0], [])
        device.synchronize()

    def pyopencl_array() -> None:
        (x + y).finish()

    best = best_of(
        {"halon": halon, "numpy add(out=)": lambda: np.add(a, b, out=c),
         "pyopencl.array (pooled)": pyopencl_array}
    )  # fmt: skip
    report(f"add, {n} floats", best)


def matmul(device: OpenCLDevice, n: int) -> None:
    a, b = np.random.rand(n, n).astype("f4"), np.random.rand(n, n).astype("f4")
    c = np.empty_like(a)
    plan = planned(device, "matmul", [(n, n), (n, n)], (n, n))
    handles = [upload(device, a), upload(device, b), device.alloc(a.nbytes)]

    def halon() -> None:
        device.run_plan(plan, handles, [0, 0, 0], [])
        device.synchronize()

    best = best_of({"halon": halon, "numpy matmul(out=)": lambda: np.matmul(a, b, out=c)}, 15)
    report(f"matmul, {n} x {n} f32 ({2e-9 * n**3 / best['halon']:.0f} GFLOP/s)", best)


def launch(device: OpenCLDevice) -> None:
    """Cost of enqueueing a four-element add beside a typed call of a hand-made pyopencl kernel."""
    import pyopencl as cl

    four = np.ones(4, np.float32)
    plan = planned(device, "add", [(4,), (4,)], (4,), ADD)
    handles = [upload(device, four), upload(device, four), device.alloc(16)]
    offsets, scalars = [0, 0, 0], []
    source = """kernel void add(global const float *a, long oa, global const float *b, long ob,
                                global float *c, long oc, long n) {
        size_t i = get_global_id(0);
        if (i < n) c[oc + i] = a[oa + i] + b[ob + i];
    }"""
    kernel = cl.Kernel(cl.Program(device.context, source).build(cache_dir=False), "add")
    kernel.set_scalar_arg_dtypes([None, np.int64] * 3 + [np.int64])
    x, y, z = (cl.Buffer(device.context, cl.mem_flags.READ_WRITE, 64) for _ in range(3))
    queue = device.queue

    def repeated(call: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(LAUNCHES):
                call()

        return run

    best = {}
    cases = {
        "halon": repeated(lambda: device.run_plan(plan, handles, offsets, scalars)),
        "typed pyopencl call": repeated(lambda: kernel(queue, (4,), (1,), x, 0, y, 0, z, 0, 4)),
    }
    for name in cases:
        best[name] = float("inf")
    for _ in range(ROUNDS):
        for name, call in cases.items():
            started = time.perf_counter()
            call()
            best[name] = min(best[name], (time.perf_counter() - started) / LAUNCHES)
            queue.finish()
    report("launch, 4 floats", best)


def main() -> None:
    driver = OpenCLDriver()
    if not driver.device_count():
        raise SystemExit(driver.diagnose())
    device = driver.open(0)
    assert isinstance(device, OpenCLDevice)
    print(f"{device.props.name}; OPENBLAS_CORETYPE={os.environ.get('OPENBLAS_CORETYPE', 'unset')}")
    add(device)
    for n in (128, 512, 1024):
        matmul(device, n)
    launch(device)


if __name__ == "__main__":
    main()
