"""Elementwise operations: expression trees as tile programs, plain copies without one."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import Any, Final

from halon.devices.cpu.native import CODE, Kernel, as_words, ffi, lib, op_indices, word_format
from halon.hal.dtypes import dtype_of
from halon.hal.errors import Declined
from halon.hal.op_desc import OpSpec, TensorSpec
from halon.kernels.cpu.nest import Nest, choose_box, is_dense, order_dims
from halon.kernels.cpu.program import Fill, Program, compile_tree
from halon.kernels.tree import Apply, Input

SLOT_BYTES: Final = 4096
#: Slots a page apart would make the CPU see false dependences of loads on stores.
SLOT_PITCH: Final = SLOT_BYTES + 64


def elementwise(device: Any, spec: OpSpec) -> Kernel:
    """Entry of every operation with an expression tree."""
    if isinstance(spec.expr, Input):
        return copy_kernel(spec.ins[spec.expr.index], spec.outs[0], spec.expr.index, len(spec.ins))
    program = compile_tree(spec.expr, len(spec.ins))
    return tile_kernel(program, spec.ins, spec.outs[0], [t for _, t in spec.scalars])


def copy_kernel(x: TensorSpec, y: TensorSpec, src_arg: int = 0, dst_arg: int = 1) -> Kernel:
    """Moves elements between two layouts of one dtype."""
    nest = order_dims(y.shape, [x.strides, y.strides])
    size = dtype_of(y.dtype).itemsize
    k = ffi.new("hl_copy *")
    k.ndim, k.itemsize, k.src_arg, k.dst_arg = len(nest.shape), size, src_arg, dst_arg
    k.shape = nest.shape
    k.src, k.dst = ([s * size for s in strides] for strides in nest.strides)
    lib.hl_copy_init(k)
    return Kernel(k, dst_arg + 1)


def cast_kernel(x: TensorSpec, y: TensorSpec) -> Kernel:
    """Converts between two dtypes (and layouts)."""
    tree = Apply("cast", (Input(0, x.dtype),), y.dtype)
    return tile_kernel(compile_tree(tree, 1), (x,), y, ())


def tile_kernel(
    program: Program, ins: Sequence[TensorSpec], out: TensorSpec, scalars: Sequence[str]
) -> Kernel:
    """A program over the loop nest of its operands."""
    nest = order_dims(out.shape, [t.strides for t in (*ins, out)])
    uniform = [not any(s) for s in nest.strides[:-1]] + [False]
    limit = SLOT_BYTES // program.itemsize
    if not program.n_slots and not any(uniform):
        # nothing needs a tile if every operand is dense along the rows
        limit = max(limit, nest.shape[-1]) if all(s[-1] == 1 for s in nest.strides) else limit
    box = choose_box(nest, limit)
    modes = [_mode(u, s, box) for u, s in zip(uniform, nest.strides, strict=True)]
    slot = dict(program.slot)
    n_slots = program.n_slots
    for register, mode in enumerate(modes):
        if mode != lib.HL_DIRECT:
            slot[register] = n_slots
            n_slots += 1
    k = ffi.new("hl_elementwise *")
    operands = _operands(nest, (*ins, out), modes)
    fills = _fills(program.fills, _first_words(len(ins) + 1, scalars))
    code = _code(program)
    slots = ffi.new("int32_t[]", [slot.get(r, -1) for r in range(program.n_registers)])
    k.ndim, k.shape, k.box = len(box), nest.shape, box
    k.n_operands, k.operands = len(modes), operands
    k.n_fills, k.fills = len(program.fills), fills
    k.n_code, k.code = len(program.code), code
    k.n_regs, k.slot, k.n_slots, k.slot_bytes = program.n_registers, slots, n_slots, SLOT_PITCH
    lib.hl_elementwise_init(k)
    return Kernel(k, len(ins) + 1, scalars, keep=(operands, fills, code, slots))


def _mode(uniform: bool, strides: Sequence[int], box: Sequence[int]) -> int:
    if uniform:
        return lib.HL_UNIFORM
    return lib.HL_DIRECT if is_dense(strides, box) else lib.HL_LOAD


def _operands(nest: Nest, tensors: Sequence[TensorSpec], modes: Sequence[int]) -> Any:
    operands = ffi.new("hl_operand[]", len(tensors))
    for i, (t, mode) in enumerate(zip(tensors, modes, strict=True)):
        size = dtype_of(t.dtype).itemsize
        operands[i].arg = operands[i].reg = i
        operands[i].itemsize, operands[i].mode = size, mode
        operands[i].stride = [s * size for s in nest.strides[i]]
    return operands


def _first_words(operands: int, scalars: Sequence[str]) -> list[int]:
    """The position of each run-time number among the words of a launch."""
    lengths = (len(word_format(t)) for t in scalars)
    return list(itertools.accumulate(lengths, initial=operands))


def _fills(fills: Sequence[Fill], first_words: Sequence[int]) -> Any:
    array = ffi.new("hl_fill[]", max(1, len(fills)))
    for i, f in enumerate(fills):
        array[i].reg, array[i].dtype = f.register, CODE[f.dtype]
        array[i].itemsize = dtype_of(f.dtype).itemsize
        array[i].arg = -1 if f.scalar is None else first_words[f.scalar]
        array[i].bits = _bits(f.value, f.dtype)
    return array


def _bits(value: int | float | complex | bool, dtype: str) -> tuple[int, ...]:
    """The words a launch would bring for this number."""
    layout = word_format(dtype)
    if layout == "q":
        return ((int(value) + 2**63) % 2**64 - 2**63,)  # type: ignore[arg-type]
    packed = struct.pack("@" + layout, *as_words(value, dtype))
    return struct.unpack(f"@{len(layout)}q", packed)


def _code(program: Program) -> Any:
    indices = op_indices()
    code = ffi.new("hl_instr[]", len(program.code))
    for i, c in enumerate(program.code):
        if c.op not in indices:
            raise Declined(f"no tile operation {c.op}")
        a, b, c3 = (*c.args, c.args[0], c.args[0])[:3]
        code[i] = (indices[c.op], c.dst, a, b, c3)
    return code
