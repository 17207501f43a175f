"""The command line: versions, arguments and `halon devices`, run as a process of its own."""

import json
import os
import subprocess
import sys

import pytest

from halon.cli.devices import table_text
from halon.hal import aliases
from halon.hal.registry import DeviceRow


def halon(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "halon.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "COLUMNS": "120", **environment},
        check=False,
    )


def test_version_is_printed():
    done = halon("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("halon ")


def test_without_a_command_the_usage_is_shown():
    done = halon()
    assert done.returncode == 2
    assert "usage: halon" in done.stderr


def test_devices_lists_every_registered_name():
    done = halon("devices")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0].split()[:2] == ["NAME", "COUNT"]
    for name in aliases.BUILT_IN:
        assert f"\n{name} " in done.stdout


def test_devices_as_json_has_the_tables_fields():
    done = halon("devices", "--json")
    rows = json.loads(done.stdout)
    assert {"name", "origin", "version", "state", "count", "reason"} == set(rows[0])
    assert all(row["reason"] for row in rows if row["state"] != "ready")


def test_a_broken_plug_in_is_shown_with_its_error_and_the_others_go_on():
    done = halon("devices", HALON_DEVICE_PLUGINS="broken=no_such_module:Driver")
    assert done.returncode == 0
    line = next(line for line in done.stdout.splitlines() if line.startswith("broken"))
    assert "failed" in line
    assert "no_such_module" in done.stdout


def test_a_long_reason_wraps_in_its_column():
    row = DeviceRow("npu", "built-in", "1", "absent", 0, "word " * 30)
    lines = table_text([row], 80).splitlines()
    assert len(lines) > 3
    assert max(map(len, lines)) <= 80
    assert all(line.startswith(" " * 20) for line in lines[2:])


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("demo", "--devices", "no_such_npu"), "no device 'no_such_npu'"),
        (("demo", "--epochs", "0"), "not positive"),
        (("demo", "--seed", "-1"), "not in 0 to"),
        (("fly",), "invalid choice"),
    ],
)
def test_arguments_that_cannot_be_used_exit_with_2(arguments, says, tmp_path):
    done = halon(*arguments)
    assert done.returncode == 2
    assert says in done.stderr


def test_an_unknown_device_lists_what_exists():
    done = halon("demo", "--devices", "no_such_npu")
    for name in ("cpu", "reference:0"):
        assert name in done.stderr
