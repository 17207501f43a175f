"""What reading a file of tensors can raise besides OSError."""

from __future__ import annotations

import pickle

from halon.hal.errors import HalonError


class ArchiveError(HalonError, RuntimeError):
    """A file cannot be read as saved tensors; the message names it and says what is wrong."""


class ForbiddenObject(ArchiveError, pickle.UnpicklingError):
    """A file asks for an object that is not on the list of what loading may make."""
