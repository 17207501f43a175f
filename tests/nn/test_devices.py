"""Modules, losses and optimizers on every device give the host's numbers."""

import copy

import pytest
import torch

import halon
from halon import nn, optim
from halon.nn.safetensors_io import load_file, save_file


def network():
    return nn.Sequential(
        # no bias: batch norm cancels it, so its gradient is rounding noise that Adam would amplify
        nn.Conv2d(1, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 5),
    )


def on_host(t):
    return torch.from_numpy(t.detach().cpu().numpy().copy())


def train(model, device, steps=5):
    """A few steps of Adam on fixed data; the losses."""
    images = halon.randn(12, 1, 4, 4, generator=halon.Generator().manual_seed(1)).to(device)
    labels = (halon.arange(12) % 5).to(device)
    optimizer, loss_fn, losses = optim.Adam(model.parameters(), lr=0.01), nn.CrossEntropyLoss(), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_fn(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, optimizer


def test_moving_keeps_parameter_identity_and_moves_gradients_and_buffers(device):
    model = network()
    before = list(model.parameters())
    before[0].grad = halon.ones_like(before[0])
    assert model.to(device) is model
    assert all(a is b for a, b in zip(before, model.parameters(), strict=True))
    where = halon.zeros(1).to(device).device
    assert {str(t.device) for t in model.state_dict().values()} == {str(where)}
    assert before[0].grad.device == where
    model.cpu()
    assert before[0].device == before[0].grad.device == halon.zeros(1).device


def test_training_follows_the_hosts(device):
    halon.manual_seed(0)
    here = network()
    there = copy.deepcopy(here).to(device)
    expected, _ = train(here, "cpu")
    found, optimizer = train(there, device)
    torch.testing.assert_close(torch.tensor(found), torch.tensor(expected))
    for a, b in zip(here.state_dict().values(), there.state_dict().values(), strict=True):
        torch.testing.assert_close(on_host(b), on_host(a))
    (state, *_) = optimizer.state.values()
    assert state["exp_avg"].device == there[0].weight.device
    assert state["step"].device == halon.zeros(1).device


def test_layers_made_on_a_device_are_there_and_start_alike(device):
    layer = nn.Linear(300, 200, device=device)
    assert layer.weight.device == halon.zeros(1).to(device).device
    values = on_host(layer.weight)
    assert 0.95 / 300**0.5 < values.abs().max().item() <= 1.000001 / 300**0.5
    assert nn.BatchNorm2d(3, device=device).running_var.device == layer.weight.device


def test_weights_go_through_a_file_to_a_device(device, tmp_path):
    halon.manual_seed(0)
    first = network()
    save_file(first.to(device).state_dict(), tmp_path / "w")
    second = network().to(device)
    second.load_state_dict(load_file(tmp_path / "w", device))
    for a, b in zip(first.state_dict().values(), second.state_dict().values(), strict=True):
        assert a.device == b.device
        assert a.tolist() == b.tolist()


def test_a_state_on_the_host_loads_into_a_model_elsewhere(device):
    model = network().to(device)
    model.load_state_dict(network().state_dict())
    assert model[0].weight.device == halon.zeros(1).to(device).device


def test_optimizer_state_loads_onto_its_parameters_device(device):
    here, there = network(), network().to(device)
    _, saved = train(here, "cpu", 1)
    optimizer = optim.Adam(there.parameters())
    optimizer.load_state_dict(saved.state_dict())
    (state, *_) = optimizer.state.values()
    assert state["exp_avg"].device == there[0].weight.device


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_each_optimizer_steps_on_a_device(device, name):
    p = halon.ones(3, device=device, requires_grad=True)
    optimizer = getattr(optim, name)([p], lr=0.5)
    (p * 2).sum().backward()
    optimizer.step()
    assert all(value < 1.0 for value in p.tolist())
