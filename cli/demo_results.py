"""What the demo found out about a device."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Training:
    """What one device did; ``error`` is empty if it got to the end.

    ``losses`` has one mean per epoch. Speed leaves out the first epoch, in which kernels compile,
    unless it is the only one.
    """

    device: str
    losses: list[float] = field(default_factory=list)
    accuracy: float = 0.0
    images_per_second: float = 0.0
    ms_per_step: float = 0.0
    seconds: float = 0.0
    fallback_share: float = 0.0
    fallback_report: str = ""
    weights: str = ""
    error: str = ""


@dataclass
class Agreement:
    """Predictions of the first device's weights on ``device``: ``equal`` of ``total`` agree."""

    device: str
    equal: int = 0
    total: int = 0
    largest_difference: float = 0.0
    note: str = ""

    @property
    def complete(self) -> bool:
        return self.equal == self.total and not self.note
