"""Files of PyTorch before 1.6: five pickles in a row, then the bytes of each storage."""

from __future__ import annotations

import struct
import sys
from typing import Any, Final

from halon.dispatcher.structures import Storage, new_storage
from halon.hal.registry import host
from halon.serialization.archive import checked
from halon.serialization.errors import ArchiveError
from halon.serialization.files import Source
from halon.serialization.globals import finder
from halon.serialization.machine import Machine
from halon.serialization.placing import Places
from halon.serialization.rebuild import REBUILDERS, Stored
from halon.tensor import transfer

_MAGIC: Final = 0x1950A86A20F9469CFC6C
_PROTOCOL: Final = 1001


class _Storages:
    """The storages a file refers to: made empty while the object is read, filled afterwards."""

    def __init__(self, source: Source, places: Places) -> None:
        self._source = source
        self._places = places
        self._found: dict[str, tuple[Storage, int]] = {}  # and the size of an element
        self._room = source.size

    def refer(self, reference: tuple[Any, ...]) -> Stored:
        """What a persistent id stands for."""
        dtype, key, location, count = checked(reference, 6)
        if dtype is None:
            raise ValueError("a storage of plain bytes")
        nbytes = count * dtype.itemsize
        if key not in self._found:
            self._room -= nbytes + 8
            if self._room < 0:
                raise ValueError(f"storages that are larger than the file, such as {key!r}")
            self._found[key] = (self._placed(nbytes, location), dtype.itemsize)
        storage, _ = self._found[key]
        if storage.nbytes != nbytes:
            raise ValueError(f"the storage {key!r} is given two sizes")
        start, size = _part(reference[5], dtype.itemsize, nbytes)
        return Stored(storage, dtype, start, size)

    def _placed(self, nbytes: int, location: str) -> Storage:
        target = self._places.device_for(location)
        if target is None:
            return self._places.move(new_storage(host(), nbytes), location)
        return new_storage(target, nbytes)

    def fill(self, keys: Any) -> None:
        """Read the bytes that follow the pickles, in the order of the keys."""
        if type(keys) is not list or any(type(key) is not str for key in keys):
            raise ArchiveError("its list of storages is damaged")
        if sorted(keys) != sorted(self._found):
            raise ArchiveError("its list of storages is not that of its tensors")
        at = self._source.stream.tell()
        for key in keys:
            storage, size = self._found[key]
            (count,) = struct.unpack("<q", self._source.read(at, 8))
            if count * size != storage.nbytes:
                raise ArchiveError(f"the storage {key!r} has {count} elements of {size} bytes")
            if at + 8 + storage.nbytes > self._source.size:
                raise ArchiveError(f"truncated: the storage {key!r} is not all there")
            self._fill(storage, at + 8)
            at += 8 + storage.nbytes
        self._source.stream.seek(at)

    def _fill(self, storage: Storage, at: int) -> None:
        if not storage.nbytes:
            return
        if storage.device.is_host:
            self._source.read_into(at, transfer.host_bytes(storage, 0, storage.nbytes))
        else:
            content = memoryview(self._source.read(at, storage.nbytes))
            storage.device.write(storage.handle, 0, content)


def _part(view: Any, itemsize: int, nbytes: int) -> tuple[int, int]:
    """(first byte, bytes) of the part of a storage that a reference means."""
    if view is None:
        return 0, nbytes
    if type(view) is not tuple or len(view) != 3:
        raise ValueError("a damaged view of a storage")
    _, offset, count = view
    if type(offset) is not int or type(count) is not int or offset < 0 or count < 0:
        raise ValueError("a damaged view of a storage")
    if (offset + count) * itemsize > nbytes:
        raise ValueError("a view that ends outside its storage")
    return offset * itemsize, count * itemsize


def read(source: Source, places: Places) -> Any:
    """The object of an old file; raises ArchiveError where it is none."""
    source.stream.seek(0)
    if _next(source) != _MAGIC:
        raise ArchiveError("it does not begin as saved tensors do")
    protocol = _next(source)
    if protocol != _PROTOCOL:
        raise ArchiveError(f"its protocol is {str(protocol)[:40]} instead of {_PROTOCOL}")
    system = _next(source)
    if type(system) is not dict or system.get("little_endian") is not (sys.byteorder == "little"):
        raise ArchiveError("its numbers are in another byte order")
    storages = _Storages(source, places)
    result = Machine(finder(REBUILDERS), storages.refer).run(source.stream)
    storages.fill(_next(source))
    return result


def _next(source: Source) -> Any:
    """A pickle without tensors."""
    return Machine(finder({}), _no_storage).run(source.stream)


def _no_storage(reference: tuple[Any, ...]) -> Any:
    raise ValueError("a reference to a storage where none may be")
