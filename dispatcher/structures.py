"""What every tensor is made of: interned metadata, storage with a version, and the node of its
history. ``halon.tensor`` and ``halon.autograd`` add the methods people call."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from halon.hal.allocator import Block
from halon.hal.dtypes import DType
from halon.hal.op_desc import TensorSpec
from halon.hal.open_device import OpenDevice
from halon.hal.properties import Layout, layout_of


class Meta:
    """Shape, strides (in elements), dtype and device; interned, so identity is equality."""

    __slots__ = (
        "contiguous", "device", "dtype", "layout", "ndim", "numel", "shape", "span", "strides",
    )  # fmt: skip

    def __init__(
        self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType, device: OpenDevice
    ) -> None:
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.device = device
        self.ndim = len(shape)
        self.numel = 1
        for n in shape:
            self.numel *= n
        self.layout = layout_of(shape, strides)
        self.contiguous = self.layout in (Layout.CONTIG, Layout.EMPTY)
        # bytes from the first element to the end of the last one
        last = sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        self.span = (last + 1) * dtype.itemsize if self.numel else 0

    def spec(self) -> TensorSpec:
        return TensorSpec(self.dtype.short, self.shape, self.strides, self.layout)

    def __repr__(self) -> str:
        return f"{self.dtype.short}{list(self.shape)}"


_METAS: dict[tuple[Any, ...], Meta] = {}
_METAS_CAP = 1 << 16
_cap_reached: list[Callable[[], None]] = []


def when_metas_are_cleared(action: Callable[[], None]) -> None:
    """Register what to drop with the interning table: anything keyed on Meta identity."""
    _cap_reached.append(action)


def make_meta(
    shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType, device: OpenDevice
) -> Meta:
    """The interned Meta. The table is bounded: it is emptied when full, and plans with it."""
    key = (shape, strides, dtype, device)
    found = _METAS.get(key)
    if found is None:
        if len(_METAS) >= _METAS_CAP:
            _METAS.clear()
            for action in _cap_reached:
                action()
        found = _METAS.setdefault(key, Meta(shape, strides, dtype, device))
    return found


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides, as torch counts them (an empty dimension counts as 1).

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= n if n > 1 else 1
    return tuple(reversed(strides))


def dense_meta(shape: tuple[int, ...], dtype: DType, device: OpenDevice) -> Meta:
    """The row-major Meta of a shape."""
    return make_meta(shape, contiguous_strides(shape), dtype, device)


class Storage:
    """A device buffer: who owns it, how often it was written, and where it was written last."""

    __slots__ = ("__weakref__", "block", "device", "handle", "last_write", "nbytes", "owner",
                 "version")  # fmt: skip

    def __init__(
        self, device: OpenDevice, nbytes: int, block: Block | None, handle: int, owner: Any = None
    ) -> None:
        self.device = device
        self.nbytes = nbytes
        self.block = block
        self.handle = handle
        self.owner = owner  # keeps adopted memory alive
        self.version = 0
        self.last_write: tuple[str, Place] | None = None

    def __del__(self) -> None:
        if self.block is not None:
            self.device.allocator.free(self.block)
        elif self.handle:
            self.device.impl.free(self.handle)


def new_storage(device: OpenDevice, nbytes: int) -> Storage:
    """Uninitialised memory from the device's caching allocator."""
    if device.lost:
        device.check()
    block = device.allocator.alloc(nbytes, device.stream)
    return Storage(device, nbytes, block, block.handle)


class Place:
    """A line of the user's program, kept as (code, instruction) until somebody reads it."""

    __slots__ = ("code", "lasti")

    def __init__(self, code: CodeType, lasti: int) -> None:
        self.code = code
        self.lasti = lasti

    def __str__(self) -> str:
        line = self.code.co_firstlineno
        for start, end, number in self.code.co_lines():
            if number is not None and start <= self.lasti < end:
                line = number
        return f"{self.code.co_filename}:{line}"


def user_place() -> Place:
    """The nearest frame outside halon."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_back is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith("halon.") or name.startswith("halon.cli."):
            break  # the command line is a user of the library like any other
        frame = frame.f_back
    assert frame is not None
    return Place(frame.f_code, frame.f_lasti)


class TensorBase:
    """The fields of a tensor; ``halon.tensor.tensor.Tensor`` adds everything people call.

    ``storage`` is None for a symbolic tensor, which has only metadata (``dispatcher/trace.py``).
    """

    __slots__ = (
        "__dict__", "__weakref__", "base", "base_node", "grad_value", "hooks", "meta",
        "node", "node_index",
        "offset", "retains_grad", "storage", "wants_grad",
    )  # fmt: skip

    storage: Storage
    offset: int  # bytes
    meta: Meta
    wants_grad: bool
    node: Node | None
    node_index: int
    grad_value: TensorBase | None
    base: TensorBase | None  # what this is a view of
    base_node: Node | None  # the base's history when the view was made
    hooks: dict[int, Callable[[Any], Any]] | None
    retains_grad: bool


_sequence = itertools.count()


class Node:
    """One recorded operation: how to get input gradients from output gradients.

    Attributes:
        name: as torch names it, ``"MulBackward0"``.
        edges: per tensor input: None, a leaf tensor, or (node, output index).
        row: the derivative (``dispatcher/derivative.py``), or a custom function's.
        saved: what the derivative reads besides the output gradients; None once freed.
        sequence: later nodes have higher numbers; an input's is lower than its user's.
    """

    __slots__ = ("__weakref__", "edges", "name", "out_metas", "place", "row", "saved", "scalars",
                 "sequence")  # fmt: skip

    def __init__(
        self, name: str, row: Any, edges: tuple[Any, ...], saved: Any, scalars: list[Any],
        out_metas: tuple[Meta, ...], place: Place | None,
    ) -> None:  # fmt: skip
        self.name = name
        self.row = row
        self.edges = edges
        self.saved = saved
        self.scalars = scalars
        self.out_metas = out_metas
        self.place = place
        self.sequence = next(_sequence)

    def __lt__(self, other: Node) -> bool:  # a heap pops the latest node first
        return self.sequence > other.sequence

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def next_functions(self) -> tuple[Any, ...]:
        """(node, index) per tensor input, None where no gradient flows; leaves as themselves."""
        return tuple(
            (None, 0) if e is None else e if isinstance(e, tuple) else (e, 0) for e in self.edges
        )


class _Modes(threading.local):
    grad = True


#: per-thread modes; ``modes.grad`` is what ``halon.no_grad`` switches.
modes = _Modes()


@contextmanager
def recording(enabled: bool) -> Iterator[None]:
    """Record history (or not) inside a ``with`` block, for halon's own work."""
    before, modes.grad = modes.grad, enabled
    try:
        yield
    finally:
        modes.grad = before
