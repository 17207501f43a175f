"""finfo, iinfo, can_cast and result_type are torch's."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import halon
from halon.hal import dtypes as dt

FLOATING = [d.name for d in dt.ALL if d.is_floating_point or d.is_complex]
INTEGER = [d.name for d in dt.ALL if d.kind in ("int", "uint")]


@pytest.mark.parametrize("name", FLOATING)
def test_finfo(name: str) -> None:
    mine, theirs = halon.finfo(getattr(halon, name)), torch.finfo(getattr(torch, name))
    for field in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution"):
        np.testing.assert_allclose(
            getattr(mine, field), getattr(theirs, field), 1e-12, err_msg=field
        )


@pytest.mark.parametrize("name", INTEGER)
def test_iinfo(name: str) -> None:
    mine, theirs = halon.iinfo(getattr(halon, name)), torch.iinfo(getattr(torch, name))
    assert (mine.bits, mine.max, mine.min) == (theirs.bits, theirs.max, theirs.min)
    assert repr(mine) == repr(theirs)


def test_the_wrong_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="requires a floating point"):
        halon.finfo(halon.int32)
    for dtype in (halon.float32, halon.bool):
        with pytest.raises(TypeError, match="requires an integer"):
            halon.iinfo(dtype)


def test_can_cast_every_pair() -> None:
    for a, b in itertools.product(dt.ALL, dt.ALL):
        want = torch.can_cast(getattr(torch, a.name), getattr(torch, b.name))
        assert halon.can_cast(a, b) == want, (a, b)


def test_result_type_of_tensors_and_numbers() -> None:
    for name, number in itertools.product(
        ("bool", "uint8", "int32", "float16"), (True, 2, 2.5, 1j)
    ):
        mine = halon.result_type(halon.ones(2, dtype=getattr(halon, name)), number)
        theirs = torch.result_type(torch.ones(2, dtype=getattr(torch, name)), number)
        if not mine.is_complex:  # torch has a complex32
            assert mine.name == str(theirs).removeprefix("torch.")
    assert halon.result_type(halon.tensor(1.0), halon.ones(2, dtype=halon.int64)) is halon.float32
