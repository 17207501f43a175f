"""Configuration: every environment variable halon reads, read once at first use.

| variable | meaning | default |
| --- | --- | --- |
| ``HALON_CACHE_DIR`` | compiled programs, driver registration | ``$XDG_CACHE_HOME/halon`` |
| ``HALON_DEVICE_PLUGINS`` | ``name=module:Driver,…`` beside the built-ins | none |
| ``HALON_PREFER`` | ``name=distribution,…`` decides between two plug-ins of one name | none |
| ``HALON_FALLBACK`` | ``warn``, ``silent``, ``log``, ``error``, ``,summary`` at exit | ``warn`` |
| ``HALON_OPENCL_PLATFORM`` | keeps OpenCL platforms whose name contains it | all |
| ``HALON_MEMORY_FRACTION`` | cap of each device's caching allocator | 0.25 |
| ``HALON_LOG`` | ``dispatch,alloc,fallback,compile``: one line per event on stderr | none |
"""

from __future__ import annotations

import os
import sys
import tempfile
from functools import cached_property
from pathlib import Path

_LOG_TOPICS = ("dispatch", "alloc", "fallback", "compile")
_FALLBACK_MODES = ("warn", "silent", "log", "error")


class Config:
    """The values of this process; assign to an attribute before its first use to override it."""

    @cached_property
    def cache_dir(self) -> Path:
        """A directory that exists and can be written; a private temporary one if need be."""
        base = os.environ.get("HALON_CACHE_DIR")
        root = Path(base) if base else _xdg_cache() / "halon"
        try:
            root.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=root):
                pass  # some directories exist and take no file
        except OSError as error:
            root = Path(tempfile.mkdtemp(prefix="halon-cache-"))
            log("compile", f"cache directory not usable ({error}); using {root}")
        return root

    @cached_property
    def device_plugins(self) -> dict[str, str]:
        return _pairs("HALON_DEVICE_PLUGINS")

    @cached_property
    def prefer(self) -> dict[str, str]:
        return _pairs("HALON_PREFER")

    @cached_property
    def fallback_mode(self) -> str:
        words = [w for w in os.environ.get("HALON_FALLBACK", "").split(",") if w and w != "summary"]
        for word in words:
            _checked("HALON_FALLBACK", word)
        return words[-1] if words else _FALLBACK_MODES[0]

    @cached_property
    def fallback_summary(self) -> bool:
        return "summary" in os.environ.get("HALON_FALLBACK", "").split(",")

    @cached_property
    def opencl_platform(self) -> str:
        return os.environ.get("HALON_OPENCL_PLATFORM", "")

    @cached_property
    def memory_fraction(self) -> float:
        text = os.environ.get("HALON_MEMORY_FRACTION", "0.25")
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0.0 < value <= 1.0:
            raise ValueError(f"HALON_MEMORY_FRACTION is {text!r}: give a number in (0, 1]")
        return value

    @cached_property
    def log_topics(self) -> frozenset[str]:
        topics = frozenset(t for t in os.environ.get("HALON_LOG", "").split(",") if t)
        unknown = topics - set(_LOG_TOPICS)
        if unknown:
            raise ValueError(
                f"HALON_LOG has {sorted(unknown)}; topics are {', '.join(_LOG_TOPICS)}"
            )
        return topics


config = Config()


def log(topic: str, message: str) -> None:
    """Print one line on stderr if ``HALON_LOG`` lists the topic."""
    if topic in config.log_topics:
        print(f"halon {topic}: {message}", file=sys.stderr)


def _xdg_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _checked(variable: str, mode: str) -> str:
    if mode not in _FALLBACK_MODES:
        raise ValueError(f"{variable} is {mode!r}; modes are {', '.join(_FALLBACK_MODES)}")
    return mode


def _pairs(variable: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in filter(None, os.environ.get(variable, "").split(",")):
        name, equals, value = item.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise ValueError(f"{variable} has {item!r}; write name=value, separated by commas")
        found[name.strip()] = value.strip()
    return found
