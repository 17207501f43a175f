"""Damaged files never crash, hang or take memory: they load or raise what is documented."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.serialization import samples

HERE = Path(__file__).resolve().parent
FULL = bool(os.environ.get("HALON_TEST_FULL"))
COUNT = 10_000 if FULL else 2_000


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("good")
    for name, content in samples.files().items():
        (folder / name).write_bytes(content)
    done = subprocess.run(
        [sys.executable, str(HERE / "fuzz_child.py"), str(folder), str(COUNT)],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stdout)  # the counts, shown with -s
    return json.loads(done.stdout)


def test_every_damaged_file_loads_or_raises_a_documented_error(report):
    assert sum(report["outcomes"].values()) == COUNT
    for kind in ("halon", "torch", "legacy", "safetensors"):
        outcomes = {k: n for k, n in report["outcomes"].items() if k.startswith(kind)}
        assert sum(outcomes.values()) == COUNT // 4
        assert len(outcomes) > 1, f"{kind}: the mutations all end alike"


def test_no_damaged_file_takes_more_memory_than_its_size_warrants(report):
    assert report["peak_kib"] < 32 * 1024


def test_no_damaged_file_takes_long(report):
    assert report["slowest"][0] < 5.0
