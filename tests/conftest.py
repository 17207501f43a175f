"""Devices the suite runs on, and the rule that a missing one fails under CI."""

from __future__ import annotations

import os
import zlib

import pytest

from halon.hal.registry import registry

WANTED = ("cpu", "opencl:0", "reference:0")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", WANTED)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the part ``HALON_TEST_PART=k/n`` of the suite, by a checksum of each test's name."""
    part = os.environ.get("HALON_TEST_PART")
    if not part:
        return
    k, n = map(int, part.split("/"))
    kept = [i for i in items if zlib.crc32(i.nodeid.encode()) % n == k]
    config.hook.pytest_deselected(items=[i for i in items if i not in set(kept)])
    items[:] = kept


@pytest.fixture(autouse=True)
def _present(request: pytest.FixtureRequest) -> None:
    if "device" not in request.fixturenames:
        return
    name = request.getfixturevalue("device")
    if name not in registry.available():
        row = next(r for r in registry.table() if r.name == name.split(":")[0])
        if os.environ.get("CI"):
            pytest.fail(f"{name} is needed under CI: {row.reason}")
        pytest.skip(f"{name}: {row.reason}")
