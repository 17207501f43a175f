"""Tensor behaviour against torch: creation, promotion, views, in-place, doors."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest
import torch

import halon
from halon.hal.errors import IndexOutOfRange, UnknownDevice
from halon.testing import assert_close

DTYPES = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
)


@pytest.mark.parametrize(("a", "b"), [*itertools.combinations_with_replacement(DTYPES, 2)])
def test_promotion_is_torchs(a: str, b: str) -> None:
    expected = torch.promote_types(getattr(torch, a), getattr(torch, b))
    assert repr(halon.promote_types(getattr(halon, a), getattr(halon, b)))[6:] == str(expected)[6:]


OPERANDS = {
    "dim": lambda lib, d: lib.ones(2, dtype=d),
    "zero": lambda lib, d: lib.ones((), dtype=d),
}


@pytest.mark.parametrize("kinds", [("dim", "zero"), ("zero", "dim"), ("zero", "zero")])
def test_zero_dim_operands_have_lower_priority(kinds: tuple[str, str]) -> None:
    compute = ("bool", "uint8", "int32", "int64", "float16", "float32", "float64")
    for a, b in itertools.product(compute, compute):
        ours = [OPERANDS[k](halon, getattr(halon, d)) for k, d in zip(kinds, (a, b), strict=True)]
        theirs = [OPERANDS[k](torch, getattr(torch, d)) for k, d in zip(kinds, (a, b), strict=True)]
        assert repr((ours[0] + ours[1]).dtype)[6:] == str((theirs[0] + theirs[1]).dtype)[6:], (a, b)


@pytest.mark.parametrize("number", [True, 2, 2.5])
def test_python_numbers_have_the_lowest_priority(number: float, device: str) -> None:
    for d in ("bool", "uint8", "int32", "int64", "float16", "float32", "float64"):
        t = torch.ones(2, dtype=getattr(torch, d))
        h = halon.ones(2, dtype=getattr(halon, d), device=device)
        for f in (
            lambda x: x + number,
            lambda x: number * x,
            lambda x: x / number,
            lambda x: x < number,
        ):
            assert_close(f(h), f(t))


def test_numbers_that_do_not_fit_are_refused(device: str) -> None:
    x = halon.ones(2, dtype=halon.uint8, device=device)
    with pytest.raises(RuntimeError, match="without overflow"):
        x + 300
    with pytest.raises(RuntimeError, match="without overflow"):
        x + -1


CREATED = [
    lambda lib: lib.arange(5),
    lambda lib: lib.arange(1.0, 2.0, 0.25),
    lambda lib: lib.arange(5, 0, -2),
    lambda lib: lib.zeros(2, 3),
    lambda lib: lib.full((2,), 7),
    lambda lib: lib.full((), 1.5),
    lambda lib: lib.ones(0, 3),
    lambda lib: lib.eye(3, 2),
    lambda lib: lib.linspace(0, 1, 5),
    lambda lib: lib.tensor([[1, 2], [3, 4]]),
    lambda lib: lib.tensor([1.5, float("nan")]),
    lambda lib: lib.tensor(True),
    lambda lib: lib.tensor([]),
    lambda lib: lib.zeros_like(lib.ones(2, 2)),
]


@pytest.mark.parametrize("make", CREATED)
def test_creation_is_torchs(make: object) -> None:
    assert_close(make(halon), make(torch))  # type: ignore[operator]


VIEWS = [
    lambda x: x[1],
    lambda x: x[-1, 1:],
    lambda x: x[:, ::2],
    lambda x: x[..., None, 0],
    lambda x: x[None, :, 1:3],
    lambda x: x.t()[1:, 0],
    lambda x: x.T.reshape(-1),
    lambda x: x.reshape(2, -1),
    lambda x: x.view(6, 2)[::3],
    lambda x: x.unsqueeze(1).squeeze(),
    lambda x: x.expand(2, 3, 4)[1],
    lambda x: x[:1].expand(3, 4),
    lambda x: x.permute(1, 0)[2],
    lambda x: x.transpose(0, 1).contiguous(),
    lambda x: x.narrow(1, 1, 2),
    lambda x: x.select(0, 2),
    lambda x: x.flatten(),
    lambda x: x[5:, 1:],
    lambda x: x[True],
]


@pytest.mark.parametrize("view", VIEWS)
def test_views_have_torchs_values_and_strides(view: object, device: str) -> None:
    data = np.arange(12, dtype="f4").reshape(3, 4)
    ours, theirs = view(halon.tensor(data, device=device)), view(torch.tensor(data))  # type: ignore[operator]
    assert_close(ours, theirs)
    if theirs.numel():
        assert tuple(ours.stride()) == tuple(theirs.stride())


INDEXED = [
    lambda x, i: x[i([2, 0])],
    lambda x, i: x[:, i([1, -1, 0])],
    lambda x, i: x[i([[0, 1], [2, 2]])],
    lambda x, i: x[x > 4],
    lambda x, i: x[i([True, False, True])],
    lambda x, i: x[1:, i([0])],
]


@pytest.mark.parametrize("index", INDEXED)
def test_one_index_tensor_or_mask(index: object, device: str) -> None:
    data = np.arange(12, dtype="f4").reshape(3, 4)
    ours = index(halon.tensor(data, device=device), lambda v: halon.tensor(v, device=device))  # type: ignore[operator]
    assert_close(ours, index(torch.tensor(data), torch.tensor))  # type: ignore[operator]


def test_indices_out_of_range_are_named(device: str) -> None:
    x = halon.arange(4, device=device)
    with pytest.raises(IndexError, match="index 4 is out of bounds for dimension 0 with size 4"):
        x[4]
    with pytest.raises(IndexOutOfRange, match=r"out of bounds|out of range"):
        x.gather(0, halon.tensor([0, 4], device=device)).cpu()


ASSIGNED = [
    lambda x, lib: x.__setitem__(0, 7.0),
    lambda x, lib: x.__setitem__((slice(None), 1), lib.tensor([1.0, 2.0, 3.0])),
    lambda x, lib: x.__setitem__(slice(1, None), lib.ones(4)),
    lambda x, lib: x.__setitem__(x > 5, 0.0),
    lambda x, lib: x.t().mul_(2),
    lambda x, lib: x.clamp_(2, 8),
    lambda x, lib: x.zero_(),
    lambda x, lib: x.fill_(3),
    lambda x, lib: x.view(-1)[::5].sub_(1),
    lambda x, lib: x.masked_fill_(x < 3, -1.0),
]


@pytest.mark.parametrize("write", ASSIGNED)
def test_in_place_writes_through_views(write: object, device: str) -> None:
    def tensor(lib: object, a: np.ndarray) -> object:
        return lib.tensor(a)  # type: ignore[attr-defined]

    class OnDevice:
        @staticmethod
        def tensor(v: object) -> halon.Tensor:
            return halon.tensor(v, device=device)

        @staticmethod
        def ones(n: int) -> halon.Tensor:
            return halon.ones(n, device=device)

    data = np.arange(12, dtype="f4").reshape(3, 4)
    ours, theirs = halon.tensor(data, device=device), torch.tensor(data)
    before = ours._version
    write(ours, OnDevice)  # type: ignore[operator]
    write(theirs, torch)  # type: ignore[operator]
    assert_close(ours, theirs)
    assert ours._version > before


def test_overlapping_operands_are_refused_or_copied(device: str) -> None:
    x = halon.arange(6, device=device)
    with pytest.raises(RuntimeError, match=r"add_.*refer to a single memory location"):
        x[1:].add_(x[:-1])
    x[1:].copy_(x[:-1])
    assert x.tolist() == [0, 0, 1, 2, 3, 4]
    x.add_(x)
    assert x.tolist() == [0, 0, 2, 4, 6, 8]


def test_copy_takes_its_source_from_another_device(device: str) -> None:
    x = halon.zeros(3, device=device)
    x.copy_(halon.tensor([1.0, 2.0, 3.0]))
    assert x.tolist() == [1, 2, 3]


def test_in_place_keeps_the_dtype_and_refuses_a_higher_category(device: str) -> None:
    x = halon.ones(2, dtype=halon.float32, device=device)
    x.add_(halon.ones(2, dtype=halon.float64, device=device))
    assert x.dtype is halon.float32
    with pytest.raises(RuntimeError, match="can't be cast"):
        halon.ones(2, dtype=halon.int64, device=device).add_(1.5)
    with pytest.raises(RuntimeError, match="single memory location"):
        halon.ones(1, device=device).expand(3).add_(1)


def test_out_is_written_resized_and_refused_under_autograd(device: str) -> None:
    a = halon.ones(3, device=device)
    out = halon.empty(3, device=device)
    assert halon.add(a, 1, out=out) is out
    assert out.tolist() == [2, 2, 2]
    small = halon.empty(0, device=device)
    assert halon.exp(a * 0, out=small).tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="automatic differentiation"):
        halon.exp(halon.ones(3, device=device, requires_grad=True), out=out)


def test_views_share_memory_and_version(device: str) -> None:
    x = halon.zeros(4, device=device)
    v = x[1:3]
    v.add_(1)
    assert x.tolist() == [0, 1, 1, 0]
    assert x._version == v._version == 1
    assert v._base is x


def test_numpy_shares_memory_both_ways() -> None:
    a = np.arange(6, dtype="f4").reshape(2, 3)
    t = halon.from_numpy(a[:, ::2])
    a[0, 0] = 9
    assert t[0, 0].item() == 9
    n = halon.zeros(3).numpy()
    n[1] = 5
    held = halon.zeros(2)
    view = held.numpy()
    held.add_(1)
    del held
    assert view.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="detach"):
        halon.ones(1, requires_grad=True).numpy()
    with pytest.raises(ValueError, match="negative"):
        halon.from_numpy(a[::-1])


def test_numpy_of_another_device_says_how(device: str) -> None:
    t = halon.ones(2, device=device)
    if t.meta.device.is_host:
        assert t.numpy().tolist() == [1, 1]
        return
    with pytest.raises(TypeError, match=r"Use Tensor.cpu\(\)"):
        t.numpy()
    assert t.numpy(force=True).tolist() == [1, 1]


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_storage_dtype_moves_to_a_device_and_back(dtype: str, device: str) -> None:
    if dtype == "bfloat16":
        x = halon.empty(3, dtype=halon.bfloat16)
        assert x.to(device).to("cpu").dtype is halon.bfloat16
        return
    data = np.array([0, 1, 1], dtype=dtype)
    back = halon.from_numpy(data).to(device, copy=True).cpu()
    assert_close(back, data)


def test_casts_are_torchs(device: str) -> None:
    values = np.array([-1.5, 0.0, 0.4, 2.9, 100.0])
    compute = ("bool", "int32", "int64", "float16", "float32", "float64")
    for a, b in itertools.product(compute, compute):
        source = torch.tensor(values).to(getattr(torch, a))
        ours = halon.tensor(source.numpy(), device=device).to(getattr(halon, b))
        assert_close(ours, source.to(getattr(torch, b)))


def test_to_returns_itself_when_nothing_changes(device: str) -> None:
    x = halon.ones(2, device=device)
    assert x.to(device) is x
    assert x.to(halon.float32) is x
    assert x.to(device, copy=True) is not x


def test_mixed_devices_are_named(device: str) -> None:
    x, y = halon.ones(3, 4), halon.ones(4, device=device)
    if y.meta.device.is_host:
        return
    with pytest.raises(RuntimeError, match=r"x?.*f32\[3, 4\] on cpu.*Move one with"):
        x + y
    assert_close(halon.tensor(2.0) * y, torch.full((4,), 2.0))  # a 0-d host tensor may join


def test_unknown_devices_are_named() -> None:
    with pytest.raises(UnknownDevice, match=r"unknown device 'nosuch'\. Registered: cpu"):
        halon.ones(1, device="nosuch")
    with pytest.raises(UnknownDevice, match="Invalid device string"):
        halon.device("a:b")
    with pytest.raises(UnknownDevice, match="no device reference:7"):
        halon.ones(1, device="reference:7")


def test_pickle_and_deepcopy(device: str) -> None:
    x = halon.tensor([[1.0, 2.0]], requires_grad=True, device=device)
    for y in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert y.tolist() == [[1, 2]]
        assert y.requires_grad
        assert str(y.device) == str(x.device)
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(x * 2)


def test_python_protocols() -> None:
    x = halon.tensor([1, 2, 3])
    assert len(x) == 3
    assert [int(v) for v in x] == [1, 2, 3]
    assert 2 in x
    assert bool(halon.tensor(1.0))
    assert [10, 20][halon.tensor(1)] == 20
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(x)
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        x.item()
    with pytest.raises(TypeError, match="0-d tensor"):
        len(halon.tensor(1))


def test_integer_division_by_zero_raises(device: str) -> None:
    x = halon.tensor([1, 2, 3], device=device)
    for f in (lambda: x // 0, lambda: x % halon.tensor([1, 0, 2], device=device)):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            f().cpu()  # asynchronous devices tell at the next synchronisation
    assert (x // 2).tolist() == [0, 1, 1]


def test_max_and_min_in_their_three_forms(device: str) -> None:
    data = np.array([[1.0, 5.0, 5.0], [7.0, np.nan, 2.0]], "f4")
    ours, theirs = halon.tensor(data, device=device), torch.tensor(data)
    for f in ("max", "min"):
        a, b = getattr(ours, f)(1), getattr(theirs, f)(1)
        assert_close(a.values, b.values)
        assert_close(a.indices, b.indices)
        assert_close(getattr(ours, f)(), getattr(theirs, f)())
        assert_close(getattr(ours, f)(ours * 0), getattr(theirs, f)(theirs * 0))


def test_max_pooling_of_nan_gives_the_last_ones_index(device: str) -> None:
    data = np.array([[[[np.nan, 1.0, 5.0], [np.nan, 2.0, 5.0]]]], "f4")
    ours = halon.max_pool2d(halon.tensor(data, device=device), 2, 1, return_indices=True)
    theirs = torch.nn.functional.max_pool2d(torch.tensor(data), 2, 1, return_indices=True)
    for a, b in zip(ours, theirs, strict=True):
        assert_close(a, b)


def test_reductions_of_nothing(device: str) -> None:
    x = halon.ones(0, 3, device=device)
    t = torch.ones(0, 3)
    for f in (lambda v: v.sum(), lambda v: v.prod(), lambda v: v.sum(0), lambda v: v.mean(0)):
        assert_close(f(x), f(t))
    assert_close((x > 0).all(), (t > 0).all())
    with pytest.raises(IndexError, match="no identity"):
        x.amax(0)
