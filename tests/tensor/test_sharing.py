"""Pickling and copying: what is shared stays shared, what is kept and what is refused."""

import copy
import gc
import pickle

import pytest
import torch

import halon
from halon.hal import dtypes as dt
from halon.hal.errors import UnknownDevice
from halon.hal.registry import host
from halon.nn import Linear, Parameter
from tests.hal.fakes import FakeDevice, python, register

COPIERS = [copy.deepcopy, *(lambda v, p=p: pickle.loads(pickle.dumps(v, p)) for p in range(6))]
every_copier = pytest.mark.parametrize("copier", COPIERS)


@every_copier
def test_views_share_memory_afterwards_and_not_with_the_original(copier):
    base = halon.arange(12.0).reshape(3, 4)
    twin, view, turned = copier([base, base[1:, ::2], base.t()])
    assert view.tolist() == base[1:, ::2].tolist()
    assert turned.stride() == base.t().stride()
    twin.zero_()
    assert view.tolist() == [[0, 0], [0, 0]]
    assert turned.tolist() == twin.t().tolist()
    assert base[1, 0].item() == 4


@every_copier
def test_the_same_tensor_twice_is_one_tensor_afterwards(copier):
    t = halon.ones(2)
    first, again = copier((t, t))
    assert first is again


@every_copier
@pytest.mark.parametrize("dtype", dt.ALL, ids=lambda d: d.name)
def test_every_dtype_is_kept(copier, dtype):
    t = halon.frombuffer(bytes(range(16)), dtype=dtype)
    twin = copier(t)
    assert twin.dtype is dtype
    assert twin.numpy().tobytes() == t.numpy().tobytes()


@every_copier
def test_class_gradient_wish_and_attributes_are_kept(copier):
    p = Parameter(halon.ones(2), requires_grad=False)
    p.note = {"decay": False}
    x = halon.ones(0, 3, requires_grad=True)
    twin, empty = copier([p, x])
    assert type(twin) is Parameter
    assert not twin.requires_grad
    assert twin.note == {"decay": False}
    assert empty.requires_grad
    assert empty.shape == (0, 3)


def test_tied_parameters_of_a_module_stay_tied():
    model = Linear(2, 2)
    model.other = model.weight
    for copier in COPIERS:
        twin = copier(model)
        assert twin.other is twin.weight
        assert twin.weight.storage is not model.weight.storage


def test_deepcopy_copies_gradients_and_pickling_drops_them_as_in_torch():
    for lib in (halon, torch):
        x = lib.ones(2, requires_grad=True)
        (x * 3).sum().backward()
        assert copy.deepcopy(x).grad.tolist() == [3, 3]
        assert pickle.loads(pickle.dumps(x)).grad is None


def test_deepcopy_of_a_result_is_refused_as_by_torch():
    for lib in (halon, torch):
        with pytest.raises(RuntimeError, match=r"graph leaves.* support the deepcopy"):
            copy.deepcopy(lib.ones(2, requires_grad=True) * 2)
    kept = pickle.loads(pickle.dumps(halon.ones(2, requires_grad=True) * 2))
    assert kept.is_leaf
    assert kept.requires_grad


def test_a_shallow_copy_shares_memory():
    x = halon.ones(2, requires_grad=True)
    twin = copy.copy(x)
    assert twin is not x
    assert twin.storage is x.storage
    assert twin.requires_grad


def test_a_device_is_kept():
    there = halon.arange(3.0).to("reference:0")[1:]
    for copier in COPIERS:
        twin = copier(there)
        assert str(twin.device) == "reference:0"
        assert twin.tolist() == [1, 2]
        assert twin.storage is not there.storage


def test_a_device_that_is_missing_at_load_is_named():
    name = register(FakeDevice())
    data = pickle.dumps(halon.ones(1).to(name))
    done = python(f"import halon, pickle; pickle.loads({data!r})")
    assert done.returncode != 0
    assert "UnknownDevice" in done.stderr
    assert name.split(":")[0] in done.stderr
    assert issubclass(UnknownDevice, RuntimeError)


@pytest.mark.parametrize("value", [*dt.ALL, halon.device("cpu"), halon.Size([1, 2])], ids=str)
def test_dtypes_devices_and_sizes_survive(value):
    for copier in (*COPIERS, copy.copy):
        twin = copier(value)
        assert twin == value
        assert type(twin) is type(value)
        assert repr(twin) == repr(value)


@every_copier
def test_a_generator_continues_its_sequence(copier):
    g = halon.Generator().manual_seed(5)
    halon.rand(3, generator=g)
    twin = copier(g)
    assert twin.initial_seed() == 5
    assert halon.rand(4, generator=twin).tolist() == halon.rand(4, generator=g).tolist()


def test_nothing_keeps_a_copied_storage_alive():
    gc.collect()
    statistics = host().allocator.stats
    before = statistics.allocated_bytes
    for _ in range(20):
        copy.deepcopy(halon.ones(1000))
        pickle.loads(pickle.dumps(halon.ones(1000)))
    gc.collect()
    assert statistics.allocated_bytes <= before
