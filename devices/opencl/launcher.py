"""The kernels of one plan, ready to launch: arguments set once, operands at each call."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol

import numpy as np

from halon.devices.opencl.programs import Programs
from halon.hal.errors import HalInvalidArgument
from halon.kernels.pk.launch import FLAG, SCRATCH, Launch, Step
from halon.kernels.pk.scalars import CONVERT, NUMPY


class _SharedKernel:
    """A ``cl.Kernel`` with a lock; ``owner`` is the step whose fixed arguments it holds."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.lock = threading.Lock()
        self.owner = 0


class KernelPool:
    """Kernel objects of one device: a few per entry point, shared by plans in turn.

    Making one costs pyopencl 0.6 ms; setting all arguments of one another plan used, 1 to 4 us.
    """

    PER_ENTRY: Final = 8

    def __init__(self, programs: Programs) -> None:
        self._programs = programs
        self._pools: dict[tuple[str, str], list[_SharedKernel]] = {}
        self._turn = itertools.count()
        self._lock = threading.Lock()

    def get(self, step: Step, dtypes: Sequence[str]) -> _SharedKernel:
        import pyopencl as cl

        program = self._programs.get(step.source)
        with self._lock:
            pool = self._pools.setdefault((step.source, step.entry), [])
            if len(pool) == self.PER_ENTRY:
                return pool[next(self._turn) % self.PER_ENTRY]
            kernel = cl.Kernel(program, step.entry)
            kernel.set_scalar_arg_dtypes(
                [None, np.int64] * len(step.operands)
                + [NUMPY[d] for d in dtypes]
                + [np.int64] * len(step.fixed)
            )
            pool.append(_SharedKernel(kernel))
            return pool[-1]


class _Owner(Protocol):
    """What a kernel needs of its device."""

    queue: Any
    flag: Any
    kernels: KernelPool

    def scratch(self, nbytes: int) -> Any: ...


class Kernel:
    """What ``plan.kernel`` is: the steps of a Launch and the memory between them.

    ``lock`` is None for a single step; several are enqueued by one thread at a time, since the
    launches of a plan share its scratch memory.
    """

    def __init__(self, device: _Owner, launch: Launch, op: str, code: int) -> None:
        self.op = op
        self.checks = launch.checks
        self.code = code
        scratch = [device.scratch(n) for n in launch.scratch]
        self.steps = [_BoundStep(device, launch, step, scratch, code) for step in launch.steps]
        self.lock = threading.Lock() if len(self.steps) > 1 else None


class _BoundStep:
    """One launch: operands are set per call, everything else when it changes."""

    _numbers: ClassVar = itertools.count(1)

    def __init__(
        self, device: _Owner, launch: Launch, step: Step, scratch: Sequence[Any], code: int
    ) -> None:
        import pyopencl as cl

        dtypes = [launch.scalars[k] for k in step.scalars]
        self._number = next(self._numbers)
        self._shared = device.kernels.get(step, dtypes)
        self._kernel = self._shared.kernel
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
        self._offsets: list[int] = []

    def launch(
        self, buffers: Mapping[int, Any], handles: Sequence[int], offsets: Sequence[int],
        scalars: Sequence[int | float | bool],
    ) -> None:  # fmt: skip
        """Enqueue; ``offsets`` are compared with the last launch's to set pointers only."""
        same = self._same
        if same and handles[same[0]] == handles[same[1]] and offsets[same[0]] == offsets[same[1]]:
            return
        shared, kernel = self._shared, self._kernel
        with shared.lock:  # clSetKernelArg is not thread-safe
            if shared.owner != self._number or self._convert or offsets != self._offsets:
                self._bind(buffers, handles, offsets, scalars)
            else:
                set_arg = kernel.set_arg
                for argument, operand in self._pointers:
                    set_arg(argument, buffers[handles[operand]])
            self._enqueue(self._queue, kernel, self._size, self._group)

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
        self._shared.owner = 0  # until every argument is set
        self._kernel.set_args(*arguments, *self._step.fixed)
        self._offsets = list(offsets)
        self._shared.owner = self._number
