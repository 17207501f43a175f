"""What a device says about itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag

from halon.hal.dtypes import ALL_DTYPES


class MemKind(IntEnum):
    DEVICE = 0
    PINNED = 1


class Caps(IntFlag):
    """Capability bits; the values are those of the C ABI."""

    ASYNC = 1
    THREADSAFE = 2
    HOST_VISIBLE = 4  # Device.host_view() gives the host a view of a buffer
    GRAPH_ONLY = 8
    DYNAMIC_SHAPES = 16
    OWN_ALLOCATOR = 32
    FORK_SAFE = 64
    DETERMINISTIC = 128


NO_CAPS = Caps(0)


class Layout(IntFlag):
    """Layout classes of an operand; a capability row lists those a kernel accepts.

    CONTIG is row-major and dense. TRANSPOSED is dense after swapping the last two dimensions (each
    matrix of a batch). STRIDED is anything else with positive strides. BROADCAST has a zero stride.
    OFFSET is any of these at a non-zero byte offset: known only at each call, so a row of a named
    operation without it has such operands copied first. EMPTY has no elements.
    """

    CONTIG = 1
    STRIDED = 2
    BROADCAST = 4
    OFFSET = 8
    CHANNELS_LAST = 16
    EMPTY = 32
    TRANSPOSED = 64


ANY = Layout(127)


@dataclass(frozen=True)
class AmpPolicy:
    """Which dtype autocast uses on this device."""

    dtype: str = "f16"


@dataclass(frozen=True)
class DeviceProps:
    """Static properties; bytes for every size. ``mem_free`` is the value at open."""

    name: str
    vendor: str = ""
    arch: str = ""
    driver_version: str = ""
    mem_total: int = 0
    mem_free: int = 0
    max_alloc: int = 0
    align: int = 64
    copy_granularity: int = 1
    max_rank: int = 8
    storage_dtypes: frozenset[str] = ALL_DTYPES
    compute_dtypes: frozenset[str] = frozenset()
    caps: Caps = NO_CAPS
    amp: AmpPolicy | None = None


def layout_of(shape: tuple[int, ...], strides: tuple[int, ...]) -> Layout:
    """The layout class of a shape with strides in elements (without OFFSET).

    >>> layout_of((2, 3), (3, 1)), layout_of((2, 3), (1, 2)), layout_of((2, 3), (0, 1))
    (<Layout.CONTIG: 1>, <Layout.TRANSPOSED: 64>, <Layout.BROADCAST: 4>)
    """
    if 0 in shape:
        return Layout.EMPTY
    if _dense(shape, strides):
        return Layout.CONTIG
    if any(n > 1 and s == 0 for n, s in zip(shape, strides, strict=True)):
        return Layout.BROADCAST
    if len(shape) >= 2 and _dense(
        shape[:-2] + (shape[-1], shape[-2]), strides[:-2] + (strides[-1], strides[-2])
    ):
        return Layout.TRANSPOSED
    return Layout.STRIDED


def _dense(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    expected = 1
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        if n != 1 and s != expected:
            return False
        expected *= n
    return True
