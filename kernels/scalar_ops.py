"""The meaning of each scalar operation for bool, integer, floating and complex operands: one table.

A template is C that compiles as OpenCL C, CUDA C++ and C11; ``pk_`` functions live in ``pk.h`` and
its C twin, with the dtype as suffix (``pk_max_f32``). ``{t}`` is the operands' short dtype name,
``{0}`` ``{1}`` ``{2}`` the operands. ``expand`` gives the same value over the primitives of
PLUGIN 3c, for devices that run named primitives; kernel devices use the template. Where a template
is empty, the expansion is the operation's meaning on every device; ``expand_complex`` is that of
complex operands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: the complex dtype whose parts are of a floating one
_COMPLEX_OF: Final = {"f32": "c64", "f64": "c128"}


@dataclass(frozen=True, slots=True)
class ScalarOp:
    """One operation; an empty template without an expansion: not defined.

    ``result`` is ``"same"`` (as the operands), ``"bool"``, ``"real"`` (a part of a complex operand;
    as the operand where that is real) or ``"complex"`` (made of two real operands).
    """

    name: str
    arity: int
    result: str = "same"
    bool_: str = ""
    int_: str = ""
    float_: str = ""
    expand: str = ""  # over primitives; empty for a primitive
    complex_: str = ""
    expand_complex: str = ""

    @property
    def primitive(self) -> bool:
        """Whether op devices are asked for it by name alone."""
        return not self.expand and not self.expand_complex

    def expansion(self, dtype: str) -> str:
        """The expression over ``a`` and ``b`` for operands of ``dtype``; empty for a primitive."""
        return self.expand_complex if dtype[0] == "c" else self.expand

    def result_dtype(self, dtype: str) -> str:
        """The result's dtype for operands (of ``where``: the values) of ``dtype``."""
        if self.result == "bool":
            return "bool"
        if self.result == "real":
            return {"c64": "f32", "c128": "f64"}.get(dtype, dtype)
        return _COMPLEX_OF[dtype] if self.result == "complex" else dtype

    def template(self, dtype: str) -> str:
        """The C template for operands of ``dtype``; KeyError-like ValueError where undefined."""
        kind = "bool" if dtype == "bool" else dtype[0]
        text = {"bool": self.bool_, "f": self.float_, "c": self.complex_}.get(kind, self.int_)
        if not text or (self.result == "complex" and dtype not in _COMPLEX_OF):
            raise ValueError(f"{self.name} is not defined for {dtype}")
        return text


def _f(name: str) -> str:
    return f"pk_{name}_{{t}}({{0}})"


_BITS = "({0} %s {1})"


def _c(name: str, arity: int = 1) -> str:
    return f"pk_{name}_{{t}}({{0}}{', {1}' if arity == 2 else ''})"


def _horner(x: str, *coefficients: float) -> str:
    """A polynomial, its highest power first."""
    text = repr(coefficients[0])
    for c in coefficients[1:]:
        text = f"({text} * {x} + {c!r})"
    return text


# -- W. J. Cody, Rational Chebyshev approximation for the error function, Math. Comp. 23 (1969) ----
_ERF_SMALL = (
    "a * " + _horner('(a * a)', 1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2,
                   3.77485237685302021e2, 3.20937758913846947e3)
    + " / " + _horner('(a * a)', 1.0, 2.36012909523441209e1, 2.44024637934444173e2,
                  1.28261652607737228e3, 2.84423683343917062e3)
)  # fmt: skip
_ERFC_MIDDLE = (
    _horner('a', 2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594,
               6.61191906371416295e1, 2.98635138197400131e2, 8.81952221241769090e2,
               1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3)
    + " / " + _horner('a', 1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2,
                  1.62138957456669019e3, 3.29079923573345963e3, 4.36261909014324716e3,
                  3.43936767414372164e3, 1.23033935480374942e3)
)  # fmt: skip
_ERFC_FAR = (
    "(0.56418958354775628695 - 1 / (a * a) * "
    + _horner('(1 / (a * a))', 1.63153871373020978e-2, 3.05326634961232344e-1,
               3.60344899949804439e-1, 1.25781726111229246e-1, 1.60837851487422766e-2,
               6.58749161529837803e-4)
    + " / " + _horner('(1 / (a * a))', 1.0, 2.56852019228982242, 1.87295284992346725,
                  5.27905102951428412e-1, 6.05183413124413191e-2, 2.33520497626869185e-3) + ") / a"
)  # fmt: skip

# fmt: off
_TABLE = (
    # -- primitives --------------------------------------------------------------------------------
    ScalarOp("cast", 1, bool_="{0}", int_="{0}", float_="{0}", complex_="{0}"),  # by the generators
    ScalarOp("neg", 1, int_="pk_neg_{t}({0})", float_="(-{0})", complex_=_c("neg")),
    ScalarOp("exp", 1, float_=_f("exp"), complex_=_c("exp")),
    ScalarOp("log", 1, float_=_f("log"), complex_=_c("log")),
    ScalarOp("sqrt", 1, float_=_f("sqrt"), complex_=_c("sqrt")),
    ScalarOp("recip", 1, float_="(1 / {0})", complex_=_c("recip")),
    ScalarOp("sin", 1, float_=_f("sin"), complex_=_c("sin")),
    ScalarOp("cos", 1, float_=_f("cos"), complex_=_c("cos")),
    ScalarOp("floor", 1, int_="{0}", float_=_f("floor")),
    ScalarOp("trunc", 1, int_="{0}", float_=_f("trunc")),
    ScalarOp("round", 1, int_="{0}", float_=_f("round")),  # half to even
    ScalarOp("not", 1, bool_="(!{0})", int_="(~{0})"),
    ScalarOp("add", 2, bool_="({0} | {1})", int_="pk_add_{t}({0}, {1})", float_="({0} + {1})",
             complex_=_c("add", 2)),
    ScalarOp("mul", 2, bool_="({0} & {1})", int_="pk_mul_{t}({0}, {1})", float_="({0} * {1})",
             complex_=_c("mul", 2)),
    ScalarOp("div", 2, float_="({0} / {1})", complex_=_c("div", 2)),
    # floored and exact in integers; 0 for a zero divisor (the host raises, a device flags it)
    ScalarOp("idiv", 2, int_="pk_idiv_{t}({0}, {1})", float_="pk_idiv_{t}({0}, {1})"),
    ScalarOp("mod", 2, int_="pk_mod_{t}({0}, {1})", float_="pk_mod_{t}({0}, {1})"),
    ScalarOp("max", 2, bool_="({0} | {1})", int_="({0} > {1} ? {0} : {1})",
             float_="pk_max_{t}({0}, {1})"),
    ScalarOp("min", 2, bool_="({0} & {1})", int_="({0} < {1} ? {0} : {1})",
             float_="pk_min_{t}({0}, {1})"),
    ScalarOp("pow", 2, int_="pk_pow_{t}({0}, {1})", float_="pk_pow_{t}({0}, {1})",
             complex_=_c("pow", 2)),
    ScalarOp("lt", 2, "bool", "({0} < {1})", "({0} < {1})", "({0} < {1})"),
    ScalarOp("eq", 2, "bool", "({0} == {1})", "({0} == {1})", "({0} == {1})",
             complex_=_c("eq", 2)),
    ScalarOp("and", 2, bool_=_BITS % "&", int_=_BITS % "&"),
    ScalarOp("or", 2, bool_=_BITS % "|", int_=_BITS % "|"),
    ScalarOp("xor", 2, bool_=_BITS % "^", int_=_BITS % "^"),
    ScalarOp("shl", 2, int_="pk_shl_{t}({0}, {1})"),
    ScalarOp("shr", 2, int_="pk_shr_{t}({0}, {1})"),  # arithmetic on signed types
    ScalarOp("where", 3, "same", "({0} ? {1} : {2})", "({0} ? {1} : {2})", "({0} ? {1} : {2})",
             complex_="({0} ? {1} : {2})"),
    ScalarOp("real", 1, "real", complex_=_c("real")),
    ScalarOp("imag", 1, "real", complex_=_c("imag")),
    ScalarOp("complex", 2, "complex", float_="pk_complex_{t}({0}, {1})"),  # {t} is the parts' dtype
    # -- kernel devices have these; the rest expand them -------------------------------------------
    ScalarOp("sub", 2, int_="pk_sub_{t}({0}, {1})", float_="({0} - {1})", expand="add(a, neg(b))",
             complex_=_c("sub", 2), expand_complex="add(a, neg(b))"),
    ScalarOp("le", 2, "bool", "({0} <= {1})", "({0} <= {1})", "({0} <= {1})",
             expand="or(lt(a, b), eq(a, b))"),
    ScalarOp("ne", 2, "bool", "({0} != {1})", "({0} != {1})", "({0} != {1})",
             expand="not(eq(a, b))", complex_="(!pk_eq_{t}({0}, {1}))",
             expand_complex="not(eq(a, b))"),
    ScalarOp("abs", 1, "real", int_="pk_abs_{t}({0})", float_=_f("abs"),
             expand="where(or(lt(a, 0), eq(a, 0)), add(0, neg(a)), a)",
             complex_=_c("abs"), expand_complex="hypot(real(a), imag(a))"),
    ScalarOp("conj", 1, complex_=_c("conj"), expand_complex="complex(real(a), neg(imag(a)))"),
    # Goldberg's forms (ACM Computing Surveys 23(1), 1991, theorem 4): the rounding error of 1 + a
    # and of exp(a) cancels in the quotient; away from zero the plain form is exact enough.
    ScalarOp("log1p", 1, float_=_f("log1p"),
             expand="where(eq(add(a, 1), 1), a, where(lt(abs(a), 1), "
             "div(mul(a, log(add(a, 1))), add(add(a, 1), -1)), log(add(a, 1))))",
             expand_complex="log(a + 1)"),
    ScalarOp("expm1", 1, float_=_f("expm1"),
             expand="where(eq(exp(a), 1), a, where(lt(abs(a), 1), "
             "div(mul(a, add(exp(a), -1)), log(exp(a))), add(exp(a), -1)))",
             expand_complex="exp(a) - 1"),
    ScalarOp("tanh", 1, float_=_f("tanh"),
             expand="where(lt(a, 0), "
             "div(expm1(mul(2, a)), add(expm1(mul(2, a)), 2)), "
             "neg(div(expm1(mul(-2, a)), add(expm1(mul(-2, a)), 2))))",
             expand_complex="where(lt(real(a), 0), (exp(2 * a) - 1) / (exp(2 * a) + 1), "
             "(1 - exp(-2 * a)) / (1 + exp(-2 * a)))"),
    ScalarOp("sigmoid", 1, float_="(1 / (1 + pk_exp_{t}(-{0})))", expand="recip(add(1, exp(neg(a))))",
             expand_complex="recip(1 + exp(-a))"),
    ScalarOp("ceil", 1, int_="{0}", float_=_f("ceil"), expand="-floor(-a)"),
    # the exact remainder with the dividend's sign
    ScalarOp("fmod", 2, int_="pk_fmod_{t}({0}, {1})", float_="pk_fmod_{t}({0}, {1})"),
    ScalarOp("copysign", 2, float_="pk_copysign_{t}({0}, {1})",
             expand="where((b < 0) | (1 / b < 0), -abs(a), abs(a))"),
    ScalarOp("hypot", 2, float_="pk_hypot_{t}({0}, {1})",
             expand="where((abs(a) == inf) | (abs(b) == inf), inf, "
             "where(max(abs(a), abs(b)) == 0, 0.0, max(abs(a), abs(b)) * sqrt(1 + "
             "(min(abs(a), abs(b)) / max(abs(a), abs(b))) * "
             "(min(abs(a), abs(b)) / max(abs(a), abs(b))))))"),
    ScalarOp("nextafter", 2, float_="pk_nextafter_{t}({0}, {1})"),
    ScalarOp("gcd", 2, int_="pk_gcd_{t}({0}, {1})"),  # of magnitudes; gcd(0, 0) is 0
    # -- exponentials and logarithms to other bases; hyperbolic functions --------------------------
    ScalarOp("exp2", 1, float_=_f("exp2"), expand="pow(2, a)",
             expand_complex="exp(a * 0.69314718055994530942)"),
    ScalarOp("log2", 1, float_=_f("log2"), expand="log(a) / 0.69314718055994530942",
             expand_complex="log(a) / 0.69314718055994530942"),
    ScalarOp("log10", 1, float_=_f("log10"), expand="log(a) / 2.3025850929940456840",
             expand_complex="log(a) / 2.3025850929940456840"),
    ScalarOp("sinh", 1, float_=_f("sinh"),
             expand="where(abs(a) < 1, 0.5 * (expm1(a) + expm1(a) / (expm1(a) + 1)), "
             "0.5 * exp(0.5 * abs(a)) * exp(0.5 * abs(a)) * where(a < 0, -1, 1) - 0.5 * "
             "exp(-abs(a)) * where(a < 0, -1, 1))",
             expand_complex="0.5 * (exp(a) - exp(-a))"),
    ScalarOp("cosh", 1, float_=_f("cosh"),
             expand="0.5 * exp(0.5 * abs(a)) * exp(0.5 * abs(a)) + 0.5 * exp(-abs(a))",
             expand_complex="0.5 * (exp(a) + exp(-a))"),
    ScalarOp("asinh", 1, float_=_f("asinh"),
             expand="where(abs(a) > 1e8, copysign(log(abs(a)) + 0.69314718055994530942, a), copysign("
             "log1p(abs(a) + a * a / (1 + sqrt(a * a + 1))), a))",
             expand_complex="log(a + sqrt(a * a + 1))"),
    ScalarOp("acosh", 1, float_=_f("acosh"),
             expand="where(a < 1, nan, where(a > 1e8, log(a) + 0.69314718055994530942, "
             "log1p((a - 1) + sqrt(2 * (a - 1) + (a - 1) * (a - 1)))))",
             expand_complex="log(a + sqrt(a + 1) * sqrt(a - 1))"),
    ScalarOp("atanh", 1, float_=_f("atanh"), expand="0.5 * copysign(log1p(2 * abs(a) / (1 - abs(a))), a)",
             expand_complex="0.5 * (log(1 + a) - log(1 - a))"),
    # -- inverse trigonometry (arc tangent of a reduced argument: S. L. Moshier, Cephes) -----------
    ScalarOp("tan", 1, float_=_f("tan"), expand="sin(a) / cos(a)",
             expand_complex="sin(a) / cos(a)"),
    ScalarOp("times_i", 1, expand_complex="complex(-imag(a), real(a))"),
    ScalarOp("atan_small", 1,  # |a| <= 0.66
             expand="a + a * (a * a) * (" + _horner('(a * a)', -8.750608600031904122785e-1,
                    -1.615753718733365076637e1, -7.500855792314704667340e1,
                    -1.228866684490136173410e2, -6.485021904942025371773e1) + " / "
             + _horner('(a * a)', 1.0, 2.485846490142306297962e1, 1.650270098316988542046e2,
                    4.328810604912902668951e2, 4.853903996359136964868e2,
                    1.945506571482613964425e2) + ")"),
    ScalarOp("atan", 1, float_=_f("atan"),
             expand="where(abs(a) > 2.41421356237309504880, copysign(1.57079632679489661923 - "
             "atan_small(1 / abs(a)), a), where(abs(a) > 0.66, copysign(0.78539816339744830962 + "
             "atan_small((abs(a) - 1) / (abs(a) + 1)), a), atan_small(a)))",
             expand_complex="times_i(0.5 * (log(1 - times_i(a)) - log(1 + times_i(a))))"),
    ScalarOp("asin", 1, float_=_f("asin"),
             expand="where(abs(a) == 1, copysign(1.57079632679489661923, a), "
             "atan(a / sqrt((1 - a) * (1 + a))))",
             expand_complex="complex(imag(asinh(times_i(a))), "
             "-real(asinh(times_i(a))))"),
    ScalarOp("acos", 1, float_=_f("acos"),
             expand="where(a == -1, 3.14159265358979323846, 2 * atan(sqrt((1 - a) / (1 + a))))",
             expand_complex="1.57079632679489661923 - asin(a)"),
    ScalarOp("atan2", 2, float_="pk_atan2_{t}({0}, {1})",
             expand="where((a != a) | (b != b), a + b, where((b < 0) | (1 / b < 0), "
             "copysign(where(abs(a) == abs(b), where(a == 0, 3.14159265358979323846, "
             "2.35619449019234492885), 3.14159265358979323846 - atan(abs(a) / abs(b))), a), "
             "copysign(where(abs(a) == abs(b), where(a == 0, 0.0, 0.78539816339744830962), "
             "atan(abs(a) / abs(b))), a)))"),
    # -- special functions -------------------------------------------------------------------------
    ScalarOp("erf_small", 1, expand=_ERF_SMALL),
    ScalarOp("erfc_far", 1, expand=_ERFC_FAR),
    ScalarOp("erfc_middle", 1, expand=_ERFC_MIDDLE),
    # exp(-a * a) with the square split, so that its rounding error is not magnified
    ScalarOp("exp_square", 1,
             expand="exp(-(trunc(a * 16) / 16) * (trunc(a * 16) / 16)) * "
             "exp(-(a - trunc(a * 16) / 16) * (a + trunc(a * 16) / 16))"),
    ScalarOp("erfc_positive", 1,
             expand="where(a > 27, 0.0, exp_square(a) * where(a > 4, erfc_far(a), erfc_middle(a)))"),
    ScalarOp("erf", 1, float_=_f("erf"),
             expand="where(abs(a) <= 0.46875, erf_small(a), copysign(1 - erfc_positive(abs(a)), a))"),
    ScalarOp("erfc", 1, float_=_f("erfc"),
             expand="where(abs(a) <= 0.46875, 1 - erf_small(a), "
             "where(a < 0, 2 - erfc_positive(abs(a)), erfc_positive(a)))"),
    # M. Giles, Approximating the erfinv function (2010), and two Newton steps
    ScalarOp("erfinv_start", 1,  # a = -log(1 - x * x)
             expand="where(a < 5, " + _horner('(a - 2.5)', 2.81022636e-08, 3.43273939e-07,
                    -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
                    0.246640727, 1.50140941) + ", "
             + _horner('(sqrt(a) - 3)', -0.000200214257, 0.000100950558, 0.00134934322,
                    -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047, 1.00167406,
                    2.83297682) + ")"),
    ScalarOp("erfinv_step", 2,  # one Newton step from a towards erfinv(b)
             expand="a - where(abs(b) < 0.5, erf(a) - b, "
             "where(b < 0, -1, 1) * ((1 - abs(b)) - erfc(abs(a)))) * "
             "0.88622692545275801365 / exp_square(abs(a))"),
    ScalarOp("erfinv", 1,
             expand="where(abs(a) == 1, a * inf, where(abs(a) > 1, nan, "
             "erfinv_step(erfinv_step(a * erfinv_start(-log((1 - a) * (1 + a))), a), a)))"),
    # log-gamma: Stirling's series (DLMF 5.11.1) above 8, reached by the recurrence
    ScalarOp("stirling", 1,
             expand="(a - 0.5) * log(a) - a + 0.91893853320467274178 + "
             + _horner('(1 / (a * a))', -1.9175269175269175e-3, 8.417508417508418e-4,
                -5.952380952380953e-4, 7.936507936507937e-4, -2.777777777777778e-3,
                8.333333333333333e-2) + " / a"),
    ScalarOp("lgamma_positive", 1,
             expand="where(a >= 8, stirling(a), stirling(a + 8) - log(a * (a + 1) * (a + 2) * (a + 3)"
             " * ((a + 4) * (a + 5) * (a + 6) * (a + 7))))"),
    ScalarOp("lgamma", 1, float_=_f("lgamma"),
             expand="where(abs(a) == inf, inf, where(a < 0.5, 1.14472988584940017414 - "
             "log(abs(sin(pi * (a - round(a))))) - lgamma_positive(1 - a), lgamma_positive(a)))"),
    # digamma: the asymptotic series (DLMF 5.11.2) above 10
    ScalarOp("digamma_far", 1,
             expand="log(a) - 0.5 / a - 1 / (a * a) * "
             + _horner('(1 / (a * a))', 8.333333333333333e-2, -2.109279609279609e-2,
                7.575757575757576e-3, -4.166666666666667e-3, 3.968253968253968e-3,
                -8.333333333333333e-3, 8.333333333333333e-2)),
    ScalarOp("digamma_positive", 1,
             expand="where(a >= 10, digamma_far(a), digamma_far(a + 10) - (1 / a + 1 / (a + 1) + "
             "1 / (a + 2) + 1 / (a + 3) + 1 / (a + 4) + 1 / (a + 5) + 1 / (a + 6) + 1 / (a + 7) + "
             "1 / (a + 8) + 1 / (a + 9)))"),
    ScalarOp("digamma", 1,
             expand="where(a == 0, -1 / a, where(a < 0, where(a == floor(a), nan, "
             "digamma_positive(1 - a) - pi * "
             "cos(pi * (a - round(a))) / sin(pi * "
             "(a - round(a)))), digamma_positive(a)))"),
    # trigamma: the asymptotic series (DLMF 5.15.8) above 8, the recurrence below
    ScalarOp("trigamma_far", 1,
             expand="1 / a + 0.5 / (a * a) + "
             + _horner("(1 / (a * a))", 7.575757575757576e-2, -3.333333333333333e-2,
                       2.3809523809523808e-2, -3.333333333333333e-2, 1.6666666666666666e-1)
             + " / (a * a * a)"),
    ScalarOp("inverse_square", 1, expand="1 / (a * a)"),
    ScalarOp("trigamma_positive", 1,
             expand=" + ".join(f"inverse_square(a + {k})" for k in range(8)) + " + trigamma_far(a + 8)"),
    ScalarOp("trigamma", 1,
             expand="where(a < 0.5, inverse_square(sin(pi * (a - round(a))) / pi) - "
             "trigamma_positive(1 - a), trigamma_positive(a))"),
)
# fmt: on

SCALAR_OPS: dict[str, ScalarOp] = {op.name: op for op in _TABLE}
