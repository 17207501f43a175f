"""What a call costs above its kernel: tiny operators, halon beside torch in one process.

``python bench/eager_overhead.py`` prints halon's time over torch's: below 1 halon is faster. Both
are interleaved and the minimum of many repeats is kept, one thread each.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

import halon

REPEATS, CALLS = 30, 500


def best(functions: list[Callable[[], object]]) -> list[float]:
    """Nanoseconds per call of each function, interleaved."""
    lowest = [float("inf")] * len(functions)
    for _ in range(REPEATS):
        for i, f in enumerate(functions):
            begin = time.perf_counter_ns()
            for _ in range(CALLS):
                f()
            lowest[i] = min(lowest[i], (time.perf_counter_ns() - begin) / CALLS)
    return lowest


def cases(lib: object) -> dict[str, Callable[[], object]]:
    """The same expressions on either library."""
    x, y = lib.ones(4), lib.ones(4)  # type: ignore[attr-defined]
    m = lib.ones(2, 2)  # type: ignore[attr-defined]
    w = lib.ones(4, requires_grad=True)  # type: ignore[attr-defined]

    def step() -> None:
        w.grad = None
        (x * w + y).relu().sum().backward()

    return {
        "x + y": lambda: x + y,
        "x.add_(y)": lambda: x.add_(y),
        "x.relu()": lambda: x.relu(),
        "x * 2.0": lambda: x * 2.0,
        "2x2 @ 2x2": lambda: m @ m,
        "x + w, recorded": lambda: x + w,
        "(x*w+y).relu().sum() forward and backward": step,
    }


def main() -> None:
    torch.set_num_threads(1)
    ours, theirs = cases(halon), cases(torch)
    print(f"{'case':<44}{'torch ns':>10}{'halon ns':>10}{'ratio':>8}")
    for name in ours:
        a, b = best([theirs[name], ours[name]])
        print(f"{name:<44}{a:>10.0f}{b:>10.0f}{b / a:>8.2f}")


if __name__ == "__main__":
    main()
