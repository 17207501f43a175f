"""Reads damaged files in a process of its own, with its memory limited: a script.

Prints one line of JSON: outcomes by format, the growth of the peak memory, the slowest file.
"""

from __future__ import annotations

import collections
import importlib.util
import io
import json
import pickle
import resource
import sys
import time
from pathlib import Path
from typing import Any

import halon
from halon.nn.safetensors_io import WeightsFileError, load_file
from halon.serialization import ArchiveError
from halon.tensor.tensor import Tensor

ALLOWED = (ArchiveError, pickle.UnpicklingError, WeightsFileError)
HEADROOM = 512 << 20


def mutations() -> Any:
    spec = importlib.util.spec_from_file_location("mutate", Path(__file__).with_name("mutate.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def peak_kib() -> int:
    """The highest resident memory of this program; ``getrusage`` would count the parent's too."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])


def tensors(value: Any, seen: set[int]) -> list[Tensor]:
    """Every tensor in nested containers."""
    found, rest = [], [value]
    while rest:
        v = rest.pop()
        if isinstance(v, Tensor):
            found.append(v)
        elif isinstance(v, (dict, list, tuple)) and id(v) not in seen:
            seen.add(id(v))
            rest.extend(v.values() if isinstance(v, dict) else v)
    return found


def read(kind: str, raw: bytes, number: int, path: Path) -> str:
    """Load one file and touch every byte of its tensors; the outcome in a word."""
    mapped = number % 3 == 0 and kind != "legacy"
    try:
        if kind == "safetensors":
            path.write_bytes(raw)
            value: Any = load_file(path)
        elif mapped:
            path.write_bytes(raw)
            value = halon.load(path, mmap=True)
        else:
            value = halon.load(io.BytesIO(raw))
    except ALLOWED as error:
        return type(error).__name__
    for t in tensors(value, set()):
        if t.numel() <= 1 << 20:
            t.detach().numpy().tobytes()
    return "loaded"


def main(folder: str, count: int) -> None:
    files = {p.name: p.read_bytes() for p in Path(folder).glob("*")}
    mutate = mutations()
    path = Path(folder) / "damaged"
    for kind in files:
        assert read(kind, files[kind], 1, path) == "loaded", kind
    limit = address_space() + HEADROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    before = peak_kib()
    outcomes: collections.Counter[str] = collections.Counter()
    slowest = (0.0, -1)
    for number in range(count):
        kind, change, raw = mutate.mutated(files, number)
        start = time.perf_counter()
        try:
            outcome = read(kind, raw, number, path)
        except BaseException:
            print(f"damaged file {number} ({kind}, {change}) escaped", file=sys.stderr)
            raise
        slowest = max(slowest, (time.perf_counter() - start, number))
        outcomes[f"{kind} {outcome}"] += 1
    print(json.dumps({"outcomes": outcomes, "peak_kib": peak_kib() - before, "slowest": slowest}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
