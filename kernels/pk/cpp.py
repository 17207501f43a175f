"""Running PK on the CPU as C++, for tests: the third compiler of the dialect.

A kernel's ids arrive through a hidden parameter. Items of a group run one after another, or, where
the source has a barrier, as fibers that each barrier switches; ``reverse`` runs them backwards, so
that a missing barrier shows. Operands are addresses and byte offsets, as on any device.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from halon.hal.config import config
from halon.hal.errors import CompileError
from halon.kernels.pk.launch import FLAG, SCALAR_CTYPE, SCRATCH, Launch, Step
from halon.kernels.pk.scalars import CONVERT
from halon.kernels.pk.text import read

_FLAGS: Final = ("-std=c++17", "-O2", "-fPIC", "-shared", "-ffp-contract=off",
                 "-fno-strict-aliasing", "-Wno-unknown-pragmas")  # fmt: skip


def _pair(part: Any) -> Any:
    """A complex number as the kernels see it, made from a Python one."""

    class Pair(ctypes.Structure):
        _fields_: ClassVar = [("re", part), ("im", part)]

    return lambda value: Pair(value.real, value.imag)


_CTYPES: Final[dict[str, Any]] = {
    "b8": ctypes.c_uint8, "u8": ctypes.c_uint8, "i8": ctypes.c_int8, "i16": ctypes.c_int16,
    "u16": ctypes.c_uint16, "i32": ctypes.c_int32, "u32": ctypes.c_uint32, "i64": ctypes.c_int64,
    "u64": ctypes.c_uint64, "f32": ctypes.c_float, "f64": ctypes.c_double,
    "c64": _pair(ctypes.c_float), "c128": _pair(ctypes.c_double),
}  # fmt: skip

_SIGNATURE: Final = re.compile(r"^KERNEL (\w+)\(PK_IDS (.*?)\) \{", re.M | re.S)


def run(
    launch: Launch, addresses: Sequence[int], offsets: Sequence[int], scalars: Sequence[Any] = (),
    *, reverse: bool = False, flags: tuple[str, ...] = (),
) -> tuple[int, int]:  # fmt: skip
    """Run every step; returns the bounds flag and the index that raised it."""
    flag = np.zeros(2, np.int64)
    scratch = [np.full(max(n, 1), 0xEF, np.uint8) for n in launch.scratch]
    for step in launch.steps:
        same = step.unless_same
        if same and (addresses[same[0]], offsets[same[0]]) == (
            addresses[same[1]],
            offsets[same[1]],
        ):
            continue
        arguments: list[Any] = []
        for operand in step.operands:
            if operand == FLAG:
                arguments += [ctypes.c_void_p(flag.ctypes.data), ctypes.c_int64(1)]
            elif operand <= SCRATCH:
                address = scratch[SCRATCH - operand].ctypes.data
                arguments += [ctypes.c_void_p(address), ctypes.c_int64(0)]
            else:
                elements = offsets[operand] // launch.itemsizes[operand]
                arguments += [ctypes.c_void_p(addresses[operand]), ctypes.c_int64(elements)]
        for k in step.scalars:
            dtype = launch.scalars[k]
            arguments.append(_CTYPES[SCALAR_CTYPE[dtype]](CONVERT[dtype](scalars[k])))
        arguments += [ctypes.c_int64(n) for n in step.fixed]
        _function(step, flags)(*_grid(step), int(reverse), *arguments)
    return int(flag[0]), int(flag[1])


def _grid(step: Step) -> list[ctypes.c_int64]:
    groups = [s // g for s, g in zip(step.size, step.group, strict=True)]
    assert all(g * n == s for s, g, n in zip(step.size, step.group, groups, strict=True))
    return [ctypes.c_int64(n) for n in (*groups, *step.group)]


def _function(step: Step, flags: tuple[str, ...]) -> Any:
    return getattr(library(step.source, flags), f"launch_{step.entry}")


@cache
def library(source: str, flags: tuple[str, ...] = ()) -> ctypes.CDLL:
    """The shared library of a PK source, with a ``launch_<kernel>`` for each kernel.

    Raises CompileError with the compiler's messages.
    """
    text = source + _runtime(source)
    words = ("g++", *_FLAGS, *flags)
    name = hashlib.sha256("\0".join((*words, text)).encode()).hexdigest()[:24]
    folder = config.cache_dir / "pk-cpp"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.so"
    if not path.exists():
        _compile(words, text, path)
    return ctypes.CDLL(str(path))


def _compile(words: Sequence[str], text: str, path: Path) -> None:
    part = path.with_suffix(f".{os.getpid()}.part")
    done = subprocess.run(
        [*words, "-x", "c++", "-", "-o", str(part)], input=text, capture_output=True, text=True
    )
    if done.returncode:
        raise CompileError(f"g++ refused a kernel:\n{text}\n{done.stderr}")
    part.replace(path)


def _runtime(source: str) -> str:
    """The launcher of each kernel, printed from its signature."""
    launchers = []
    for name, parameters in _SIGNATURE.findall(source):
        arguments = ", ".join(re.findall(r"(\w+)(?:,|$)", parameters))
        launchers.append(
            f'extern "C" void launch_{name}(i64 pk_g0, i64 pk_g1, i64 pk_g2, '
            f"i64 pk_l0, i64 pk_l1, i64 pk_l2, int pk_reverse, {parameters}) {{\n"
            "    const i64 pk_groups[3] = {pk_g0, pk_g1, pk_g2};\n"
            "    const i64 pk_local[3] = {pk_l0, pk_l1, pk_l2};\n"
            f"    pk_launch(pk_groups, pk_local, pk_reverse, [&](const pk_ids &pk) {{ "
            f"{name}(pk, {arguments}); }});\n}}\n"
        )
    with_barriers = "#define PK_FIBERS\n" if "BARRIER();" in source else ""
    return with_barriers + read("launcher.h") + "".join(launchers)
