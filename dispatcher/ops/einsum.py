"""Einstein summation by pairwise batched matrix products."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from halon.dispatcher.op import COMPOSE, op
from halon.dispatcher.ops.arrangement import diagonal
from halon.dispatcher.ops.contraction import bmm
from halon.dispatcher.ops.reduction import sum
from halon.dispatcher.ops.views import expand, permute, reshape

_DOTS = "..."


def _labels(term: str, ndim: int, where: str) -> list[str]:
    """One label per dimension; those of an ellipsis are numbered from the right: ``…0`` is last."""
    before, dots, after = term.partition(_DOTS)
    named = before + after
    if not all(c.isalpha() and c.isascii() for c in named):
        raise RuntimeError(f"einsum(): invalid subscript given in {term!r} of {where!r}")
    spare = ndim - len(named)
    if spare < 0 or (spare and not dots):
        raise RuntimeError(
            f"einsum(): the number of subscripts in {term!r} does not match an operand of {ndim} "
            "dimensions"
        )
    return [*before, *(f"…{spare - 1 - i}" for i in range(spare)), *after]


def _parsed(equation: str, operands: Sequence[Any]) -> tuple[list[list[str]], list[str]]:
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise RuntimeError(
            f"einsum(): {len(terms)} operands in the equation {equation!r}, but {len(operands)} "
            "were given"
        )
    labels = [_labels(t, x.meta.ndim, equation) for t, x in zip(terms, operands, strict=True)]
    shared = sorted({c for term in labels for c in term if c[0] == "…"}, reverse=True)
    if not arrow:
        count = Counter(c for term in labels for c in term)
        return labels, [*shared, *sorted(c for c, n in count.items() if n == 1 and c[0] != "…")]
    before, dots, after = right.partition(_DOTS)
    result = [*before, *(shared if dots else ()), *after]
    known = {c for term in labels for c in term}
    if len(set(result)) != len(result) or not set(result) <= known:
        raise RuntimeError(f"einsum(): the output of {equation!r} repeats or adds a subscript")
    return labels, result


def _distinct(x: Any, labels: list[str]) -> tuple[Any, list[str]]:
    """Repeated labels as a diagonal."""
    labels = list(labels)
    for c in [c for c, n in Counter(labels).items() if n > 1]:
        while labels.count(c) > 1:
            i = labels.index(c)
            j = labels.index(c, i + 1)
            if x.meta.shape[i] != x.meta.shape[j]:
                raise RuntimeError(
                    f"einsum(): subscript {c} is repeated but the sizes {x.meta.shape[i]} and "
                    f"{x.meta.shape[j]} differ"
                )
            x = diagonal(x, 0, i, j)
            labels = [d for k, d in enumerate(labels) if k not in (i, j)] + [c]
    return x, labels


def _summed(x: Any, labels: list[str], keep: set[str]) -> tuple[Any, list[str]]:
    gone = tuple(i for i, c in enumerate(labels) if c not in keep)
    if not gone:
        return x, labels
    return sum(x, gone, False), [c for c in labels if c in keep]


def _arranged(
    x: Any, labels: list[str], groups: Sequence[Sequence[str]], size: dict[str, int]
) -> Any:
    """Dimensions in the order of ``groups``, each group as one; sizes of 1 are broadcast."""
    order = [c for group in groups for c in group]
    x = permute(x, tuple(labels.index(c) for c in order))
    shape = tuple(size[c] for c in order)
    if x.meta.shape != shape:
        x = expand(x, shape)
    return reshape(x, tuple(math.prod(size[c] for c in group) for group in groups))


def _pair(a: Any, la: list[str], b: Any, lb: list[str], keep: set[str]) -> tuple[Any, list[str]]:
    """Two operands contracted over what they share and nobody else needs."""
    a, la = _summed(a, la, keep | set(lb))
    b, lb = _summed(b, lb, keep | set(la))
    size = dict(zip(la, a.meta.shape, strict=True))
    for c, n in zip(lb, b.meta.shape, strict=True):
        if size.setdefault(c, n) != n and 1 not in (size[c], n):
            raise RuntimeError(f"einsum(): subscript {c} has sizes {size[c]} and {n}")
        size[c] = max(size[c], n) if 0 not in (size[c], n) else 0
    both = [c for c in la if c in lb and c in keep]
    inner = [c for c in la if c in lb and c not in keep]
    only_a = [c for c in la if c not in lb]
    only_b = [c for c in lb if c not in la]
    left = _arranged(a, la, (both, only_a, inner), size)
    right = _arranged(b, lb, (both, inner, only_b), size)
    product = bmm(left, right) if inner else left * right
    labels = [*both, *only_a, *only_b]
    return reshape(product, tuple(size[c] for c in labels)), labels


def _einsum(equation: str, operands: Any) -> Any:
    labels, result = _parsed(equation, operands)
    pairs = [_distinct(x, term) for x, term in zip(operands, labels, strict=True)]
    x, have = pairs[0]
    for i, (y, more) in enumerate(pairs[1:], 1):
        later = {c for _, term in pairs[i + 1 :] for c in term}
        x, have = _pair(x, have, y, more, later | set(result))
    x, have = _summed(x, have, set(result))
    return permute(x, tuple(have.index(c) for c in result))


einsum = op(
    "einsum(equation: str, operands: TensorArgs) -> Tensor", methods=("function",),
    decompose=_einsum, grad=COMPOSE, may_alias=True,
    doc="Sums of products over the subscripts that the output lacks, in Einstein's notation.",
    samples=lambda t: [
        ("ij,jk->ik", (t(3, 4), t(4, 5))), ("bij,bjk->bik", (t(2, 3, 4), t(2, 4, 5))),
        ("ij->ji", (t(3, 4),)), ("ii->i", (t(3, 3),)), ("ii", (t(3, 3),)), ("ij->", (t(3, 4),)),
        ("i,j->ij", (t(3), t(4))), ("...ij,...jk->...ik", (t(2, 1, 3, 4), t(5, 4, 2))),
        ("ijk,ijl,kl->ij", (t(2, 3, 4), t(2, 3, 5), t(4, 5))), ("i,i", (t(4), t(4))),
        ("ij,kj", (t(2, 3), t(4, 3))), ("b...,b...->b", (t(2, 3, 4), t(2, 3, 4))),
    ],
)  # fmt: skip
