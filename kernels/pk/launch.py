"""What a PK generator hands to a device: sources, entry points, argument layouts, grids.

Every kernel takes its arguments in one order: for each operand a pointer and an i64 offset in
elements, then the run-time scalars, then the fixed i64 numbers (extents, strides). A device sets
the fixed numbers once and the operands at each launch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from halon.hal.errors import Declined, IndexOutOfRange
from halon.hal.op_desc import OpSpec, TensorSpec
from halon.kernels.pk.text import CTYPE, ITEMSIZE, PACKED

#: Operand numbers of a Step: 0, 1, … index ``handles``; SCRATCH - k is the plan's k-th scratch
#: buffer; FLAG is the device's bounds flag, whose offset argument is the plan's code.
SCRATCH: Final = -2
FLAG: Final = -1

#: Reports a value to the host: the first work-item to find the flag down raises it.
RAISE: Final = """DEVFN void pk_raise(GLOBAL i64 *flag, i64 code, i64 value) {
    if (PK_CAS32(flag, 0, (u32)code) == 0) flag[1] = value;
}
"""

#: What ``Launch.checks`` says of a kernel that divides integers.
ZERO_DIVISION: Final = "ZeroDivisionError"

Grid = tuple[int, int, int]


@dataclass(frozen=True)
class Target:
    """What a generator may ask about a device.

    ``cpu`` is the launch policy: chunk loops and register tiles, not coalesced items and local
    memory. ``vector_bytes`` is the native vector width of such a device. ``atomics64``: 64-bit
    compare-and-swap exists.
    """

    cpu: bool
    units: int = 1
    vector_bytes: int = 32
    f64: bool = True
    atomics64: bool = True


@dataclass(frozen=True)
class Step:
    """One launch. ``scalars`` index ``Launch.scalars``; sizes are in work-items."""

    source: str
    entry: str
    operands: tuple[int, ...]
    fixed: tuple[int, ...]
    size: Grid
    group: Grid = (1, 1, 1)
    scalars: tuple[int, ...] = ()
    unless_same: tuple[int, int] | None = None  # skipped if these two operands are one place


@dataclass(frozen=True)
class Launch:
    """Everything needed to run one OpSpec: its steps in order and the memory between them.

    ``itemsizes`` turn the offsets of the operands, in bytes, into elements. ``checks`` says what a
    raised flag means ("" for kernels that cannot raise it).
    """

    steps: tuple[Step, ...]
    itemsizes: tuple[int, ...]
    scalars: tuple[str, ...] = ()
    scratch: tuple[int, ...] = ()
    checks: str = ""


def launch(
    spec: OpSpec, steps: Sequence[Step], scratch: Sequence[int] = (), checks: str = ""
) -> Launch:
    """A Launch for ``spec``."""
    sizes = tuple(ITEMSIZE[t.dtype] for t in (*spec.ins, *spec.outs))
    return Launch(tuple(steps), sizes, tuple(d for _, d in spec.scalars), tuple(scratch), checks)


def flag_error(op: str, checks: str, value: int, device: str) -> Exception:
    """The exception for a raised flag, in the words of the device that finds out at once."""
    late = f"(an earlier launch on {device})"
    if checks == ZERO_DIVISION:
        return RuntimeError(f"{ZERO_DIVISION}: {op} of integers by 0 {late}")
    return IndexOutOfRange(f"{op}: index {value} {checks} {late}")


def ceil_div(n: int, d: int) -> int:
    return -(-n // d)


def round_up(n: int, multiple: int) -> int:
    return ceil_div(n, multiple) * multiple


def signature(
    name: str, operands: Sequence[tuple[str, str, bool]], scalars: Sequence[tuple[str, str]] = (),
    fixed: Sequence[str] = (),
) -> str:  # fmt: skip
    """``KERNEL name(PK_IDS …)`` for operands (name, dtype, written), scalars (name, dtype), fixed.

    >>> signature("k", [("x", "f32", False), ("y", "f32", True)], [], ["n"])
    'KERNEL k(PK_IDS GLOBAL const f32 *x, i64 ox, GLOBAL f32 *y, i64 oy, i64 n)'
    """
    parts = [
        f"GLOBAL {'' if written else 'const '}{CTYPE.get(dtype, dtype)} *{n}, i64 o{n}"
        for n, dtype, written in operands
    ]
    parts += [f"{SCALAR_CTYPE[dtype]} {n}" for n, dtype in scalars]
    parts += [f"i64 {n}" for n in fixed]
    return f"KERNEL {name}(PK_IDS {', '.join(parts)})"


#: How a run-time scalar is passed: what is packed travels as f32 and is rounded in the kernel.
SCALAR_CTYPE: Final[dict[str, str]] = {**CTYPE, **dict.fromkeys(PACKED, "f32")}


def require_f64(target: Target, tensors: Sequence[TensorSpec]) -> None:
    """Declined where the operands need double precision and the device has none."""
    if not target.f64 and any(t.dtype in ("f64", "c128") for t in tensors):
        raise Declined("the device has no double precision")


def decode(linear: str, extents: Sequence[str], bases: Mapping[str, Sequence[str]]) -> str:
    """Statements that add ``index · stride`` of each dimension of ``linear`` to each base.

    ``extents`` and every list of strides are names, outermost first; fixed unrolling keeps the
    index arithmetic out of local arrays.
    """
    if not extents:
        return ""
    lines = [f"i64 rest = {linear}, at;"]
    for d in reversed(range(len(extents))):
        if d:
            lines.append(f"at = rest % {extents[d]}; rest /= {extents[d]};")
        else:
            lines.append("at = rest;")
        lines += [f"{base} += at * {strides[d]};" for base, strides in bases.items()]
    return "\n        ".join(lines)
