"""Weights on disk, in the safetensors format that PyTorch users exchange."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save

from halon.hal import dtypes
from halon.hal.dtypes import DType
from halon.hal.errors import HalonError
from halon.hal.registry import host
from halon.tensor.creation import from_numpy
from halon.tensor.tensor import Tensor

#: the format's name of each dtype; bfloat16 is stored by its 16 bits, which NumPy has as uint16.
_TAGS: Final[dict[str, DType]] = {
    "F64": dtypes.float64,
    "F32": dtypes.float32,
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
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
_STORABLE: Final = frozenset(_TAGS.values())


class WeightsFileError(HalonError, ValueError):
    """A weights file is truncated or no safetensors file; the message names it and says why."""


def save_file(state_dict: Mapping[str, Tensor], path: str | os.PathLike[str]) -> None:
    """save_file(state_dict, path) -> None, writes named tensors; an old file is kept until the end.

    The new file is written beside the old one, flushed to the disk and then renamed over it, so an
    interruption leaves one of the two, never a mixture. Tensors that share memory are each stored
    in full.

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
    arrays = {name: _to_array(name, value) for name, value in state_dict.items()}
    halves = [name for name, value in state_dict.items() if value.dtype is dtypes.bfloat16]
    content = _retagged(save(arrays, {"format": "pt"}), halves)
    try:
        _write(Path(path), content)
    except OSError as error:
        reason = f"cannot write weights: {error.strerror or error}"
        raise OSError(error.errno, reason, os.fspath(path)) from error


def load_file(path: str | os.PathLike[str], device: Any = None) -> dict[str, Tensor]:
    """load_file(path, device=None) -> dict, names → tensors, on ``device`` or on the host.

    The names are sorted: the format keeps no order.

    Raises:
        OSError: the file does not exist or cannot be read.
        WeightsFileError: the file is truncated, no safetensors file, or has an unknown dtype.
    """
    content = Path(path).read_bytes()
    try:
        entries = deserialize(content)
    except SafetensorError as error:
        raise WeightsFileError(f"{os.fspath(path)}: {_diagnosis(content, error)}") from error
    loaded = {}
    for name, entry in sorted(entries, key=lambda pair: pair[0]):
        if entry["dtype"] not in _TAGS:
            raise WeightsFileError(
                f"{os.fspath(path)}: tensor {name!r} has dtype {entry['dtype']}; halon reads "
                + ", ".join(_TAGS)
            )
        value = _to_tensor(entry["data"], _TAGS[entry["dtype"]], entry["shape"])
        loaded[name] = value if device is None else value.to(device)
    return loaded


def _to_array(name: str, value: Any) -> np.ndarray:
    if not isinstance(value, Tensor):
        raise TypeError(f"save_file: {name!r} is a {type(value).__name__}, not a Tensor")
    if value.dtype not in _STORABLE:
        raise TypeError(f"save_file: {name!r} has dtype {value.dtype}, which safetensors lacks")
    on_host = value.detach().to(host().device)
    if value.dtype is dtypes.bfloat16:
        # bfloat16 is the upper half of float32, so widening and cutting is exact
        wide = np.ascontiguousarray(on_host.to(dtypes.float32).numpy())
        return (wide.view(np.uint32) >> 16).astype(np.uint16).reshape(wide.shape)
    # asarray, unlike ascontiguousarray, keeps zero dimensions
    return np.asarray(on_host.numpy(), order="C")


def _to_tensor(data: Any, dtype: DType, shape: list[int]) -> Tensor:
    if dtype is dtypes.bfloat16:
        bits = np.frombuffer(data, np.uint16).astype(np.uint32) << 16
        return from_numpy(bits.view(np.float32).reshape(shape)).to(dtype)
    return from_numpy(np.frombuffer(bytearray(data), dtype.numpy).reshape(shape))


def _retagged(content: bytes, names: list[str]) -> bytes:
    """The file with the dtype of ``names`` changed from U16 to BF16 in its header."""
    if not names:
        return content
    (length,) = struct.unpack_from("<Q", content)
    header = json.loads(content[8 : 8 + length])
    for name in names:
        header[name]["dtype"] = "BF16"
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the data stays aligned
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


def _write(path: Path, content: bytes) -> None:
    target = Path(os.path.realpath(path))  # a link keeps pointing at what it points at
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "Is a directory")
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        # a pipe or a character device cannot be replaced by a file
        with open(target, "wb", buffering=0) as stream:
            _write_all(stream, content)
        return
    with _temporary_beside(target) as stream:
        _write_all(stream, content)
        stream.flush()
        os.fsync(stream.fileno())
    _sync_directory(target.parent)


@contextlib.contextmanager
def _temporary_beside(target: Path) -> Iterator[Any]:
    """A new file in the target's directory, renamed to it on success and removed on failure."""
    name = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(name, "xb") as stream:
            if target.exists():
                os.chmod(name, stat.S_IMODE(target.stat().st_mode))
            yield stream
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _write_all(stream: Any, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[stream.write(rest) :]


def _sync_directory(directory: Path) -> None:
    """Make the rename itself durable, where the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _diagnosis(content: bytes, error: Exception) -> str:
    if len(content) < 8:
        return f"truncated: {len(content)} bytes, and the header's length alone takes 8"
    (length,) = struct.unpack_from("<Q", content)
    if content[8:9] not in (b"{", b""):
        return f"not a safetensors file: byte 8 starts no JSON header ({error})"
    if 8 + length > len(content):
        return f"truncated: the header says it has {length} bytes, {len(content) - 8} are there"
    try:
        header = json.loads(content[8 : 8 + length])
        ends = [e["data_offsets"][1] for name, e in header.items() if name != "__metadata__"]
        wanted = max(ends, default=0)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return f"not a safetensors file: its header cannot be read ({error})"
    found = len(content) - 8 - length
    if found < wanted:
        return f"truncated: the tensors take {wanted} bytes, {found} are there"
    return f"not a valid safetensors file ({error})"
