"""Writing into existing tensors: in-place variants of operators and ``out=``."""

from __future__ import annotations

import warnings
from typing import Any

from halon.dispatcher import select
from halon.dispatcher.hot import bring_up_to_date
from halon.dispatcher.op import OPS, Op
from halon.dispatcher.promote import can_cast
from halon.dispatcher.rewrite import geometry, rebase
from halon.dispatcher.structures import TensorBase, modes
from halon.tensor import transfer


def update(op: Op, target: Any, args: tuple[Any, ...]) -> Any:
    """Run an operator in place on ``target``, which is its first operand.

    Raises RuntimeError for a leaf that requires grad, for memory that overlaps itself, and for a
    view of a tensor with history.
    """
    rewrite = modes.grad and _check_history(op, target, args)
    steps = zip(target.meta.shape, target.meta.strides, strict=True)
    if target.meta.numel and any(n > 1 and s == 0 for n, s in steps):
        raise RuntimeError(
            f"{op.name}_: unsupported operation: more than one element of the written-to tensor "
            "refers to a single memory location. Please clone() the tensor before performing the "
            "operation."
        )
    if op.name == "copy" and isinstance(args[1], TensorBase):
        here = target.meta.device
        if args[1].meta.device is not here:
            args = (args[0], transfer.to_device(args[1], here))
    if op.eager is not None:
        return update(OPS["copy"], target, (target, _storable(op, op.eager(*args), target)))
    args = tuple(_apart(op, a, target) for a in args)
    if not rewrite:
        select.call_into(op, target, args)
        return target
    base = target.base
    before = None if not base.wants_grad else (base.node, base.node_index)
    select.call_into(op, target, args)
    if target.wants_grad:
        rebase(target, before)
    return target


def _storable(op: Op, result: Any, target: Any) -> Any:
    """A result that fits the tensor it is written to, as torch requires."""
    if result.meta.shape != target.meta.shape or not can_cast(result.meta.dtype, target.meta.dtype):
        raise RuntimeError(
            f"{op.name}_: the result {result.meta} cannot be stored in a {target.meta} tensor"
        )
    return result


def _check_history(op: Op, target: Any, args: tuple[Any, ...]) -> bool:
    """Whether the write must rewrite the history of the target's base; refuses what torch does."""
    base = target.base
    if base is not None and base.node is not target.base_node:
        bring_up_to_date(target)
    if target.wants_grad and target.node is None:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation. "
            f"({op.name}_ on {target.meta})"
        )
    involved = any(isinstance(a, TensorBase) and a.wants_grad for a in args)
    if base is None or not (involved or base.wants_grad):
        return False
    if base.wants_grad and base.node is None:
        raise RuntimeError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation. "
            f"({op.name}_ on {target.meta} of {base.meta})"
        )
    if geometry(target, base) is None:
        raise RuntimeError(
            f"{op.name}_: in-place on a view ({target.meta} of {base.meta}) that repeats elements, "
            "changes the dtype or whose base is not row-major is not supported under autograd. "
            "clone() it first, or do it under no_grad()"
        )
    return True


def _overlaps(a: Any, target: Any) -> bool:
    """Whether an operand shares part of the target's memory without being the same view."""
    return (
        isinstance(a, TensorBase)
        and a.storage is target.storage
        and (a.meta is not target.meta or a.offset != target.offset)
        and a.offset < target.offset + target.meta.span
        and target.offset < a.offset + a.meta.span
        and bool(a.meta.numel)
    )


def _apart(op: Op, a: Any, target: Any) -> Any:
    """An overlapping operand moved aside; two dense ones are refused, except by ``copy_``."""
    if not _overlaps(a, target):
        return a
    dense = all(t.meta.span == t.meta.numel * t.meta.dtype.itemsize for t in (a, target))
    if op.name != "copy" and dense:  # strided operands may interleave without sharing an element
        raise RuntimeError(
            f"{op.name}_: unsupported operation: some elements of the input tensor {a.meta} and "
            f"the written-to tensor {target.meta} refer to a single memory location. Please "
            "clone() the tensor before performing the operation."
        )
    return OPS["clone"](a)


def store(op: Op, out: Any, args: tuple[Any, ...]) -> Any:
    """Run an operator into ``out``, resizing it as torch does; no autograd."""
    tensors = [a for a in args if isinstance(a, TensorBase)]
    if modes.grad and any(t.wants_grad for t in (*tensors, out)):
        raise RuntimeError(
            f"{op.name}(): functions with out=... arguments don't support automatic "
            "differentiation, but one of the arguments requires grad."
        )
    result = op.call(op, args)
    if result.meta.shape != out.meta.shape:
        if out.meta.numel:
            warnings.warn(
                f"An output with one or more elements was resized since it had shape "
                f"{list(out.meta.shape)}, which does not match the required output shape "
                f"{list(result.meta.shape)}.",
                stacklevel=3,
            )
        cast = OPS["cast"](result, out.meta.dtype)
        out.storage, out.offset, out.meta = cast.storage, cast.offset, cast.meta
        return out
    select.call_into(OPS["copy"], out, (out, result))
    return out
