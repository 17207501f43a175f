"""Draws of every distribution: moments, ranges, errors, equality across devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import halon

N = 100_000


def filled(name: str, *params: float) -> Callable[[Any], Any]:
    return lambda d: getattr(halon.empty(N, dtype=halon.float64, device=d), name)(*params)


#: draw, mean, variance (None: it has none, the median is compared)
DISTRIBUTIONS: dict[str, tuple[Callable[[Any], Any], float, float | None]] = {
    "exponential": (filled("exponential_", 2.0), 0.5, 0.25),
    "geometric": (filled("geometric_", 0.25), 4.0, 12.0),
    "log_normal": (
        filled("log_normal_", 0.0, 0.5), np.exp(0.125), (np.exp(0.25) - 1) * np.exp(0.25),
    ),
    "cauchy": (filled("cauchy_", 3.0, 0.5), 3.0, None),
    "uniform": (filled("uniform_", -1.0, 3.0), 1.0, 16 / 12),
    "poisson": (lambda d: halon.poisson(halon.full((N,), 3.5, device=d)), 3.5, 3.5),
    "binomial": (
        lambda d: halon.binomial(halon.full((N,), 10.0, device=d), halon.full((N,), 0.3, device=d)),
        3.0, 2.1,
    ),
    "normal": (lambda d: halon.normal(2.0, 3.0, (N,), device=d), 2.0, 9.0),
    "bernoulli": (lambda d: halon.bernoulli(halon.full((N,), 0.2, device=d)), 0.2, 0.16),
    "multinomial": (
        lambda d: halon.multinomial(halon.tensor([1.0, 2.0, 1.0], device=d), N, True), 1.0, 0.5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_moments_are_those_of_the_distribution(name: str) -> None:
    draw, mean, variance = DISTRIBUTIONS[name]
    halon.manual_seed(5)
    x = draw("cpu").double().numpy()
    assert x.shape == (N,)
    if variance is None:
        assert abs(np.median(x) - mean) < 0.02
        return
    deviation = np.sqrt(variance)
    assert abs(x.mean() - mean) < 5 * deviation / np.sqrt(N)
    kurtosis = ((x - mean) ** 4).mean()
    assert abs(((x - mean) ** 2).mean() - variance) < 5 * np.sqrt(kurtosis / N)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_one_seed_gives_one_sequence_on_every_device(name: str, device: str) -> None:
    draw = DISTRIBUTIONS[name][0]
    halon.manual_seed(9)
    first, second = (draw("cpu").double().numpy() for _ in range(2))
    assert not np.array_equal(first, second)
    halon.manual_seed(9)
    there = draw(device).double().cpu().numpy()
    if name == "normal":  # cos and log differ in the last places
        np.testing.assert_allclose(there, first, 1e-5, 1e-5)
    else:
        np.testing.assert_array_equal(there, first)


def test_multinomial_without_replacement_draws_each_index_once() -> None:
    halon.manual_seed(1)
    weights = halon.rand(20, 9)
    weights[:, 4] = 0
    drawn = halon.multinomial(weights, 8).numpy()
    assert all(sorted(row) == [0, 1, 2, 3, 5, 6, 7, 8] for row in drawn.tolist())
    first = halon.multinomial(halon.tensor([1.0, 3.0]).expand(N, 2), 1).numpy()
    assert abs(first.mean() - 0.75) < 5 * np.sqrt(0.1875 / N)


BAD: dict[str, Callable[[], Any]] = {
    "rate": lambda: halon.poisson(halon.tensor([-1.0])),
    "sum of probabilities <= 0": lambda: halon.multinomial(halon.zeros(3), 1),
    "without replacement": lambda: halon.multinomial(halon.ones(3), 4),
    "`inf`, `nan` or element < 0": lambda: halon.multinomial(halon.tensor([-1.0, 2.0]), 1),
    "lambda > 0.0": lambda: halon.ones(2).exponential_(0.0),
    "p to be in": lambda: halon.ones(2).geometric_(1.0),
    "std >= 0.0": lambda: halon.normal(0.0, -1.0, (2,)),
    "counts must be whole": lambda: halon.binomial(halon.tensor([1.5]), halon.tensor([0.5])),
}


@pytest.mark.parametrize("text", BAD)
def test_bad_parameters_are_named(text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        BAD[text]()


def test_integers_are_refused_with_the_sampler_named() -> None:
    with pytest.raises(NotImplementedError, match="exponential_"):
        halon.ones(2, dtype=halon.int64).exponential_()


def test_state_is_restored_after_a_fork() -> None:
    halon.manual_seed(2)
    expected = halon.rand(5).numpy()
    halon.manual_seed(2)
    with halon.random.fork_rng():
        halon.poisson(halon.ones(5))
        halon.rand(7)
    np.testing.assert_array_equal(halon.rand(5).numpy(), expected)
