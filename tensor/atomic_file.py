"""Files that are replaced as a whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], what: str) -> Iterator[Any]:
    """A binary stream whose content becomes the file when the block ends without an exception.

    The new file is written beside the old one, flushed to the disk and then renamed over it, so an
    interruption leaves one of the two, never a mixture. A link keeps pointing at what it points at,
    the mode of an old file is kept, and pipes and character devices are written directly.

    Args:
        path: the file; its directory must exist.
        what: what is written, for the error message: ``"weights"``.

    Raises:
        OSError: the path cannot be written; the message names it.
    """
    try:
        with _stream(Path(path)) as stream:
            yield stream
    except OSError as error:
        reason = f"cannot write {what}: {error.strerror or error}"
        raise OSError(error.errno, reason, os.fspath(path)) from error


@contextlib.contextmanager
def _stream(path: Path) -> Iterator[Any]:
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "Is a directory")
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        # a pipe or a character device cannot be replaced by a file
        with open(target, "wb") as stream:
            yield stream
        return
    with _temporary_beside(target) as stream:
        yield stream
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


def _sync_directory(directory: Path) -> None:
    """Make the rename itself durable, where the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
