"""Optimizers: torch's trajectories, state layout, groups and errors."""

import copy
import pickle

import pytest
import torch

import halon
from halon import optim

CASES = {
    "sgd": ("SGD", {"lr": 0.05}),
    "sgd momentum": ("SGD", {"lr": 0.01, "momentum": 0.9}),
    "sgd decay": ("SGD", {"lr": 0.05, "weight_decay": 0.1}),
    "sgd dampening": ("SGD", {"lr": 0.01, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.01}),
    "sgd nesterov": ("SGD", {"lr": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "sgd maximize": ("SGD", {"lr": 0.001, "momentum": 0.5, "maximize": True}),
    "adam": ("Adam", {}),
    "adam options": ("Adam", {"lr": 0.02, "betas": (0.5, 0.9), "eps": 1e-3, "weight_decay": 0.1}),
    "adam amsgrad": ("Adam", {"lr": 0.1, "amsgrad": True}),
    "adam maximize": ("Adam", {"lr": 0.01, "maximize": True}),
    "adam decoupled": ("Adam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    "adamw": ("AdamW", {"lr": 0.05}),
    "adamw amsgrad": ("AdamW", {"lr": 0.05, "amsgrad": True, "weight_decay": 0.3}),
}


def params():
    torch.manual_seed(0)
    theirs = [torch.randn(4, 3, requires_grad=True), torch.randn(5, requires_grad=True)]
    ours = [halon.tensor(p.detach().numpy(), requires_grad=True) for p in theirs]
    return ours, theirs


def loss(pair):
    return (pair[0] ** 2).sum() + pair[1].exp().sum() + (pair[0].sum() * pair[1]).mean()


def step(optimizer, pair):
    optimizer.zero_grad()
    loss(pair).backward()
    optimizer.step()


def assert_same(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(torch.from_numpy(a.detach().numpy().copy()), b.detach())


@pytest.mark.parametrize("case", CASES)
def test_twenty_steps_follow_torchs(case):
    name, options = CASES[case]
    ours, theirs = params()
    a = getattr(optim, name)(ours, **options)
    b = getattr(torch.optim, name)(theirs, **options)
    for _ in range(20):
        step(a, ours)
        step(b, theirs)
        assert_same(ours, theirs)
    assert repr(a) == repr(b)


@pytest.mark.parametrize("case", CASES)
def test_state_goes_to_torch_and_back_in_the_middle_of_training(case):
    name, options = CASES[case]
    ours, theirs = params()
    a = getattr(optim, name)(ours, **options)
    b = getattr(torch.optim, name)(theirs, **options)
    for _ in range(3):
        step(a, ours)
        step(b, theirs)
    saved_a, saved_b = a.state_dict(), b.state_dict()
    assert saved_a["param_groups"] == saved_b["param_groups"]
    assert {k: list(v) for k, v in saved_a["state"].items()} == {
        k: list(v) for k, v in saved_b["state"].items()
    }
    b.load_state_dict(convert(saved_a, lambda t: torch.from_numpy(t.cpu().numpy().copy())))
    a.load_state_dict(convert(saved_b, lambda t: halon.tensor(t.numpy())))
    for _ in range(3):
        step(a, ours)
        step(b, theirs)
    assert_same(ours, theirs)


def convert(value, tensor):
    if isinstance(value, dict):
        return {k: convert(v, tensor) for k, v in value.items()}
    if isinstance(value, list):
        return [convert(v, tensor) for v in value]
    return tensor(value) if isinstance(value, torch.Tensor | halon.Tensor) else value


def test_loading_copies_and_casts_to_the_parameter():
    p = halon.zeros(2, requires_grad=True, dtype=halon.float64)
    optimizer = optim.Adam([p])
    p.grad = halon.ones(2, dtype=halon.float64)
    optimizer.step()
    saved = optimizer.state_dict()
    other = optim.Adam([halon.zeros(2, requires_grad=True)])
    other.load_state_dict(saved)
    (state,) = other.state.values()
    assert state["exp_avg"].dtype == halon.float32
    assert state["step"].item() == 1
    state["exp_avg"].zero_()
    assert saved["state"][0]["exp_avg"].abs().sum().item() > 0


def test_groups_have_their_own_options():
    a, b = halon.ones(1, requires_grad=True), halon.ones(1, requires_grad=True)
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 0.0}], lr=0.5)
    for p in (a, b):
        p.grad = halon.ones(1)
    optimizer.step()
    assert (a.item(), b.item()) == (0.5, 1.0)
    optimizer.add_param_group({"params": [halon.ones(1, requires_grad=True)], "lr": 3.0})
    assert [g["lr"] for g in optimizer.param_groups] == [0.5, 0.0, 3.0]
    assert [g["params"] for g in optimizer.state_dict()["param_groups"]] == [[0], [1], [2]]


def test_named_parameters_are_remembered():
    layer = halon.nn.Linear(2, 1)
    optimizer = optim.SGD(layer.named_parameters(), lr=0.1)
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    assert optimizer.param_groups[0]["params"][0] is layer.weight


def test_the_closure_is_run_with_gradients_and_its_value_returned():
    p = halon.ones(1, requires_grad=True)
    optimizer = optim.SGD([p], lr=0.1)

    def closure():
        optimizer.zero_grad()
        value = (p * p).sum()
        value.backward()
        return value

    with halon.no_grad():
        assert optimizer.step(closure).item() == 1.0
    assert p.item() == pytest.approx(0.8)


def test_parameters_without_a_gradient_are_left_alone():
    p = halon.ones(1, requires_grad=True)
    optimizer = optim.Adam([p])
    optimizer.step()
    assert p.item() == 1.0
    assert optimizer.state_dict()["state"] == {}


def test_zero_grad_drops_or_fills():
    p = halon.ones(1, requires_grad=True)
    optimizer = optim.SGD([p])
    (p * 2).sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.item() == 0
    optimizer.zero_grad()
    assert p.grad is None


def test_a_step_keeps_the_parameter_a_leaf_and_its_identity():
    p = halon.ones(2, requires_grad=True)
    kept = p
    optimizer = optim.Adam([p])
    (p * 2).sum().backward()
    optimizer.step()
    assert kept is p
    assert p.is_leaf
    assert p.requires_grad


@pytest.mark.parametrize(
    "action",
    [
        lambda lib, p: lib.optim.SGD(p),
        lambda lib, p: lib.optim.SGD([]),
        lambda lib, p: lib.optim.SGD([3]),
        lambda lib, p: lib.optim.SGD([{"params": {p}}]),
        lambda lib, p: lib.optim.SGD([p * 2]),
        lambda lib, p: lib.optim.SGD([p], lr=-1),
        lambda lib, p: lib.optim.SGD([p], momentum=-1),
        lambda lib, p: lib.optim.SGD([p], weight_decay=-1),
        lambda lib, p: lib.optim.SGD([p], nesterov=True),
        lambda lib, p: lib.optim.SGD([{"params": [p]}, {"params": [p]}]),
        lambda lib, p: lib.optim.SGD([p]).add_param_group([p]),
        lambda lib, p: lib.optim.SGD([("a", p), p]),
        lambda lib, p: lib.optim.Adam([p], lr=-1),
        lambda lib, p: lib.optim.Adam([p], eps=-1),
        lambda lib, p: lib.optim.Adam([p], betas=(1.0, 0.9)),
        lambda lib, p: lib.optim.Adam([p], betas=(0.9, -0.1)),
        lambda lib, p: lib.optim.AdamW([p], weight_decay=-1),
        lambda lib, p: lib.optim.SGD([p]).load_state_dict({"state": {}, "param_groups": []}),
        lambda lib, p: lib.optim.SGD([p]).load_state_dict(
            {"state": {}, "param_groups": [{"params": [0, 1]}]}
        ),
    ],
)
def test_a_mistake_raises_torchs_class(action):
    raised = []
    for lib in (halon, torch):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - the class is what is compared
            action(lib, lib.ones(2, requires_grad=True))
        raised.append(type(caught.value))
    assert raised[0] is raised[1]


def test_a_parameter_listed_twice_warns():
    p = halon.ones(1, requires_grad=True)
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optim.SGD([p, p])


@pytest.mark.parametrize("option", [{"differentiable": True}, {"capturable": True}])
def test_modes_that_halon_lacks_are_refused(option):
    with pytest.raises(NotImplementedError, match="does not exist in halon"):
        optim.Adam([halon.ones(1, requires_grad=True)], **option)


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_a_copied_optimizer_goes_on_from_its_state(copier):
    p = halon.nn.Parameter(halon.ones(2))
    optimizer = optim.Adam([p])
    p.grad = halon.ones(2)
    optimizer.step()
    twin = copier(optimizer)
    (q,) = twin.param_groups[0]["params"]
    for param, owner in ((p, optimizer), (q, twin)):
        param.grad = halon.ones(2)
        owner.step()
    assert q is not p
    assert q.tolist() == p.tolist()
