"""The documentation runs: the essay, every page's examples, every module's examples."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import halon

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process of its own: pages register devices and operators that must not stay."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONSAFEPATH": "1", **environment},
        check=False,
    )


def modules(paths: Iterable[str], prefix: str) -> Iterator[str]:
    """Every public module below ``paths``; none is imported to find it."""
    for found in pkgutil.iter_modules(paths, prefix):
        name = found.name.rpartition(".")[2]
        if name.startswith("_"):
            continue
        yield found.name
        if found.ispkg:
            yield from modules([str(Path(p) / name) for p in paths], f"{found.name}.")


MODULES = ["halon", *modules(halon.__path__, "halon.")]


def test_the_essay_runs_and_shows_the_four_frames() -> None:
    done = python(str(DOCS / "inside.py"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (
        "  tensor/tensor.py __add__\n"
        "    dispatcher/select.py call\n"
        "      dispatcher/hot.py run\n"
        "        devices/cpu/driver.py run_plan\n"
    ) in done.stdout
    assert done.stdout.endswith("Every assertion held.\n")


@pytest.mark.parametrize("mode", ["silent", "log", "error"])
def test_the_essay_does_not_depend_on_the_fallback_mode(mode: str) -> None:
    done = python(str(DOCS / "inside.py"), HALON_FALLBACK=mode)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_essay_runs_where_no_kernels_were_compiled() -> None:
    code = (
        "import runpy, sys; sys.modules['halon.kernels._native'] = None; "
        f"runpy.run_path({str(DOCS / 'inside.py')!r}, run_name='__main__')"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "        devices/planner.py _run\n" in done.stdout


def test_the_essay_has_at_most_400_lines() -> None:
    assert (DOCS / "inside.py").read_text(encoding="utf-8").count("\n") <= 400


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(DOCS).as_posix())
def test_the_examples_of_a_page_give_what_it_shows(page: Path) -> None:
    done = python("-m", "doctest", str(page))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "page", ["adding_an_operator.md", "configuration.md", "devices.md", "plugin_author.md"]
)
def test_a_page_has_examples(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert doctest.DocTestParser().get_examples(text)


def test_the_collection_of_modules_reaches_every_room() -> None:
    rooms = {p.name for p in (ROOT / "src" / "halon").iterdir() if p.is_symlink()}
    assert {m.split(".")[1] for m in MODULES[1:]} == rooms
    assert {"halon.kernels.tree", "halon.devices.cpu.driver"} <= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_give_what_it_shows(name: str) -> None:
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0


def test_the_configuration_page_has_the_table_of_the_module() -> None:
    from halon.hal import config

    def rows(text: str) -> list[str]:
        return [line for line in text.splitlines() if line.startswith("|")]

    expected = rows((config.__doc__ or "").replace("``", "`"))
    page = rows((DOCS / "configuration.md").read_text(encoding="utf-8"))
    assert len(expected) > 2
    assert page[: len(expected)] == expected


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        prose = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#]+)", prose):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
