"""oneDNN: where its wheel put it, opened at the first contraction."""

from __future__ import annotations

import os
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from typing import Final

from halon.devices.cpu.native import ffi, lib

DISTRIBUTION: Final = "onednn-cpu-gomp"
FILE: Final = "libdnnl.so.3"


def _path() -> str:
    """The library's file; empty where the wheel is not installed."""
    try:
        dist = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return ""
    found = [dist.locate_file(f) for f in dist.files or () if f.name == FILE]
    return os.path.realpath(str(found[0])) if found else ""


@cache
def why_not_onednn() -> str:
    """Empty once oneDNN is open, else why it is not: halon's own kernels run then."""
    path = _path()
    if not path:
        return f"{DISTRIBUTION} is not installed"
    # oneDNN's OpenMP threads would otherwise spin after each call and slow everything beside them
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    failure = lib.hl_onednn_open(path.encode())
    return "" if failure == ffi.NULL else ffi.string(failure).decode()
