"""Tensors print as torch's do."""

import random

import numpy as np
import pytest
import torch

import halon
from halon.hal.registry import host
from halon.tensor.printing import get_printoptions, set_printoptions

DTYPES = ["float32", "float64", "float16", "int64", "int32", "int8", "uint8", "bool"]
COMPLEX = ["complex64", "complex128"]
SIZES = [0, 1, 2, 3, 5, 7, 8, 13, 30]


@pytest.fixture(autouse=True)
def _default_options():
    set_printoptions(profile="default")
    torch.set_printoptions(profile="default")
    yield
    set_printoptions(profile="default")
    torch.set_printoptions(profile="default")


def both(values, dtype, requires_grad=False):
    """The same tensor in both libraries, from one array."""
    array = np.array(values).astype(dtype)
    t, h = torch.from_numpy(array.copy()), halon.tensor(array)
    return h.requires_grad_(requires_grad), t.requires_grad_(requires_grad)


def assert_prints_alike(ours, theirs):
    assert repr(ours) == repr(theirs).replace("torch.", "halon.")


def magnitudes(kind, values, draw):
    """Values that meet the different number formats."""
    if kind == "integers":
        return np.round(values * 10)
    if kind == "special" and values.size:
        flat = values.reshape(-1).copy()
        for special in (np.inf, -np.inf, np.nan, 0.0, -0.0):
            flat[draw.randrange(flat.size)] = special
        return flat.reshape(values.shape)
    factor = {"large": 1e9, "small": 1e-5, "thousands": 1e3}.get(kind, 1.0)
    return np.exp(values * 5) if kind == "wide" else values * factor


@pytest.mark.parametrize(
    "kind", ["plain", "integers", "special", "large", "small", "thousands", "wide"]
)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_generated_tensors(dtype, kind):
    draw, numbers = random.Random(f"{dtype} {kind}"), np.random.RandomState(0)
    for _ in range(20):
        shape = [draw.choice(SIZES) for _ in range(draw.randint(0, 4))]
        while np.prod(shape) > 5000:
            shape.pop()
        values = magnitudes(kind, numbers.standard_normal(shape), draw)
        if dtype[0] != "f":
            # out-of-range conversions are undefined, so integers get integers
            values = (
                numbers.randint(0, 100, shape) > 50
                if dtype == "bool"
                else numbers.randint(0, 100, shape)
            )
        assert_prints_alike(*both(values, dtype))


@pytest.mark.parametrize("kind", ["plain", "integers", "special", "wide"])
@pytest.mark.parametrize("dtype", COMPLEX)
def test_generated_complex_tensors(dtype, kind):
    draw, numbers = random.Random(kind), np.random.RandomState(1)
    for _ in range(10):
        shape = [draw.choice(SIZES) for _ in range(draw.randint(0, 3))]
        real, imag = (magnitudes(kind, numbers.standard_normal(shape), draw) for _ in range(2))
        values = np.empty(shape, np.complex128)
        values.real, values.imag = real, imag
        assert_prints_alike(*both(values, dtype))


OTHERS = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "uint16", "uint32", "uint64", "int16"]


@pytest.mark.parametrize("kind", ["plain", "integers", "special", "large", "small", "wide"])
@pytest.mark.parametrize("dtype", [*OTHERS, *COMPLEX, "bool", "float16"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_generated_tensors_of_dtypes_that_come_from_torch(dtype, kind):
    draw, numbers = random.Random(f"{dtype} {kind} others"), np.random.RandomState(3)
    wanted = getattr(torch, dtype)
    for _ in range(15):
        shape = [draw.choice(SIZES) for _ in range(draw.randint(0, 3))]
        values = magnitudes(kind, numbers.standard_normal(shape), draw)
        if not (wanted.is_floating_point or wanted.is_complex):
            values = np.array(numbers.randint(0, 200, shape))
        theirs = torch.from_numpy(np.asarray(values)).to(wanted)
        if wanted.is_complex:
            theirs = torch.complex(theirs.real, theirs.imag + theirs.real.flip(-1 if shape else ()))
        assert_prints_alike(halon.from_dlpack(theirs), theirs)


@pytest.mark.parametrize("dtype", OTHERS)
@pytest.mark.parametrize(
    "options", [{"precision": 2}, {"threshold": 5}, {"sci_mode": True}, {"linewidth": 30}], ids=str
)
def test_options_hold_for_every_dtype(dtype, options):
    set_printoptions(**options)
    torch.set_printoptions(**options)
    for shape in [(), (3,), (40,), (9, 9)]:
        n = int(np.prod(shape))
        theirs = (torch.arange(n).reshape(shape) / 3).to(getattr(torch, dtype))
        assert_prints_alike(halon.from_dlpack(theirs), theirs)


@pytest.mark.parametrize("dtype", [*OTHERS, *COMPLEX])
def test_empty_tensors_and_gradients_of_every_dtype(dtype):
    for shape in [(0,), (2, 0), (0, 3, 1)]:
        theirs = torch.empty(shape, dtype=getattr(torch, dtype))
        assert_prints_alike(halon.from_dlpack(theirs), theirs)
    theirs = torch.ones(2, dtype=getattr(torch, dtype))
    if theirs.is_floating_point() or theirs.is_complex():
        ours = halon.from_dlpack(theirs).requires_grad_()
        assert_prints_alike(ours, theirs.requires_grad_())


def test_a_subclass_prints_its_name():
    class Named(halon.Tensor):
        pass

    ours = halon.Tensor._make_subclass(Named, halon.ones(2))
    assert repr(ours) == "Named([1., 1.])"


@pytest.mark.parametrize(
    "values",
    [
        [],
        [[]],
        np.zeros((0, 3)),
        np.zeros((2, 0)),
        0.0,
        -0.0,
        1e20,
        1e-20,
        float("nan"),
        [float("inf"), 1.0],
        [float("nan")] * 3,
        [0.0, 0.0],
        [1.0, 2.0],
        [1e8, 1.0],
        [99999999.0, 99999998.0],
        [0.1, 1000.0],
        [-1.5, float("inf")],
        [16777216.0],
        np.arange(1001.0),
        np.arange(1000.0),
        np.arange(2000).reshape(2, 1000),
        np.zeros((11, 11, 11)),
        np.full((50, 2, 12), -3),
        [[True, False], [False, True]],
        [-5, 100, 3],
    ],
    ids=lambda v: str(v)[:40],
)
def test_hard_cases(values):
    array = np.array(values)
    for dtype in {"f": ["float32", "float64"], "i": ["int64", "int32"], "b": ["bool"]}[
        array.dtype.kind
    ]:
        assert_prints_alike(*both(array, dtype))


def test_gradient_suffixes():
    ours, theirs = both([1.0, 2.5], "float32", requires_grad=True)
    assert_prints_alike(ours, theirs)
    assert_prints_alike(ours + 1, theirs + 1)
    assert_prints_alike(ours.detach(), theirs.detach())
    wide = both(np.arange(11.0), "float32", requires_grad=True)
    assert_prints_alike(*wide)
    assert_prints_alike(*both(np.ones((3, 9)), "float64", requires_grad=True))


def test_views_print_their_own_elements():
    ours, theirs = both(np.arange(24.0).reshape(2, 3, 4), "float32")
    assert_prints_alike(ours[:, 1:].permute(2, 0, 1), theirs[:, 1:].permute(2, 0, 1))
    assert_prints_alike(ours[0, 0].expand(5, 4), theirs[0, 0].expand(5, 4))


@pytest.mark.parametrize(
    "options",
    [
        {"precision": 2},
        {"precision": 0},
        {"threshold": 5},
        {"threshold": 5, "edgeitems": 1},
        {"threshold": 5, "edgeitems": 0},
        {"linewidth": 30},
        {"sci_mode": True},
        {"sci_mode": False},
        {"profile": "short"},
        {"profile": "full"},
    ],
    ids=str,
)
def test_options_mean_what_they_mean_in_torch(options):
    set_printoptions(**options)
    torch.set_printoptions(**options)
    numbers = np.random.RandomState(2)
    for shape in [(3,), (40,), (9, 9), (1200,), (2, 3, 8)]:
        for factor in (1, 1e6):
            assert_prints_alike(*both(numbers.standard_normal(shape) * factor, "float32"))


def test_an_unknown_profile_is_named():
    before = get_printoptions()
    with pytest.raises(ValueError, match="'tiny'"):
        set_printoptions(profile="tiny")
    assert get_printoptions() == before


def test_another_device_is_shown():
    from halon.hal.registry import registry

    others = [name for name in registry.available() if name != host().name]
    if not others:
        pytest.skip("only the host is here")
    shown = repr(halon.tensor([1.0, 2.0]).to(others[0]))
    assert shown == f"tensor([1., 2.], device='{others[0]}')"


def test_printing_records_nothing_and_changes_nothing():
    x = halon.ones(3, requires_grad=True)
    y = x * 2
    repr(y)
    y.sum().backward()
    assert x.grad.tolist() == [2.0] * 3
