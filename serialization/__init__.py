"""Files of tensors: ``halon.save`` and ``halon.load``, shared with PyTorch; no code is ever run."""

if not __name__.startswith("halon."):
    raise ImportError(f"import this package as halon.{__name__}, not {__name__}")

from halon.serialization.api import load, save
from halon.serialization.errors import ArchiveError, ForbiddenObject
from halon.serialization.safe import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)

__all__ = [
    "ArchiveError", "ForbiddenObject", "add_safe_globals", "clear_safe_globals",
    "get_safe_globals", "load", "safe_globals", "save",
]  # fmt: skip
