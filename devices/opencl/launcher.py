"""The kernels of one plan, ready to launch: arguments set once, operands at each call."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from halon.devices.opencl.programs import Programs
from halon.hal.errors import HalInvalidArgument
from halon.kernels.pk.launch import FLAG, SCRATCH, Launch, Step
from halon.kernels.pk.scalars import CONVERT, NUMPY


class _Owner(Protocol):
    """What a kernel needs of its device."""

    queue: Any
    flag: Any
    programs: Programs

    def scratch(self, nbytes: int) -> Any: ...


class Kernel:
    """What ``plan.kernel`` is: the steps of a Launch, a lock and the memory between the steps.

    ``clSetKernelArg`` is not thread-safe and scratch memory is shared by the launches of a plan, so
    one thread at a time may enqueue the steps.
    """

    def __init__(self, device: _Owner, launch: Launch, op: str, code: int) -> None:
        self.lock = threading.Lock()
        self.op = op
        self.checks = launch.checks
        self.code = code
        scratch = [device.scratch(n) for n in launch.scratch]
        self.steps = [_BoundStep(device, launch, step, scratch, code) for step in launch.steps]


class _BoundStep:
    """One kernel object: operands are set per launch, everything else when it changes."""

    def __init__(
        self, device: _Owner, launch: Launch, step: Step, scratch: Sequence[Any], code: int
    ) -> None:
        import pyopencl as cl

        self._kernel = cl.Kernel(device.programs.get(step.source), step.entry)
        dtypes = [launch.scalars[k] for k in step.scalars]
        self._kernel.set_scalar_arg_dtypes(
            [None, np.int64] * len(step.operands)
            + [NUMPY[d] for d in dtypes]
            + [np.int64] * len(step.fixed)
        )
        self._set = self._kernel.set_arg
        self._enqueue = cl.enqueue_nd_range_kernel
        self._queue = device.queue
        self._size, self._group = step.size, step.group
        self._same = step.unless_same
        self._step = step
        self._itemsizes = launch.itemsizes
        self._convert = [CONVERT[d] for d in dtypes]
        self._constant = {
            operand: (device.flag, code) if operand == FLAG else (scratch[SCRATCH - operand], 0)
            for operand in step.operands
            if operand < 0
        }
        self._pointers = [(2 * i, o) for i, o in enumerate(step.operands) if o >= 0]
        self._offsets: list[int] = [-1]

    def launch(
        self, buffers: Mapping[int, Any], handles: Sequence[int], offsets: Sequence[int],
        scalars: Sequence[int | float | bool],
    ) -> None:  # fmt: skip
        """Enqueue; ``offsets`` are compared with the last launch's to set pointers only."""
        same = self._same
        if same and handles[same[0]] == handles[same[1]] and offsets[same[0]] == offsets[same[1]]:
            return
        if self._convert or offsets != self._offsets:
            self._bind(buffers, handles, offsets, scalars)
        else:
            set_arg = self._set
            for argument, operand in self._pointers:
                set_arg(argument, buffers[handles[operand]])
        self._enqueue(self._queue, self._kernel, self._size, self._group)

    def _bind(
        self, buffers: Mapping[int, Any], handles: Sequence[int], offsets: Sequence[int],
        scalars: Sequence[int | float | bool],
    ) -> None:  # fmt: skip
        arguments: list[Any] = []
        for operand in self._step.operands:
            if operand < 0:
                arguments += self._constant[operand]
                continue
            elements, rest = divmod(offsets[operand], self._itemsizes[operand])
            if rest:
                raise HalInvalidArgument(
                    f"byte offset {offsets[operand]} of operand {operand} is not a multiple of its "
                    f"itemsize {self._itemsizes[operand]}"
                )
            arguments += (buffers[handles[operand]], elements)
        numbers = [scalars[k] for k in self._step.scalars]
        arguments += [c(n) for c, n in zip(self._convert, numbers, strict=True)]
        self._kernel.set_args(*arguments, *self._step.fixed)
        self._offsets = list(offsets)
