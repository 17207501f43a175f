"""OpenCL queues as streams, markers as events."""

from __future__ import annotations

from typing import Any

from halon.hal.driver import Event, Stream


class OpenCLStream(Stream):
    """An in-order command queue; profiling is on, which costs a launch nothing measurable."""

    def __init__(self, context: Any) -> None:
        import pyopencl as cl

        self.queue = cl.CommandQueue(
            context, properties=cl.command_queue_properties.PROFILING_ENABLE
        )

    def synchronize(self) -> None:
        self.queue.finish()


class OpenCLEvent(Event):
    """A marker in a queue. ``elapsed`` is between the ends of two markers."""

    def __init__(self, default: OpenCLStream) -> None:
        self._default = default
        self._marker: Any = None

    def record(self, stream: Stream | None = None) -> None:
        import pyopencl as cl

        queue = self._queue(stream)
        self._marker = cl.enqueue_marker(queue)
        queue.flush()  # a queue that waits for the marker does not flush this one

    def wait(self, stream: Stream | None = None) -> None:
        import pyopencl as cl

        if self._marker is not None:
            cl.enqueue_barrier(self._queue(stream), wait_for=[self._marker])

    def query(self) -> bool:
        import pyopencl as cl

        done = cl.command_execution_status.COMPLETE
        return self._marker is None or self._marker.command_execution_status == done

    def synchronize(self) -> None:
        if self._marker is not None:
            self._marker.wait()

    def elapsed(self, later: Event) -> float:
        first, second = self._marker, later._marker  # type: ignore[attr-defined]
        if first is None or second is None:
            raise ValueError("elapsed() needs two recorded events")
        first.wait()
        second.wait()
        return (second.profile.end - first.profile.end) / 1e6

    def _queue(self, stream: Stream | None) -> Any:
        return (stream or self._default).queue  # type: ignore[attr-defined, union-attr]
