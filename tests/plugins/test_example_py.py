"""The worked Python plug-in: found through its entry point, trains, reports its fallbacks."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "plugins" / "example_py"
INSTALLED = any(p.name == "npu" for p in metadata.entry_points(group="halon.devices"))


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip


@pytest.fixture
def environment() -> dict[str, str]:
    """Nothing where the plug-in is installed; else the variable that stands in for pip."""
    if INSTALLED:
        return {}
    if os.environ.get("CI"):
        pytest.fail("plugins/example_py is not installed; make test installs it")
    paths = [str(PLUGIN), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {
        "HALON_DEVICE_PLUGINS": "npu=halon_example_npu:Driver",
        "PYTHONPATH": os.pathsep.join(paths),
    }


def test_it_is_found_and_not_imported_before_its_first_use(environment: dict[str, str]) -> None:
    done = run(
        "import halon, sys; names = halon.hal.registry.registry.names();"
        "print('npu' in names, 'halon_example_npu' in sys.modules);"
        "print(halon.ones(2).to('npu:0') + 1)",
        **environment,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["True False", "tensor([2., 2.], device='npu:0')"]


def test_it_computes_what_the_host_computes_and_counts_what_it_could_not(
    environment: dict[str, str],
) -> None:
    done = run(
        """
import halon
from halon.dispatcher import fallback
halon.manual_seed(0)
x, w = halon.randn(4, 3), halon.randn(3, 2)
def f(x, w):
    return ((x @ w).tanh() + (x @ w).relu().sum(0)).softmax(1)
a = f(x, w)
with fallback.fallback("silent"):
    b = f(x.to("npu:0"), w.to("npu:0"))
print(halon.allclose(a, b.cpu(), 1e-5, 1e-6))
report = halon.fallback_report("npu:0")
print("tanh(f32)" in report, "relu" in report, fallback.share("npu:0") > 0)
""",
        **environment,
    )
    assert done.stdout.splitlines() == ["True", "True False True"], done.stderr


def test_it_trains_the_demo(environment: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "halon.cli.main", "demo", "--devices", "npu", "--epochs", "2",
         "--out", str(tmp_path)],
        capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "npu:0:" in done.stdout
    assert "operator calls" in done.stdout
    assert (tmp_path / "weights-npu-0.safetensors").exists()


def test_the_whole_plugin_stays_a_page() -> None:
    lines = (PLUGIN / "halon_example_npu.py").read_text().splitlines()
    code = [
        s for s in lines if s.strip() and not s.strip().startswith(("#", '"""', "def ", "class "))
    ]
    assert len(code) <= 40
