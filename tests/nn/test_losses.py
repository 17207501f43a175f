"""Losses and nn.functional against torch, with gradients."""

import itertools

import pytest
import torch
import torch.nn.functional as TF

import halon
import halon.nn.functional as F
from halon import nn

SHAPES = [(7, 5), (3, 5, 4), (2, 5, 3, 2), (5,)]
REDUCTIONS = ["none", "mean", "sum"]


def to_halon(t, grad=False):
    return None if t is None else halon.tensor(t.detach().numpy(), requires_grad=grad)


def to_torch(t):
    return torch.from_numpy(t.detach().cpu().numpy().copy())


def compare(ours, theirs, x):
    """``ours(halon x)`` and ``theirs(torch x)`` agree in value and gradient."""
    a, b = to_halon(x, grad=True), x.clone().requires_grad_()
    found, expected = ours(a), theirs(b)
    torch.testing.assert_close(to_torch(found), expected.detach())
    found.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(to_torch(a.grad), b.grad)


def classes(shape, ignored=True):
    target = torch.randint(0, 5, shape[:1] + shape[2:] if len(shape) > 1 else ())
    if ignored and target.dim():
        target.view(-1)[0] = -100
    return target


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("shape", "reduction"), list(itertools.product(SHAPES, REDUCTIONS)))
def test_cross_entropy_of_classes(shape, reduction, weighted, smoothing):
    torch.manual_seed(0)
    target, weight = classes(shape), torch.rand(5) if weighted else None
    options = {"reduction": reduction, "label_smoothing": smoothing}
    compare(
        lambda x: nn.CrossEntropyLoss(to_halon(weight), **options)(x, to_halon(target)),
        lambda x: torch.nn.CrossEntropyLoss(weight, **options)(x, target),
        torch.randn(shape) * 3,
    )


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("shape", "reduction"), list(itertools.product(SHAPES, REDUCTIONS)))
def test_cross_entropy_of_probabilities(shape, reduction, weighted, smoothing):
    torch.manual_seed(1)
    target = torch.softmax(torch.randn(shape), 0 if len(shape) == 1 else 1)
    weight = torch.rand(5) if weighted else None
    options = {"reduction": reduction, "label_smoothing": smoothing}
    compare(
        lambda x: F.cross_entropy(x, to_halon(target), to_halon(weight), **options),
        lambda x: TF.cross_entropy(x, target, weight, **options),
        torch.randn(shape),
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("shape", "reduction"), list(itertools.product(SHAPES, REDUCTIONS)))
def test_nll_loss(shape, reduction, weighted):
    torch.manual_seed(2)
    target, weight = classes(shape), torch.rand(5) if weighted else None
    compare(
        lambda x: nn.NLLLoss(to_halon(weight), reduction=reduction)(x, to_halon(target)),
        lambda x: torch.nn.NLLLoss(weight, reduction=reduction)(x, target),
        torch.log_softmax(torch.randn(shape), -1),
    )


def test_another_ignored_class_does_not_count():
    x, target = torch.randn(6, 5), torch.tensor([0, 1, 2, 3, 4, 1])
    compare(
        lambda x: nn.CrossEntropyLoss(ignore_index=1)(x, to_halon(target)),
        lambda x: torch.nn.CrossEntropyLoss(ignore_index=1)(x, target),
        x,
    )


def test_extreme_logits_stay_finite():
    x = torch.tensor([[1000.0, -1000.0], [-1000.0, 1000.0]])
    target = torch.tensor([0, 0])
    found = F.cross_entropy(to_halon(x), to_halon(target), reduction="none")
    assert found.tolist() == TF.cross_entropy(x, target, reduction="none").tolist()


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss"])
def test_element_losses(name, reduction):
    target = torch.randn(3, 4)
    compare(
        lambda x: getattr(F, name)(x, to_halon(target), reduction=reduction),
        lambda x: getattr(TF, name)(x, target, reduction=reduction),
        torch.randn(3, 4),
    )


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_a_weighted_mse_loss(reduction):
    target, weight = torch.randn(3, 4), torch.rand(3, 4)
    compare(
        lambda x: F.mse_loss(x, to_halon(target), reduction=reduction, weight=to_halon(weight)),
        lambda x: TF.mse_loss(x, target, reduction=reduction, weight=weight),
        torch.randn(3, 4),
    )


def test_shapes_that_broadcast_warn():
    with pytest.warns(UserWarning, match="different to the input size"):
        nn.MSELoss()(halon.zeros(3, 1), halon.zeros(3))


def test_the_older_spelling_of_reduction_still_works():
    with pytest.warns(UserWarning, match="reduction='sum'"):
        loss = nn.MSELoss(size_average=False)
    assert loss.reduction == "sum"
    with pytest.warns(UserWarning, match="reduction='none'"):
        assert F.mse_loss(halon.ones(2), halon.zeros(2), reduce=False).tolist() == [1.0, 1.0]


def test_mistakes_are_named():
    x, target = halon.zeros(2, 3), halon.tensor([0, 1])
    with pytest.raises(ValueError, match="most is not a valid value for reduction"):
        F.cross_entropy(x, target, reduction="most")
    with pytest.raises(RuntimeError, match="label_smoothing"):
        F.cross_entropy(x, target, label_smoothing=2.0)
    with pytest.raises(RuntimeError, match="floating point type"):
        F.cross_entropy(x, halon.zeros(2, 3, dtype=halon.int64))


def test_the_class_weights_are_a_buffer_that_moves():
    loss = nn.CrossEntropyLoss(halon.ones(3))
    assert list(loss.state_dict()) == ["weight"]
    assert loss.double().weight.dtype == halon.float64


@pytest.mark.parametrize("slope", [0.01, 0.3])
def test_leaky_relu(slope):
    compare(lambda x: F.leaky_relu(x, slope), lambda x: TF.leaky_relu(x, slope), torch.randn(4, 5))


def test_one_hot():
    labels = torch.tensor([[0, 2], [1, 3]])
    for count in (-1, 4, 6):
        found = F.one_hot(to_halon(labels), count)
        assert found.tolist() == TF.one_hot(labels, count).tolist()
        assert found.dtype == halon.int64
    for bad in (halon.tensor([-1]), halon.tensor([1.0]), halon.zeros(0, dtype=halon.int64)):
        with pytest.raises(RuntimeError):
            F.one_hot(bad)
    with pytest.raises(RuntimeError, match="smaller than num_classes"):
        F.one_hot(halon.tensor([3]), 2)


def test_softmax_converts_first_where_a_dtype_is_given():
    x = torch.randn(3, 4)
    found = F.softmax(to_halon(x), 1, dtype=halon.float64)
    torch.testing.assert_close(to_torch(found), TF.softmax(x, 1, dtype=torch.float64))
