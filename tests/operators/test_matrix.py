"""Every operator × dtype × form of its operands on every device, against torch.

A run takes one part of the cells, chosen by the commit, so that a few commits see them all;
``HALON_TEST_FULL=1`` takes everything, and ``bench/prove_ops.py`` writes that down.
"""

from __future__ import annotations

import os
import subprocess
import zlib
from functools import cache
from pathlib import Path

import pytest

from tests.operators import matrix
from tests.operators.exceptions import EXCEPTIONS

_SHARDS = 16
OPERATORS = [op.name for op in matrix.records()]


@cache
def shard() -> int | None:
    """The part of the cells this run takes; None: all."""
    if os.environ.get("HALON_TEST_FULL"):
        return None
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return int(done.stdout.strip() or "0", 16) % _SHARDS


@pytest.mark.parametrize("name", OPERATORS)
def test_operator(name: str, device: str) -> None:
    part = shard()
    failed = {}
    for cell in matrix.cells((device,), (name,)):
        if part is not None and zlib.crc32(str(cell).encode()) % _SHARDS != part:
            continue
        outcome = matrix.run(cell)
        if outcome.status == "fail":
            failed[str(cell)] = outcome.note
    assert not failed, f"seed {part} of {_SHARDS}: {failed}"


def test_there_are_enough_operators() -> None:
    assert len(OPERATORS) >= 120


def test_every_exception_names_an_operator_and_says_why() -> None:
    for name, dtypes, forms, why in EXCEPTIONS:
        assert name in OPERATORS
        assert dtypes <= set(matrix.DTYPES)
        assert forms <= set(matrix.FORMS)
        assert len(why) > 20
