"""The OpenCL device of the kernel tests, with two launch policies."""

from __future__ import annotations

import os

import pytest

from halon.devices.opencl import platforms
from halon.devices.opencl.check import Runner
from halon.devices.opencl.driver import OpenCLDevice, OpenCLDriver
from halon.kernels.pk.launch import Target


def _open(target: Target | None) -> Runner:
    if not platforms.devices():
        if os.environ.get("CI"):
            pytest.fail(OpenCLDriver().diagnose())
        pytest.skip(OpenCLDriver().diagnose())
    return Runner(OpenCLDevice(platforms.devices()[0], target))


@pytest.fixture(scope="module")
def run() -> Runner:
    """The device with its own launch policy."""
    return _open(None)


@pytest.fixture(scope="module")
def run_as_gpu() -> Runner:
    """The same device with a GPU's launch policy: groups, local memory, grid strides."""
    runner = _open(None)
    f64, atomics64 = runner.device.target.f64, runner.device.target.atomics64
    return _open(Target(cpu=False, units=4, f64=f64, atomics64=atomics64))


@pytest.fixture(params=["own policy", "GPU policy"])
def either(request: pytest.FixtureRequest, run: Runner, run_as_gpu: Runner) -> Runner:
    return run if request.param == "own policy" else run_as_gpu
