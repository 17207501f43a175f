"""The meaning of each scalar operation for bool, integer and floating operands: one table.

A template is C that compiles as OpenCL C, CUDA C++ and C11; ``pk_`` functions live in ``pk.h`` and
its C twin, with the dtype as suffix (``pk_max_f32``). ``{t}`` is the operands' short dtype name,
``{0}`` ``{1}`` ``{2}`` the operands. ``expand`` gives the same value over the primitives of
PLUGIN 3c, for devices that run named primitives; kernel devices use the template.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScalarOp:
    """``result`` is ``"same"`` (as the operands) or ``"bool"``; an empty template: not defined."""

    name: str
    arity: int
    result: str = "same"
    bool_: str = ""
    int_: str = ""
    float_: str = ""
    expand: str = ""  # over primitives; empty for a primitive

    @property
    def primitive(self) -> bool:
        return not self.expand

    def template(self, dtype: str) -> str:
        """The C template for operands of ``dtype``; KeyError-like ValueError where undefined."""
        text = self.bool_ if dtype == "bool" else self.int_ if dtype[0] in "iu" else self.float_
        if not text:
            raise ValueError(f"{self.name} is not defined for {dtype}")
        return text


def _f(name: str) -> str:
    return f"pk_{name}_{{t}}({{0}})"


_BITS = "({0} %s {1})"

# fmt: off
_TABLE = (
    # -- primitives --------------------------------------------------------------------------------
    ScalarOp("cast", 1, bool_="{0}", int_="{0}", float_="{0}"),  # printed by the generators
    ScalarOp("neg", 1, int_="pk_neg_{t}({0})", float_="(-{0})"),
    ScalarOp("exp", 1, float_=_f("exp")),
    ScalarOp("log", 1, float_=_f("log")),
    ScalarOp("sqrt", 1, float_=_f("sqrt")),
    ScalarOp("recip", 1, float_="(1 / {0})"),
    ScalarOp("sin", 1, float_=_f("sin")),
    ScalarOp("cos", 1, float_=_f("cos")),
    ScalarOp("floor", 1, int_="{0}", float_=_f("floor")),
    ScalarOp("trunc", 1, int_="{0}", float_=_f("trunc")),
    ScalarOp("round", 1, int_="{0}", float_=_f("round")),  # half to even
    ScalarOp("not", 1, bool_="(!{0})", int_="(~{0})"),
    ScalarOp("add", 2, bool_="({0} | {1})", int_="pk_add_{t}({0}, {1})", float_="({0} + {1})"),
    ScalarOp("mul", 2, bool_="({0} & {1})", int_="pk_mul_{t}({0}, {1})", float_="({0} * {1})"),
    ScalarOp("div", 2, float_="({0} / {1})"),
    # floored and exact in integers; 0 for a zero divisor (the host raises, a device flags it)
    ScalarOp("idiv", 2, int_="pk_idiv_{t}({0}, {1})", float_="pk_idiv_{t}({0}, {1})"),
    ScalarOp("mod", 2, int_="pk_mod_{t}({0}, {1})", float_="pk_mod_{t}({0}, {1})"),
    ScalarOp(
        "max", 2, bool_="({0} | {1})", int_="({0} > {1} ? {0} : {1})", float_="pk_max_{t}({0}, {1})"
    ),
    ScalarOp(
        "min", 2, bool_="({0} & {1})", int_="({0} < {1} ? {0} : {1})", float_="pk_min_{t}({0}, {1})"
    ),
    ScalarOp("pow", 2, int_="pk_pow_{t}({0}, {1})", float_="pk_pow_{t}({0}, {1})"),
    ScalarOp("lt", 2, "bool", "({0} < {1})", "({0} < {1})", "({0} < {1})"),
    ScalarOp("eq", 2, "bool", "({0} == {1})", "({0} == {1})", "({0} == {1})"),
    ScalarOp("and", 2, bool_=_BITS % "&", int_=_BITS % "&"),
    ScalarOp("or", 2, bool_=_BITS % "|", int_=_BITS % "|"),
    ScalarOp("xor", 2, bool_=_BITS % "^", int_=_BITS % "^"),
    ScalarOp("shl", 2, int_="pk_shl_{t}({0}, {1})"),
    ScalarOp("shr", 2, int_="pk_shr_{t}({0}, {1})"),  # arithmetic on signed types
    ScalarOp("where", 3, "same", "({0} ? {1} : {2})", "({0} ? {1} : {2})", "({0} ? {1} : {2})"),
    # -- kernel devices have these; the rest expand them -------------------------------------------
    ScalarOp("sub", 2, int_="pk_sub_{t}({0}, {1})", float_="({0} - {1})", expand="add(a, neg(b))"),
    ScalarOp(
        "le",
        2,
        "bool",
        "({0} <= {1})",
        "({0} <= {1})",
        "({0} <= {1})",
        expand="or(lt(a, b), eq(a, b))",
    ),
    ScalarOp(
        "ne", 2, "bool", "({0} != {1})", "({0} != {1})", "({0} != {1})", expand="not(eq(a, b))"
    ),
    ScalarOp(
        "abs",
        1,
        int_="pk_abs_{t}({0})",
        float_=_f("abs"),
        expand="where(or(lt(a, 0), eq(a, 0)), add(0, neg(a)), a)",
    ),
    # Goldberg's forms (ACM Computing Surveys 23(1), 1991, theorem 4): the rounding error of 1 + a
    # and of exp(a) cancels in the quotient; away from zero the plain form is exact enough.
    ScalarOp(
        "log1p",
        1,
        float_=_f("log1p"),
        expand="where(eq(add(a, 1), 1), a, where(lt(abs(a), 1), "
        "div(mul(a, log(add(a, 1))), add(add(a, 1), -1)), log(add(a, 1))))",
    ),
    ScalarOp(
        "expm1",
        1,
        float_=_f("expm1"),
        expand="where(eq(exp(a), 1), a, where(lt(abs(a), 1), "
        "div(mul(a, add(exp(a), -1)), log(exp(a))), add(exp(a), -1)))",
    ),
    ScalarOp(
        "tanh",
        1,
        float_=_f("tanh"),
        expand="where(lt(a, 0), "
        "div(expm1(mul(2, a)), add(expm1(mul(2, a)), 2)), "
        "neg(div(expm1(mul(-2, a)), add(expm1(mul(-2, a)), 2))))",
    ),
    ScalarOp(
        "sigmoid", 1, float_="(1 / (1 + pk_exp_{t}(-{0})))", expand="recip(add(1, exp(neg(a))))"
    ),
)
# fmt: on

SCALAR_OPS: dict[str, ScalarOp] = {op.name: op for op in _TABLE}
