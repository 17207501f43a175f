"""Checking gradients against finite differences, in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from halon.autograd.differentiate import grad
from halon.autograd.modes import enable_grad, no_grad
from halon.tensor.creation import tensor
from halon.tensor.tensor import Tensor


class GradcheckError(RuntimeError):
    """An analytical gradient disagrees with the numerical one."""


def _outputs(result: Any) -> list[Tensor]:
    outs = list(result) if isinstance(result, (tuple, list)) else [result]
    return [o for o in outs if isinstance(o, Tensor) and o.is_floating_point()]


def gradcheck(
    func: Callable[..., Any], inputs: Tensor | Sequence[Any], *, eps: float = 1e-6,
    atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True,
) -> bool:  # fmt: skip
    """Whether backward's Jacobian of ``func`` equals central differences.

    Args:
        func: a function of tensors giving a tensor or several.
        inputs: its arguments; those that require grad should be float64.

    Raises:
        GradcheckError: naming output, input and both Jacobians, unless ``raise_exception`` is off.

    >>> import halon
    >>> x = halon.tensor([0.5, 2.0], dtype=halon.float64, requires_grad=True)
    >>> halon.autograd.gradcheck(lambda t: t * t, x)
    True
    """
    args = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    checked = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]
    if not checked:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the "
            "them have requires_grad=True."
        )
    outs = _outputs(func(*args))
    for o, out in enumerate(outs):
        for i in checked:
            analytical = _analytical(func, args, o, i, out)
            numerical = _numerical(func, args, o, i, eps)
            if not np.allclose(analytical, numerical, rtol, atol, equal_nan=True):
                if not raise_exception:
                    return False
                raise GradcheckError(
                    f"Jacobian mismatch for output {o} with respect to input {i},\n"
                    f"numerical:{numerical}\nanalytical:{analytical}\n"
                )
    return True


def _analytical(func: Any, args: list[Any], o: int, i: int, like: Tensor) -> np.ndarray:
    """Jacobian [input elements, output elements], one backward per output element."""
    columns = []
    for k in range(like.numel()):
        out = _outputs(func(*args))[o]
        seed = np.zeros(like.numel())
        seed[k] = 1.0
        v = tensor(seed.reshape(like.shape), dtype=like.dtype, device=like.device)
        if not out.requires_grad:
            columns.append(np.zeros(args[i].numel()))
            continue
        (g,) = grad(out, args[i], v, allow_unused=True)
        flat = np.zeros(args[i].numel()) if g is None else g.detach().cpu().numpy().reshape(-1)
        columns.append(flat)
    return np.array(columns).T.reshape(args[i].numel(), like.numel())


def _numerical(func: Any, args: list[Any], o: int, i: int, eps: float) -> np.ndarray:
    """Central differences, one pair of calls per input element."""
    base = args[i].detach().cpu().numpy().copy()
    rows = []
    for k in range(base.size):
        pair = []
        for step in (eps, -eps):
            moved = base.copy()
            moved.reshape(-1)[k] += step
            changed = list(args)
            changed[i] = tensor(moved, device=args[i].device)
            with no_grad():
                out = _outputs(func(*changed))[o]
                pair.append(out.detach().cpu().numpy().reshape(-1).copy())
        rows.append((pair[0] - pair[1]) / (2 * eps))
    outputs = rows[0].size if rows else _outputs(func(*args))[o].numel()
    return np.array(rows).reshape(base.size, outputs)


def gradgradcheck(
    func: Callable[..., Any], inputs: Tensor | Sequence[Any], *, eps: float = 1e-6,
    atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True,
) -> bool:  # fmt: skip
    """Whether the second derivatives of ``func`` are right: ``gradcheck`` of its gradient."""
    args = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    outs = _outputs(func(*args))
    rng = np.random.default_rng(0)
    seeds = [
        tensor(rng.standard_normal(o.shape), dtype=o.dtype, device=o.device, requires_grad=True)
        for o in outs
    ]

    def first(*all_args: Any) -> tuple[Tensor, ...]:
        own, given = all_args[: len(args)], all_args[len(args) :]
        own = tuple(
            a if not isinstance(a, Tensor) or not a.is_floating_point() or a.requires_grad
            else a.requires_grad_(args[k].requires_grad)
            for k, a in enumerate(own)
        )  # fmt: skip
        wanted = [a for a in own if isinstance(a, Tensor) and a.requires_grad]
        with enable_grad():
            results = _outputs(func(*own))
            kept = [(r, s) for r, s in zip(results, given, strict=True) if r.requires_grad]
            return grad(
                [r for r, _ in kept], wanted, [s for _, s in kept], create_graph=True,
                allow_unused=True, materialize_grads=True,
            )  # fmt: skip

    return gradcheck(
        first, [*args, *seeds], eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception
    )
