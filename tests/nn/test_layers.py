"""Layers give torch's outputs and gradients for torch's weights."""

import pytest
import torch

import halon
from halon import nn


def to_halon(t, grad=False):
    return halon.tensor(t.detach().numpy(), requires_grad=grad)


def to_torch(t):
    return torch.from_numpy(t.detach().cpu().numpy().copy())


def compare(layer, shape, steps=1, training=True, scale=1.0):
    """Both libraries on the same weights and inputs: outputs, gradients and state must agree."""
    torch.manual_seed(0)
    theirs = layer(torch.nn).train(training)
    ours = layer(nn).train(training)
    ours.load_state_dict({k: to_halon(v) for k, v in theirs.state_dict().items()})
    for _ in range(steps):
        x = (torch.randn(shape) * scale).requires_grad_()
        y = to_halon(x, grad=True)
        expected, found = theirs(x), ours(y)
        torch.testing.assert_close(to_torch(found), expected.detach())
        weights = torch.randn(expected.shape)
        (expected * weights).sum().backward()
        (found * to_halon(weights)).sum().backward()
        torch.testing.assert_close(to_torch(y.grad), x.grad)
    for (name, p), q in zip(theirs.named_parameters(), ours.parameters(), strict=True):
        torch.testing.assert_close(
            to_torch(q.grad), p.grad, msg=lambda m, name=name: f"{name}: {m}"
        )
    for name, expected in theirs.state_dict().items():
        torch.testing.assert_close(to_torch(ours.state_dict()[name]), expected)


@pytest.mark.parametrize("shape", [(3,), (5, 3), (2, 4, 3)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(shape, bias):
    compare(lambda lib: lib.Linear(3, 2, bias=bias), shape)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": 2, "padding": 1},
        {"padding": (2, 1), "dilation": (1, 2)},
        {"groups": 2},
        {"groups": 4, "bias": False},
        {"padding": "same"},
        {"padding": "valid", "stride": (1, 2)},
    ],
    ids=str,
)
@pytest.mark.parametrize("kernel", [3, (2, 4), 1])
def test_conv2d(options, kernel):
    compare(lambda lib: lib.Conv2d(4, 8, kernel, **options), (2, 4, 9, 8))


def test_conv2d_takes_an_image_without_a_batch():
    compare(lambda lib: lib.Conv2d(2, 3, 3), (2, 5, 6))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"momentum": None},
        {"affine": False},
        {"track_running_stats": False},
        {"eps": 0.1, "momentum": 0.3, "bias": False},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("name", "shape"),
    [("BatchNorm1d", (6, 3)), ("BatchNorm1d", (2, 3, 5)), ("BatchNorm2d", (4, 3, 2, 5))],
)
def test_batch_norm(name, shape, options, training):
    compare(
        lambda lib: getattr(lib, name)(3, **options), shape, steps=3, training=training, scale=3
    )


def test_batch_norm_refuses_other_ranks_and_a_single_value():
    with pytest.raises(ValueError, match="expected 4D input"):
        nn.BatchNorm2d(3)(halon.zeros(2, 3))
    with pytest.raises(ValueError, match="expected 2D or 3D input"):
        nn.BatchNorm1d(3)(halon.zeros(3))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        nn.BatchNorm1d(3)(halon.zeros(1, 3))


@pytest.mark.parametrize(
    "layer",
    [
        lambda lib: lib.ReLU(),
        lambda lib: lib.Sigmoid(),
        lambda lib: lib.Tanh(),
        lambda lib: lib.Softmax(dim=1),
        lambda lib: lib.Softmax(dim=-1),
        lambda lib: lib.LogSoftmax(dim=0),
        lambda lib: lib.Flatten(),
        lambda lib: lib.Flatten(0, 1),
        lambda lib: lib.Identity(),
        lambda lib: lib.Dropout(0.0),
    ],
)
def test_layers_without_weights(layer):
    compare(layer, (3, 4, 5))


def test_relu_in_place_writes_into_its_input():
    x = halon.tensor([-1.0, 2.0])
    assert nn.ReLU(inplace=True)(x) is x
    assert x.tolist() == [0.0, 2.0]


def test_softmax_without_a_dimension_warns_and_takes_torchs():
    for shape in [(3,), (2, 3), (2, 3, 4), (2, 3, 1, 2)]:
        x = torch.randn(shape)
        with pytest.warns(UserWarning, match="Implicit dimension"):
            found = nn.Softmax()(to_halon(x))
        with pytest.warns(UserWarning, match="Implicit dimension"):
            expected = torch.nn.Softmax()(x)
        torch.testing.assert_close(to_torch(found), expected)


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 2},
        {"kernel_size": 3, "stride": 1, "padding": 1},
        {"kernel_size": (2, 3), "stride": (1, 2)},
        {"kernel_size": 3, "ceil_mode": True},
        {"kernel_size": 2, "dilation": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("shape", [(2, 3, 8, 9), (3, 7, 7)])
def test_max_pool2d(options, shape):
    compare(lambda lib: lib.MaxPool2d(**options), shape)


def test_max_pool2d_returns_flat_positions():
    x = torch.randn(2, 3, 6, 6)
    values, positions = nn.MaxPool2d(2, return_indices=True)(to_halon(x))
    expected, at = torch.nn.MaxPool2d(2, return_indices=True)(x)
    torch.testing.assert_close(to_torch(values), expected)
    assert positions.tolist() == at.tolist()


def test_dropout_zeroes_its_share_scales_the_rest_and_follows_the_seed():
    halon.manual_seed(3)
    x = halon.ones(100, 100)
    layer = nn.Dropout(0.3)
    once = layer(x)
    kept = to_torch(once)
    assert sorted(kept.unique().tolist()) == [0.0, pytest.approx(1 / 0.7)]
    assert 0.28 < (kept == 0).float().mean().item() < 0.32
    halon.manual_seed(3)
    assert layer(x).tolist() == once.tolist()
    assert layer.eval()(x).tolist() == x.tolist()


def test_dropout_of_everything_is_zero_and_passes_no_gradient():
    x = halon.ones(4, requires_grad=True)
    nn.Dropout(1.0)(x).sum().backward()
    assert x.grad.tolist() == [0.0] * 4


def test_dropout_in_place_writes_into_its_input():
    x = halon.ones(50)
    assert nn.Dropout(0.5, inplace=True)(x) is x
    assert set(x.tolist()) == {0.0, 2.0}


def test_a_whole_network_has_torchs_gradients():
    def network(lib):
        return lib.Sequential(
            lib.Conv2d(1, 4, 3, padding=1),
            lib.BatchNorm2d(4),
            lib.ReLU(),
            lib.MaxPool2d(2),
            lib.Flatten(),
            lib.Linear(64, 10),
        )

    compare(network, (6, 1, 8, 8), steps=2)
