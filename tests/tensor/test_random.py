"""Random numbers: equal on every device, repeatable, and of the promised distributions."""

from __future__ import annotations

import numpy as np
import pytest

import halon
from halon.testing import assert_close

DRAWS = {
    "rand": lambda d: halon.rand(1000, device=d),
    "rand64": lambda d: halon.rand(1000, dtype=halon.float64, device=d),
    "rand16": lambda d: halon.rand(1000, dtype=halon.float16, device=d),
    "randint": lambda d: halon.randint(-5, 1000, (999,), device=d),
    "randperm": lambda d: halon.randperm(1000, device=d),
    "bernoulli": lambda d: halon.bernoulli(halon.full((1000,), 0.3, device=d)),
}


@pytest.mark.parametrize("draw", DRAWS)
def test_one_seed_gives_equal_numbers_on_every_device(draw: str, device: str) -> None:
    halon.manual_seed(7)
    expected = DRAWS[draw]("cpu").numpy()
    halon.manual_seed(7)
    np.testing.assert_array_equal(DRAWS[draw](device).cpu().numpy(), expected)


def test_normal_numbers_agree_between_devices_within_the_tolerance(device: str) -> None:
    halon.manual_seed(3)
    expected = halon.randn(2000)
    halon.manual_seed(3)
    assert_close(halon.randn(2000, device=device), expected)


def test_moments() -> None:
    halon.manual_seed(0)
    u, n = halon.rand(200_000).numpy(), halon.randn(200_000).numpy()
    assert u.min() >= 0
    assert u.max() < 1
    assert abs(u.mean() - 0.5) < 5 * np.sqrt(1 / 12 / u.size)
    assert abs(n.mean()) < 5 / np.sqrt(n.size)
    assert abs(n.var() - 1) < 5 * np.sqrt(2 / n.size)
    assert len(np.unique(u)) > 0.98 * u.size


def test_state_can_be_saved_and_restored() -> None:
    halon.manual_seed(1)
    halon.rand(3)
    state = halon.get_rng_state()
    first = halon.rand(5)
    halon.set_rng_state(state)
    assert halon.rand(5).equal(first)
    assert halon.initial_seed() == 1


def test_randperm_is_a_permutation() -> None:
    assert sorted(halon.randperm(257).tolist()) == list(range(257))


def test_dropout_keeps_the_mean_and_its_gradient_follows_the_mask(device: str) -> None:
    halon.manual_seed(0)
    x = halon.ones(20_000, device=device, requires_grad=True)
    y = halon.dropout(x, 0.25)
    kept = y.detach().cpu().numpy() != 0
    assert abs(kept.mean() - 0.75) < 5 * np.sqrt(0.25 * 0.75 / kept.size)
    y.sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.cpu().numpy(), kept / 0.75, rtol=1e-6)


def test_bad_requests_are_named() -> None:
    with pytest.raises(NotImplementedError, match="rand"):
        halon.rand(2, dtype=halon.int64)
    with pytest.raises(RuntimeError, match="expects 'from' to be less"):
        halon.randint(3, 3, (2,))
    with pytest.raises(ValueError, match="between 0 and 1"):
        halon.dropout(halon.ones(2), 1.5)
