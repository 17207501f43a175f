"""The CUDA driver's host code against a double of CuPy whose kernels run on the CPU as C++."""

from __future__ import annotations

import ctypes
import re
import shutil
import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from halon.devices.cuda.driver import CudaDevice, CudaDriver
from halon.devices.rows import find_row
from halon.hal.errors import (
    CompileError,
    DeviceLost,
    HalInvalidArgument,
    IndexOutOfRange,
    NotProvided,
    OutOfMemoryError,
)  # fmt: skip
from halon.hal.op_desc import OpSpec, TensorSpec
from halon.hal.properties import layout_of
from halon.kernels.pk import cpp
from halon.kernels.pk.launch import Launch, Step
from halon.kernels.tree import Apply, Input, Scalar

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")


class CUDARuntimeError(RuntimeError): ...


class CUDADriverError(RuntimeError): ...


class Memory:
    """Poisoned, so that reading what was never written shows."""

    def __init__(self, size: int) -> None:
        if size > 1 << 30:
            raise CUDARuntimeError("cudaErrorMemoryAllocation: out of memory")
        self.data = np.full(size, 0xEF, np.uint8)


class MemoryPointer:
    def __init__(self, memory: Memory, offset: int) -> None:
        self.memory, self.ptr = memory, memory.data.ctypes.data + offset


class Stream:
    ptr = 1

    def __init__(self, non_blocking: bool = False) -> None:
        assert non_blocking

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

    def synchronize(self) -> None: ...

    def wait_event(self, event: Event) -> None:
        assert event.done


class Event:
    def __init__(self, disable_timing: bool) -> None:
        self.done = False

    def record(self, stream: Stream) -> None:
        self.done = True

    def synchronize(self) -> None: ...


class RawModule:
    """Checks what a GPU would not forgive: grid limits, argument count, kinds and widths."""

    def __init__(self, code: str, options: tuple[str, ...], backend: str) -> None:
        assert backend == "nvrtc"
        assert "--fmad=false" in options
        self.code = code

    def compile(self) -> None:
        self.library = cpp.library(self.code)

    def get_function(self, name: str) -> Any:
        parameters = dict(cpp._SIGNATURE.findall(self.code))[name].split(",")

        def call(grid: tuple, block: tuple, args: tuple) -> None:
            assert grid[1] <= 65535
            assert grid[2] <= 65535
            assert np.prod(block) <= 1024
            assert len(args) == len(parameters)
            converted = [_argument(p.strip(), a) for p, a in zip(parameters, args, strict=True)]
            sizes = [ctypes.c_int64(n) for n in (*grid, *block)]
            getattr(self.library, f"launch_{name}")(*sizes, 0, *converted)

        return call


def _argument(parameter: str, value: Any) -> Any:
    found = re.match(r"(?:GLOBAL (?:const )?)?(\w+) (\*?)", parameter)
    assert found is not None
    kind, pointer = found.groups()
    if pointer:
        assert value > 1 << 16, f"{parameter} got {value}"
        return ctypes.c_void_p(value)
    if kind == "i64":
        assert isinstance(value, (int, np.int64))
        return ctypes.c_int64(int(value))
    wanted = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "u8": np.uint8, "b8": np.uint8}
    assert type(value) is wanted[kind]
    return np.ctypeslib.as_ctypes_type(wanted[kind])(value.item())


def _memcpy(dst: int, src: int, n: int, kind: int, stream: int) -> None:
    assert kind in (1, 2, 3)
    ctypes.memmove(dst, src, n)


def double() -> SimpleNamespace:
    """A module of CuPy's shape."""
    properties = {"name": b"Double", "totalGlobalMem": 1 << 30, "multiProcessorCount": 4,
                  "major": 8, "minor": 0}  # fmt: skip
    runtime = SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError, getDeviceCount=lambda: 1, memcpyHostToDevice=1,
        memcpyDeviceToHost=2, memcpyDeviceToDevice=3, memcpyAsync=_memcpy,
        memsetAsync=lambda p, value, n, stream: ctypes.memset(p, value, n),
        getDeviceProperties=lambda index: properties, driverGetVersion=lambda: 12040,
        memGetInfo=lambda: (1 << 29, 1 << 30),
    )  # fmt: skip

    class Device(nullcontext):
        def synchronize(self) -> None: ...

    cuda = SimpleNamespace(
        runtime=runtime, driver=SimpleNamespace(CUDADriverError=CUDADriverError), Device=Device,
        Memory=Memory, MemoryPointer=MemoryPointer, Stream=Stream, Event=Event,
        get_elapsed_time=lambda a, b: 0.5,
    )  # fmt: skip
    return SimpleNamespace(cuda=cuda, RawModule=RawModule)


@pytest.fixture
def gpu() -> CudaDevice:
    driver = CudaDriver(double())
    assert driver.device_count() == 1
    opened = driver.open(0)
    assert isinstance(opened, CudaDevice)
    return opened


def put(gpu: CudaDevice, a: np.ndarray) -> int:
    handle = gpu.alloc(a.nbytes)
    gpu.h2d(handle, 0, memoryview(a.reshape(-1).view(np.uint8)))
    return handle


def get(gpu: CudaDevice, handle: int, like: np.ndarray) -> np.ndarray:
    out = np.empty_like(like)
    gpu.d2h(memoryview(out.reshape(-1).view(np.uint8)), handle, 0)
    return out


def run(
    gpu: CudaDevice, op: str, ins: list[np.ndarray], y: np.ndarray, expr: Any = None,
    scalars: tuple = (), **attrs: object,
) -> np.ndarray:  # fmt: skip
    def spec(a: np.ndarray) -> TensorSpec:
        strides = tuple(s // a.itemsize for s in a.strides)
        dtype = {"f": "f", "i": "i"}[a.dtype.kind] + str(8 * a.itemsize)
        return TensorSpec(dtype, a.shape, strides, layout_of(a.shape, strides))

    what = OpSpec(op, tuple(map(spec, ins)), (spec(y),), attrs,
                  tuple((f"s{k}", d) for k, (d, _) in enumerate(scalars)), expr)  # fmt: skip
    row, _, why = find_row(gpu.rows, what)
    assert row is not None, why
    plan = SimpleNamespace(kernel=row.entry(gpu, what))
    handles = [put(gpu, a) for a in (*ins, y)]
    gpu.run_plan(plan, handles, [0] * len(handles), [v for _, v in scalars])
    gpu.synchronize()
    return get(gpu, handles[-1], y)


def test_kernels_get_the_arguments_they_declare(gpu: CudaDevice) -> None:
    a = np.arange(3000, dtype=np.float32).reshape(30, 100)
    tree = Apply("mul", (Input(0, "f32"), Scalar(0, "f32")), "f32")
    assert (run(gpu, "mul", [a], a.copy(), tree, (("f32", 2),)) == 2 * a).all()
    assert (run(gpu, "sum", [a], a[0].copy(), axes=(0,), keepdim=False) == a.sum(0)).all()
    assert (run(gpu, "sum", [a], a[:, 0].copy(), axes=(1,), keepdim=False) == a.sum(1)).all()
    small = np.round(a / 100)
    assert (
        run(gpu, "matmul", [small, small.T.copy()], np.empty((30, 30), "f4")) == small @ small.T
    ).all()
    long = np.ones(200000, np.float32)
    assert run(gpu, "sum", [long], np.empty((), "f4"), axes=(0,), keepdim=False) == 200000
    words = run(gpu, "philox", [], np.empty(5, "i4"), None, (("i64", 0), ("i64", 0)))
    assert words.view(np.uint32)[0] == 0x6627E8D5


def test_an_index_out_of_bounds_is_reported_at_synchronisation(gpu: CudaDevice) -> None:
    x, index, src = np.zeros(4, np.float32), np.array([0, 0, 3]), np.ones(3, np.float32)
    assert run(gpu, "scatter", [x, index, src], x, dim=0, mode="add").tolist() == [2, 0, 0, 1]
    index[1] = 4
    with pytest.raises(IndexOutOfRange, match="scatter: index 4 is out of bounds for dimension 0"):
        run(gpu, "scatter", [x, index, src], x, dim=0, mode="add")
    gpu.synchronize()


def test_memory(gpu: CudaDevice) -> None:
    a = np.arange(8, dtype=np.float32)
    x, y = put(gpu, a), gpu.alloc(32)
    gpu.fill(y, 0, 32, b"\0")
    gpu.d2d(y, 4, x, 8, 12)
    assert get(gpu, y, a).tolist() == [0, 2, 3, 4, 0, 0, 0, 0]
    gpu.d2d(x, 4, x, 0, 28)
    assert get(gpu, x, a).tolist() == [0, 0, 1, 2, 3, 4, 5, 6]
    with pytest.raises(NotProvided):
        gpu.fill(y, 0, 32, b"\0\1")
    with pytest.raises(OutOfMemoryError):
        gpu.alloc(1 << 31)
    gpu.free(x)
    with pytest.raises(HalInvalidArgument, match="not a live buffer"):
        get(gpu, x, a)


def test_streams_events_and_closing(gpu: CudaDevice) -> None:
    stream, event, later = gpu.create_stream(), gpu.create_event(), gpu.create_event(timing=True)
    event.wait(stream)
    assert event.query()
    event.record(stream)
    event.wait()
    later.record()
    assert event.elapsed(later) == 0.5
    gpu.synchronize(stream)
    gpu.close()
    with pytest.raises(DeviceLost, match="closed"):
        gpu.alloc(4)


def test_a_refused_kernel_shows_log_and_source(gpu: CudaDevice) -> None:
    step = Step("KERNEL k(PK_IDS i64 n) { no_such_name; }", "k", (), (1,), (1, 1, 1))
    with pytest.raises(CompileError, match="no_such_name"):
        gpu.load(Launch((step,), ()), "k")


def test_without_cupy_the_command_to_install_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    driver = CudaDriver()
    assert driver.device_count() == 0
    assert 'pip install "halon[cuda]"' in driver.diagnose()


def test_without_a_driver_the_count_is_zero_and_says_why() -> None:
    api = double()

    def missing() -> int:
        raise CUDARuntimeError("cudaErrorInsufficientDriver")

    api.cuda.runtime.getDeviceCount = missing
    assert CudaDriver(api).device_count() == 0
    assert "nvidia-smi" in CudaDriver(api).diagnose()
