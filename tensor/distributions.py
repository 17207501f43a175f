"""Draws from distributions beyond uniform and normal.

The samplers run on the host and are NumPy's (``numpy.random.Generator`` over its Philox4x64), keyed
with the halon generator's seed and position: equal on every device, and as well kept as NumPy is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from halon.tensor.creation import open_device, tensor
from halon.tensor.random import Generator, generator_of, randn
from halon.tensor.tensor import Tensor


def host_sampler(where: Any, generator: Generator | None) -> np.random.Generator:
    """NumPy's generator for one call: its own Philox key and counter, from one reserved block."""
    key, offset = generator_of(open_device(where), generator).take(4)
    # the last counter word keeps this stream apart from the words that kernels draw
    bits = np.random.Philox(key=np.array([key, 1], np.uint64), counter=[0, 0, offset, 1])
    return np.random.Generator(bits)


def _drawn(
    name: str, like: Tensor, generator: Generator | None, draw: Callable[..., Any]
) -> Tensor:
    if not like.is_floating_point():
        raise NotImplementedError(f"{name} is not implemented for {like.meta}")
    values = np.asarray(draw(host_sampler(like.device, generator)))
    return tensor(values, dtype=like.dtype, device=like.device)


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Counts of events whose rates are the elements of ``input``, in its shape and dtype.

    Raises:
        RuntimeError: a negative rate.

    >>> import halon
    >>> halon.poisson(halon.zeros(3))
    tensor([0., 0., 0.])
    """
    rates = input.detach().double().cpu().numpy()
    if (rates < 0).any():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return _drawn("poisson", input, generator, lambda g: g.poisson(rates))


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Successes among ``count`` trials of probability ``prob``, broadcast; in prob's dtype.

    Raises:
        RuntimeError: a negative or fractional count, a probability outside [0, 1].

    >>> import halon
    >>> halon.binomial(halon.full((2,), 5.0), halon.ones(2))
    tensor([5., 5.])
    """
    n = count.detach().double().cpu().numpy()
    p = prob.detach().double().cpu().numpy()
    if (n < 0).any() or (n != np.floor(n)).any():
        raise RuntimeError("binomial(): counts must be whole and not negative")
    if not ((p >= 0) & (p <= 1)).all():
        raise RuntimeError("binomial(): probabilities must be in [0, 1]")
    return _drawn("binomial", prob, generator, lambda g: g.binomial(n.astype(np.int64), p))


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *,
    generator: Generator | None = None,
) -> Tensor:  # fmt: skip
    """Indices drawn in proportion to the weights of each row of ``input`` ([n] or [rows, n]).

    Without replacement: the largest of Gumbel-perturbed log weights (Efraimidis and Spirakis,
    Information Processing Letters 97(5), 2006).

    Raises:
        RuntimeError: weights that are negative, not finite or all 0; too many samples for them.

    >>> import halon
    >>> halon.multinomial(halon.tensor([0.0, 1.0, 0.0]), 2, replacement=True)
    tensor([1, 1])
    """
    if input.dim() not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    weights = np.atleast_2d(input.detach().double().cpu().numpy())
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if (weights.sum(1) <= 0).any():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if not replacement and num_samples > weights.shape[1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    if not replacement and num_samples > (weights > 0).sum(1).min():
        raise RuntimeError(
            "invalid multinomial distribution (with replacement=False, not enough non-negative "
            "category to sample)"
        )
    rng = host_sampler(input.device, generator)
    if replacement:
        edges = np.cumsum(weights / weights.sum(1, keepdims=True), 1)
        draws = rng.random((len(weights), num_samples))
        rows = zip(edges, draws, strict=True)
        picked = np.stack([np.searchsorted(e / e[-1], u, side="right") for e, u in rows])
    else:
        with np.errstate(divide="ignore"):
            race = rng.exponential(size=weights.shape) / weights
        picked = np.argsort(race, 1, kind="stable")[:, :num_samples]
    picked = picked.astype(np.int64)
    return tensor(picked if input.dim() == 2 else picked[0], device=input.device)


def normal(
    mean: Any, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None,
    dtype: Any = None, device: Any = None,
) -> Tensor:  # fmt: skip
    """Normal numbers of the given means and deviations (tensors or numbers, broadcast).

    >>> import halon
    >>> halon.normal(2.0, 0.0, (2,))
    tensor([2., 2.])
    """
    given = [x for x in (mean, std) if isinstance(x, Tensor)]
    if not isinstance(std, Tensor) and std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    if size is None and not given:
        raise TypeError("normal() needs a tensor of means or deviations, or a size")
    shape = tuple(size) if size is not None else np.broadcast_shapes(*(x.shape for x in given))
    if given:
        dtype, device = given[0].dtype, given[0].device
    return randn(*shape, generator=generator, dtype=dtype, device=device) * std + mean


def _filler(name: str, doc: str, draw: Callable[..., Any], check: Callable[..., str]) -> Any:
    def fill(self: Any, *params: Any, generator: Generator | None = None, **named: Any) -> Any:
        values = _parameters(name, params, named)
        wrong = check(*values)
        if wrong:
            raise RuntimeError(f"{name} expects {wrong}")
        shape = tuple(self.shape)
        return self.copy_(_drawn(name, self, generator, lambda g: draw(g, shape, *values)))

    fill.__name__, fill.__doc__ = name, doc
    return fill


_DEFAULTS: dict[str, dict[str, float | None]] = {
    "exponential_": {"lambd": 1.0},
    "geometric_": {"p": None},
    "cauchy_": {"median": 0.0, "sigma": 1.0},
    "log_normal_": {"mean": 1.0, "std": 2.0},
}


def _parameters(name: str, params: tuple[Any, ...], named: dict[str, Any]) -> list[float]:
    known = _DEFAULTS[name]
    unknown = set(named) - set(known)
    if unknown or len(params) > len(known):
        raise TypeError(f"{name}() takes {', '.join(known)}, got {sorted(unknown) or len(params)}")
    found = {**known, **dict(zip(known, params, strict=False)), **named}
    missing = [k for k, v in found.items() if v is None]
    if missing:
        raise TypeError(f"{name}() missing required argument: {missing[0]}")
    return [float(v) for v in found.values() if v is not None]


#: In-place fillers that Tensor gets as methods.
FILLERS: dict[str, Callable[..., Any]] = {
    "exponential_": _filler(
        "exponential_", "Fill with draws of density lambd * exp(-lambd * x).",
        lambda g, shape, lambd: g.exponential(1 / lambd, shape),
        lambda lambd: "" if lambd > 0 else f"lambda > 0.0, but found lambda={lambd}",
    ),
    "geometric_": _filler(
        "geometric_", "Fill with the number of trials up to the first success of probability p.",
        lambda g, shape, p: g.geometric(p, shape),
        lambda p: "" if 0 < p < 1 else f"p to be in (0, 1), but got p={p}",
    ),
    "cauchy_": _filler(
        "cauchy_", "Fill with median + sigma * a standard Cauchy draw.",
        lambda g, shape, median, sigma: median + sigma * g.standard_cauchy(shape),
        lambda median, sigma: "" if sigma > 0 else f"sigma > 0.0, but found sigma={sigma}",
    ),
    "log_normal_": _filler(
        "log_normal_", "Fill with exp of normal draws.",
        lambda g, shape, mean, std: g.lognormal(mean, std, shape),
        lambda mean, std: "" if std > 0 else f"std > 0.0, but found std={std}",
    ),
}  # fmt: skip

for _name, _fill in FILLERS.items():
    setattr(Tensor, _name, _fill)
