"""``halon demo``: the same training on every device, side by side."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from halon.hal.errors import UnknownDevice
from halon.hal.registry import registry

_NEEDED = ("rich", "matplotlib")


def run(devices: str, epochs: int, seed: int, out: str) -> int:
    """run(devices, epochs, seed, out) -> int, the exit status of ``halon demo``.

    0: every device trained and all agree. 1: a device failed or predicts differently. 2: the
    arguments or the installation do not allow a start; nothing was trained.
    """
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        return _refuse(
            f'the demo needs {" and ".join(missing)}, not installed here: pip install "halon[demo]"'
        )
    try:
        chosen = choose(devices, registry.available())
    except UnknownDevice as error:
        return _refuse(str(error))
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        return _refuse(f"--out {out}: cannot write there: {error}")

    from halon.cli.demo_run import compare_devices

    return compare_devices(chosen, epochs, seed, folder)


def choose(wanted: str, available: Sequence[str]) -> list[str]:
    """choose(wanted, available) -> list, the devices named in ``wanted``, in its order.

    ``all`` takes every one; a name without an index means the first of that name.

    Raises UnknownDevice listing what exists.

    >>> choose("npu,gpu:1", ["npu:0", "gpu:0", "gpu:1"])
    ['npu:0', 'gpu:1']
    """
    if wanted == "all":
        return list(available)
    chosen: list[str] = []
    for name in (part.strip() for part in wanted.split(",")):
        spellings = (name, f"{name}:0", name.removesuffix(":0"))
        found = next((spelling for spelling in spellings if spelling in available), None)
        if found is None:
            raise UnknownDevice(
                f"--devices: no device {name!r} here. Available: {', '.join(available)}. "
                "`halon devices` says why others are absent"
            )
        if found not in chosen:
            chosen.append(found)
    return chosen


def _refuse(message: str) -> int:
    print(f"halon demo: {message}", file=sys.stderr)
    return 2
