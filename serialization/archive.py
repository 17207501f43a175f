"""The container of saved tensors: an uncompressed zip file laid out as PyTorch's.

Entries lie under one folder: ``data.pkl`` (the object, with tensors by reference), ``data/<key>``
(the bytes of each storage, at multiples of 64), ``byteorder``, ``version`` and a few small ones.
"""

from __future__ import annotations

import hashlib
import struct
import sys
import zipfile
import zlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from halon.dispatcher.structures import Storage, new_storage
from halon.hal.dtypes import DType
from halon.hal.registry import host
from halon.serialization.errors import ArchiveError
from halon.serialization.files import Source
from halon.serialization.globals import StorageKind
from halon.serialization.placing import Places
from halon.serialization.rebuild import Stored
from halon.tensor import transfer
from halon.tensor.sharing import storage_bytes, storage_of

ALIGNMENT: Final = 64
_FOLDER: Final = "archive"
_LOCAL_HEADER: Final = struct.Struct("<4s5H3I2H")
#: what a mutated directory makes zipfile raise
_ZIP_DAMAGE: Final = (
    zipfile.BadZipFile, ValueError, KeyError, IndexError, OverflowError, NotImplementedError,
    EOFError, struct.error, TypeError, RuntimeError, OSError,
)  # fmt: skip


# -- writing ---------------------------------------------------------------------------------------
def write(stream: Any, content: bytes, storages: list[Storage]) -> None:
    """Write the container: the pickled object and its storages, one after the other."""
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        _add(archive, "data.pkl", content)
        _add(archive, ".format_version", b"1")
        _add(archive, ".storage_alignment", str(ALIGNMENT).encode())
        _add(archive, "byteorder", sys.byteorder.encode())
        for key, storage in enumerate(storages):
            _add(archive, f"data/{key}", storage_bytes(storage))
        _add(archive, "version", b"3\n")
        checksums = str([(e.filename, e.CRC) for e in archive.infolist()])
        number = int(hashlib.sha256(checksums.encode()).hexdigest(), 16)
        _add(archive, ".data/serialization_id", str(number)[:40].encode())


def _add(archive: zipfile.ZipFile, name: str, content: bytes | memoryview) -> None:
    entry = zipfile.ZipInfo(
        f"{_FOLDER}/{name}", (1980, 1, 1, 0, 0, 0)
    )  # equal objects, equal files
    entry.file_size = len(content)
    large = entry.file_size > 1 << 30
    begin = archive.fp.tell() + _LOCAL_HEADER.size + len(entry.filename) + (20 if large else 0)  # type: ignore[union-attr]
    padding = -(begin + 4) % ALIGNMENT
    entry.extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding
    with archive.open(entry, "w", force_zip64=large) as target:
        target.write(content)


# -- reading ---------------------------------------------------------------------------------------
class _Entry(NamedTuple):
    begin: int
    nbytes: int
    checksum: int


class Archive:
    """The entries of a container, checked: stored, inside the file, apart from each other."""

    def __init__(self, source: Source) -> None:
        self._source = source
        try:
            with zipfile.ZipFile(source.stream) as archive:
                listed = archive.infolist()
        except _ZIP_DAMAGE as error:
            raise ArchiveError(f"its zip directory is damaged: {error}") from error
        if any(info.filename.endswith("/constants.pkl") for info in listed):
            raise ArchiveError("it is a TorchScript program, not saved tensors")
        self._entries: dict[str, _Entry] = {}
        for info in listed:
            if info.filename in self._entries:
                raise ArchiveError(f"the entry {info.filename!r} occurs twice")
            self._entries[info.filename] = self._located(info)
        self._check_apart()
        roots = [n.removesuffix("/data.pkl") for n in self._entries if n.endswith("/data.pkl")]
        if len(roots) != 1:
            raise ArchiveError(
                f"it has {len(roots)} entries named data.pkl; saved tensors have one"
            )
        (self._folder,) = roots
        order = self._optional("byteorder", b"little")
        if order != sys.byteorder.encode():
            raise ArchiveError(f"its numbers are in byte order {order!r}")

    def _located(self, info: zipfile.ZipInfo) -> _Entry:
        name, at = info.filename, info.header_offset
        if info.flag_bits & 1:
            raise ArchiveError(f"the entry {name!r} is encrypted")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise ArchiveError(
                f"the entry {name!r} is compressed; saved tensors are stored as they are"
            )
        if not 0 <= at <= self._source.size - _LOCAL_HEADER.size:
            raise ArchiveError(f"the entry {name!r} begins outside the file")
        header = _LOCAL_HEADER.unpack(self._source.read(at, _LOCAL_HEADER.size))
        if header[0] != b"PK\x03\x04":
            raise ArchiveError(f"the entry {name!r} has no header at byte {at}")
        begin = at + _LOCAL_HEADER.size + header[-2] + header[-1]
        if begin + info.file_size > self._source.size:
            raise ArchiveError(
                f"the entry {name!r} takes {info.file_size} bytes at {begin}, the file has "
                f"{self._source.size}"
            )
        return _Entry(begin, info.file_size, info.CRC)

    def _check_apart(self) -> None:
        """No byte belongs to two entries, so that together they are no larger than the file."""
        end, before = 0, ""
        for name, entry in sorted(self._entries.items(), key=lambda pair: pair[1].begin):
            if entry.begin < end:
                raise ArchiveError(f"the entries {before!r} and {name!r} overlap")
            end, before = entry.begin + entry.nbytes, name

    def _find(self, name: str) -> _Entry:
        entry = self._entries.get(f"{self._folder}/{name}")
        if entry is None:
            raise ArchiveError(f"the entry {name!r} is missing")
        return entry

    def _optional(self, name: str, default: bytes) -> bytes:
        there = f"{self._folder}/{name}" in self._entries
        return self.read(name, limit=64) if there else default

    def read(self, name: str, limit: int | None = None) -> bytes:
        """The content of an entry, its checksum verified."""
        entry = self._find(name)
        if limit is not None and entry.nbytes > limit:
            raise ArchiveError(f"the entry {name!r} has {entry.nbytes} bytes")
        content = self._source.read(entry.begin, entry.nbytes)
        _verify(name, content, entry)
        return content

    def storage(self, key: str, nbytes: int) -> Storage:
        """The storage ``data/<key>`` on the host: read and verified, or mapped and neither."""
        name = f"data/{key}"
        entry = self._find(name)
        if entry.nbytes != nbytes:
            raise ArchiveError(f"the entry {name!r} has {entry.nbytes} bytes instead of {nbytes}")
        mapping = self._source.mapping
        if mapping is not None and nbytes and entry.begin % 8 == 0:
            view = memoryview(mapping)[entry.begin : entry.begin + nbytes]
            return Storage(host(), nbytes, None, host().impl.adopt(view), owner=mapping)
        storage = new_storage(host(), nbytes)
        if nbytes:
            view = transfer.host_bytes(storage, 0, nbytes)
            self._source.read_into(entry.begin, view)
            _verify(name, view, entry)
        return storage


def _verify(name: str, content: bytes | memoryview, entry: _Entry) -> None:
    if zlib.crc32(content) != entry.checksum:
        raise ArchiveError(
            f"the entry {name!r} is damaged: its checksum differs (a file written without "
            "checksums loads with mmap=True)"
        )


def storage_loader(archive: Archive, places: Places) -> Callable[[tuple[Any, ...]], Stored]:
    """What resolves the storages that the pickle refers to: each is read once."""
    loaded: dict[str, Storage] = {}

    def load(kind: DType | None, key: str, location: str, count: int) -> Stored:
        nbytes = count * (1 if kind is None else kind.itemsize)
        if key not in loaded:
            storage = archive.storage(key, nbytes)
            target = places.device_for(location)
            if target is None:
                storage = places.move(storage, location)
            elif target is not host():
                storage = storage_of(storage_bytes(storage), target)
            loaded[key] = storage
        if loaded[key].nbytes != nbytes:
            raise ValueError(f"the storage {key!r} is given two sizes")
        return Stored(loaded[key], kind, 0, nbytes)

    return lambda reference: load(*checked(reference, 5))


def checked(reference: tuple[Any, ...], length: int) -> tuple[DType | None, str, str, int]:
    """(dtype, key, location, elements) of a reference to a storage; ValueError if it is none."""
    if len(reference) != length or reference[0] not in ("storage", b"storage"):
        raise ValueError("a reference to something else than a storage")
    kind, key, location, count = reference[1:5]
    if type(kind) is not StorageKind or type(key) is not str or type(location) is not str:
        raise ValueError("a reference to a storage without type, key or location")
    if type(count) is not int or not 0 <= count < 1 << 59:
        raise ValueError("a storage of a bad size")
    return kind.dtype, key, location, count
