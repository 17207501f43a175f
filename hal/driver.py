"""The two classes a device author writes: DeviceDriver finds devices, Device runs one.

Six methods (``device_count``, ``open``, ``alloc``, ``free``, ``h2d``, ``d2h``) give ``.to()``,
``.cpu()``, saving and every operator through the host; each further method makes it faster.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from halon.hal.errors import NotProvided
from halon.hal.op_desc import OpCap, OpDesc, TensorRef
from halon.hal.properties import DeviceProps, MemKind

Handle = int  # opaque, > 0; the host never adds to it

NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,15}")


class Stream:
    """An in-order queue of work. The base class is the default, synchronous stream."""

    def synchronize(self) -> None: ...


class Event:
    """A point in a stream; one that was never recorded counts as complete."""

    def record(self, stream: Stream | None = None) -> None: ...

    def wait(self, stream: Stream | None = None) -> None: ...

    def query(self) -> bool:
        return True

    def synchronize(self) -> None: ...

    def elapsed(self, later: Event) -> float:
        """Milliseconds between two recorded timing events."""
        raise NotProvided("timing events")


class Device(ABC):
    """One open device. Sizes are bytes; offsets are bytes into the buffer of a handle."""

    props: DeviceProps

    @abstractmethod
    def alloc(self, nbytes: int, kind: MemKind = MemKind.DEVICE) -> Handle:
        """A new buffer; 0 bytes is legal and gives a handle of its own. Raises OutOfMemoryError."""

    @abstractmethod
    def free(self, h: Handle) -> None:
        """Release a buffer; the host guarantees that no queued work uses it."""

    @abstractmethod
    def h2d(self, dst: Handle, off: int, src: memoryview, stream: Stream | None = None) -> None:
        """Copy host bytes in; ``src`` may be reused once this returns."""

    @abstractmethod
    def d2h(self, dst: memoryview, src: Handle, off: int, stream: Stream | None = None) -> None:
        """Copy bytes out; ``dst`` is valid after ``synchronize(stream)``."""

    def synchronize(self, stream: Stream | None = None) -> None:  # noqa: B027  (a no-op is right)
        """Wait for a stream, or with None for the whole device; raises deferred errors."""

    def close(self) -> None:  # noqa: B027
        """Give the device back; every handle is dead afterwards."""

    # -- optional: the host emulates what is not provided ------------------------------------------
    def d2d(
        self, dst: Handle, doff: int, src: Handle, soff: int, nbytes: int,
        stream: Stream | None = None,
    ) -> None:  # fmt: skip
        raise NotProvided("d2d")

    def fill(
        self, dst: Handle, off: int, nbytes: int, pattern: bytes, stream: Stream | None = None
    ) -> None:
        raise NotProvided("fill")

    def peer_copy(
        self, dst_dev: Device, dst: Handle, doff: int, src: Handle, soff: int, nbytes: int,
        stream: Stream | None = None,
    ) -> None:  # fmt: skip
        raise NotProvided("peer_copy")

    def create_stream(self, priority: int = 0) -> Stream:
        raise NotProvided("create_stream")

    def create_event(self, timing: bool = False) -> Event:
        raise NotProvided("create_event")

    def host_view(self, h: Handle, nbytes: int) -> memoryview:
        """A writable view of a buffer, for devices with ``Caps.HOST_VISIBLE``."""
        raise NotProvided("host_view")

    def adopt(self, memory: memoryview) -> Handle:
        """A handle for host memory somebody else owns, for devices with ``Caps.HOST_VISIBLE``."""
        raise NotProvided("adopt")

    def dlpack_export(self, h: Handle, stream: int | None) -> tuple[int, int, int]:
        """(DLPack device type, index, address) of a buffer, for exchange with other libraries.

        Work queued on the buffer must be ordered before work the consumer puts on ``stream``, a
        number as DLPack counts them: None is the default stream, -1 asks for no ordering.
        """
        raise NotProvided("dlpack_export")

    def dlpack_adopt(
        self, device_type: int, device_id: int, address: int, nbytes: int, owner: object
    ) -> Handle:
        """A handle for memory of another library, on which the caller's work is already ordered.

        Raise NotProvided where the DLPack device is not this one. ``owner`` keeps the memory alive
        and is dropped after ``free``, which releases the handle and not the memory.
        """
        raise NotProvided("dlpack_adopt")

    # -- L1: named operations ----------------------------------------------------------------------
    def op_caps(self) -> Sequence[OpCap]:
        return ()

    def op_support(self, op: OpDesc) -> bool | str:
        """True, or the reason for refusing; asked once per signature, with handles of 0."""
        return True

    def op_run(self, op: OpDesc, stream: Stream | None = None) -> None:
        raise NotProvided("op_run")

    # -- L2: kernels -------------------------------------------------------------------------------
    def compile(self, src: str | bytes, language: str, options: Mapping[str, str]) -> Any:
        raise NotProvided("compile")

    def launch(
        self, m: Any, entry: str, grid: tuple[int, int, int], block: tuple[int, int, int],
        bufs: Sequence[tuple[Handle, int]], scalars: bytes = b"", shared: int = 0,
        stream: Stream | None = None,
    ) -> None:  # fmt: skip
        raise NotProvided("launch")

    # -- L3: graphs --------------------------------------------------------------------------------
    def graph_partition(self, g: Any) -> Sequence[int]:
        return [0] * len(g.nodes)

    def graph_compile(self, g: Any, options: Mapping[str, Any]) -> Any:
        raise NotProvided("graph_compile")

    def graph_run(
        self, x: Any, ins: Sequence[TensorRef], outs: Sequence[TensorRef],
        stream: Stream | None = None,
    ) -> None:  # fmt: skip
        raise NotProvided("graph_run")


class DeviceDriver(ABC):
    """Finds and opens the devices of one kind.

    >>> class Null(DeviceDriver):
    ...     name = "null"
    ...     def device_count(self): return 0
    ...     def open(self, index): raise RuntimeError("none here")
    >>> Null().device_count()
    0
    """

    name: ClassVar[str]
    version: ClassVar[str] = ""

    @abstractmethod
    def device_count(self) -> int:
        """How many devices there are: cheap, opens nothing, never raises (0 on trouble)."""

    @abstractmethod
    def open(self, index: int) -> Device:
        """Open device ``index``; called once per index, under a lock. May raise."""

    def diagnose(self) -> str:
        """Why the count is 0 and what to do about it; shown to the user."""
        return ""
