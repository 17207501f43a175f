"""Scalar operations, casts and rounding on the CPU against NumPy and PyTorch."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from halon.kernels.scalar_ops import SCALAR_OPS
from halon.kernels.tree import Apply, Input
from tests.devices.cpu_launch import F32, LEVELS, NUMPY, apply, isa, matrix, run, same

INTEGERS = [0, 1, 2, 3, 5, 7, 100, 127, 255]
SIGNED = [*INTEGERS, -1, -2, -3, -7, -128]
SPECIAL = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 7.25, 1e-3, -1e-3, 20.0, -20.0,
    89.5, -110.0, 1e5, 3e7, -3e7, 1e30, -1e30, 1e-40, -1e-40, np.inf, -np.inf, np.nan,
]  # fmt: skip


def samples(dtype: str) -> np.ndarray:
    if dtype == "bool":
        return np.array([False, True])
    if dtype == "u8":
        return np.array(INTEGERS, np.uint8)
    if dtype in ("i32", "i64"):
        limits = np.iinfo(NUMPY[dtype])
        return np.array([*SIGNED, limits.min, limits.max, limits.min + 1], NUMPY[dtype])
    with np.errstate(over="ignore"):
        return np.array(SPECIAL, NUMPY[dtype])


def _bits(name: str) -> Callable[..., torch.Tensor]:
    return getattr(torch, f"bitwise_{name}")


TORCH: dict[str, Callable[..., torch.Tensor]] = {
    "neg": torch.neg, "exp": torch.exp, "log": torch.log,
    # PyTorch's vectorised square root is not correctly rounded on every processor
    "sqrt": lambda x: torch.from_numpy(np.sqrt(x.numpy())),
    "recip": torch.reciprocal, "sin": torch.sin, "cos": torch.cos, "floor": torch.floor,
    "trunc": torch.trunc, "round": torch.round, "not": torch.bitwise_not, "add": torch.add,
    "mul": torch.mul, "div": torch.div, "idiv": torch.floor_divide, "mod": torch.remainder,
    "max": torch.maximum, "min": torch.minimum, "pow": torch.pow, "lt": torch.lt, "eq": torch.eq,
    "and": _bits("and"), "or": _bits("or"), "xor": _bits("xor"),
    "shl": torch.bitwise_left_shift, "shr": torch.bitwise_right_shift, "where": torch.where,
    "sub": torch.sub, "le": torch.le, "ne": torch.ne, "abs": torch.abs, "log1p": torch.log1p,
    "expm1": torch.expm1, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
    "ceil": torch.ceil, "fmod": torch.fmod, "copysign": torch.copysign, "hypot": torch.hypot,
    "nextafter": torch.nextafter, "atan2": torch.atan2, "complex": torch.complex,
    # PyTorch's gcd of the least integer is negative; NumPy's magnitude is the right one
    "gcd": lambda a, b: torch.from_numpy(np.gcd(a.numpy(), b.numpy())),
    **{name: getattr(torch, name) for name in (
        "exp2", "log2", "log10", "sinh", "cosh", "asinh", "acosh", "atanh", "tan", "asin", "acos",
        "atan", "erf", "erfc", "lgamma")},
}  # fmt: skip
#: Correctly rounded operations are compared exactly; these are not.
ULPS = {
    "exp": 2, "log": 2, "sin": 2, "cos": 2, "tanh": 2, "log1p": 1, "expm1": 1, "sigmoid": 3,
    "pow": 1, "hypot": 1, "exp2": 1, "log2": 1, "log10": 2, "sinh": 2, "cosh": 2, "asinh": 2,
    "acosh": 2, "atanh": 2, "tan": 2, "asin": 2, "acos": 2, "atan": 1, "atan2": 1, "erf": 2,
    "erfc": 8, "lgamma": 8,
}  # fmt: skip


def _defined() -> list[str]:
    """Operation and dtype of every entry of the table."""
    found = []
    for op, dtype in itertools.product(SCALAR_OPS.values(), NUMPY):
        try:
            op.template(dtype)
        except ValueError:
            continue
        if op.name != "cast":
            found.append(f"{op.name} {dtype}")
    return found


def _torch_value(op: str, dtype: str, ins: Sequence[np.ndarray]) -> np.ndarray:
    tensors = [torch.from_numpy(np.ascontiguousarray(a)) for a in ins]
    # PyTorch's vectorised f32 sqrt is not correctly rounded and its mod fails on subnormals
    if dtype == "f32" and (op in ULPS or op in ("sqrt", "mod", "fmod")):
        wide = [t.double() for t in tensors]
        return TORCH[op](*wide).float().numpy()
    if dtype == "f16":  # halon computes f16 in f32
        wide = [t.float() if t.dtype == torch.float16 else t for t in tensors]
        value = TORCH[op](*wide)
        return (value.half() if value.is_floating_point() else value).numpy()
    return TORCH[op](*tensors).numpy()


@matrix(level=LEVELS, case=_defined())
def test_scalar_operations_agree_with_pytorch(level: int, case: str) -> None:
    op, dtype = case.split()
    with isa(level):
        values = samples(dtype)
        arity = SCALAR_OPS[op].arity
        ins = np.meshgrid(*([values] * min(arity, 2)))
        if op == "where":
            ins = [ins[0] > ins[1], *ins]
        if op in ("idiv", "mod", "fmod") and dtype[0] in "iu":
            ins = [a[ins[1] != 0] for a in ins]
        if op in ("floor", "ceil", "trunc", "round") and dtype[0] in "iu":
            same(apply(op, *ins), ins[0])
            return
        want = _torch_value(op, dtype, ins)
        same(apply(op, *ins), want, ULPS.get(op, 0) if dtype != "f16" else 1)


@matrix(level=LEVELS, src=NUMPY, dst=NUMPY)
def test_casts_agree_with_numpy(level: int, src: str, dst: str) -> None:
    with isa(level):
        x = samples(src)
        if src[0] == "f" and dst[0] in "iu":
            x = x[np.isfinite(x) & (np.abs(x.astype(np.float64)) < 1e9)]
        if src[0] == "f" and dst == "u8":
            x = x[np.abs(x.astype(np.float64)) < 1e4]
        with np.errstate(over="ignore", invalid="ignore"):
            want = x.astype(NUMPY[dst])
        tree = Apply("cast", (Input(0, src),), dst)
        same(run("cast", [x], [np.empty(x.shape, NUMPY[dst])], expr=tree), want)


@pytest.mark.parametrize("level", LEVELS)
def test_every_half_survives_the_way_through_float(level: int) -> None:
    with isa(level):
        x = np.arange(2**16, dtype=np.uint16).view(np.float16)
        wide = run(
            "cast", [x], [np.empty(2**16, F32)], expr=Apply("cast", (Input(0, "f16"),), "f32")
        )
        same(wide, x.astype(F32))
        back = run(
            "cast", [wide], [np.empty_like(x)], expr=Apply("cast", (Input(0, "f32"),), "f16")
        )
        same(back, x)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("src", ["f32", "f64"])
def test_rounding_to_half_is_to_nearest_even(level: int, src: str) -> None:
    with isa(level):
        halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64)
        middle = (halves[1:] + halves[:-1]) / 2
        near = np.concatenate([middle, middle * (1 + 2.0**-20), middle * (1 - 2.0**-20), -middle])
        near = np.concatenate([near, [65519.0, 65520.0, 1e9]]).astype(NUMPY[src])
        if src == "f64":
            near = np.concatenate([near, middle * (1 + 2.0**-50), middle * (1 - 2.0**-50)])
        tree = Apply("cast", (Input(0, src),), "f16")
        got = run("cast", [near], [np.empty(near.shape, np.float16)], expr=tree)
        with np.errstate(over="ignore"):
            same(got, near.astype(np.float16))


RANGES = {
    "exp": (-105, 90), "log": (1e-42, 1e38), "sin": (-1e6, 1e6), "cos": (-1e6, 1e6),
    "tanh": (-12, 12), "expm1": (-30, 90), "log1p": (-0.999999, 1e6),
}  # fmt: skip


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("op", RANGES)
def test_single_precision_functions_are_within_two_ulp(level: int, op: str) -> None:
    with isa(level):
        rng = np.random.default_rng(1)
        lo, hi = RANGES[op]
        x = rng.uniform(lo, hi, 200_000)
        small = rng.uniform(-1, 1, 100_000) * 10.0 ** rng.uniform(-40, 0, 100_000)
        x = np.concatenate([x, np.abs(small) if op == "log" else small]).astype(F32)
        if op == "log":
            x = np.concatenate([x, np.exp(rng.uniform(-90, 88, 100_000)).astype(F32)])
        same(apply(op, x), _torch_value(op, "f32", [x]), ulps=2)


@pytest.mark.parametrize("op", ["sin", "cos"])
def test_far_angles_fall_back_to_the_exact_reduction(op: str) -> None:
    x = np.array([1e6, 3.3e9, 1e20, -3e38, np.inf, np.nan, 1.0], F32)
    same(apply(op, x), _torch_value(op, "f32", [x]), ulps=1)


@pytest.mark.parametrize("op", ["idiv", "mod"])
@pytest.mark.parametrize("dtype", ["u8", "i32", "i64"])
def test_integer_division_by_zero_raises_as_in_pytorch(op: str, dtype: str) -> None:
    x = np.ones(3000, NUMPY[dtype])
    y = x.copy()
    y[2999] = 0
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        apply(op, x, y)
