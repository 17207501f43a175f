"""The type checker is on, sees the real folders, and finds a planted error."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def pyright(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pyright", *args], cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def test_the_package_has_no_type_errors() -> None:
    done = pyright()
    assert done.returncode == 0, done.stdout


def test_a_planted_type_error_is_found(tmp_path: Path) -> None:
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "src").symlink_to(ROOT / "src")
    (tmp_path / "hal").mkdir()
    planted = "from halon.hal.allocator import size_class\n\nsize: str = size_class(1)\n"
    (tmp_path / "hal" / "planted.py").write_text(planted)
    done = pyright("-p", str(tmp_path))
    assert done.returncode != 0
    assert "planted.py:3" in done.stdout
