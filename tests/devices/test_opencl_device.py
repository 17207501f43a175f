"""The OpenCL device apart from its kernels: memory, order, errors, the program cache, discovery."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from halon.devices.opencl import platforms
from halon.devices.opencl.driver import OpenCLDevice, OpenCLDriver
from halon.devices.opencl.programs import Programs
from halon.devices.rows import find_row
from halon.hal.errors import CompileError, DeviceLost, HalInvalidArgument, OutOfMemoryError
from halon.hal.op_desc import OpSpec, TensorSpec
from halon.hal.properties import Layout, MemKind
from halon.kernels.pk.launch import Launch, Step
from halon.kernels.pk.text import assemble
from halon.kernels.tree import Apply, Const, Input


@pytest.fixture(scope="module")
def opencl() -> OpenCLDevice:
    if not platforms.devices():
        if os.environ.get("CI"):
            pytest.fail(OpenCLDriver().diagnose())
        pytest.skip(OpenCLDriver().diagnose())
    opened = OpenCLDriver().open(0)
    assert isinstance(opened, OpenCLDevice)
    return opened


def read(opencl: OpenCLDevice, handle: int, n: int, dtype: str = "float32") -> np.ndarray:
    out = np.empty(n, dtype)
    opencl.d2h(memoryview(out.view(np.uint8)), handle, 0)
    return out


def write(opencl: OpenCLDevice, data: np.ndarray) -> int:
    handle = opencl.alloc(data.nbytes)
    opencl.h2d(handle, 0, memoryview(data.view(np.uint8)))
    return handle


def plan(opencl: OpenCLDevice, n: int, factor: float = 2.0) -> SimpleNamespace:
    """``y = x * factor`` over n floats."""
    t = TensorSpec("f32", (n,), (1,), Layout.CONTIG)
    tree = Apply("mul", (Input(0, "f32"), Const(factor, "f32")), "f32")
    spec = OpSpec("mul", (t,), (t,), expr=tree)
    row, _, why = find_row(opencl.rows, spec)
    assert row is not None, why
    return SimpleNamespace(kernel=row.entry(opencl, spec))


def test_copies_within_and_out_of_a_buffer(opencl: OpenCLDevice) -> None:
    a = np.arange(16, dtype=np.float32)
    x, y = write(opencl, a), opencl.alloc(64, MemKind.PINNED)
    opencl.fill(y, 0, 64, b"\xff")
    opencl.d2d(y, 8, x, 16, 24)
    opencl.fill(y, 48, 16, np.float32(1.5).tobytes())
    got = read(opencl, y, 16)
    assert got[2:8].tolist() == a[4:10].tolist()
    assert got[12:].tolist() == [1.5] * 4
    assert np.isnan(got[[0, 1, 8, 11]]).all()
    opencl.d2d(x, 4, x, 0, 60)  # overlapping
    assert read(opencl, x, 16).tolist() == [0, *a[:15]]


def test_zero_bytes_are_a_buffer_and_copies_of_nothing_do_nothing(opencl: OpenCLDevice) -> None:
    x, y = opencl.alloc(0), opencl.alloc(0)
    assert x != y
    opencl.h2d(x, 0, memoryview(b""))
    opencl.d2h(memoryview(bytearray()), x, 0)
    opencl.d2d(x, 0, y, 0, 0)
    opencl.fill(x, 0, 0, b"\0")


def test_asking_for_too_much_is_out_of_memory(opencl: OpenCLDevice) -> None:
    with pytest.raises(OutOfMemoryError, match="bytes asked"):
        opencl.alloc(opencl.props.max_alloc + 1)


def test_a_freed_handle_and_a_crooked_offset_are_refused(opencl: OpenCLDevice) -> None:
    x, y = opencl.alloc(64), opencl.alloc(64)
    with pytest.raises(HalInvalidArgument, match="not a multiple"):
        opencl.run_plan(plan(opencl, 4), [x, y], [2, 0], [])
    opencl.free(x)
    with pytest.raises(HalInvalidArgument, match="not a live buffer"):
        opencl.d2h(memoryview(bytearray(4)), x, 0)
    with pytest.raises(HalInvalidArgument, match="not a live buffer"):
        opencl.run_plan(plan(opencl, 4), [x, y], [0, 0], [])


def test_streams_and_events_order_work(opencl: OpenCLDevice) -> None:
    stream, event, later = opencl.create_stream(), opencl.create_event(), opencl.create_event()
    assert event.query()  # never recorded
    event.synchronize()
    a = np.arange(1 << 16, dtype=np.float32)
    x, y = opencl.alloc(a.nbytes), opencl.alloc(a.nbytes)
    opencl.h2d(x, 0, memoryview(a.view(np.uint8)), stream)
    event.record(stream)
    event.wait()
    opencl.run_plan(plan(opencl, a.size), [x, y], [0, 0], [])
    later.record()
    later.wait(stream)
    back = np.empty_like(a)
    opencl.d2h(memoryview(back.view(np.uint8)), y, 0, stream)
    opencl.synchronize(stream)
    assert (back == 2 * a).all()
    opencl.synchronize()
    assert later.query()
    assert event.elapsed(later) >= 0


def test_threads_may_launch_one_plan_at_once(opencl: OpenCLDevice) -> None:
    shared = plan(opencl, 1000, 3.0)
    wrong = []

    def work(number: int) -> None:
        data = np.full(1000, number, np.float32)
        x, y = write(opencl, data), opencl.alloc(data.nbytes)
        for _ in range(50):
            opencl.run_plan(shared, [x, y], [0, 0], [])
            if not (read(opencl, y, 1000) == 3 * number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_a_refused_kernel_shows_log_and_source(opencl: OpenCLDevice) -> None:
    source = assemble("KERNEL broken(PK_IDS GLOBAL f32 *y, i64 oy) { y[0] = no_such_name; }")
    step = Step(source, "broken", (0,), (), (1, 1, 1))
    with pytest.raises(CompileError) as caught:
        opencl.load(Launch((step,), (4,)), "broken")
    assert caught.value.args[0].count("no_such_name") >= 2


@pytest.mark.parametrize("damage", ["cut", "flipped", "not a program", "empty"])
def test_a_damaged_cache_entry_is_built_again(opencl: OpenCLDevice, damage: str) -> None:
    body = f"KERNEL k(PK_IDS GLOBAL f32 *y, i64 oy) {{ y[oy] = 1.0f; }} /* {damage} */"
    source = assemble(body)
    programs = opencl.programs
    path = programs.path(programs.key(source))
    path.unlink(missing_ok=True)
    programs.get(source)
    good = path.read_bytes()
    half = len(good) // 2
    bad = {
        "cut": good[:half], "flipped": good[:half] + bytes([good[half] ^ 255]) + good[half + 1 :],
        "not a program": _sealed(b"not a program"), "empty": b"",
    }[damage]  # fmt: skip
    path.write_bytes(bad)
    fresh = Programs(opencl.context, opencl.context.devices[0])
    assert fresh.get(source).kernel_names == "k"
    assert path.read_bytes()[:11] == good[:11]
    assert len(path.read_bytes()) > len(bad) or damage == "flipped"
    reloaded = Programs(opencl.context, opencl.context.devices[0])
    assert reloaded._load(reloaded.key(source)) is not None


def _sealed(binary: bytes) -> bytes:
    import hashlib

    return b"halon-cl-1\n" + hashlib.sha256(binary).digest() + binary


def child(code: str, **environment: str) -> str:
    """What a fresh interpreter prints."""
    env = {k: v for k, v in os.environ.items() if k != "OCL_ICD_VENDORS"} | environment
    env["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_forked_child_is_told_to_spawn(opencl: OpenCLDevice) -> None:
    code = """
import os
from halon.devices.opencl.driver import OpenCLDriver
from halon.hal.errors import DeviceLost
device = OpenCLDriver().open(0)
handle = device.alloc(4)
pid = os.fork()
if pid == 0:
    try:
        device.h2d(handle, 0, memoryview(b"abcd"))
    except DeviceLost as error:
        os._exit(0 if "spawn" in str(error) else 2)
    os._exit(1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
    assert child(code) == "0"


def test_a_closed_device_is_lost(opencl: OpenCLDevice) -> None:
    opened = OpenCLDriver().open(0)
    handle = opened.alloc(4)
    opened.close()
    for call in (lambda: opened.alloc(4), lambda: opened.d2h(memoryview(bytearray(4)), handle, 0),
                 opened.synchronize):  # fmt: skip
        with pytest.raises(DeviceLost, match="closed"):
            call()


def test_importing_the_driver_does_not_import_pyopencl() -> None:
    code = "import sys, halon.devices.opencl.driver; print('pyopencl' in sys.modules)"
    assert child(code) == "False"


def test_a_platform_filter_that_matches_nothing_says_what_there_is(opencl: OpenCLDevice) -> None:
    code = (
        "from halon.devices.opencl.driver import OpenCLDriver as D\n"
        "print(D().device_count(), D().diagnose())"
    )
    said = child(code, HALON_OPENCL_PLATFORM="no such platform")
    assert said.startswith("0 no OpenCL platform's name contains 'no such platform'; found '")


def test_without_pyopencl_the_command_to_install_it_is_shown() -> None:
    code = (
        "import sys; sys.modules['pyopencl'] = None\n"
        "from halon.devices.opencl.driver import OpenCLDriver as D\n"
        "print(D().device_count(), D().diagnose())"
    )
    assert child(code).startswith("0 pyopencl is not installed")
    assert 'pip install "halon[opencl-cpu]"' in child(code)


def test_a_platform_listed_twice_counts_once() -> None:
    one = SimpleNamespace(name="A", version="1", vendor="V")
    again = SimpleNamespace(name="A", version="1", vendor="V")
    other = SimpleNamespace(name="A", version="2", vendor="V")
    assert platforms._distinct([one, again, other]) == [one, other]
    assert not platforms._selected("Oclgrind", "")
    assert platforms._selected("Oclgrind", "oclgrind")
