"""In-place writes through views under autograd, against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import halon
from halon.testing import assert_close

Program = Callable[[Any, Any, Any], Any]


def write_a_row(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    y[0] = w * 3
    return (y * y).sum()


def write_a_number(lib: Any, x: Any, w: Any) -> Any:
    y = x * x
    y[:, 1] = 5.0
    return (y * x).sum()


def multiply_a_slice(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    y[1:, ::2].mul_(w[::2])
    return (y * x).sum()


def an_older_view_sees_the_write(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    v = y[0]
    y.mul_(3)
    return (v * w).sum()


def a_sibling_view_sees_the_write(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    a, b = y[0], y.t()[1]
    a.mul_(w)
    return (b * b).sum() + a.sum()


def a_view_of_a_view(lib: Any, x: Any, w: Any) -> Any:
    y = x * 2
    y[1:][0].add_(w)
    y[1][2] = w[0] * w[1]
    return (y * y).sum()


def a_base_without_history_gains_one(lib: Any, x: Any, w: Any) -> Any:
    y = lib.zeros(2, 4)
    y[0] = w
    y[1] = w * x[0]
    return (y * y).sum()


def twice_in_a_row(lib: Any, x: Any, w: Any) -> Any:
    y = x + 0
    for i in range(3):
        y[i].mul_(w)
        y[:, i].add_(w[0])
    return y.sum()


PROGRAMS = [
    write_a_row, write_a_number, multiply_a_slice, an_older_view_sees_the_write,
    a_sibling_view_sees_the_write, a_view_of_a_view, a_base_without_history_gains_one,
    twice_in_a_row,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_are_torchs(program: Program, device: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(0.2, 0.9, s).astype("f4") for s in ((3, 4), (4,))]

    class OnDevice:
        @staticmethod
        def zeros(*shape: int) -> Any:
            return halon.zeros(*shape, device=device)

    ours = [halon.tensor(a, requires_grad=True, device=device) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    program(OnDevice, *ours).backward()
    program(torch, *theirs).backward()
    for a, b in zip(ours, theirs, strict=True):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            assert_close(a.grad, b.grad, terms=8)


@pytest.mark.parametrize("program", PROGRAMS)
def test_second_derivatives_agree_with_differences(program: Program) -> None:
    rng = np.random.default_rng(0)
    args = [halon.tensor(rng.uniform(0.2, 0.9, s), requires_grad=True) for s in ((3, 4), (4,))]

    class Double:
        @staticmethod
        def zeros(*shape: int) -> Any:
            return halon.zeros(*shape, dtype=halon.float64)

    assert halon.autograd.gradcheck(lambda *a: program(Double, *a), args)
    assert halon.autograd.gradgradcheck(lambda *a: program(Double, *a), args)


def test_a_view_of_a_leaf_that_requires_grad_is_refused() -> None:
    x = halon.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="view of a leaf Variable"):
        x[0] = 1.0
    with halon.no_grad():
        x[0] = 5.0
    assert x.tolist() == [5, 1, 1]


def test_what_cannot_be_expressed_is_refused_not_wrong() -> None:
    y = halon.ones(3, requires_grad=True) * 2
    repeated = y.expand(2, 3)
    y.mul_(3)
    with pytest.raises(RuntimeError, match="take the view again"):
        repeated.sum()
