"""The op record: everything halon knows about one operator, declared once.

The schema is a Python signature whose annotations say what a parameter is to the planner:

=================  ===========================================================================
``Tensor``         an operand; a Python number is taken where the dtype rule promotes numbers
``Tensor | None``  an operand that may be absent
``Tensors``        a sequence of operands
``TensorArgs``     the same, given one by one or as one sequence
``Number``         a run-time number: its type is part of the signature, its value is not
anything else      a value fixed in the plan (``int``, ``Ints``, ``bool``, ``DType``, ``Device``)
=================  ===========================================================================
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from halon.dispatcher import expr as expressions

OPERAND: Final = 0
OPTIONAL: Final = 1
OPERANDS: Final = 2
NUMBER: Final = 3
STATIC: Final = 4

_KINDS: Final = {"Tensor": OPERAND, "Tensor | None": OPTIONAL, "Tensors": OPERANDS,
                 "TensorArgs": OPERANDS, "Number": NUMBER}  # fmt: skip
REQUIRED: Final = object()


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of a schema."""

    name: str
    kind: int
    annotation: str
    default: Any = REQUIRED
    keyword_only: bool = False


@dataclass(frozen=True)
class KernelCall:
    """A record's native form: the operation's name, its operands (Metas) and what the plan fixes.

    ``scalars`` gives name and dtype of each run-time number, in schema order.
    """

    op: str
    operands: Sequence[Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    scalars: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Window:
    """Where an operand goes in an output: its shape there, strides and offset in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class Windows:
    """An output assembled by copies: filled with a number first (None: covered by the windows)."""

    fill: int | float | None
    places: Sequence[Window | None]


#: ``empty=UNCHANGED``: writing nothing leaves the first operand as it is.
UNCHANGED: Final = object()

#: ``grad=COMPOSE``: with gradients wanted the decomposition runs operator by operator, so that each
#: one's own rule applies; without, it is one plan.
COMPOSE: Final = "compose"


class Op:
    """One operator. Call it with tensors; ``@record.grad`` gives it a derivative rule.

    Attributes:
        dtype: ``(*operands) -> Types`` for expressions, ``(*args) -> DType`` or a tuple otherwise.
        shape: ``(*args) -> shape`` (a tuple of shapes for several outputs), operands as Metas.
        expr: the elementwise expression, parsed.
        kernel: ``(*args) -> KernelCall`` where the native form differs from the schema.
        view: ``(*args) -> (shape, strides, byte offset)`` and possibly another dtype: metadata
            only, or None if a copy is due.
        windows: ``(*args) -> Windows``: the output is made of copies of the operands.
        decompose: ``(*args) -> tensors``, run once per signature on symbolic tensors; it returns
            NotImplemented for operands it does not serve.
        eager: ``(*args) -> result``, run at every call on the tensors themselves: for results that
            are views of operands, or whose number or shape depends on values.
        rule: ``(grad, out, *args) -> gradients``, one per operand; None: not differentiable.
        empty: what an operator over no elements gives: a number, UNCHANGED, or an error text.
        samples: ``(make) -> list of argument tuples`` for tests, docs and benchmarks.
        methods: which of "function", "method", "inplace", "operator" are derived from it.
    """

    def __init__(self, schema: str, **rules: Any) -> None:
        self.name, self.params = _parse_schema(schema)
        self.schema = schema
        self.kinds = tuple(p.kind for p in self.params)
        self.doc: str = rules.pop("doc")
        self.dtype: Callable[..., Any] | None = rules.pop("dtype", None)
        self.shape: Callable[..., Any] | None = rules.pop("shape", None)
        text: str | None = rules.pop("expr", None)
        names = [p.name for p in self.params if p.kind in (OPERAND, OPTIONAL, NUMBER)]
        self.expr = expressions.parse(text, names) if text else None
        self.kernel: Callable[..., KernelCall] | None = rules.pop("kernel", None)
        self.view: Callable[..., Any] | None = rules.pop("view", None)
        self.decompose: Callable[..., Any] | None = rules.pop("decompose", None)
        self.eager: Callable[..., Any] | None = rules.pop("eager", None)
        self.windows: Callable[..., Windows] | None = rules.pop("windows", None)
        rule = rules.pop("grad", COMPOSE) if self.eager else rules.pop("grad")
        self.composes = rule == COMPOSE
        self.rule: Callable[..., Any] | None = None if self.composes else rule
        self.empty: Any = rules.pop("empty", None)
        self.samples: Callable[..., Any] | None = rules.pop("samples", None)
        self.methods: frozenset[str] = frozenset(rules.pop("methods", ()))
        self.may_alias: bool = rules.pop(
            "may_alias", False
        )  # the result may be an operand's memory
        self.outputs: int = rules.pop("outputs", 1)
        if rules:
            raise TypeError(f"{self.name}: unknown rules {sorted(rules)}")
        self.defaults = tuple(p.default for p in self.params)
        self.index = {p.name: i for i, p in enumerate(self.params)}
        self.call: Callable[..., Any] = _not_installed

    def grad(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Decorator: the derivative rule, when it is longer than one expression."""
        self.rule = rule
        return rule

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Arguments in schema order with defaults filled in; TypeError as a Python call."""
        if len(args) == len(self.params) and not kwargs:
            return args
        if len(args) > len(self.params):
            raise TypeError(
                f"{self.name}() takes {len(self.params)} arguments but {len(args)} were given"
            )
        bound = list(args) + list(self.defaults[len(args) :])
        for name, value in kwargs.items():
            i = self.index.get(name, -1)
            if i < 0:
                raise TypeError(f"{self.name}() got an unexpected keyword argument '{name}'")
            if i < len(args):
                raise TypeError(f"{self.name}() got multiple values for argument '{name}'")
            bound[i] = value
        for value, p in zip(bound, self.params, strict=True):
            if value is REQUIRED:
                raise TypeError(f"{self.name}() missing required argument: '{p.name}'")
        return tuple(bound)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(self, self.bind(args, kwargs))

    def __repr__(self) -> str:
        return f"<op {self.schema}>"


def _not_installed(op: Op, args: tuple[Any, ...]) -> Any:
    raise RuntimeError("halon.dispatcher.select was not imported")


#: name → record, in order of declaration.
OPS: Final[dict[str, Op]] = {}


def op(schema: str, **rules: Any) -> Op:
    """Declare an operator; see :class:`Op` for the rules. Raises ValueError for a second one."""
    record = Op(schema, **rules)
    if record.name in OPS:
        raise ValueError(f"operator {record.name} is declared twice")
    OPS[record.name] = record
    from halon.dispatcher import select  # the executor needs this module first

    record.call = (
        _call_eager
        if record.eager is not None
        else select.call_composed
        if record.composes
        else select.call
    )
    return record


def _call_eager(op: Op, args: tuple[Any, ...]) -> Any:
    assert op.eager is not None
    return op.eager(*args)


def _parse_schema(schema: str) -> tuple[str, tuple[Param, ...]]:
    tree = ast.parse(f"def {schema}: ...").body[0]
    assert isinstance(tree, ast.FunctionDef)
    a = tree.args
    values = [REQUIRED] * (len(a.args) - len(a.defaults)) + [
        ast.literal_eval(d) for d in a.defaults
    ]
    params = [_param(x, v, False) for x, v in zip(a.args, values, strict=True)]
    for x, d in zip(a.kwonlyargs, a.kw_defaults, strict=True):
        params.append(_param(x, REQUIRED if d is None else ast.literal_eval(d), True))
    return tree.name, tuple(params)


def _param(arg: ast.arg, default: Any, keyword_only: bool) -> Param:
    assert arg.annotation is not None, f"{arg.arg} has no annotation"
    text = ast.unparse(arg.annotation)
    return Param(arg.arg, _KINDS.get(text, STATIC), text, default, keyword_only)
