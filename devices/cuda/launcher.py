"""The kernels of one plan on a CUDA device: the argument list that a launch fills in."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from halon.hal.errors import HalInvalidArgument
from halon.kernels.pk.launch import FLAG, SCRATCH, Launch, Step
from halon.kernels.pk.scalars import CONVERT, NUMPY


class Kernel:
    """What ``plan.kernel`` is: steps, and a lock because launches of a plan share its scratch."""

    def __init__(
        self, launch: Launch, functions: Sequence[Any], scratch: Sequence[Any], flag: Any, op: str,
        code: int,
    ) -> None:  # fmt: skip
        self.lock = threading.Lock()
        self.op = op
        self.checks = launch.checks
        self.code = code
        self.scratch = scratch  # kept alive: the steps hold addresses
        self.steps = [
            _BoundStep(launch, step, function, scratch, flag, code)
            for step, function in zip(launch.steps, functions, strict=True)
        ]


class _BoundStep:
    """One function with its grid; Python ints, addresses among them, become 64-bit arguments."""

    def __init__(
        self,
        launch: Launch,
        step: Step,
        function: Any,
        scratch: Sequence[Any],
        flag: Any,
        code: int,
    ) -> None:
        self._function = function
        self._grid = tuple(s // g for s, g in zip(step.size, step.group, strict=True))
        self._block = step.group
        self._same = step.unless_same
        self._operands = step.operands
        self._itemsizes = launch.itemsizes
        self._scalars = [
            (k, NUMPY[launch.scalars[k]], CONVERT[launch.scalars[k]]) for k in step.scalars
        ]
        self._fixed = step.fixed
        self._constant = {
            o: (flag.ptr, code) if o == FLAG else (scratch[SCRATCH - o].ptr, 0)
            for o in step.operands
            if o < 0
        }

    def launch(
        self, buffers: Mapping[int, Any], handles: Sequence[int], offsets: Sequence[int],
        scalars: Sequence[int | float | bool],
    ) -> None:  # fmt: skip
        """Enqueue on the current stream."""
        same = self._same
        if same and handles[same[0]] == handles[same[1]] and offsets[same[0]] == offsets[same[1]]:
            return
        arguments: list[Any] = []
        for operand in self._operands:
            if operand < 0:
                arguments += self._constant[operand]
                continue
            elements, rest = divmod(offsets[operand], self._itemsizes[operand])
            if rest:
                raise HalInvalidArgument(
                    f"byte offset {offsets[operand]} of operand {operand} is not a multiple of its "
                    f"itemsize {self._itemsizes[operand]}"
                )
            arguments += (buffers[handles[operand]].ptr, elements)
        arguments += [kind(convert(scalars[k])) for k, kind, convert in self._scalars]
        self._function(self._grid, self._block, (*arguments, *self._fixed))
