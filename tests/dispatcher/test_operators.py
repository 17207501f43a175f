"""Gradients of every record, and the values of those that are not public, against torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import halon
from halon.dispatcher.op import OPS, Op
from halon.hal.errors import HalonError
from halon.testing import TERMS, Maker, assert_close
from tests.operators.matrix import spelled
from tests.operators.spellings import torch_call

DTYPES = ("bool", "uint8", "int32", "int64", "float16", "float32", "float64")

SAMPLED = [
    op
    for op in OPS.values()
    if op.samples is not None and op.samples(Maker(halon.from_numpy, np.dtype("f4")))
]
#: public records are compared with torch cell by cell in tests/operators
INTERNAL = [op for op in SAMPLED if not op.methods and torch_call(op) is not None]


def samples(op: Op, convert: Any, dtype: str, special: bool = False) -> list[tuple[Any, ...]]:
    assert op.samples is not None
    return op.samples(Maker(convert, np.dtype(dtype), special))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", INTERNAL, ids=lambda op: op.name)
def test_agrees_with_torch(op: Op, dtype: str, device: str) -> None:
    def on_device(a: np.ndarray) -> halon.Tensor:
        return halon.tensor(a, device=device)

    ours, theirs = samples(op, on_device, dtype), samples(op, torch.from_numpy, dtype)
    call: Any = torch_call(op)
    for a, t in zip(ours, theirs, strict=True):
        positional, named = spelled(op, t)
        try:
            expected = call(*positional, **named)
        except (RuntimeError, NotImplementedError, TypeError, IndexError, ValueError):
            if op.expr is not None:
                with pytest.raises((HalonError, RuntimeError, TypeError)):
                    op(*a)
            continue
        if "conv" in op.name and not dtype.startswith("float"):
            with pytest.raises(HalonError, match=r"conv.* is not implemented on|not native"):
                op(*a)
            continue
        actual = op(*a)
        pairs = zip(actual, expected, strict=True) if op.outputs > 1 else [(actual, expected)]
        for mine, wanted in pairs:
            assert_close(mine, wanted, op=op.name, terms=TERMS.get(op.name, 1))


#: their samples are complex or several tensors, which tests/autograd differentiates
_OTHERWISE = frozenset({"imag", "unbind"})
DIFFERENTIABLE = [
    o for o in SAMPLED if (o.rule is not None or o.composes) and o.name not in _OTHERWISE
]


def _floating(args: tuple[Any, ...]) -> list[Any]:
    return [a for a in _flatten(args) if isinstance(a, halon.Tensor) and a.is_floating_point()]


def _flatten(args: Any) -> list[Any]:
    flat: list[Any] = []
    for a in args:
        if isinstance(a, tuple) and any(isinstance(x, halon.Tensor) for x in a):
            flat.extend(a)
        else:
            flat.append(a)
    return flat


def _with_tensors(op: Op, args: tuple[Any, ...]) -> tuple[Any, list[Any]]:
    """A function of the floating tensors among ``args``, and those tensors as leaves."""
    leaves = [a.detach().requires_grad_() for a in _floating(args)]

    def f(*given: Any) -> Any:
        replacement = iter(given)

        def fill(a: Any) -> Any:
            if isinstance(a, halon.Tensor) and a.is_floating_point():
                return next(replacement)
            nested = isinstance(a, tuple) and any(isinstance(x, halon.Tensor) for x in a)
            return tuple(map(fill, a)) if nested else a

        result = op(*(fill(a) for a in args))
        return result[0] if isinstance(result, tuple) else result

    return f, leaves


#: trigamma, their derivative, has none
_ONCE = frozenset({"digamma", "polygamma"})
#: differentiated where they are smooth: away from branch points and poles
_POSITIVE = frozenset({"log", "sqrt", "rsqrt", "log1p", "pow", "digamma", "polygamma"})


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_gradients_agree_with_finite_differences(op: Op) -> None:
    for args in samples(op, halon.from_numpy, "float64"):
        f, leaves = _with_tensors(op, args)
        positive = op.name in _POSITIVE
        leaves = [x.detach().abs().requires_grad_() if positive else x for x in leaves]
        if leaves and f(*leaves).requires_grad and f(*leaves).numel():
            assert halon.autograd.gradcheck(f, leaves)
            if op.name not in _ONCE:
                assert halon.autograd.gradgradcheck(f, leaves)


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_gradients_agree_between_devices(op: Op, device: str) -> None:
    for here, there in zip(
        samples(op, halon.from_numpy, "float32"),
        samples(op, lambda a: halon.tensor(a, device=device), "float32"),
        strict=True,
    ):
        grads = []
        for args in (here, there):
            f, leaves = _with_tensors(op, args)
            out = f(*leaves)
            if not out.requires_grad:
                return
            weights = halon.tensor(
                np.linspace(0.5, 1.5, out.numel()).reshape(out.shape), dtype=out.dtype
            )
            found = halon.autograd.grad(
                out, leaves, weights.to(device=out.device), allow_unused=True
            )
            grads.append(found)
        for a, b in zip(*grads, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                assert_close(b, a, op=op.name, terms=TERMS.get(op.name, 1))


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_every_record_has_a_doc_and_says_whether_it_has_a_gradient(op: Op) -> None:
    assert op.doc.endswith((".", "``"))
    assert op.samples is not None
    methods = {"function", "method", "inplace"}
    assert op.methods <= methods


BAD: list[tuple[str, Any]] = [
    ("The size of tensor a", lambda d: halon.ones(3, device=d) + halon.ones(4, device=d)),
    ("cannot be multiplied", lambda d: halon.ones(2, 3, device=d) @ halon.ones(2, 3, device=d)),
    ("invalid for input of size", lambda d: halon.ones(6, device=d).reshape(4, 2)),
    ("Dimension out of range", lambda d: halon.ones(2, device=d).sum(1)),
    ("not implemented for", lambda d: halon.ones(2, device=d) & halon.ones(2, device=d)),
    ("must be a Tensor or a number", lambda d: halon.ones(2, device=d) + "x"),
    ("out of bounds for dimension", lambda d: halon.ones(2, device=d)[2]),
]


@pytest.mark.parametrize(("text", "call"), BAD, ids=lambda b: b if isinstance(b, str) else "")
def test_bad_operands_are_named(text: str, call: Any, device: str) -> None:
    with pytest.raises((RuntimeError, IndexError, TypeError, HalonError), match=text):
        call(device)
