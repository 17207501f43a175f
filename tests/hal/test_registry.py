"""Which devices exist: the four ways to register one, clashes, broken plug-ins, laziness.

Programs with a registry of their own run in processes of their own.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

import halon
from halon.hal.errors import UnknownDevice
from halon.hal.registry import registry
from tests.hal.fakes import FakeDevice, FakeDriver, output, python, register

#: a plug-in module; ``{body}`` runs at import
PLUGIN = """
import halon
from halon.devices.reference.driver import ReferenceDevice
{body}
class Driver(halon.DeviceDriver):
    name = "vpu"
    version = "7.1"
    def device_count(self): return {count}
    def open(self, index): return ReferenceDevice()
    def diagnose(self): return "no /dev/npu0: add user to group vpu"
"""
TABLE = """
import halon
from halon.hal.registry import registry
for r in registry.table():
    print(r.name, r.origin, r.version, r.state, r.count, r.reason, sep="|")
"""


class Plugins:
    """Modules on a path of their own, and distributions that name them as entry points."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def module(self, name: str, body: str = "", count: str = "1") -> None:
        (self.folder / f"{name}.py").write_text(PLUGIN.format(body=body, count=count))

    def distribution(self, name: str, version: str, **points: str) -> None:
        info = self.folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        lines = [f"{device} = {target}" for device, target in points.items()]
        (info / "entry_points.txt").write_text("[halon.devices]\n" + "\n".join(lines) + "\n")

    @property
    def path(self) -> str:
        return os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")])

    def table(self, **environment: str) -> dict[str, list[str]]:
        """Rows of ``registry.table()`` by name: origin, version, state, count, reason."""
        text = output(TABLE, PYTHONPATH=self.path, **environment)
        return {line.split("|")[0]: line.split("|")[1:] for line in text.splitlines()}


@pytest.fixture
def plugins(tmp_path: Path) -> Plugins:
    return Plugins(tmp_path)


# -- explicit ------------------------------------------------------------------------------------
def test_a_registered_device_is_listed_and_used_at_once() -> None:
    name = register(FakeDevice())
    assert name in registry.available()
    assert halon.ones(2).to(name).cpu().tolist() == [1, 1]


def test_a_class_and_an_instance_may_be_registered() -> None:
    class Driver(FakeDriver):
        def __init__(self) -> None:
            super().__init__(FakeDevice(), FakeDevice())

    registry.register("fakeclass", Driver)
    registry.register("fakeinstance", Driver())
    assert {"fakeclass:1", "fakeinstance:0"} <= set(registry.available())


@pytest.mark.parametrize("name", ["cpu", "cuda", "opencl", "reference", "meta"])
def test_halons_own_names_are_reserved(name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}' is reserved by halon"):
        registry.register(name, FakeDriver())


@pytest.mark.parametrize("name", ["", "Npu", "1npu", "n-pu", "n pu", "vpu:0", "n" * 17, "vpu\n"])
def test_malformed_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must match"):
        registry.register(name, FakeDriver())


@pytest.mark.parametrize("driver", ["libnpu.so", FakeDevice, 3, None])
def test_what_is_no_driver_is_a_type_error(driver: object) -> None:
    with pytest.raises(TypeError, match="expected a DeviceDriver"):
        registry.register("fakewrong", driver)  # type: ignore[arg-type]
    assert "fakewrong" not in registry.names()


def test_a_device_in_use_cannot_be_registered_again() -> None:
    name = register(FakeDevice())
    halon.ones(1).to(name)
    with pytest.raises(ValueError, match="is in use"):
        registry.register(name.split(":")[0], FakeDriver())


def test_an_unknown_name_lists_the_registered_ones() -> None:
    with pytest.raises(UnknownDevice, match=r"unknown device 'nosuch'\. Registered: cpu, cuda, "):
        halon.ones(1, device="nosuch")


def test_an_index_beyond_the_last_says_how_many_there_are() -> None:
    name = register(FakeDevice(), FakeDevice()).split(":")[0]
    with pytest.raises(UnknownDevice, match=rf"no device {name}:2: there are 2 \(0 to 1\)"):
        halon.ones(1, device=f"{name}:2")


def test_each_device_is_opened_once_whoever_comes_first() -> None:
    opened = []

    class Slow(FakeDriver):
        def device_count(self) -> int:
            return 1

        def open(self, index: int) -> halon.Device:
            time.sleep(0.05)
            opened.append(index)
            return FakeDevice()

    registry.register("fakeslow", Slow())
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda: found.append(registry.open("fakeslow"))) for _ in range(8)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert opened == [0]
    assert len(set(map(id, found))) == 1


def test_a_device_that_does_not_open_may_be_tried_again() -> None:
    class Moody(FakeDriver):
        tries = 0

        def device_count(self) -> int:
            return 1

        def open(self, index: int) -> halon.Device:
            self.tries += 1
            if self.tries == 1:
                raise RuntimeError("warming up")
            return FakeDevice()

    registry.register("fakemoody", Moody())
    with pytest.raises(RuntimeError, match="warming up"):
        halon.ones(1).to("fakemoody")
    assert halon.ones(1).to("fakemoody").item() == 1


def test_drivers_that_misbehave_are_rows_of_the_table() -> None:
    code = """
import halon
from halon.hal.registry import Registry
class Empty(halon.DeviceDriver):
    name = "empty"
    def device_count(self): return 0
    def open(self, index): raise AssertionError("opened")
class Raises(Empty):
    def device_count(self): raise OSError("the bus is gone")
class Negative(Empty):
    def device_count(self): return -1
    def diagnose(self): raise KeyError("lost")
own = Registry()
for driver in (Raises, Negative, Empty):
    own.register(driver.__name__.lower(), driver)
for r in own.table()[-3:]:
    print(r.name, r.state, r.count, r.reason, sep="|")
print(own.available()[0])
for name in ("raises", "empty"):
    try:
        own.open(name)
    except halon.UnknownDevice as error:
        print(error)
"""
    lines = output(code).splitlines()
    assert lines[:4] == [
        "raises|failed|0|device_count() raised OSError: the bus is gone",
        "negative|absent|0|diagnose() raised KeyError: 'lost'",
        "empty|absent|0|the driver found no device",
        "cpu",
    ]
    assert "Traceback" in lines[5]
    assert "OSError: the bus is gone" in lines[6:-1]
    assert lines[-1] == "no device empty:0: the driver found no device"


# -- the environment -----------------------------------------------------------------------------
def test_a_plug_in_named_in_the_environment_is_ready(plugins: Plugins) -> None:
    plugins.module("acme")
    row = plugins.table(HALON_DEVICE_PLUGINS="vpu=acme:Driver")["vpu"]
    assert row == ["HALON_DEVICE_PLUGINS", "7.1", "ready", "1", ""]


def test_no_device_is_absent_with_the_drivers_advice(plugins: Plugins) -> None:
    plugins.module("acme", count="0")
    row = plugins.table(HALON_DEVICE_PLUGINS="vpu=acme:Driver")["vpu"]
    assert row[2:] == ["absent", "0", "no /dev/npu0: add user to group vpu"]


@pytest.mark.parametrize(("target", "reason"), [
    ("acme", "'acme': write module:Driver"), ("acme:Nothing", "no attribute 'Nothing'"),
    ("nosuch:Driver", "No module named 'nosuch'"), ("acme:halon", "failed"),
])  # fmt: skip
def test_a_wrong_target_is_a_failed_row(plugins: Plugins, target: str, reason: str) -> None:
    plugins.module("acme")
    row = plugins.table(HALON_DEVICE_PLUGINS=f"vpu={target}")["vpu"]
    assert row[2] == "failed"
    assert reason in "|".join(row)


def test_a_bad_variable_is_named_at_every_look_up_not_only_the_first() -> None:
    code = """
import halon
from halon.hal.registry import registry
for _ in range(2):
    try:
        print(registry.names())
    except ValueError as error:
        print(error)
"""
    lines = output(code, HALON_DEVICE_PLUGINS="vpu").splitlines()
    assert [("HALON_DEVICE_PLUGINS has 'vpu'" in line) for line in lines] == [True, True]


# -- entry points --------------------------------------------------------------------------------
def test_an_installed_distribution_is_found_with_its_name_and_version(plugins: Plugins) -> None:
    plugins.module("acme")
    plugins.distribution("acme-npu", "0.3", vpu="acme:Driver")
    assert plugins.table()["vpu"] == ["acme-npu", "0.3", "ready", "1", ""]


def test_two_distributions_of_one_name_need_a_preference(plugins: Plugins) -> None:
    plugins.module("acme")
    plugins.distribution("acme-npu", "0.3", vpu="acme:Driver")
    plugins.distribution("other-npu", "0.4", vpu="acme:Driver")
    row = plugins.table()["vpu"]
    assert row[2] == "failed"
    assert "two plug-ins provide 'vpu'" in row[4]
    assert "acme-npu" in row[4]
    assert "other-npu" in row[4]
    assert "HALON_PREFER=vpu=" in row[4]


@pytest.mark.parametrize("chosen", ["acme-npu", "other-npu", "third-npu", "HALON_DEVICE_PLUGINS"])
def test_the_preferred_of_several_is_the_one_loaded(plugins: Plugins, chosen: str) -> None:
    plugins.module("acme")
    for name in ("acme-npu", "other-npu", "third-npu"):
        plugins.distribution(name, "0.3", vpu="acme:Driver")
    row = plugins.table(HALON_DEVICE_PLUGINS="vpu=acme:Driver", HALON_PREFER=f"vpu={chosen},x=y")[
        "vpu"
    ]
    assert (row[0], row[2]) == (chosen, "ready")


@pytest.mark.parametrize("name", ["cpu", "opencl"])
def test_a_plug_in_cannot_take_a_built_in_name_and_is_told(plugins: Plugins, name: str) -> None:
    plugins.module("acme", body="raise SystemError('imported')")
    plugins.distribution("acme-npu", "0.3", **{name: "acme:Driver"})
    text = output(TABLE, PYTHONPATH=plugins.path)
    mine = [line for line in text.splitlines() if line.startswith(f"{name}|")]
    assert mine[0].split("|")[1] == "built-in"
    assert [line.split("|")[1:4] for line in mine[1:]] == [["acme-npu", "0.3", "failed"]]
    assert f"device name '{name}' is reserved by halon" in mine[1]


@pytest.mark.parametrize(("name", "reason"), [("meta", "reserved"), ("9npu", "must match")])
def test_a_plug_in_of_an_impossible_name_is_a_failed_row(
    plugins: Plugins, name: str, reason: str
) -> None:
    plugins.module("acme")
    row = plugins.table(HALON_DEVICE_PLUGINS=f"{name}=acme:Driver")[name]
    assert row[2] == "failed"
    assert reason in row[4]


# -- broken plug-ins and laziness ----------------------------------------------------------------
BROKEN = "raise SyntaxError('built against another halon')"


def test_a_broken_plug_in_costs_nothing_but_its_own_use(plugins: Plugins) -> None:
    plugins.module("acme", body=BROKEN)
    code = "import halon; print((halon.ones(2) + 1).tolist(), halon.hal.registry.registry.names())"
    text = output(code, PYTHONPATH=plugins.path, HALON_DEVICE_PLUGINS="vpu=acme:Driver")
    assert text.startswith("[2.0, 2.0] ['cpu', 'cuda', 'opencl', 'reference', 'vpu'")


def test_whoever_asks_for_a_broken_plug_in_sees_its_traceback(plugins: Plugins) -> None:
    plugins.module("acme", body=f"def connect():\n    {BROKEN}\nconnect()")
    done = python(
        "import halon; halon.ones(2).to('vpu')", PYTHONPATH=plugins.path,
        HALON_DEVICE_PLUGINS="vpu=acme:Driver",
    )  # fmt: skip
    assert done.returncode != 0
    assert "UnknownDevice: device 'vpu' (HALON_DEVICE_PLUGINS) did not load" in done.stderr
    assert "acme.py" in done.stderr
    assert "in connect" in done.stderr
    assert BROKEN in done.stderr


def test_a_plug_in_that_exits_when_imported_is_broken_too(plugins: Plugins) -> None:
    plugins.module("acme", body="import sys; sys.exit(3)")
    row = plugins.table(HALON_DEVICE_PLUGINS="vpu=acme:Driver")["vpu"]
    assert row[2:] == ["failed", "0", "SystemExit: 3"]


def test_import_and_scanning_load_no_driver(plugins: Plugins) -> None:
    plugins.module("acme")
    plugins.distribution("acme-npu", "0.3", vpu="acme:Driver")
    code = """
import sys
import halon
def loaded():
    return [m for m in ("acme", "halon.devices.cuda.driver", "halon.devices.opencl.driver",
                        "halon.devices.reference.driver") if m in sys.modules]
print("cpu" in [o.name for o in halon.hal.registry.registry.opened()], loaded())
print("vpu" in halon.hal.registry.registry.names(), loaded())
halon.ones(2) + 1
print(loaded())
print(halon.ones(2, device="vpu").device, loaded())
"""
    lines = output(code, PYTHONPATH=plugins.path).splitlines()
    assert lines[0] == "False []"
    assert lines[1] == "True []"
    assert lines[2] == "[]"
    assert lines[3] == "vpu:0 ['acme', 'halon.devices.reference.driver']"


def test_plug_ins_are_not_even_listed_at_import(plugins: Plugins) -> None:
    code = """
import sys
from importlib import metadata
asked = []
genuine = metadata.entry_points
metadata.entry_points = lambda **k: asked.append(k) or genuine(**k)
import halon
print(asked)
halon.ones(1)
print(asked)
halon.ones(1)
"""
    assert output(code).splitlines() == ["[]", "[{'group': 'halon.devices'}]"]


def test_a_plug_in_whose_driver_lacks_a_method_is_named(plugins: Plugins) -> None:
    plugins.module("acme")
    (plugins.folder / "lazy.py").write_text(
        "import halon\nclass Driver(halon.DeviceDriver):\n    name = 'vpu'\n"
    )
    row = plugins.table(HALON_DEVICE_PLUGINS="vpu=lazy:Driver")["vpu"]
    assert row[2] == "failed"
    assert "device_count" in row[4]
    assert "open" in row[4]


def test_two_plug_ins_work_side_by_side(plugins: Plugins) -> None:
    plugins.module("acme")
    plugins.distribution("acme-npu", "0.3", vpu="acme:Driver")
    code = """
import halon
a, b = halon.ones(2, device="vpu"), halon.ones(2, device="other")
print((a.to("other") + b).tolist(), (a + a).device)
"""
    text = output(code, PYTHONPATH=plugins.path, HALON_DEVICE_PLUGINS="other=acme:Driver")
    assert text == "[2.0, 2.0] vpu:0\n"
