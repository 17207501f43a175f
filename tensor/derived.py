"""Functions and methods derived from the operator records; ``derived.pyi`` is generated.

A record says which of "function", "method" and "inplace" it has; nothing is declared here. Run
``python -m halon.tensor.stubs`` after adding one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import halon.dispatcher.ops
from halon.dispatcher.op import OPS, REQUIRED, Op
from halon.dispatcher.structures import TensorBase
from halon.tensor.inplace import store, update

assert halon.dispatcher.ops, "importing the families declares the records"


class Derived(TensorBase):
    """The derived methods of Tensor."""

    __slots__ = ()


def signature_of(op: Op, method: bool) -> inspect.Signature:
    """The Python signature of a record's function or method."""
    params = []
    for i, p in enumerate(op.params):
        kind = (
            inspect.Parameter.KEYWORD_ONLY
            if p.keyword_only
            else inspect.Parameter.POSITIONAL_OR_KEYWORD
        )
        name = "self" if method and i == 0 else p.name
        default = inspect.Parameter.empty if p.default is REQUIRED else p.default
        params.append(inspect.Parameter(name, kind, default=default))
    return inspect.Signature(params)


def _function(op: Op) -> Callable[..., Any]:
    packed = next((i for i, p in enumerate(op.params) if p.annotation == "TensorArgs"), -1)
    if packed >= 0:
        return _of_tensors(op, packed)

    def function(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        bound = op.bind(args, kwargs)
        return op.call(op, bound) if out is None else store(op, out, bound)

    return _named(function, op, op.name, False)


def _of_tensors(op: Op, first: int) -> Callable[..., Any]:
    """A function whose operands may be given one by one, ``block_diag(a, b)``."""

    def function(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        given = args[first:]
        if len(given) == 1 and isinstance(given[0], (tuple, list)):
            given = given[0]
        bound = op.bind((*args[:first], tuple(given)), kwargs)
        return op.call(op, bound) if out is None else store(op, out, bound)

    return _named(function, op, op.name, False)


def _method(op: Op) -> Callable[..., Any]:
    if len(op.params) > 1 and op.params[1].annotation == "Sizes":
        return _variadic(op)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return op.call(op, op.bind((self, *args), kwargs))

    return _named(method, op, op.name, True)


def _variadic(op: Op) -> Callable[..., Any]:
    """A method whose sizes may be given one by one, ``x.repeat(2, 1)``."""

    def method(self: Any, *sizes: Any, **kwargs: Any) -> Any:
        if sizes:
            given = sizes[0] if isinstance(sizes[0], (tuple, list)) else sizes
            sizes = (tuple(n.__index__() for n in given),)
        return op.call(op, op.bind((self, *sizes), kwargs))

    return _named(method, op, op.name, True)


def _inplace(op: Op) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return update(op, self, op.bind((self, *args), kwargs))

    return _named(method, op, op.name + "_", True)


def _named(f: Any, op: Op, name: str, method: bool) -> Callable[..., Any]:
    f.__name__ = f.__qualname__ = name
    f.__doc__ = op.doc
    f.__signature__ = signature_of(op, method)
    return f


for _op in OPS.values():
    if "function" in _op.methods:
        globals()[_op.name] = _function(_op)
    if "method" in _op.methods:
        setattr(Derived, _op.name, _method(_op))
    if "inplace" in _op.methods:
        setattr(Derived, _op.name + "_", _inplace(_op))
del _op

FUNCTIONS: tuple[str, ...] = tuple(o.name for o in OPS.values() if "function" in o.methods)
