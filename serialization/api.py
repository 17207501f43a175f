"""``halon.save`` and ``halon.load``."""

from __future__ import annotations

import io
import os
from typing import Any

from halon.serialization import archive, legacy
from halon.serialization.errors import ArchiveError
from halon.serialization.files import Source
from halon.serialization.globals import finder
from halon.serialization.machine import Machine
from halon.serialization.pickler import Writer
from halon.serialization.placing import FromCaller, MapLocation, Places
from halon.serialization.rebuild import REBUILDERS
from halon.tensor.atomic_file import replacing


def save(obj: Any, f: str | os.PathLike[str] | Any) -> None:
    """save(obj, f) -> None, writes tensors in containers to a file that torch reads too.

    Tensors that share a storage are saved with it once, whole, and share it after loading.
    ``torch.load(f, weights_only=True)`` reads the file. A file at a path is replaced as a whole: an
    interruption or a full disk leaves the old one.

    Args:
        obj: tensors, numbers, text, bytes, dtypes, devices and sizes, in any nesting of dict,
            OrderedDict, list, tuple, set. ``grad``, history, hooks and attributes are not kept.
        f: a path, or an object with ``write``.

    Raises:
        pickle.PicklingError: something else; the message says where it is.
        OSError: the path cannot be written; the message names it.

    >>> import halon, io
    >>> file = io.BytesIO()
    >>> halon.save({"w": halon.ones(2), "epoch": 3}, file)
    >>> _ = file.seek(0)
    >>> halon.load(file)
    {'w': tensor([1., 1.]), 'epoch': 3}
    """
    writer = Writer()
    content = writer.dump(obj)
    if isinstance(f, (str, os.PathLike)):
        with replacing(f, "tensors") as stream:
            archive.write(stream, content, writer.storages)
    elif hasattr(f, "write"):
        archive.write(f, content, writer.storages)
    else:
        raise TypeError(f"save() needs a path or a file object, not {type(f).__name__}")


def load(
    f: str | os.PathLike[str] | Any, map_location: MapLocation = None, *,
    weights_only: bool | None = True, mmap: bool | None = False,
) -> Any:  # fmt: skip
    """load(f, map_location=None, *, weights_only=True, mmap=False), what ``save`` or torch saved.

    No file can make this run code: whatever is no tensor, number, text or container is refused.

    Args:
        f: a path, or an object with ``read`` and ``seek``. Zip files of halon and torch, and the
            older format of torch.
        map_location: where storages go instead of the device they were saved on: a device or its
            name, a dict of such from saved to wanted names, or a function
            ``(storage, saved name) -> storage, device or None``.
        weights_only: True. There is no other mode.
        mmap: map the file instead of reading it: the bytes of host tensors are read when they are
            used, and writing to them does not change the file. Needs a path and a zip file;
            checksums are not verified.

    Raises:
        ArchiveError: the file is damaged, none of these formats, or names a device that is not
            here.
        ForbiddenObject: it asks for something that is not data; also a pickle.UnpicklingError.
        OSError: it cannot be read.
    """
    if weights_only is not None and not weights_only:
        raise ValueError(
            "load: weights_only=False would let the file run any code, and halon never does. Load "
            "the weights, or allow classes with halon.serialization.add_safe_globals"
        )
    places = Places(map_location)
    with Source(f, bool(mmap)) as source:
        try:
            return _read(source, places)
        except FromCaller as caught:
            raise caught.error from None
        except ArchiveError as error:
            raise type(error)(f"{source.name}: {error}") from error


def _read(source: Source, places: Places) -> Any:
    start = source.read(0, min(source.size, 16))
    if start[:4] == b"PK\x03\x04":
        opened = archive.Archive(source)
        machine = Machine(finder(REBUILDERS), archive.storage_loader(opened, places))
        return machine.run(io.BytesIO(opened.read("data.pkl")))
    if len(start) < 16:
        raise ArchiveError(f"truncated: {source.size} bytes are no saved tensors")
    if start[8:9] == b"{":
        raise ArchiveError("it is a safetensors file: use halon.nn.safetensors_io.load_file")
    if start[:1] != b"\x80":
        raise ArchiveError("it is neither a zip file nor a pickle, so no saved tensors")
    if source.mapping is not None:
        raise ArchiveError("mmap=True needs a zip file, and this is torch's older format")
    return legacy.read(source, places)
