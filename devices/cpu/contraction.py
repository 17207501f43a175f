"""Matrix products and convolutions: by oneDNN in f32, by halon's packed product otherwise.

f16 is converted to f32 around either of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from halon.devices.cpu.elementwise import cast_kernel, copy_kernel
from halon.devices.cpu.indexing import spatial
from halon.devices.cpu.library import why_not_onednn
from halon.devices.cpu.native import CODE, Kernel, ffi, lib
from halon.devices.rows import Entry
from halon.hal.dtypes import dtype_of
from halon.hal.errors import Declined
from halon.hal.op_desc import OpSpec, TensorSpec
from halon.hal.properties import Layout
from halon.kernels.loops import coalesce

SMALL_PRODUCT: Final = 2**17


def contiguous(t: TensorSpec, dtype: str = "") -> TensorSpec:
    """The same shape, densely packed, perhaps in another dtype."""
    strides, size = [], 1
    for n in reversed(t.shape):
        strides.append(size)
        size *= n
    return TensorSpec(dtype or t.dtype, t.shape, tuple(reversed(strides)), Layout.CONTIG)


class _Sequence:
    """Collects kernels that run one after the other over operands and temporaries.

    An operand is its number in the launch; a temporary is -1, -2, …
    """

    def __init__(self, n_operands: int) -> None:
        self.n_operands = n_operands
        self.temps: list[int] = []
        self.steps: list[tuple[Kernel, tuple[int, ...]]] = []

    def temp(self, t: TensorSpec) -> int:
        self.temps.append(t.numel * dtype_of(t.dtype).itemsize)
        return -len(self.temps)

    def add(self, kernel: Kernel, *args: int) -> None:
        self.steps.append((kernel, args))

    def build(self) -> Kernel:
        steps = ffi.new("hl_step[]", len(self.steps))
        for s, (kernel, args) in zip(steps, self.steps, strict=True):
            s.kernel, s.n_args, s.args = kernel.address, len(args), args
        sizes = ffi.new("int64_t[]", self.temps or [0])
        k = ffi.new("hl_sequence *")
        k.n_steps, k.steps, k.n_temps, k.temp_bytes = len(steps), steps, len(self.temps), sizes
        lib.hl_sequence_init(k)
        kernels = [kernel for kernel, _ in self.steps]
        return Kernel(k, self.n_operands, keep=(steps, sizes, *kernels))


def in_f32(entry: Entry, device: Any, spec: OpSpec) -> Kernel:
    """An f16 contraction: operands converted, computed in f32, the result converted back."""
    sequence = _Sequence(len(spec.ins) + 1)
    wide = [contiguous(t, "f32") for t in spec.ins]
    out = contiguous(spec.outs[0], "f32")
    args = []
    for i, (have, want) in enumerate(zip(spec.ins, wide, strict=True)):
        args.append(sequence.temp(want))
        sequence.add(cast_kernel(have, want), i, args[-1])
    args.append(sequence.temp(out))
    sequence.add(entry(device, replace(spec, ins=tuple(wide), outs=(out,))), *args)
    sequence.add(cast_kernel(out, spec.outs[0]), args[-1], len(spec.ins))
    return sequence.build()


# -- matmul ----------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Product:
    """Extents, batch, and element strides of a[m, k] and b[k, n]."""

    m: int
    n: int
    k: int
    a: tuple[int, int]
    b: tuple[int, int]
    batch: tuple[int, ...]
    a_batch: tuple[int, ...]
    b_batch: tuple[int, ...]


def matmul(device: Any, spec: OpSpec) -> Kernel:
    """Entry of matmul over batches with any strides."""
    if spec.outs[0].dtype == "f16":
        return in_f32(matmul, device, spec)
    a, b = spec.ins
    if a.dtype == "f32" and not why_not_onednn():
        fit = tuple(_library_takes(t) for t in spec.ins)
        if not all(fit):
            return _packed_first(device, spec, fit)
        product = _product(a, b)
        kernel = None if _too_small(product) else _library_matmul(product)
        if kernel is not None:
            return kernel
    return _own_matmul(_product(a, b), a.dtype)


def _too_small(p: _Product) -> bool:
    """Whether halon's own product beats the library's cost per call, or (below AVX-512) the copy it
    makes of a row-major b for a few rows of a; both measured by bench/cpu_kernels.py."""
    few_rows = 1 < p.m <= 16 and p.b[1] == 1 and lib.hl_isa() < 4
    return p.m * p.n * p.k <= SMALL_PRODUCT or few_rows


def _packed_first(device: Any, spec: OpSpec, fit: Sequence[bool]) -> Kernel:
    """Copies the operands whose matrices the library cannot walk."""
    sequence = _Sequence(3)
    ins = [t if ok else contiguous(t) for t, ok in zip(spec.ins, fit, strict=True)]
    args = []
    for i, (have, want, ok) in enumerate(zip(spec.ins, ins, fit, strict=True)):
        args.append(i if ok else sequence.temp(want))
        if not ok:
            sequence.add(copy_kernel(have, want), i, args[-1])
    sequence.add(matmul(device, replace(spec, ins=tuple(ins))), *args, 2)
    return sequence.build()


def _library_takes(t: TensorSpec) -> bool:
    """Whether each matrix is dense along its rows or its columns, without overlap."""
    (rows, columns), (row, column) = t.shape[-2:], _matrix_strides(t)
    return (column == 1 and row >= columns) or (row == 1 and column >= rows)


def _matrix_strides(t: TensorSpec) -> tuple[int, int]:
    """Strides of a row and a column, with those of an extent of 1 made canonical."""
    (rows, columns), (row, column) = t.shape[-2:], t.strides[-2:]
    if columns == 1:
        column = 1 if row >= 1 else rows
    if rows == 1:
        row = columns if column == 1 else 1
    return row, column


def _product(a: TensorSpec, b: TensorSpec) -> _Product:
    (m, k), n = a.shape[-2:], b.shape[-1]
    batch, (a_batch, b_batch) = coalesce(a.shape[:-2], [a.strides[:-2], b.strides[:-2]])
    a_step, b_step = _matrix_strides(a), _matrix_strides(b)
    if batch == (1,):
        return _Product(m, n, k, a_step, b_step, (), (), ())
    if len(batch) == 1 and b_batch == (0,) and (m == 1 or a_batch[0] == m * a_step[0]):
        # one matrix for the whole batch: the batch is more rows
        step = a_batch[0] if m == 1 else a_step[0]
        if step >= k and a_step[1] == 1:
            return _Product(m * batch[0], n, k, (step, 1), b_step, (), (), ())
    return _Product(m, n, k, a_step, b_step, batch, a_batch, b_batch)


@lru_cache(maxsize=512)
def _library_matmul(p: _Product) -> Kernel | None:
    dims = [*p.batch, p.m, p.n, p.k]
    address = lib.hl_onednn_matmul(len(dims) - 1, dims, [*p.a_batch, *p.a], [*p.b_batch, *p.b])
    if address == ffi.NULL:
        return None
    return Kernel(ffi.gc(address, lib.hl_onednn_close), 3)


def _own_matmul(p: _Product, dtype: str) -> Kernel:
    k = ffi.new("hl_matmul *")
    k.dtype, k.itemsize, k.ndim = CODE[dtype], dtype_of(dtype).itemsize, len(p.batch)
    k.m, k.n, k.k = p.m, p.n, p.k
    (k.a_row, k.a_col), (k.b_row, k.b_col) = p.a, p.b
    k.batch, k.a, k.b = p.batch, p.a_batch, p.b_batch
    lib.hl_matmul_init(k)
    return Kernel(k, 3)


# -- convolution -----------------------------------------------------------------------------------
FORWARD, TO_INPUT, TO_WEIGHT = range(3)


@dataclass(frozen=True)
class _Conv:
    """A convolution x, w → y by the roles of its operands: the numbers they have in the launch.

    A transposed convolution is the gradient of a convolution with respect to its input, so it and
    its own gradients are the same three kernels with the roles of x and y exchanged.
    """

    kind: int
    x: int
    w: int
    y: int


#: (op, transposed) → which kernel runs, and where its operands are.
ROLES: Final = {
    ("conv", False): _Conv(FORWARD, x=0, w=1, y=2),
    ("conv", True): _Conv(TO_INPUT, y=0, w=1, x=2),
    ("conv_bwd_input", False): _Conv(TO_INPUT, y=0, w=1, x=2),
    ("conv_bwd_input", True): _Conv(FORWARD, x=0, w=1, y=2),
    ("conv_bwd_weight", False): _Conv(TO_WEIGHT, y=0, x=1, w=2),
    ("conv_bwd_weight", True): _Conv(TO_WEIGHT, x=0, y=1, w=2),
}


def conv(device: Any, spec: OpSpec) -> Kernel:
    """Entry of conv, conv_bwd_input and conv_bwd_weight in one to three dimensions."""
    if spec.outs[0].dtype == "f16":
        return in_f32(conv, device, spec)
    tensors = (*spec.ins, spec.outs[0])
    role = ROLES[spec.op, bool(spec.attrs["transposed"])]
    x, w, y = (tensors[i] for i in (role.x, role.w, role.y))
    rank = len(x.shape) - 2
    if not 1 <= rank <= 3:
        raise Declined(f"convolution over {rank} dimensions")
    k = ffi.new("hl_conv *")
    k.dtype, k.itemsize, k.kind = CODE[x.dtype], dtype_of(x.dtype).itemsize, role.kind
    k.in_arg, k.weight_arg, k.out_arg = role.x, role.w, role.y
    groups = int(spec.attrs["groups"])  # type: ignore[arg-type]
    k.batch, k.groups = x.shape[0], groups
    k.in_channels, k.out_channels = x.shape[1] // groups, y.shape[1] // groups
    setattr(k, "in", spatial(x.shape[2:], rank, 1))
    k.out, k.kernel = spatial(y.shape[2:], rank, 1), spatial(w.shape[2:], rank, 1)
    k.step = spatial(spec.attrs["stride"], rank, 1)
    k.pad = spatial(spec.attrs["padding"], rank, 0)
    k.dilation = spatial(spec.attrs["dilation"], rank, 1)
    if x.dtype == "f32" and not why_not_onednn():
        address = lib.hl_onednn_conv(k, rank)
        if address != ffi.NULL:
            return Kernel(ffi.gc(address, lib.hl_onednn_close), 3)
    lib.hl_conv_init(k)
    return Kernel(k, 3)
