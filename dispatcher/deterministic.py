"""Deterministic mode: kernels whose results repeat bit for bit, whatever the order threads run in.

Only scatters combine in an order that threads decide, by atomic additions; in this mode their
kernels walk each line in the index's order. All else repeats by construction: reductions and scans
are cut into parts by the shape alone, and random numbers are counted.
"""

from __future__ import annotations

from halon.dispatcher.select import clear_plans


class _Mode:
    on = False
    warn_only = False


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Whether operators must give the same bits for the same program and inputs on a device.

    Args:
        mode: on or off.
        warn_only: accepted for programs that set it; halon has a deterministic kernel for every
            operator, so there is nothing to warn about or refuse.

    >>> import halon
    >>> halon.use_deterministic_algorithms(True)
    >>> halon.are_deterministic_algorithms_enabled()
    True
    >>> halon.use_deterministic_algorithms(False)
    """
    if not isinstance(mode, bool):
        raise TypeError(
            f"use_deterministic_algorithms(): mode must be bool, not {type(mode).__name__}"
        )
    _Mode.on, _Mode.warn_only = mode, mode and warn_only
    clear_plans()  # a plan is for one mode


def are_deterministic_algorithms_enabled() -> bool:
    """Whether deterministic mode is on."""
    return _Mode.on


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What ``warn_only`` was set to while the mode is on."""
    return _Mode.warn_only


def attributes() -> dict[str, bool]:
    """What a scatter's kernel is told."""
    return {"deterministic": True} if _Mode.on else {}
