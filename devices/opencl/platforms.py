"""Which OpenCL devices there are: finding drivers, ordering devices, explaining an empty list."""

from __future__ import annotations

import hashlib
import os
import threading
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from halon.hal.config import config, log

_SYSTEM_VENDORS: Final = Path("/etc/OpenCL/vendors")
_INTEL: Final = "intel-opencl-rt"
_MEND: Final = (
    'pip install "halon[opencl-cpu]" brings one for x86-64 CPUs; '
    "apt install pocl-opencl-icd, or your GPU vendor's package, another"
)

_lock = threading.Lock()
_found: list[Any] | None = None
_why_none = ""


def devices() -> list[Any]:
    """Every usable ``pyopencl.Device``: GPUs, accelerators, CPUs; each by platform name and index.

    Found once per process; empty where pyopencl or a driver is missing (see ``why_none``).
    """
    global _found, _why_none
    with _lock:
        if _found is None:
            try:
                _found, _why_none = _scan()
            except Exception as error:  # a driver's loader may raise anything
                _found, _why_none = [], f"OpenCL did not start: {type(error).__name__}: {error}"
        return _found


def why_none() -> str:
    """What is missing and the command that mends it; empty if there are devices."""
    devices()
    return _why_none


def _scan() -> tuple[list[Any], str]:
    register_pip_driver()
    try:
        import pyopencl as cl
    except ImportError as error:
        return [], f'pyopencl is not installed ({error}): pip install "halon[opencl-cpu]"'
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        return [], f"no OpenCL driver is installed ({error}). {_MEND}"
    wanted = config.opencl_platform.lower()
    kept = [p for p in _distinct(platforms) if _selected(p.name, wanted)]
    if not kept:
        names = ", ".join(repr(p.name) for p in platforms) or "none"
        if wanted:
            return [], f"no OpenCL platform's name contains {wanted!r}; found {names}"
        return [], f"no usable OpenCL platform; found {names}. {_MEND}"
    ranked = []
    for platform in kept:
        for index, device in enumerate(_devices_of(platform)):
            if device.available and device.compiler_available and device.endian_little:
                ranked.append((_kind(cl, device.type), platform.name, index, device))
    ranked.sort(key=lambda r: r[:3])
    found = [r[3] for r in ranked]
    return found, "" if found else f"the OpenCL platforms have no usable device. {_MEND}"


def _distinct(platforms: list[Any]) -> list[Any]:
    """Without the second of two ICD files that load the same driver."""
    seen: dict[tuple[str, str, str], Any] = {}
    for platform in platforms:
        seen.setdefault((platform.name, platform.version, platform.vendor), platform)
    return list(seen.values())


def _selected(name: str, wanted: str) -> bool:
    if not wanted:
        return "oclgrind" not in name.lower()  # a checker, hundreds of times slower than a device
    return wanted in name.lower()


def _devices_of(platform: Any) -> list[Any]:
    import pyopencl as cl

    try:
        return platform.get_devices()
    except cl.Error as error:
        log("compile", f"OpenCL platform {platform.name!r} lists no device: {error}")
        return []


def _kind(cl: Any, kind: int) -> int:
    order = (cl.device_type.GPU, cl.device_type.ACCELERATOR, cl.device_type.CPU)
    return next((i for i, bit in enumerate(order) if kind & bit), len(order))


def register_pip_driver() -> None:
    """Let the ICD loader find Intel's CPU driver from its wheel beside the system's drivers.

    The wheel's own .icd file names a path that does not exist, and the loader reads one directory
    only: one of ours, holding a right .icd and copies of the system's. OCL_ICD_VENDORS is left
    alone where it is set.
    """
    if "OCL_ICD_VENDORS" in os.environ:
        return
    library = _pip_library()
    if library is None:
        return
    files = {"halon-intel-cpu.icd": f"{library}\n"}
    for path in sorted(_SYSTEM_VENDORS.glob("*.icd")):
        try:
            files[path.name] = path.read_text(encoding="utf-8")
        except OSError as error:
            log("compile", f"{path} is not readable: {error}")
    os.environ["OCL_ICD_VENDORS"] = str(_vendor_directory(files))


def _pip_library() -> Path | None:
    try:
        files = metadata.distribution(_INTEL).files or []
    except metadata.PackageNotFoundError:
        return None
    for file in files:
        if file.name == "libintelocl.so":
            path = Path(str(file.locate())).resolve()
            return path if path.exists() else None
    return None


def _vendor_directory(files: dict[str, str]) -> Path:
    """A directory with these files, named by their content so that environments do not collide."""
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]
    folder = config.cache_dir / "opencl-icd" / digest
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        part = folder / f"{name}.{os.getpid()}.part"  # not *.icd: a loader must not read it
        part.write_text(text, encoding="utf-8")
        part.replace(folder / name)
    return folder
