"""Weights on disk, in the safetensors format that PyTorch users exchange.

A file is eight bytes with the length of the header, the header (JSON: names → dtype, shape, place),
and the tensors' bytes without gaps. Nothing in it is code. Loading maps the file into memory, so
host tensors appear without being read; saving writes one tensor after the other.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from halon.dispatcher.structures import dense_meta
from halon.hal import dtypes
from halon.hal.dtypes import DType
from halon.hal.errors import HalonError
from halon.hal.registry import host
from halon.tensor import transfer
from halon.tensor.atomic_file import replacing
from halon.tensor.creation import empty
from halon.tensor.tensor import Tensor

#: the format's name of each dtype.
_TAGS: Final[dict[str, DType]] = {
    "F64": dtypes.float64,
    "F32": dtypes.float32,
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "F8_E4M3": dtypes.float8_e4m3fn,
    "F8_E5M2": dtypes.float8_e5m2,
    "I64": dtypes.int64,
    "U64": dtypes.uint64,
    "I32": dtypes.int32,
    "U32": dtypes.uint32,
    "I16": dtypes.int16,
    "U16": dtypes.uint16,
    "I8": dtypes.int8,
    "U8": dtypes.uint8,
    "BOOL": dtypes.bool_,
    "C64": dtypes.complex64,
}
_TAG_OF: Final = {dtype: tag for tag, dtype in _TAGS.items()}
#: the format's own limit on the header
_LONGEST_HEADER: Final = 100_000_000
_MOST_DIMENSIONS: Final = 64


class WeightsFileError(HalonError, ValueError):
    """A weights file is truncated or no safetensors file; the message names it and says why."""


class _Entry(NamedTuple):
    """One tensor of a file; ``begin`` counts from the start of the file."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    begin: int
    nbytes: int


def save_file(state_dict: Mapping[str, Tensor], path: str | os.PathLike[str]) -> None:
    """save_file(state_dict, path) -> None, writes named tensors; an old file is kept until the end.

    The new file is written beside the old one, flushed to the disk and then renamed over it, so an
    interruption leaves one of the two, never a mixture. Tensors that share memory are each stored
    in full. At most one tensor is copied at a time.

    Raises:
        TypeError: a value is no tensor, or has a dtype that the format lacks.
        OSError: the path cannot be written; the message names it.

    >>> import halon, os, tempfile
    >>> from halon.nn.safetensors_io import load_file, save_file
    >>> path = os.path.join(tempfile.mkdtemp(), "layer.safetensors")
    >>> save_file(halon.nn.Linear(2, 1).state_dict(), path)
    >>> sorted(load_file(path))
    ['bias', 'weight']
    """
    for name, value in state_dict.items():
        _check_storable(name, value)
    # wide elements first, so that every tensor is aligned to its own element size
    order = sorted(state_dict, key=lambda name: (-state_dict[name].dtype.itemsize, name))
    with replacing(path, "weights") as stream:
        stream.write(_header({name: state_dict[name] for name in order}))
        for name in order:
            array = np.ascontiguousarray(state_dict[name].detach().to(host().device).numpy())
            stream.write(array.reshape(-1).view(np.uint8).data)


def load_file(path: str | os.PathLike[str], device: Any = None) -> dict[str, Tensor]:
    """load_file(path, device=None) -> dict, names → tensors, on ``device`` or on the host.

    Host tensors are views of the mapped file: their bytes are read when they are used, and writing
    to them changes the memory, never the file. Another device gets one tensor after the other. The
    names are sorted: the format keeps no order. Do not shorten a file while tensors of it live;
    ``save_file`` to the same path is safe.

    Raises:
        OSError: the file does not exist or cannot be read.
        WeightsFileError: the file is truncated, no safetensors file, or has an unknown dtype.
    """
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        try:
            entries = _entries(stream, size)
        except ValueError as error:
            raise WeightsFileError(f"{os.fspath(path)}: {error}") from error
        content = mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_COPY)
    loaded = {e.name: _tensor(content, e) for e in entries}
    if device is None:
        return loaded
    return {name: loaded.pop(name).to(device) for name in list(loaded)}


def _check_storable(name: str, value: Any) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"save_file: {name!r} is a {type(value).__name__}, not a Tensor")
    if value.dtype not in _TAG_OF:
        raise TypeError(f"save_file: {name!r} has dtype {value.dtype}, which safetensors lacks")
    if name == "__metadata__":
        raise ValueError("save_file: the format keeps the name '__metadata__' for itself")


def _header(tensors: Mapping[str, Tensor]) -> bytes:
    fields: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, t in tensors.items():
        begin, end = end, end + t.nbytes
        fields[name] = {
            "dtype": _TAG_OF[t.dtype], "shape": list(t.shape), "data_offsets": [begin, end],
        }  # fmt: skip
    text = json.dumps(fields, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % 64)  # the data begins on a cache line
    return struct.pack("<Q", len(text)) + text


def _tensor(content: mmap.mmap, entry: _Entry) -> Tensor:
    if not entry.nbytes:
        return empty(entry.shape, dtype=entry.dtype)
    meta = dense_meta(entry.shape, entry.dtype, host())
    view = memoryview(content)[entry.begin : entry.begin + entry.nbytes]
    if entry.begin % min(entry.dtype.itemsize, 8):  # other writers do not align
        view = memoryview(bytearray(view))
    return transfer.adopt(view, meta, content)


# -- the header ------------------------------------------------------------------------------------
def _entries(stream: Any, size: int) -> list[_Entry]:
    """The file's table of tensors, sorted by name; ValueError says what is wrong with it."""
    if size < 8:
        raise ValueError(f"truncated: {size} bytes, and the header's length alone takes 8")
    (length,) = struct.unpack("<Q", stream.read(8))
    start = stream.read(1)
    if start not in (b"{", b""):
        raise ValueError("not a safetensors file: byte 8 starts no JSON header")
    if 8 + length > size:
        raise ValueError(f"truncated: the header says it has {length} bytes, {size - 8} are there")
    if length > _LONGEST_HEADER:
        raise ValueError(f"not a valid safetensors file: a header of {length} bytes")
    fields = _parsed(start + stream.read(length - 1) if length else b"")
    entries = [_entry(name, field, 8 + length) for name, field in fields.items()]
    _check_places(entries, 8 + length, size)
    return sorted(entries)


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(text.decode(), object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not a safetensors file: its header cannot be read ({error})") from error
    if not isinstance(fields, dict):
        raise ValueError("not a safetensors file: its header is no JSON object")
    fields.pop("__metadata__", None)
    return fields


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _entry(name: str, field: Any, start: int) -> _Entry:
    def fail(what: str) -> ValueError:
        return ValueError(f"not a valid safetensors file: tensor {name!r} {what}")

    if not isinstance(field, dict) or not {"dtype", "shape", "data_offsets"} <= field.keys():
        raise fail("has no dtype, shape and data_offsets")
    tag, shape, offsets = field["dtype"], field["shape"], field["data_offsets"]
    if not isinstance(tag, str) or tag not in _TAGS:
        raise ValueError(f"tensor {name!r} has dtype {tag}; halon reads " + ", ".join(_TAGS))
    if not _counts(shape) or len(shape) > _MOST_DIMENSIONS:
        raise fail(f"has the shape {str(shape)[:100]}")
    if not _counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise fail(f"has the data_offsets {str(offsets)[:100]}")
    nbytes = math.prod(shape) * _TAGS[tag].itemsize
    if math.prod(n for n in shape if n) >= 1 << 59:  # the strides of an empty tensor count too
        raise fail(f"has the shape {shape}")
    if nbytes != offsets[1] - offsets[0]:
        raise fail(f"takes {nbytes} bytes, its data_offsets {offsets[1] - offsets[0]}")
    return _Entry(name, _TAGS[tag], tuple(shape), start + offsets[0], nbytes)


def _counts(values: Any) -> bool:
    """Whether this is a list of whole numbers that sizes may have."""
    return isinstance(values, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in values)


def _check_places(entries: list[_Entry], start: int, size: int) -> None:
    """Every byte after the header belongs to exactly one tensor."""
    end = start
    for entry in sorted(entries, key=lambda e: (e.begin, e.nbytes)):
        if entry.begin != end:
            raise ValueError(
                f"not a valid safetensors file: tensor {entry.name!r} begins at byte "
                f"{entry.begin - start} of the data, the one before it ends at {end - start}"
            )
        end += entry.nbytes
    if end > size:
        raise ValueError(
            f"truncated: the tensors take {end - start} bytes, {size - start} are there"
        )
    if end < size:
        raise ValueError(f"not a valid safetensors file: {size - end} bytes follow the last tensor")
