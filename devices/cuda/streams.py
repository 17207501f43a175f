"""CUDA streams and events over CuPy's."""

from __future__ import annotations

from typing import Any

from halon.hal.driver import Event, Stream


class CudaStream(Stream):
    """A non-blocking stream: it does not wait for the legacy default stream."""

    def __init__(self, api: Any) -> None:
        self.raw = api.cuda.Stream(non_blocking=True)

    def synchronize(self) -> None:
        self.raw.synchronize()


class CudaEvent(Event):
    """A CUDA event; one that was never recorded counts as complete."""

    def __init__(self, api: Any, default: CudaStream, timing: bool) -> None:
        self._api = api
        self._default = default
        self.raw = api.cuda.Event(disable_timing=not timing)
        self._recorded = False

    def record(self, stream: Stream | None = None) -> None:
        self.raw.record(self._raw(stream))
        self._recorded = True

    def wait(self, stream: Stream | None = None) -> None:
        if self._recorded:
            self._raw(stream).wait_event(self.raw)

    def query(self) -> bool:
        return not self._recorded or bool(self.raw.done)

    def synchronize(self) -> None:
        if self._recorded:
            self.raw.synchronize()

    def elapsed(self, later: Event) -> float:
        later.synchronize()
        return float(self._api.cuda.get_elapsed_time(self.raw, later.raw))  # type: ignore[attr-defined]

    def _raw(self, stream: Stream | None) -> Any:
        return (stream or self._default).raw  # type: ignore[attr-defined, union-attr]
