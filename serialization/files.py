"""A file to read from: a path, or any object with ``read`` and ``seek``."""

from __future__ import annotations

import io
import mmap
import os
from typing import Any

from halon.serialization.errors import ArchiveError


class Source:
    """Bytes with a name; closes what it opened.

    Attributes:
        name: the path, or what the object calls itself, for messages.
        size: bytes in all.
        stream: a seekable stream of them.
        mapping: the mapped file, if it was asked for: writing to it changes memory only.
    """

    def __init__(self, file: Any, mapped: bool) -> None:
        self._opened = isinstance(file, (str, os.PathLike))
        self.mapping: mmap.mmap | None = None
        if self._opened:
            self.name = os.fspath(file)
            self.stream: Any = open(file, "rb")  # noqa: SIM115  (closed by __exit__)
            self.size = os.fstat(self.stream.fileno()).st_size
            if mapped and self.size:
                self.mapping = mmap.mmap(self.stream.fileno(), 0, access=mmap.ACCESS_COPY)
            return
        if mapped:
            raise ValueError("mmap=True needs a path, not an open file")
        self.name = str(getattr(file, "name", f"<{type(file).__name__}>"))
        self.stream = _from_here(file)
        self.size = self.stream.seek(0, io.SEEK_END)

    def __enter__(self) -> Source:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._opened:
            self.stream.close()

    def read(self, offset: int, nbytes: int) -> bytes:
        """Bytes that must be there."""
        self.stream.seek(offset)
        content = self.stream.read(nbytes)
        if len(content) != nbytes:
            raise ArchiveError(f"{nbytes} bytes at {offset} are not all there")
        return content

    def read_into(self, offset: int, view: memoryview) -> None:
        """Bytes that must be there, without a copy in between where the stream can."""
        self.stream.seek(offset)
        done = 0
        while done < len(view):
            if hasattr(self.stream, "readinto"):
                count = self.stream.readinto(view[done:])
            else:
                content = self.stream.read(min(len(view) - done, 1 << 24))
                count = len(content)
                view[done : done + count] = content
            if not count:
                raise ArchiveError(f"{len(view)} bytes at {offset} are not all there")
            done += count


def _from_here(file: Any) -> Any:
    """A seekable stream that begins where the file object stands."""
    if not hasattr(file, "read"):
        raise TypeError(f"load() needs a path or a file object, not {type(file).__name__}")
    try:
        if file.tell() == 0:
            file.seek(0)
            return file
    except (AttributeError, OSError):
        pass  # a pipe: everything is read
    content = file.read()
    if not isinstance(content, (bytes, bytearray)):
        raise TypeError("load() needs a file opened in binary mode")
    return io.BytesIO(content)
