"""The structure the design promises: rooms, import direction, names, file sizes."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from halon.hal import aliases

ROOT = Path(__file__).resolve().parent.parent
#: lower rooms first; a room imports only from itself and those before it
ROOMS = ("hal", "kernels", "devices", "dispatcher", "tensor", "autograd", "nn")
#: what stands on all of them
ABOVE = ("optim", "data", "serialization", "vision", "testing", "cli")
NAMELESS = ("dispatcher", "tensor", "autograd", "nn", "optim", "data", "serialization")


def sources(*rooms: str) -> list[Path]:
    return [f for room in rooms for f in sorted((ROOT / room).rglob("*.py"))]


def halon_imports(path: Path) -> list[str]:
    """Every ``halon.x.y`` a file imports, at module level or inside a function."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.append(node.module or "")
        elif isinstance(node, ast.Import):
            found.extend(a.name for a in node.names)
    return [name for name in found if name.split(".")[0] == "halon"]


@pytest.mark.parametrize("room", ROOMS + ABOVE)
def test_imports_point_down(room: str) -> None:
    allowed = ROOMS[: ROOMS.index(room) + 1] if room in ROOMS else ROOMS + ABOVE
    for path in sources(room):
        for name in halon_imports(path):
            part = name.split(".")
            assert len(part) > 1, f"{path}: import from halon.x.y, not from halon"
            assert part[1] in allowed, f"{path.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize("room", NAMELESS)
def test_no_device_is_named_above_devices(room: str) -> None:
    for path in sources(room):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                name = node.value.split(":")[0]
                assert name not in aliases.BUILT_IN, f"{path.relative_to(ROOT)}:{node.lineno}"


def test_symlinks_match_the_rooms() -> None:
    for room in ROOMS + ABOVE:
        link = ROOT / "src" / "halon" / room
        assert link.is_symlink(), room
        assert os.readlink(link) == f"../../{room}"
    linked = {p.name for p in (ROOT / "src" / "halon").iterdir() if p.is_symlink()}
    assert linked == set(ROOMS + ABOVE)


def test_no_file_is_over_600_lines() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.py", "*.c", "*.h", "*.cl", "*.inc"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    present = [f for f in tracked if (ROOT / f).is_file()]
    long = [(f, n) for f in present if (n := (ROOT / f).read_text().count("\n")) > 600]
    assert not long


@pytest.mark.parametrize("room", ROOMS + ABOVE)
def test_a_room_refuses_to_be_imported_on_its_own(room: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {room}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode != 0
    assert f"import this package as halon.{room}" in done.stderr


def test_import_halon_loads_no_driver_and_parses_no_c() -> None:
    code = (
        "import halon, sys; "
        "print([m for m in ('pyopencl', 'cupy', 'torch', 'pycparser', 'rich', 'matplotlib')"
        " if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_generated_stubs_are_current() -> None:
    from halon.tensor import stubs

    assert stubs.path().read_text() == stubs.text(), "run python -m halon.tensor.stubs"
