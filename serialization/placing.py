"""``map_location``: on which device what was saved on another is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from halon.dispatcher.structures import Storage
from halon.hal import aliases
from halon.hal.device_name import device
from halon.hal.errors import HalonError
from halon.hal.open_device import OpenDevice
from halon.hal.registry import registry
from halon.serialization.errors import ArchiveError
from halon.tensor.sharing import storage_bytes, storage_of

MapLocation = str | device | Mapping[str, Any] | Callable[..., Any] | None


class FromCaller(Exception):
    """Carries what the caller's function raised past the handling of damaged files."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class LoadedStorage:
    """What a function given as ``map_location`` gets: bytes on a device, and ways to move them.

    ``.to(device)`` and the movers (``.cpu()``, …) return another one, or itself if it is there.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    @property
    def device(self) -> device:
        return self.storage.device.device

    def nbytes(self) -> int:
        return self.storage.nbytes

    size = nbytes

    def to(self, where: Any) -> LoadedStorage:
        target = registry.open(where)
        if target is self.storage.device:
            return self
        return LoadedStorage(storage_of(storage_bytes(self.storage), target))

    def __repr__(self) -> str:
        return f"<{self.nbytes()} bytes on {self.device}>"


def _mover(name: str, target: str) -> Callable[..., LoadedStorage]:
    def move(self: LoadedStorage, index: int | None = None) -> LoadedStorage:
        return self.to(target if index is None else device(target, index))

    move.__name__ = name
    return move


for _name, _target in aliases.MOVERS.items():
    setattr(LoadedStorage, _name, _mover(_name, _target))


class Places:
    """Where the storages of one file go."""

    def __init__(self, map_location: MapLocation) -> None:
        known = (str, device, Mapping)
        if not (map_location is None or isinstance(map_location, known) or callable(map_location)):
            raise TypeError(
                "map_location must be None, a device, its name, a dict or a function, not "
                f"{type(map_location).__name__}"
            )
        self._wish = map_location

    def device_for(self, location: str) -> OpenDevice | None:
        """The device for a saved location; None where a function decides, which needs the bytes.

        Raises ArchiveError naming a location that is not here.
        """
        wish = self._wish
        if isinstance(wish, Mapping):
            wish = wish.get(location, location)
        elif wish is None:
            wish = location
        elif not isinstance(wish, (str, device)):
            return None
        try:
            return registry.open(wish)
        except HalonError as error:
            if self._wish is not None and not isinstance(self._wish, Mapping):
                raise  # the caller asked for this device
            raise ArchiveError(
                f"a tensor was saved on {location!r}: {error}. Give map_location to load it "
                "elsewhere"
            ) from error

    def move(self, storage: Storage, location: str) -> Storage:
        """What the caller's function makes of a storage on the host."""
        assert callable(self._wish)
        try:
            chosen = self._wish(LoadedStorage(storage), location)
        except Exception as error:
            raise FromCaller(error) from error
        if chosen is None:
            where: Any = Places(None).device_for(location)
            chosen = LoadedStorage(storage).to(where.device)
        elif isinstance(chosen, (str, device)):
            chosen = LoadedStorage(storage).to(chosen)
        if not isinstance(chosen, LoadedStorage):
            wrong = TypeError(
                f"the function given as map_location returned a {type(chosen).__name__}; return "
                "the storage, one made by its .to(), a device or None"
            )
            raise FromCaller(wrong)
        return chosen.storage
