"""Initial values have torch's distributions (not its random stream)."""

import math

import pytest
import torch

import halon
from halon import nn
from halon.nn import init

COUNT = 200 * 300


def sample(fill):
    halon.manual_seed(0)
    t = halon.empty(200, 300)
    assert fill(t) is t
    return torch.from_numpy(t.numpy().copy()).double()


def uniform_bound(std):
    return math.sqrt(3.0) * std


@pytest.mark.parametrize(
    ("fill", "std"),
    [
        (lambda t: init.xavier_uniform_(t, gain=2.0), 2 * math.sqrt(2 / 500)),
        (lambda t: init.kaiming_uniform_(t), math.sqrt(2 / 300)),
        (lambda t: init.kaiming_uniform_(t, a=math.sqrt(5)), math.sqrt(1 / 3 / 300)),
        (
            lambda t: init.kaiming_uniform_(t, mode="fan_out", nonlinearity="relu"),
            math.sqrt(2 / 200),
        ),
    ],
)
def test_uniform_fills_stay_in_their_bound_and_reach_it(fill, std):
    values = sample(fill)
    bound = uniform_bound(std)
    assert values.abs().max().item() <= bound * (1 + 1e-6)
    assert values.abs().max().item() > 0.999 * bound
    assert abs(values.std().item() / std - 1) < 0.02
    assert abs(values.mean().item()) < 5 * std / math.sqrt(COUNT)


@pytest.mark.parametrize(
    ("fill", "mean", "std"),
    [
        (lambda t: init.normal_(t, 3.0, 0.5), 3.0, 0.5),
        (lambda t: init.xavier_normal_(t), 0.0, math.sqrt(2 / 500)),
        (lambda t: init.kaiming_normal_(t, nonlinearity="tanh"), 0.0, 5 / 3 / math.sqrt(300)),
    ],
)
def test_normal_fills_have_their_moments(fill, mean, std):
    values = sample(fill)
    assert abs(values.std().item() / std - 1) < 0.02
    assert abs(values.mean().item() - mean) < 5 * std / math.sqrt(COUNT)
    assert abs(((values - mean) ** 4).mean().item() / std**4 - 3) < 0.15


def test_constant_fills():
    t = halon.empty(2, 2)
    assert init.ones_(t).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert init.zeros_(t).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert init.constant_(t, 0.25).tolist() == [[0.25, 0.25], [0.25, 0.25]]
    values = sample(lambda t: init.uniform_(t, -2.0, 1.0))
    assert -2.0 <= values.min().item() < -1.99
    assert 0.99 < values.max().item() <= 1.0


def test_a_parameter_is_filled_without_recording():
    p = nn.Parameter(halon.empty(3, 3))
    init.normal_(p)
    assert p.is_leaf
    assert p.grad_fn is None


def test_a_generator_makes_a_fill_repeatable():
    first = init.normal_(halon.empty(5), generator=halon.Generator().manual_seed(4))
    second = init.normal_(halon.empty(5), generator=halon.Generator().manual_seed(4))
    assert first.tolist() == second.tolist()


def test_calculate_gain_is_torchs():
    for name in ("linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"):
        assert init.calculate_gain(name) == torch.nn.init.calculate_gain(name)
    assert init.calculate_gain("leaky_relu", 0.2) == torch.nn.init.calculate_gain("leaky_relu", 0.2)
    with pytest.raises(ValueError, match="Unsupported nonlinearity"):
        init.calculate_gain("cubic")
    with pytest.raises(ValueError, match="not a valid number"):
        init.calculate_gain("leaky_relu", True)


def test_fans_and_their_errors():
    assert init._calculate_fan_in_and_fan_out(halon.empty(8, 4, 3, 5)) == (60, 120)
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        init.xavier_normal_(halon.empty(3))
    with pytest.raises(ValueError, match="not supported"):
        init.kaiming_normal_(halon.empty(3, 3), mode="fan_sideways")
    with pytest.warns(UserWarning, match="no-op"):
        init.kaiming_uniform_(halon.empty(0, 3))


@pytest.mark.parametrize(
    ("layer", "fan_in"), [(lambda: nn.Linear(400, 300), 400), (lambda: nn.Conv2d(16, 64, 5), 400)]
)
def test_layers_start_uniform_in_one_over_root_fan_in(layer, fan_in):
    halon.manual_seed(1)
    made, bound = layer(), 1 / math.sqrt(fan_in)
    for p in (made.weight, made.bias):
        values = torch.from_numpy(p.detach().numpy().copy())
        assert 0.95 * bound < values.abs().max().item() <= bound * (1 + 1e-6)
    assert abs(values.mean().item()) < bound / 2
