"""Every record against torch: values, dtypes, strides and errors from the record's own samples."""

# ruff: noqa: E501  (the table of torch spellings reads best one per line)
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import halon
from halon.dispatcher.op import OPS, Op
from halon.hal.errors import HalonError
from halon.testing import Maker, assert_close

INTEGERS = ("bool", "uint8", "int32", "int64")
DTYPES = ("bool", "uint8", "int32", "int64", "float16", "float32", "float64")


def _conv(
    x: Any,
    w: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Any:
    return torch.convolution(
        x, w, None, stride, padding, dilation, transposed, output_padding, groups
    )


def _batch_norm(x: Any, w: Any, b: Any, eps: float) -> Any:
    y = torch.native_batch_norm(x, w, b, None, None, True, 0.1, eps)[0]
    return y, x.mean((0, 2, 3)), x.var((0, 2, 3), correction=0)


def _prod_backward(g: Any, x: Any, dim: int, keepdim: bool) -> Any:
    if not x.is_floating_point():
        raise TypeError("integers have no gradient")
    (grad,) = torch.autograd.grad(x.requires_grad_().prod(dim, keepdim), x, g)
    return grad


#: records whose torch spelling differs from ``torch.<name>(*args)``
TORCH: dict[str, Any] = {
    "relu_backward": lambda g, y: torch.where(y > 0, g, torch.zeros_like(g)),
    "clamp_both": lambda x, low, high: torch.clamp(x, low, high),
    "cast": lambda x, dtype: x.to(getattr(torch, dtype.name)),
    "dense": lambda x: x.contiguous(),
    "copy": lambda x, src: x.clone().copy_(src),
    "var": lambda x, dim=None, correction=1, keepdim=False: torch.var(x, dim, correction=correction, keepdim=keepdim),
    "sum": lambda x, dim=None, keepdim=False: torch.sum(x, dim, keepdim) if dim is not None else torch.sum(x),
    "mean": lambda x, dim=None, keepdim=False: torch.mean(x, dim, keepdim) if dim is not None else torch.mean(x),
    "amax": lambda x, dim=None, keepdim=False: torch.amax(x, dim if dim is not None else (), keepdim),
    "amin": lambda x, dim=None, keepdim=False: torch.amin(x, dim if dim is not None else (), keepdim),
    "prod": lambda x, dim=None, keepdim=False: _each_dim(torch.prod, x, dim, keepdim),
    "prod_backward": _prod_backward,
    "any": lambda x, dim=None, keepdim=False: torch.any(x, dim, keepdim) if dim is not None else torch.any(x),
    "all": lambda x, dim=None, keepdim=False: torch.all(x, dim, keepdim) if dim is not None else torch.all(x),
    "any_of": lambda x, dim=None, keepdim=False: torch.any(x, dim, keepdim),
    "all_of": lambda x, dim=None, keepdim=False: torch.all(x, dim, keepdim),
    "sum_to": lambda x, size: x.sum_to_size(*size),
    "view": lambda x, size: x.view(size),
    "expand": lambda x, size: x.expand(size),
    "slice_": lambda x, dim, start, end, step: torch.ops.aten.slice(x, dim, start, end, step),
    "slice_backward": lambda g, size, dim, start, step: torch.ops.aten.slice_backward(g, size, dim, start, start + g.shape[dim] * step, step),
    "alias": lambda x: x.view_as(x),
    "batched_matmul": torch.matmul,
    "linear": F.linear,
    "convolution": _conv,
    "conv_bwd_input": lambda g, w, size, s, p, d, n: torch.nn.grad.conv2d_input(size, w, g, s, p, d, n),
    "conv_bwd_weight": lambda g, x, size, s, p, d, n: torch.nn.grad.conv2d_weight(x, size, g, s, p, d, n),
    "max_pool_with_indices": lambda x, k, s, p, d, c: F.max_pool2d(x, k, s, p, d, c, return_indices=True),
    "softmax_backward": lambda g, y, dim: (g - (g * y).sum(dim, True)) * y,
    "log_softmax_backward": lambda g, y, dim: g - y.exp() * g.sum(dim, True),
    "batch_norm_train": _batch_norm,
    "mse_loss": lambda x, y, reduction="mean": F.mse_loss(x, y, reduction=reduction),
}  # fmt: skip


def _each_dim(f: Any, x: Any, dim: Any, keepdim: bool) -> Any:
    if dim is None:
        return f(x)
    for d in sorted((dim,) if isinstance(dim, int) else dim, reverse=True):
        x = f(x, d, keepdim)
    return x


def reference(op: Op) -> Any:
    return TORCH.get(op.name) or getattr(torch, op.name, None) or getattr(F, op.name)


SAMPLED = [
    op
    for op in OPS.values()
    if op.samples is not None and op.samples(Maker(torch.from_numpy, np.dtype("f4")))
]


def samples(op: Op, convert: Any, dtype: str, special: bool = False) -> list[tuple[Any, ...]]:
    assert op.samples is not None
    return op.samples(Maker(convert, np.dtype(dtype), special))


def _terms(op: Op) -> int:
    return 32 if op.name in ("mm", "bmm", "matmul", "linear") or "conv" in op.name else 1


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", SAMPLED, ids=lambda op: op.name)
def test_agrees_with_torch(op: Op, dtype: str, device: str) -> None:
    def on_device(a: np.ndarray) -> halon.Tensor:
        return halon.tensor(a, device=device)

    ours, theirs = samples(op, on_device, dtype), samples(op, torch.from_numpy, dtype)
    for a, t in zip(ours, theirs, strict=True):
        try:
            expected = reference(op)(*t)
        except (RuntimeError, NotImplementedError, TypeError, IndexError, ValueError):
            if op.expr is not None:
                with pytest.raises((HalonError, RuntimeError, TypeError)):
                    op(*a)
            continue
        if "conv" in op.name and dtype in INTEGERS:
            with pytest.raises(HalonError, match=r"conv.* is not implemented on|not native"):
                op(*a)
            continue
        check(op, op(*a), expected)


def check(op: Op, actual: Any, expected: Any) -> None:
    pairs = zip(actual, expected, strict=True) if op.outputs > 1 else [(actual, expected)]
    for mine, theirs in pairs:
        assert_close(mine, theirs, op=op.name, terms=_terms(op))
    if (op.expr is not None or op.view is not None) and expected.numel():
        assert tuple(actual.stride()) == tuple(expected.stride()), op.name


@pytest.mark.parametrize("op", [o for o in SAMPLED if o.expr is not None], ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_special_values_agree_with_torch(op: Op, dtype: str, device: str) -> None:
    def on_device(a: np.ndarray) -> halon.Tensor:
        return halon.tensor(a, device=device)

    ours = samples(op, on_device, dtype, special=True)
    theirs = samples(op, torch.from_numpy, dtype, special=True)
    for a, t in zip(ours, theirs, strict=True):
        try:
            expected = reference(op)(*t)
        except (RuntimeError, TypeError):
            continue
        check(op, op(*a), expected)


DIFFERENTIABLE = [o for o in SAMPLED if o.rule is not None or o.composes]


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


@pytest.mark.parametrize("op", DIFFERENTIABLE, ids=lambda op: op.name)
def test_gradients_agree_with_finite_differences(op: Op) -> None:
    for args in samples(op, halon.from_numpy, "float64"):
        f, leaves = _with_tensors(op, args)
        positive = op.name in ("log", "sqrt", "rsqrt", "log1p", "pow")
        leaves = [x.detach().abs().requires_grad_() if positive else x for x in leaves]
        if leaves and f(*leaves).requires_grad and f(*leaves).numel():
            assert halon.autograd.gradcheck(f, leaves)
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
                assert_close(b, a, op=op.name, terms=_terms(op))


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
