"""Which devices exist: explicit calls, the environment, entry points, built-ins; all lazy.

Names are scanned at the first look-up and a driver is imported at the first use of its name, so a
broken plug-in costs nobody anything but the person who asks for it, who sees its traceback.
"""

from __future__ import annotations

import importlib
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

from halon.hal import aliases
from halon.hal.config import config
from halon.hal.device_name import device
from halon.hal.driver import NAME_PATTERN, DeviceDriver
from halon.hal.errors import UnknownDevice
from halon.hal.open_device import OpenDevice

ENTRY_POINTS = "halon.devices"


@dataclass(slots=True)
class DeviceRow:
    """One line of ``halon devices``. ``state`` is "ready", "absent" or "failed"."""

    name: str
    origin: str
    version: str
    state: str
    count: int
    reason: str


@dataclass(slots=True)
class _Entry:
    name: str
    origin: str
    load: Callable[[], type[DeviceDriver] | DeviceDriver]
    version: str = ""
    driver: DeviceDriver | None = None
    failure: str = ""
    traceback: str = ""


class Registry:
    """Thread-safe table of drivers and open devices."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._entries: dict[str, _Entry] = {}
        self._scanned = False
        self._rejected: list[_Entry] = []  # a plug-in under a name halon keeps for itself
        self._open: dict[tuple[str, int], OpenDevice] = {}
        #: called with each newly opened device; ``halon.devices.planner`` installs itself here.
        self.on_open: Callable[[OpenDevice], None] = lambda opened: None

    def register(self, name: str, driver: type[DeviceDriver] | DeviceDriver) -> None:
        """Register a driver under ``name``.

        A second call replaces a driver that is not in use yet. Raises ValueError if the name is
        malformed or reserved, belongs to a plug-in that was found, or is in use.
        """
        _check_name(name)
        kind = driver if isinstance(driver, type) else type(driver)
        if not issubclass(kind, DeviceDriver):
            raise TypeError(f"register_device({name!r}): expected a DeviceDriver, got {driver!r}")
        with self._lock:
            self._scan()
            if name in self._entries and self._entries[name].origin != "explicit":
                raise ValueError(
                    f"device {name!r} is already registered by {self._entries[name].origin}"
                )
            if any(key[0] == name for key in self._open):
                raise ValueError(f"device {name!r} is in use; register it before its first use")
            self._entries[name] = _Entry(
                name, "explicit", lambda: driver, getattr(driver, "version", "")
            )

    def names(self) -> list[str]:
        """Every registered name, in the order `halon devices` prints."""
        with self._lock:
            self._scan()
            return list(self._entries)

    def available(self) -> list[str]:
        """Every device that can be opened, ``["cpu", "opencl:0", …]``; loads all drivers."""
        found = []
        for name in self.names():
            count = self._count(self._entries[name])
            host = name == aliases.HOST
            found.extend(name if host and i == 0 else f"{name}:{i}" for i in range(count))
        return found

    def table(self) -> list[DeviceRow]:
        """What `halon devices` prints; loads every driver and opens none."""
        rows = []
        for name in self.names():
            entry = self._entries[name]
            count = self._count(entry)
            if entry.failure:
                rows.append(
                    DeviceRow(name, entry.origin, entry.version, "failed", 0, entry.failure)
                )
                continue
            reason = "" if count else _diagnose(entry)
            state = "ready" if count else "absent"
            rows.append(DeviceRow(name, entry.origin, entry.version, state, count, reason))
        rows.extend(
            DeviceRow(e.name, e.origin, e.version, "failed", 0, e.failure) for e in self._rejected
        )
        return rows

    def open(self, spec: str | device) -> OpenDevice:
        """The open device of a name; opened at the first call, under a lock.

        Raises UnknownDevice naming what is registered, or why the driver has no such device.
        """
        where = spec if isinstance(spec, device) else device(spec)
        key = (where.type, where.index or 0)
        found = self._open.get(key)
        if found is not None:
            return found
        with self._lock:
            found = self._open.get(key)
            if found is None:
                found = self._open_new(*key)
                self._open[key] = found
            return found

    def opened(self) -> list[OpenDevice]:
        """Every device opened so far."""
        return list(self._open.values())

    def _open_new(self, name: str, index: int) -> OpenDevice:
        self._scan()
        entry = self._entries.get(name)
        if entry is None:
            raise UnknownDevice(
                f"unknown device {name!r}. Registered: {', '.join(self._entries)}. "
                "`halon devices` shows each one's state"
            )
        count = self._count(entry)
        if entry.failure:
            raise UnknownDevice(
                f"device {name!r} ({entry.origin}) did not load: {entry.failure}\n{entry.traceback}"
            )
        if index >= count:
            why = _diagnose(entry) if count == 0 else f"there are {count} (0 to {count - 1})"
            raise UnknownDevice(f"no device {name}:{index}: {why}")
        assert entry.driver is not None
        opened = OpenDevice(name, index, entry.driver.open(index), name == aliases.HOST)
        self.on_open(opened)
        return opened

    def _count(self, entry: _Entry) -> int:
        with self._lock:
            if entry.driver is None and not entry.failure:
                try:
                    loaded = entry.load()
                    entry.driver = loaded() if isinstance(loaded, type) else loaded
                    entry.version = entry.version or entry.driver.version
                except (Exception, SystemExit) as error:  # whatever it raises is kept and shown
                    entry.failure = f"{type(error).__name__}: {error}"
                    entry.traceback = traceback.format_exc()
            if entry.driver is None:
                return 0
            try:
                return max(0, int(entry.driver.device_count()))
            except Exception as error:
                entry.failure = f"device_count() raised {type(error).__name__}: {error}"
                entry.traceback = traceback.format_exc()
                return 0

    def _scan(self) -> None:
        if self._scanned:
            return
        plugins, _ = config.device_plugins, config.prefer  # a bad variable raises at every call
        self._scanned = True
        version = _own_version()
        for name, target in aliases.BUILT_IN.items():
            self._add(_Entry(name, "built-in", _loader(target), version))
        for name, target in plugins.items():
            self._add(_Entry(name, "HALON_DEVICE_PLUGINS", _loader(target)))
        for point in metadata.entry_points(group=ENTRY_POINTS):
            dist = point.dist.name if point.dist else "?"
            number = point.dist.version if point.dist else ""
            self._add(_Entry(point.name, dist, point.load, number))

    def _add(self, entry: _Entry) -> None:
        try:
            _check_name(entry.name, built_in=entry.origin == "built-in")
        except ValueError as error:
            entry.failure = str(error)
        other = self._entries.get(entry.name)
        preferred = config.prefer.get(entry.name)
        if other is None or other.origin == "explicit" or preferred == entry.origin:
            if other is None or other.origin != "explicit":
                self._entries[entry.name] = entry
        elif preferred != other.origin:
            if other.origin == "built-in":
                self._rejected.append(entry)  # its failure says that the name is reserved
                return
            other.failure = (
                f"two plug-ins provide {entry.name!r}: {other.origin} and {entry.origin}; choose "
                f"with HALON_PREFER={entry.name}={entry.origin}"
            )


def _check_name(name: str, built_in: bool = False) -> None:
    if not NAME_PATTERN.fullmatch(name):
        raise ValueError(f"device name {name!r} must match {NAME_PATTERN.pattern}")
    if not built_in and (name in aliases.BUILT_IN or name in aliases.RESERVED):
        raise ValueError(f"device name {name!r} is reserved by halon")


def _loader(target: str) -> Callable[[], type[DeviceDriver]]:
    def load() -> type[DeviceDriver]:
        module, colon, attribute = target.partition(":")
        if not colon:
            raise ValueError(f"{target!r}: write module:Driver")
        return getattr(importlib.import_module(module), attribute)

    return load


def _diagnose(entry: _Entry) -> str:
    try:
        return (entry.driver.diagnose() if entry.driver else "") or "the driver found no device"
    except Exception as error:
        return f"diagnose() raised {type(error).__name__}: {error}"


def _own_version() -> str:
    try:
        return metadata.version("halon")
    except metadata.PackageNotFoundError:
        return ""


registry = Registry()


def host() -> OpenDevice:
    """The device whose memory Python sees: where ``tensor([1., 2.])`` puts its numbers."""
    return registry.open(aliases.HOST)
