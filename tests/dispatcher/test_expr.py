"""Expressions of records: parsing, typing, and expansions over primitives."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from halon.devices.reference import kernels
from halon.dispatcher import expr
from halon.hal.dtypes import SHORT
from halon.hal.errors import NotImplementedOnDevice
from halon.kernels.scalar_ops import SCALAR_OPS
from halon.kernels.tree import Apply, Const, Input, Node, Scalar, walk
from halon.testing import assert_close

A, B = expr.Name("a"), expr.Name("b")


# -- parsing -------------------------------------------------------------------------------------
@pytest.mark.parametrize(("text", "op"), [
    ("a + b", "add"), ("a - b", "sub"), ("a * b", "mul"), ("a / b", "div"), ("a // b", "idiv"),
    ("a % b", "mod"), ("a ** b", "pow"), ("a & b", "and"), ("a | b", "or"), ("a ^ b", "xor"),
    ("a << b", "shl"), ("a >> b", "shr"), ("a < b", "lt"), ("a <= b", "le"), ("a == b", "eq"),
    ("a != b", "ne"), ("max(a, b)", "max"),
])  # fmt: skip
def test_operators_and_names_are_scalar_operations(text: str, op: str) -> None:
    assert expr.parse(text, ["a", "b"]) == expr.Call(op, (A, B))


@pytest.mark.parametrize(("text", "op"), [("a > b", "lt"), ("a >= b", "le")])
def test_greater_is_less_the_other_way_round(text: str, op: str) -> None:
    assert expr.parse(text, ["a", "b"]) == expr.Call(op, (B, A))


@pytest.mark.parametrize(("text", "value"), [
    ("2", 2), ("-2", -2), ("0.5", 0.5), ("-0.5", -0.5), ("1e-3", 1e-3), ("True", True),
])  # fmt: skip
def test_numbers_are_literals_sign_included(text: str, value: Any) -> None:
    found = expr.parse(text, [])
    assert found == expr.Literal(value)
    assert type(found.value) is type(value)  # type: ignore[union-attr]


def test_minus_and_tilde_of_an_operand_are_operations() -> None:
    assert expr.parse("-a", ["a"]) == expr.Call("neg", (A,))
    assert expr.parse("~a", ["a"]) == expr.Call("not", (A,))


def test_precedence_is_pythons() -> None:
    assert expr.parse("a + b * 2", ["a", "b"]) == expr.Call(
        "add", (A, expr.Call("mul", (B, expr.Literal(2))))
    )


@pytest.mark.parametrize(("text", "wrong"), [
    ("a + c", "'c'"), ("a + foo(b)", "'foo(b)'"), ("a < b < a", "'a < b < a'"),
    ("a if b else a", "'a if b else a'"), ("a + 'x'", "\"'x'\""), ("a.real", "'a.real'"),
    ("a[0]", "'a[0]'"), ("not a", "'not a'"), ("a and b", "'a and b'"), ("a @ b", "'a @ b'"),
    ("lambda: a", "'lambda: a'"), ("2j * a", "'2j'"), ("+a", "'+a'"), ("a is b", "'a is b'"),
    ("max(*a)", "max"), ("exp(a, b)", "exp takes 1 operands"), ("where(a, b)", "where takes 3"),
    ("exp(a, base=b)", "exp"),
])  # fmt: skip
def test_what_is_not_understood_is_shown_with_the_expression(text: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=r"expression|operands") as caught:
        expr.parse(text, ["a", "b"])
    assert wrong in str(caught.value)
    assert repr(text) in str(caught.value)


def test_a_syntax_error_is_pythons_own_and_shows_the_text() -> None:
    with pytest.raises(SyntaxError) as caught:
        expr.parse("a + * b", ["a", "b"])
    assert caught.value.text is not None
    assert "a + * b" in caught.value.text


# -- typing --------------------------------------------------------------------------------------
def tree(text: str, out: str, **dtypes: str) -> Node:
    """The typed tree of an expression whose operands are stored in the given dtypes."""
    nodes = {
        name: expr.cast(Input(i, dtype), expr.computed(dtype))
        for i, (name, dtype) in enumerate(dtypes.items())
    }
    return expr.typed(expr.parse(text, list(dtypes)), nodes, out, out)


@pytest.mark.parametrize("dtype", ["bool", "u8", "i32", "i64", "f32", "f64"])
@pytest.mark.parametrize("text", ["max(a, 1)", "max(1, a)", "where(a == 0, a, 1)"])
def test_a_literal_takes_the_other_operands_dtype(dtype: str, text: str) -> None:
    constants = [n for n in walk(tree(text, dtype, a=dtype)) if isinstance(n, Const)]
    assert constants
    assert {c.dtype for c in constants} == {dtype}


def test_half_precision_computes_in_single_and_rounds_once() -> None:
    nodes = walk(tree("a * b + 0.5", "f16", a="f16", b="f16"))
    casts = [n for n in nodes if isinstance(n, Apply) and n.op == "cast"]
    others = [n for n in nodes if isinstance(n, Apply) and n.op != "cast"]
    assert [n.dtype for n in others] == ["f32", "f32"]
    assert [n.dtype for n in casts] == ["f32", "f32", "f16"]
    assert casts[-1] is nodes[-1]
    assert expr.computed("bf16") == "f32"
    assert expr.computed("f64") == "f64"


def test_a_comparison_is_bool_and_its_operands_keep_their_dtype() -> None:
    root = tree("a < 2", "bool", a="i64")
    assert root == Apply("lt", (Input(0, "i64"), Const(2, "i64")), "bool")


def test_the_root_is_cast_to_the_result() -> None:
    assert tree("a == 0", "f32", a="i32").op == "cast"  # type: ignore[union-attr]
    assert tree("a", "f32", a="f32") is Input(0, "f32")


def test_an_expression_of_literals_has_the_result_dtype() -> None:
    assert tree("2", "i32", a="f32") == Const(2, "i32")


def test_equal_subexpressions_are_one_node() -> None:
    root = tree("(a + 1) * (a + 1)", "f32", a="f32")
    assert root.args[0] is root.args[1]  # type: ignore[union-attr]


@pytest.mark.parametrize(("text", "dtype"), [
    ("exp(a)", "i32"), ("a & a", "f32"), ("-a", "bool"), ("a / a", "i64"), ("a << 1", "bool"),
])  # fmt: skip
def test_an_operation_without_a_meaning_for_the_dtype_is_named(text: str, dtype: str) -> None:
    with pytest.raises(NotImplementedOnDevice, match=f"not implemented for '{dtype}'"):
        tree(text, dtype, a=dtype)


# -- expansions ----------------------------------------------------------------------------------
FLOATS = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 1e-3, -1e-3, 1e-7, -1e-7, 9.0,
    20.0, -20.0, 80.0, -80.0, 1e-30, 1e30, -1e30, np.inf, -np.inf, np.nan,
]  # fmt: skip


def by_torch(name: str) -> Any:
    """torch's function on arrays: NumPy has none."""
    return lambda x: getattr(torch, name)(torch.from_numpy(x)).numpy()


NUMPY: dict[str, Any] = {
    "sub": np.subtract, "le": np.less_equal, "ne": np.not_equal, "abs": np.abs, "log1p": np.log1p,
    "expm1": np.expm1, "tanh": np.tanh, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "ceil": np.ceil, "copysign": np.copysign, "hypot": np.hypot, "exp2": np.exp2,
    "log2": np.log2, "log10": np.log10, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "tan": np.tan, "atan": np.arctan, "asin": np.arcsin,
    "acos": np.arccos, "atan2": np.arctan2,
    **{name: by_torch(name) for name in ("erf", "erfc", "erfinv", "lgamma", "digamma")},
    # torch's reflection is finite at poles that are large
    "trigamma": lambda x: np.where((x <= 0) & (x == np.floor(x)) & (x > -np.inf), np.inf,
                                   torch.polygamma(1, torch.from_numpy(x)).numpy()),
}  # fmt: skip
#: steps of other expansions, with no function of their own in NumPy
STEPS = {
    "atan_small", "erf_small", "erfc_far", "erfc_middle", "exp_square", "erfc_positive",
    "erfinv_start", "erfinv_step", "stirling", "lgamma_positive", "digamma_far",
    "digamma_positive", "trigamma_far", "trigamma_positive", "inverse_square",
}  # fmt: skip
EXPANDED = [op.name for op in SCALAR_OPS.values() if op.expand and op.name not in STEPS]


def values(dtype: str) -> np.ndarray:
    kind = SHORT[dtype].numpy
    if dtype == "bool":
        return np.array([False, True])
    if dtype[0] == "f":
        return np.array(FLOATS, kind)
    limits = np.iinfo(kind)
    return np.array(sorted({0, 1, 2, 7, 100, limits.max, limits.min, limits.min + 1}), kind)


def evaluate(root: Node, ins: list[np.ndarray]) -> np.ndarray:
    """A tree by reference's primitives; anything else is expanded, as an op device does."""
    done: dict[Node, np.ndarray] = {}

    def value(node: Node) -> np.ndarray:
        if node not in done:
            done[node] = compute(node)
        return done[node]

    def compute(node: Node) -> np.ndarray:
        if isinstance(node, Input):
            return ins[node.index]
        if isinstance(node, Const):
            return np.full(ins[0].shape, node.value, SHORT[node.dtype].numpy)
        assert isinstance(node, Apply)
        expanded = expr.expand(node)
        if expanded is not None:
            return value(expanded)
        out = np.empty(ins[0].shape, SHORT[node.dtype].numpy)
        kernels.run(node.op, [value(a) for a in node.args], [out], {})
        return out

    return value(root)


def defined(op: str) -> list[str]:
    found = []
    for dtype in ("bool", "u8", "i32", "i64", "f32", "f64"):
        try:
            SCALAR_OPS[op].template(dtype)
        except ValueError:
            if dtype[0] != "f":
                continue
        found.append(dtype)
    return found


def test_every_expansion_has_a_numpy_function_here() -> None:
    assert set(EXPANDED) == set(NUMPY)


@pytest.mark.parametrize(("op", "dtype"), [(op, dtype) for op in EXPANDED for dtype in defined(op)])
def test_an_expansion_equals_numpy(op: str, dtype: str) -> None:
    ins = [
        np.ascontiguousarray(x).ravel()
        for x in np.meshgrid(*[values(dtype)] * SCALAR_OPS[op].arity)
    ]
    result = "bool" if SCALAR_OPS[op].result == "bool" else dtype
    node = Apply(op, tuple(Input(i, dtype) for i in range(len(ins))), result)
    with np.errstate(all="ignore"):
        got, want = evaluate(node, ins), np.asarray(NUMPY[op](*ins))
    assert_close(got, want.astype(SHORT[result].numpy), op=op)
    if op in ("abs", "tanh", "expm1", "log1p", "sub"):
        known = want == want  # a NaN has no sign to keep
        np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(want)[known])


@pytest.mark.parametrize("op", ["tanh", "expm1", "log1p", "sigmoid"])
def test_an_expansion_is_accurate_near_zero_and_far_away(op: str) -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, 20_000) * 10.0 ** rng.uniform(-9, 1.9, 20_000)
    x = (np.abs(x) if op == "log1p" else x).astype(np.float32)
    with np.errstate(all="ignore"):
        got = evaluate(Apply(op, (Input(0, "f32"),), "f32"), [x])
        want = NUMPY[op](x.astype(np.float64))
    fits = np.abs(want) < 3e38
    error = np.abs(got[fits] - want[fits]) / np.spacing(np.abs(want[fits]).astype(np.float32))
    assert error.max() < 6


def test_an_expansion_uses_primitives_alone() -> None:
    for op in EXPANDED:
        pending: list[Any] = [expr.expansion(op, "f32")]
        while pending:
            call = pending.pop()
            if isinstance(call, expr.Call):
                inner = SCALAR_OPS[call.op]
                pending.extend(
                    [*call.args] if inner.primitive else [expr.expansion(call.op, "f32")]
                )
                if not inner.primitive:
                    pending.extend(call.args)


def test_a_primitive_has_no_expansion() -> None:
    for op in SCALAR_OPS.values():
        arity = range(op.arity)
        node = Apply(op.name, tuple(Input(i, "f32") for i in arity), "f32")
        assert (expr.expand(node) is None) == (not op.expand)


def test_run_time_numbers_are_nodes_of_their_own() -> None:
    node = expr.typed(expr.parse("a * n", ["a", "n"]),
                      {"a": Input(0, "f32"), "n": Scalar(0, "f32")}, "f32", "f32")  # fmt: skip
    assert node == Apply("mul", (Input(0, "f32"), Scalar(0, "f32")), "f32")


def test_every_pair_of_equal_trees_is_one_object() -> None:
    for a, b in itertools.combinations([Const(0.0, "f32"), Const(-0.0, "f32"), Const(0, "f32"),
                                        Const(False, "f32")], 2):  # fmt: skip
        assert a is not b
    assert Const(float("nan"), "f32") is Const(float("nan"), "f32")
