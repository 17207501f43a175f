"""How an operation is described to a device: without tensors, addresses or Python semantics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from halon.hal.properties import ANY, Layout

Attr = int | float | str | bool | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One operand without its memory: dtype (short name), shape, strides in elements, layout."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    layout: Layout

    @property
    def numel(self) -> int:
        n = 1
        for size in self.shape:
            n *= size
        return n


@dataclass(frozen=True)
class OpSpec:
    """What the planner asks a device to run, once per signature.

    ``scalars`` names the run-time numbers the launch will bring, with their dtypes; ``attrs`` are
    fixed for the plan. ``expr`` is the typed tree (``halon.kernels.tree``) of an elementwise
    operation, whose ``Input(i)`` is ``ins[i]`` and ``Scalar(k)`` is ``scalars[k]``. ``exact`` says
    that every operand is stored in the dtype the operation computes in, so that a device may run it
    by name; otherwise only ``expr`` tells the whole meaning.
    """

    op: str
    ins: tuple[TensorSpec, ...]
    outs: tuple[TensorSpec, ...]
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    scalars: tuple[tuple[str, str], ...] = ()
    expr: Any = None
    exact: bool = True

    def __str__(self) -> str:
        return f"{self.op}({', '.join(describe(t) for t in self.ins)})"


def describe(t: TensorSpec) -> str:
    """``f32[3, 4]``, the way every message shows an operand."""
    return f"{t.dtype}{list(t.shape)}"


@dataclass(frozen=True, slots=True)
class TensorRef:
    """One operand with its memory, as ``Device.op_run`` receives it; strides in elements, >= 0."""

    dtype: str
    buf: int
    byte_offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    layout: Layout
    qscale: float = 1.0
    qzero: int = 0


@dataclass(frozen=True, slots=True)
class OpDesc:
    """One call of a named operation on an op device."""

    op: str
    ins: tuple[TensorRef, ...]
    outs: tuple[TensorRef, ...]
    attrs: Mapping[str, Attr]


@dataclass(frozen=True)
class OpCap:
    """One row of a device's static capability table."""

    op: str
    in_dtypes: frozenset[str]
    out_dtypes: frozenset[str]
    layouts: Layout = ANY
    rank: tuple[int, int] = (0, 8)
    priority: int = 0
