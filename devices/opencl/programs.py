"""Compiled programs of one device, kept in memory and on disk."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from halon.hal.config import config, log
from halon.hal.errors import CompileError

_MAGIC: Final = b"halon-cl-1\n"


class Programs:
    """Source text → ``pyopencl.Program``, built once per device, driver, source and options.

    A disk entry is the magic, the SHA-256 of the binary and the binary; one that does not check, or
    that the driver refuses, is built again.
    """

    def __init__(self, context: Any, device: Any) -> None:
        self._context = context
        self._device = device
        self._options = _options(device)
        self._identity = "\0".join(
            (device.platform.name, device.platform.version, device.name, device.driver_version)
        )
        self._built: dict[str, Any] = {}
        self._lock = threading.Lock()

    def get(self, source: str) -> Any:
        """The program of a source text.

        Raises CompileError with the compiler's log and the numbered source.
        """
        with self._lock:
            program = self._built.get(source)
            if program is None:
                key = self.key(source)
                program = self._load(key) or self._build(key, source)
                self._built[source] = program
            return program

    def key(self, source: str) -> str:
        text = "\0".join((self._identity, " ".join(self._options), source))
        return hashlib.sha256(text.encode()).hexdigest()

    def path(self, key: str) -> Path:
        """Where the binary of a key is kept."""
        return config.cache_dir / "opencl" / f"{key}.bin"

    def _load(self, key: str) -> Any:
        import pyopencl as cl

        path = self.path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        start = len(_MAGIC) + hashlib.sha256().digest_size
        binary = data[start:]
        if data[:start] != _MAGIC + hashlib.sha256(binary).digest():
            log("compile", f"{path} is damaged; building it again")
            return None
        try:
            with _quiet():
                return cl.Program(self._context, [self._device], [binary]).build(self._options)
        except cl.Error as error:
            log("compile", f"{path} was refused ({error}); building it again")
            return None

    def _build(self, key: str, source: str) -> Any:
        import pyopencl as cl

        started = time.perf_counter()
        try:
            with _quiet():
                program = cl.Program(self._context, source).build(self._options, cache_dir=False)
        except cl.Error as error:
            numbered = "\n".join(f"{i:4} {s}" for i, s in enumerate(source.splitlines(), 1))
            raise CompileError(
                f"{self._device.name} refused a kernel:\n{numbered}\n{error}"
            ) from None
        log("compile", f"OpenCL program {key[:12]} in {time.perf_counter() - started:.3f} s")
        self._save(key, program)
        return program

    def _save(self, key: str, program: Any) -> None:
        import pyopencl as cl

        path = self.path(key)
        part = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.part")
        try:
            binary = bytes(program.get_info(cl.program_info.BINARIES)[0])
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_bytes(_MAGIC + hashlib.sha256(binary).digest() + binary)
            part.replace(path)
        except (OSError, cl.Error) as error:
            log("compile", f"{path} not written: {error}")


def _options(device: Any) -> list[str]:
    import pyopencl as cl

    options = ["-cl-std=CL1.2", "-w"]
    if device.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT:
        options.append("-cl-fp32-correctly-rounded-divide-sqrt")
    if "cl_khr_fp16" in device.extensions:
        options.append("-DPK_HALF")
    return options


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without pyopencl's warning that a build log is not empty: Intel's never is."""
    import pyopencl as cl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)
        yield
