"""Compiling PK to PTX with NVRTC alone: no GPU, no driver, no CUDA toolkit.

The library and headers come from the wheels ``nvidia-cuda-nvrtc-cu12`` and
``nvidia-cuda-runtime-cu12`` (``cuda_fp16.h``).
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

from halon.hal.errors import CompileError

#: Compiler options PK relies on: C++17, device code by default, a * b + c never fused unasked.
OPTIONS: Final = ("--std=c++17", "-default-device", "--fmad=false")

_WHEELS: Final = ("nvidia-cuda-nvrtc-cu12", "nvidia-cuda-runtime-cu12")


def compile(source: str, arch: str = "sm_80", options: tuple[str, ...] = ()) -> str:
    """PTX of a PK source for an architecture such as ``"sm_80"``.

    Raises CompileError with NVRTC's log and the numbered source; RuntimeError without the wheels.
    """
    return compile_with_log(source, arch, options)[0]


def compile_with_log(
    source: str, arch: str = "sm_80", options: tuple[str, ...] = ()
) -> tuple[str, str]:
    """PTX and the compiler's log (``--ptxas-options=-v`` makes it list registers and spills)."""
    library, include = _library(), _include()
    program = ctypes.c_void_p()
    _check(library.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None
    ))  # fmt: skip
    try:
        words = (*OPTIONS, *options, f"--gpu-architecture={arch}", f"--include-path={include}")
        array = (ctypes.c_char_p * len(words))(*(w.encode() for w in words))
        status = library.nvrtcCompileProgram(program, len(words), array)
        log = _text(library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog, program)
        if status:
            numbered = "\n".join(f"{i:4} {s}" for i, s in enumerate(source.splitlines(), 1))
            raise CompileError(f"NVRTC refused a kernel for {arch}:\n{numbered}\n{log}")
        return _text(library.nvrtcGetPTXSize, library.nvrtcGetPTX, program), log
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def why_missing() -> str:
    """Empty if NVRTC can be used here, else what to install."""
    try:
        _library()
        _include()
    except (RuntimeError, OSError) as error:
        return str(error)
    return ""


def _text(
    size_of: ctypes._NamedFuncPointer, copy: ctypes._NamedFuncPointer, program: ctypes.c_void_p
) -> str:
    size = ctypes.c_size_t()
    _check(size_of(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(copy(program, buffer))
    return buffer.value.decode(errors="replace")


def _check(status: int) -> None:
    if status:
        raise RuntimeError(f"NVRTC returned status {status}")


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(str(_file(_WHEELS[0], "libnvrtc.so.12")))


@cache
def _include() -> Path:
    return _file(_WHEELS[1], "cuda_fp16.h").parent


def _file(wheel: str, name: str) -> Path:
    try:
        files = metadata.distribution(wheel).files or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == name:
            return Path(str(file.locate())).resolve()
    raise RuntimeError(f"{name} is missing: pip install {' '.join(_WHEELS)}")
