"""Backward on every device: values, accumulation, versions, errors, depth."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

import halon
from halon.hal.errors import VersionError


def test_first_and_second_derivative_of_a_cubic(device: str) -> None:
    x = halon.tensor(2.0, requires_grad=True, device=device)
    y = x**3 + 2 * x
    y.backward()
    assert x.grad is not None
    assert x.grad.item() == 14
    (first,) = halon.autograd.grad(x**3 + 2 * x, x, create_graph=True)
    (second,) = halon.autograd.grad(first, x)
    assert second.item() == 12


def test_an_in_place_write_is_harmless_where_no_value_was_saved(device: str) -> None:
    leaf = halon.ones(3, requires_grad=True, device=device)
    x = leaf * 2
    y = x + 1
    x.add_(1)
    y.sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [2, 2, 2]


def test_a_stale_save_names_the_operator_and_both_lines(device: str) -> None:
    x = halon.ones(3, requires_grad=True, device=device) * 2
    y = x * x  # saves x
    x.add_(1)  # writes x
    saved = test_a_stale_save_names_the_operator_and_both_lines.__code__.co_firstlineno + 2
    with pytest.raises(VersionError) as caught:
        y.sum().backward()
    text = str(caught.value)
    assert "mul" in text
    assert "add_" in text
    assert f"test_engine.py:{saved}" in text
    assert f"test_engine.py:{saved + 1}" in text


def test_an_in_place_product_keeps_the_operand_its_gradient_needs(device: str) -> None:
    w = halon.tensor([1.0, 2.0], requires_grad=True, device=device)
    x = halon.tensor([3.0, 4.0], device=device)
    x.mul_(w)  # the gradient of w is x as it was before the write
    x.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [3, 4]


def test_gradients_accumulate_and_graphs_are_freed(device: str) -> None:
    x = halon.tensor([1.0, 2.0], requires_grad=True, device=device)
    for _ in range(2):
        (x * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4, 8]
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_two_inputs_never_share_one_gradient_buffer() -> None:
    a = halon.ones(2, requires_grad=True)
    b = halon.ones(2, requires_grad=True)
    (a + b).sum().backward()
    assert a.grad is not None
    assert b.grad is not None
    a.grad.add_(1)
    assert b.grad.tolist() == [1, 1]


def test_grad_returns_what_backward_accumulates_and_touches_nothing() -> None:
    x = halon.tensor([1.0, 2.0], requires_grad=True)
    w = halon.tensor([3.0, 4.0], requires_grad=True)
    (g,) = halon.autograd.grad((x * w).sum(), x)
    assert g.tolist() == [3, 4]
    assert x.grad is None
    assert w.grad is None
    with pytest.raises(RuntimeError, match="not have been used"):
        halon.autograd.grad((x * 2).sum(), w)
    assert halon.autograd.grad((x * 2).sum(), w, allow_unused=True) == (None,)


def test_gradient_of_an_inner_tensor() -> None:
    x = halon.tensor(3.0, requires_grad=True)
    y = x * x
    (g,) = halon.autograd.grad(y * y, y)
    assert g.item() == 18
    y.retain_grad()
    (y * y).backward()
    assert y.grad is not None
    assert y.grad.item() == 18


def test_no_grad_records_nothing_and_nests() -> None:
    x = halon.ones(2, requires_grad=True)
    with halon.no_grad():
        assert not (x * 2).requires_grad
        with halon.enable_grad():
            assert (x * 2).requires_grad
    assert (x * 2).requires_grad

    @halon.no_grad()
    def f() -> bool:
        return (x * 2).requires_grad

    assert not f()


def test_grad_mode_belongs_to_a_thread() -> None:
    seen: list[bool] = []
    with halon.no_grad():
        t = threading.Thread(target=lambda: seen.append(halon.is_grad_enabled()))
        t.start()
        t.join()
    assert seen == [True]


def test_leaves_that_require_grad_cannot_be_written(device: str) -> None:
    x = halon.ones(2, requires_grad=True, device=device)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        x.add_(1)
    with halon.no_grad():
        x.add_(1)
    assert x.tolist() == [2, 2]


def test_hooks_see_and_replace_gradients() -> None:
    x = halon.ones(2, requires_grad=True)
    y = x * 3
    seen = []
    handle = y.register_hook(lambda g: seen.append(g.tolist()) or g * 2)
    x.register_hook(lambda g: g + 1)
    y.sum().backward()
    assert seen == [[1, 1]]
    assert x.grad is not None
    assert x.grad.tolist() == [7, 7]
    handle.remove()
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4, 4]  # type: ignore[unreachable]


def test_gradients_cross_devices(device: str) -> None:
    x = halon.tensor([1.0, 2.0], requires_grad=True)
    (x.to(device) * 3).cpu().sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3, 3]
    assert str(x.grad.device) == str(x.device)


def test_a_chain_of_many_nodes_is_walked_and_freed_without_recursion() -> None:
    x = halon.ones((), requires_grad=True)
    y = x
    for _ in range(20_000):
        y = y + 1
    y.backward()
    assert x.grad is not None
    assert x.grad.item() == 1
    del y


def test_backward_needs_a_scalar_or_a_gradient() -> None:
    x = halon.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="scalar outputs"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        halon.ones(()).backward()
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        (x * 2).backward(halon.ones(3))
    (x * 2).backward(halon.tensor([1.0, 2.0]))
    assert x.grad is not None
    assert x.grad.tolist() == [2, 4]


def test_gradcheck_finds_a_wrong_gradient() -> None:
    x = halon.tensor([0.5, 1.5], dtype=halon.float64, requires_grad=True)
    wrong = lambda t: (t * t.detach()).sum()  # noqa: E731  (half the true gradient)
    with pytest.raises(halon.autograd.GradcheckError, match="Jacobian mismatch"):
        halon.autograd.gradcheck(wrong, x)
    assert not halon.autograd.gradcheck(wrong, x, raise_exception=False)


def test_the_gradient_of_a_product_is_right_where_elements_are_zero() -> None:
    for values in ([[0.0, 2.0, 3.0]], [[0.0, 2.0, 0.0]], [[1.0, 2.0, 3.0], [0.0, 5.0, 0.5]]):
        x = halon.tensor(values, dtype=halon.float64, requires_grad=True)
        for dim in (None, 0, 1, (0, 1)):
            assert halon.autograd.gradcheck(lambda t, d=dim: halon.prod(t, d), x)
            assert halon.autograd.gradgradcheck(lambda t, d=dim: halon.prod(t, d), x)


def test_a_small_network_has_torch_gradients(device: str) -> None:
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(s).astype("f4") for s in ((5, 3), (4, 3), (4,), (2, 4))]

    def loss(lib: object, tensors: list) -> object:  # type: ignore[type-arg]
        x, w, b, v = tensors
        h = (x @ w.t() + b).tanh()
        return ((h @ v.t()).sigmoid() - 0.3).abs().sum() / (x.exp().mean() + h.var())

    ours = [halon.tensor(a, requires_grad=True, device=device) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    loss(halon, ours).backward()  # type: ignore[attr-defined]
    loss(torch, theirs).backward()  # type: ignore[attr-defined]
    from halon.testing import assert_close

    for a, b in zip(ours, theirs, strict=True):
        assert_close(a.grad, b.grad, terms=16)
