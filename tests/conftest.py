"""Devices the suite runs on, and the rule that a missing one fails under CI."""

from __future__ import annotations

import os

import pytest

from halon.hal.registry import registry

WANTED = ("cpu", "opencl:0", "reference:0")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", WANTED)


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
