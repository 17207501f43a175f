"""Small good files in every format that halon reads."""

from __future__ import annotations

import io
import re
from collections import OrderedDict
from typing import Any

import numpy as np
import torch
from safetensors.torch import save as save_safetensors

import halon
from halon.hal import dtypes as dt

#: dtypes torch stores with a storage class of their own, which its old format needs
TYPED = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8",
         "bool", "complex64", "complex128")  # fmt: skip


def array(name: str, shape: tuple[int, ...] = (2, 3)) -> np.ndarray:
    """Small whole numbers of a dtype."""
    return np.arange(np.prod(shape)).reshape(shape).astype(getattr(dt, name_of(name)).numpy)


def name_of(name: str) -> str:
    return "bool_" if name == "bool" else name


def halon_tensors() -> dict[str, Any]:
    return {d.name: halon.from_numpy(array(d.name)) for d in dt.ALL}


def torch_tensors(names: Any = None) -> dict[str, Any]:
    names = [d.name for d in dt.ALL] if names is None else names
    return {n: torch.arange(6).to(getattr(torch, n)).reshape(2, 3) for n in names}


def numbered(raw: bytes) -> bytes:
    """An old file whose storages, which torch names by address, have the same names each time."""
    names: dict[bytes, bytes] = {}

    def name(found: re.Match[bytes]) -> bytes:
        return b"X\4\0\0\0" + names.setdefault(found[1], b"%d" % (1000 + len(names)))

    return re.sub(rb"X.\0\0\0(\d{9,20})", name, raw, flags=re.DOTALL)


def files() -> dict[str, bytes]:
    """format → content, for mutation."""
    base = halon.arange(12.0)
    ours: dict[str, Any] = {
        "w": base, "view": base[2:8:2], "p": halon.nn.Parameter(halon.ones(2)),
        "u": halon.from_numpy(array("uint16")), "f8": halon.from_numpy(array("float8_e5m2")),
        "meta": [1, 2.5, "text", None, True, (1, 2), {3}, b"raw", 1j, halon.float32],
        "sizes": halon.Size([1, 2]), "where": halon.device("cpu"),
    }  # fmt: skip
    theirs = {
        "w": torch.arange(12.0), "p": torch.nn.Parameter(torch.ones(2)), "n": 3,
        "state": torch.nn.BatchNorm1d(2).state_dict(), "o": OrderedDict(a=[1, (2,)]),
        "i": torch.arange(4)[1:], "h": torch.ones(2, 2, dtype=torch.float16).t(),
    }  # fmt: skip
    zipped, old, mine = io.BytesIO(), io.BytesIO(), io.BytesIO()
    torch.save(theirs, zipped)
    torch.save(theirs, old, _use_new_zipfile_serialization=False)
    halon.save(ours, mine)
    plain = {"a": torch.ones(3, 2), "b": torch.arange(5), "c": torch.ones(2).bfloat16()}
    return {
        "halon": mine.getvalue(), "torch": zipped.getvalue(), "legacy": numbered(old.getvalue()),
        "safetensors": save_safetensors(plain),
    }  # fmt: skip
