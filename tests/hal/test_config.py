"""Environment variables: defaults, values, bad values named, the cache directory's way out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from halon.hal.config import Config


def config(monkeypatch: pytest.MonkeyPatch, **environment: str) -> Config:
    """A fresh Config that sees only the given variables."""
    import os

    for name in [n for n in os.environ if n.startswith("HALON_")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return Config()


def test_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    c = config(monkeypatch)
    assert c.device_plugins == {}
    assert c.prefer == {}
    assert (c.fallback_mode, c.fallback_summary) == ("warn", False)
    assert c.opencl_platform == ""
    assert c.memory_fraction == 0.25
    assert c.log_topics == frozenset()


@pytest.mark.parametrize("variable", ["HALON_DEVICE_PLUGINS", "HALON_PREFER"])
def test_pairs_are_split_at_commas_and_stripped(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    c = config(monkeypatch, **{variable: " npu = acme.npu:Driver , x=y,"})
    found = c.device_plugins if variable == "HALON_DEVICE_PLUGINS" else c.prefer
    assert found == {"npu": "acme.npu:Driver", "x": "y"}


@pytest.mark.parametrize("item", ["npu", "=x", "npu=", " = "])
@pytest.mark.parametrize("variable", ["HALON_DEVICE_PLUGINS", "HALON_PREFER"])
def test_a_bad_pair_is_named_with_its_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, item: str
) -> None:
    c = config(monkeypatch, **{variable: f"a=b,{item}"})
    with pytest.raises(ValueError, match=f"{variable} has {item!r}"):
        _ = c.device_plugins if variable == "HALON_DEVICE_PLUGINS" else c.prefer


@pytest.mark.parametrize(("text", "mode", "summary"), [
    ("", "warn", False), ("silent", "silent", False), ("error", "error", False),
    ("log,summary", "log", True), ("summary", "warn", True),
])  # fmt: skip
def test_fallback_modes(
    monkeypatch: pytest.MonkeyPatch, text: str, mode: str, summary: bool
) -> None:
    c = config(monkeypatch, HALON_FALLBACK=text)
    assert (c.fallback_mode, c.fallback_summary) == (mode, summary)


@pytest.mark.parametrize("text", ["summary,error", "error,summary"])
def test_a_mode_counts_on_either_side_of_summary(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    assert config(monkeypatch, HALON_FALLBACK=text).fallback_mode == "error"


@pytest.mark.parametrize("text", ["loud", "warn,loud", "loud,summary"])
def test_an_unknown_fallback_mode_is_named_with_those_that_exist(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    c = config(monkeypatch, HALON_FALLBACK=text)
    with pytest.raises(ValueError, match=r"HALON_FALLBACK .*loud.*warn, silent, log, error"):
        _ = c.fallback_mode


@pytest.mark.parametrize(("text", "value"), [("1", 1.0), ("0.5", 0.5), ("1e-3", 1e-3)])
def test_memory_fractions(monkeypatch: pytest.MonkeyPatch, text: str, value: float) -> None:
    assert config(monkeypatch, HALON_MEMORY_FRACTION=text).memory_fraction == value


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "half", "nan", "inf"])
def test_a_bad_memory_fraction_is_named(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    c = config(monkeypatch, HALON_MEMORY_FRACTION=text)
    with pytest.raises(ValueError, match=f"HALON_MEMORY_FRACTION is {text!r}"):
        _ = c.memory_fraction


def test_log_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    c = config(monkeypatch, HALON_LOG="dispatch,alloc,")
    assert c.log_topics == {"dispatch", "alloc"}
    with pytest.raises(ValueError, match=r"HALON_LOG has \['noise'\].*dispatch, alloc, fallback"):
        _ = config(monkeypatch, HALON_LOG="alloc,noise").log_topics


def test_a_variable_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    c = config(monkeypatch, HALON_MEMORY_FRACTION="0.5")
    assert c.memory_fraction == 0.5
    monkeypatch.setenv("HALON_MEMORY_FRACTION", "0.75")
    assert c.memory_fraction == 0.5


def test_an_assigned_value_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    c = config(monkeypatch, HALON_MEMORY_FRACTION="nonsense")
    c.memory_fraction = 0.5
    assert c.memory_fraction == 0.5


# -- the cache directory -------------------------------------------------------------------------
def test_the_cache_directory_is_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wanted = tmp_path / "a" / "b"
    assert config(monkeypatch, HALON_CACHE_DIR=str(wanted)).cache_dir == wanted
    assert wanted.is_dir()


def test_by_default_it_is_below_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    c = config(monkeypatch, XDG_CACHE_HOME=str(tmp_path))
    assert c.cache_dir == tmp_path / "halon"
    monkeypatch.delenv("XDG_CACHE_HOME")
    c = config(monkeypatch, HOME=str(tmp_path))
    assert c.cache_dir == tmp_path / ".cache" / "halon"


def test_one_below_a_regular_file_becomes_a_private_temporary_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("halon.hal.config.config", Config())
    c = config(monkeypatch, HALON_CACHE_DIR=str(tmp_path / "file" / "cache"), HALON_LOG="compile")
    assert c.cache_dir.is_dir()
    assert c.cache_dir.name.startswith("halon-cache-")
    assert c.cache_dir.stat().st_mode & 0o077 == 0
    assert "cache directory not usable" in capsys.readouterr().err
    assert c.cache_dir is c.cache_dir
    c.cache_dir.rmdir()


def test_one_that_exists_but_takes_no_file_becomes_a_temporary_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # /proc takes no new file, whoever asks
    found = config(monkeypatch, HALON_CACHE_DIR="/proc").cache_dir
    assert found != Path("/proc")
    found.rmdir()


def test_import_reads_no_variable() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import halon; print(halon.__version__)"],
        capture_output=True, text=True, check=False,
        env={**__import__("os").environ, "HALON_LOG": "noise", "HALON_FALLBACK": "loud",
             "HALON_DEVICE_PLUGINS": "x", "HALON_MEMORY_FRACTION": "9"},
    )  # fmt: skip
    assert done.stdout.strip() == "0.1.0", done.stderr
