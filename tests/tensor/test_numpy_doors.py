"""NumPy, buffers and Python numbers: what leaves a tensor and what comes back."""

import array
import gc
import mmap
import sys
import weakref

import numpy as np
import pytest
import torch

import halon
from halon.hal import dtypes as dt

ALL = [d.name for d in dt.ALL]
NUMPY = [d.name for d in dt.ALL if d.numpy.isbuiltin == 1]


def values(name, shape=(2, 3)):
    return np.arange(np.prod(shape)).reshape(shape).astype(getattr(halon, name).numpy)


@pytest.mark.parametrize("name", ALL)
def test_every_dtype_shares_its_memory_with_an_array(name):
    source = values(name)
    t = halon.from_numpy(source)
    assert t.dtype is getattr(halon, name)
    source[1, 2] = 0
    assert t.tolist() == source.tolist()
    t.numpy()[0, 1] = 3
    assert source[0, 1] == np.array(3, source.dtype)
    assert t.numpy().dtype == source.dtype


@pytest.mark.parametrize("name", ALL)
def test_tolist_is_that_of_torch(name):
    theirs = torch.arange(6).reshape(2, 3).to(getattr(torch, name))
    ours = halon.from_numpy(values(name)).tolist()
    assert ours == theirs.tolist()
    assert type(ours[0][0]) is type(theirs.tolist()[0][0])


@pytest.mark.parametrize("name", NUMPY)
def test_asarray_and_array_copy_as_numpy_2_asks(name):
    t = halon.from_numpy(values(name))
    assert np.shares_memory(np.asarray(t), t.numpy())
    assert np.shares_memory(t.__array__(copy=False), t.numpy())
    assert not np.shares_memory(np.array(t), t.numpy())
    assert not np.shares_memory(t.__array__(copy=True), t.numpy())
    assert t.__array__(np.complex128).dtype == np.complex128
    if name != "complex128":
        with pytest.raises(ValueError, match="Unable to avoid copy"):
            t.__array__(np.complex128, copy=False)


def test_arrays_of_tensors_that_cannot_be_shared_are_refused_as_by_torch():
    x, y = halon.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    for call in (np.asarray, lambda t: t.numpy(), np.sin):
        for t in (x, y):
            with pytest.raises(RuntimeError, match="Can't call numpy"):
                call(t)
    assert x.numpy(force=True).tolist() == y.numpy(force=True).tolist()
    x.numpy(force=True)[0] = 5  # on the host nothing needs to be copied
    assert x.tolist() == [5, 1]


def test_another_device_needs_force():
    there = halon.ones(2).to("reference:0")
    with pytest.raises(TypeError, match="reference"):
        there.numpy()
    assert there.numpy(force=True).tolist() == [1, 1]


@pytest.mark.parametrize(
    "function",
    [np.sin, np.negative, lambda t: np.add(t, t), lambda t: np.arctan2(t, t),
     lambda t: np.multiply.reduce(t), lambda t: np.add.accumulate(t), lambda t: np.divmod(t, t)[1]],
)  # fmt: skip
def test_ufuncs_give_tensors_as_in_torch(function):
    ours, theirs = function(halon.tensor([1.0, 2.0])), function(torch.tensor([1.0, 2.0]))
    assert isinstance(ours, halon.Tensor)
    assert ours.tolist() == pytest.approx(theirs.tolist())
    assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1]


def test_a_comparison_by_numpy_gives_bool():
    assert np.isnan(halon.tensor([1.0, float("nan")])).dtype is halon.bool


def test_a_ufunc_writes_where_it_is_told():
    a, t = np.zeros(2), halon.ones(2)
    assert np.add(t, 1, out=a) is a
    assert a.tolist() == [2, 2]
    assert np.add(a, 1, out=t.double()).tolist() == [3, 3]


def test_an_array_beside_a_tensor_becomes_a_tensor_and_gradients_flow():
    a, x = np.array([2.0, 3.0], np.float32), halon.ones(2, requires_grad=True)
    for product in (a * x, np.multiply(a, x)):
        assert isinstance(product, halon.Tensor)
        x.grad = None
        product.sum().backward()
        assert x.grad.tolist() == [2, 3]
    assert (a - halon.ones(2)).tolist() == [1, 2]
    assert (a < halon.tensor([2.5, 2.5])).tolist() == [True, False]
    assert (np.float32(3) * halon.ones(1)).dtype is halon.float32


def test_other_numpy_functions_wrap_their_result():
    t = halon.ones(2)
    assert isinstance(t.__array_wrap__(np.zeros(3)), halon.Tensor)
    assert t.__array_priority__ == torch.ones(2).__array_priority__


def test_a_read_only_or_misaligned_array_is_copied():
    fixed = np.zeros(2)
    fixed.flags.writeable = False
    halon.from_numpy(fixed).add_(1)
    assert fixed.tolist() == [0, 0]
    odd = np.zeros(9, np.uint8)[1:].view(np.float64)
    t = halon.from_numpy(odd)
    assert t.tolist() == [0]
    assert t.numpy().flags.aligned


def test_an_array_keeps_the_memory_of_a_tensor_and_a_tensor_that_of_an_array():
    t = halon.arange(4.0)
    storage = weakref.ref(t.storage)
    a = t.numpy()[1:]
    del t
    gc.collect()
    assert storage() is not None
    assert a.tolist() == [1, 2, 3]
    del a
    gc.collect()
    assert storage() is None


# -- buffers ---------------------------------------------------------------------------------------
def test_frombuffer_shares_writable_memory():
    raw = bytearray(16)
    t = halon.frombuffer(raw, dtype=halon.int32, count=2, offset=4)
    t.fill_(-1)
    assert raw == b"\0" * 4 + b"\xff" * 8 + b"\0" * 4
    assert halon.frombuffer(array.array("d", [1, 2]), dtype=halon.float64).tolist() == [1, 2]
    with mmap.mmap(-1, 64) as memory:
        halon.frombuffer(memory, dtype=halon.uint8)[3] = 9
        gc.collect()
        assert memory[3] == 9


@pytest.mark.parametrize("name", ALL)
def test_frombuffer_reads_every_dtype_as_torch_does(name):
    raw = values(name).tobytes()
    ours = halon.frombuffer(raw, dtype=getattr(halon, name))
    theirs = torch.frombuffer(bytearray(raw), dtype=getattr(torch, name))
    assert ours.tolist() == theirs.tolist()


def test_a_read_only_buffer_is_copied():
    t = halon.frombuffer(b"\1\2", dtype=halon.uint8)
    t[0] = 7
    assert t.tolist() == [7, 2]


@pytest.mark.parametrize(
    ("length", "options"),
    [(0, {}), (5, {}), (8, {"count": 3}), (8, {"offset": 8}), (8, {"offset": -1}),
     (8, {"count": 0}), (8, {"offset": 2}), (8, {"offset": 7, "count": 1}),
     (8, {"requires_grad": True})],
)  # fmt: skip
def test_frombuffer_refuses_what_torch_refuses_in_its_words(length, options):
    with pytest.raises((ValueError, RuntimeError)) as theirs:
        torch.frombuffer(bytearray(length), dtype=torch.int32, **options)
    with pytest.raises(theirs.type) as ours:
        halon.frombuffer(bytearray(length), dtype=halon.int32, **options)
    assert str(ours.value)[:60].lower() == str(theirs.value)[:60].lower()


def test_frombuffer_refuses_what_is_no_contiguous_buffer():
    with pytest.raises(ValueError, match="buffer protocol"):
        halon.frombuffer(3, dtype=halon.int32)
    with pytest.raises(RuntimeError, match="could not retrieve buffer"):
        halon.frombuffer(memoryview(bytearray(8))[::2], dtype=halon.int32)


def test_a_tensor_is_a_buffer():
    t = halon.from_numpy(np.arange(3, dtype=np.int16))
    view = t.__buffer__(0)
    view[1] = 9
    assert t.tolist() == [0, 9, 2]
    if sys.version_info >= (3, 12):
        assert bytes(t) == t.numpy().tobytes()
    for odd in (halon.from_numpy(values("bfloat16")), halon.ones(1, requires_grad=True)):
        with pytest.raises(BufferError, match="has no buffer"):
            odd.__buffer__(0)
