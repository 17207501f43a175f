"""DLPack: memory exchanged with NumPy and torch, who owns it, and what is refused."""

import ctypes
import gc
import weakref

import numpy as np
import pytest
import torch

import halon
from halon.hal import dtypes as dt
from halon.hal.registry import registry
from halon.tensor import dlpack
from tests.hal.fakes import FakeDevice, register

ALL = [d.name for d in dt.ALL]
NUMPY = [d.name for d in dt.ALL if d.numpy.isbuiltin == 1]
CUDA = 2


def sample(name, shape=(3, 4)):
    return np.arange(np.prod(shape)).reshape(shape).astype(getattr(halon, name).numpy)


@pytest.mark.parametrize("name", ALL)
def test_torch_and_halon_share_memory_both_ways(name):
    ours = halon.from_numpy(sample(name))
    theirs = torch.from_dlpack(ours)
    assert theirs.dtype == getattr(torch, name)
    assert theirs.tolist() == ours.tolist()
    back = halon.from_dlpack(theirs)
    assert back.dtype is ours.dtype
    theirs.view(torch.uint8).fill_(0)
    assert back.tolist() == ours.tolist() == np.zeros_like(sample(name)).tolist()


@pytest.mark.parametrize("name", NUMPY)
def test_numpy_and_halon_share_memory_both_ways(name):
    ours = halon.from_numpy(sample(name))
    theirs = np.from_dlpack(ours)
    assert np.shares_memory(theirs, ours.numpy())
    assert theirs.tolist() == ours.tolist()
    source = sample(name)
    t = halon.from_dlpack(source)
    source[...] = 1
    assert t.tolist() == source.tolist()


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 1), (2, 0)])
def test_capsules_of_both_kinds_are_made_and_taken(version):
    t = halon.arange(3)
    capsule = t.__dlpack__(max_version=version)
    newer = version is not None and version[0] >= 1
    assert ("dltensor_versioned" in repr(capsule)) is newer
    assert '"dltensor' in repr(capsule)
    assert halon.from_dlpack(capsule).tolist() == [0, 1, 2]
    assert '"used_dltensor' in repr(capsule)
    with pytest.raises(RuntimeError, match="consumed only once"):
        halon.from_dlpack(capsule)
    again = t.__dlpack__(max_version=version)
    assert torch.from_dlpack(again).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "view",
    [lambda t: t[1:], lambda t: t[:, 1::2], lambda t: t.T, lambda t: t[1, 2], lambda t: t[:0],
     lambda t: t[:, :0], lambda t: t[None, :, None]],
)  # fmt: skip
def test_views_keep_their_shape_and_share(view):
    base = halon.arange(12.0).reshape(3, 4)
    there = torch.from_dlpack(view(base))
    assert tuple(there.shape) == tuple(view(base).shape)
    assert there.tolist() == view(base).tolist()
    base.add_(10)
    assert there.tolist() == view(base).tolist()
    theirs = torch.arange(12.0).reshape(3, 4)
    here = halon.from_dlpack(view(theirs))
    theirs.add_(10)
    assert here.tolist() == view(theirs).tolist()
    assert here.numel() == 0 or here.stride() == view(theirs).stride()


def test_read_only_memory_is_copied_or_refused():
    fixed = np.arange(3.0)
    fixed.flags.writeable = False
    t = halon.from_dlpack(fixed)
    t.add_(1)
    assert fixed.tolist() == [0, 1, 2]
    with pytest.raises(BufferError, match="read-only"):
        halon.from_dlpack(fixed, copy=False)


def test_negative_strides_and_odd_addresses_are_copied_or_refused():
    for source in (np.arange(6.0).reshape(2, 3)[::-1, ::-1], np.zeros(9, np.uint8)[1:].view("f8")):
        assert halon.from_dlpack(source).tolist() == source.tolist()
        with pytest.raises(BufferError, match="copy=False"):
            halon.from_dlpack(source, copy=False)


def test_copy_says_whether_memory_is_shared():
    a = np.zeros(2)
    for copy, shared in ((None, True), (False, True), (True, False)):
        t = halon.from_dlpack(a, copy=copy)
        assert np.shares_memory(t.numpy(), a) is shared
    t = halon.zeros(2)
    assert np.shares_memory(halon.from_dlpack(t).numpy(), t.numpy())
    assert not np.shares_memory(halon.from_dlpack(t, copy=True).numpy(), t.numpy())
    twin = np.from_dlpack(t, copy=True)
    assert not np.shares_memory(twin, t.numpy())


def test_a_copied_export_says_so():
    capsule = halon.ones(2).__dlpack__(max_version=(1, 0), copy=True)
    assert dlpack._read(capsule).flags & dlpack.IS_COPIED
    with pytest.raises(BufferError, match="producer made a copy"):
        halon.from_dlpack(capsule, copy=False)


# -- lifetime --------------------------------------------------------------------------------------
@pytest.mark.parametrize("version", [None, (1, 0)])
def test_an_export_keeps_the_memory_until_capsule_or_consumer_are_gone(version):
    for consume in (None, torch.from_dlpack, halon.from_dlpack):
        t = halon.arange(4.0)
        storage = weakref.ref(t.storage)
        held = t.__dlpack__(max_version=version)
        held = held if consume is None else consume(held)
        del t
        gc.collect()
        assert storage() is not None
        del held
        gc.collect()
        assert storage() is None


def test_an_import_keeps_the_producer_until_the_last_view_is_gone():
    class Array(np.ndarray):
        pass

    a = np.arange(4.0).view(Array)
    producer = weakref.ref(a)
    view = halon.from_dlpack(a)[1:]
    del a
    gc.collect()
    assert producer() is not None
    assert view.tolist() == [1, 2, 3]
    del view
    gc.collect()
    assert producer() is None


def producer(deleted, device=(1, 0), memory=None, shape=(2,), code=2, bits=32, lanes=1, flags=0):
    """A capsule made by hand, whose deleter appends to ``deleted``; and what must stay alive."""
    memory = np.array([1, 2], np.float32) if memory is None else memory
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    managed = dlpack._Versioned(1, 0, None, None, flags)
    callback = dlpack._DELETER(deleted.append)
    managed.deleter = ctypes.cast(callback, ctypes.c_void_p).value
    tensor = managed.tensor
    tensor.data, tensor.ndim, tensor.shape = memory.ctypes.data, len(shape), sizes
    tensor.device.kind, tensor.device.index = device
    tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = code, bits, lanes
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = (
        ctypes.py_object,
        (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p),
    )
    capsule = new(ctypes.addressof(managed), dlpack._VERSIONED, None)
    return capsule, (memory, sizes, managed, callback)


def test_the_deleter_is_called_once():
    deleted = []
    capsule, _kept = producer(deleted)
    t = halon.from_dlpack(capsule)
    views = [t, t[1:], t.detach()]
    assert t.tolist() == [1, 2]
    del t, capsule
    views.pop()
    views.pop()
    gc.collect()
    assert deleted == []
    views.pop()
    gc.collect()
    assert len(deleted) == 1


@pytest.mark.parametrize("options", [{"flags": 1}, {"shape": (0,)}])
def test_the_deleter_is_called_at_once_where_nothing_is_shared(options):
    deleted = []
    capsule, _kept = producer(deleted, **options)
    t = halon.from_dlpack(capsule)
    gc.collect()
    assert len(deleted) == 1
    assert t.tolist() == [1, 2][: t.numel()]


@pytest.mark.parametrize(
    ("options", "says"),
    [({"code": 3}, "type code 3"), ({"lanes": 4}, "4 lanes"), ({"shape": (-1,)}, "shape"),
     ({"code": 0, "bits": 128}, "128 bits"), ({"device": (8, 0)}, r"DLPack device \(8, 0\)")],
)  # fmt: skip
def test_what_cannot_be_taken_is_named(options, says):
    deleted = []
    capsule, _kept = producer(deleted, **options)
    with pytest.raises(BufferError, match=says):
        halon.from_dlpack(capsule)


# -- refusals and streams --------------------------------------------------------------------------
def test_what_cannot_be_exported_is_refused():
    x, y = halon.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    for t in (x, y):
        with pytest.raises(BufferError, match="require gradient"):
            t.__dlpack__()
        with pytest.raises(TypeError, match="stream must be"):
            t.detach().__dlpack__(stream="0")
    with pytest.raises(BufferError, match="stream should be None"):
        halon.ones(2).__dlpack__(stream=1)
    with pytest.raises(BufferError, match=r"\(2, 0\)"):
        halon.ones(2).__dlpack__(dl_device=(CUDA, 0))
    with pytest.raises(TypeError, match="int has no __dlpack__"):
        halon.from_dlpack(3)
    assert halon.ones(2).__dlpack__(stream=-1) is not None


def test_a_device_without_a_number_exports_through_the_host():
    there = halon.arange(3.0).to("reference:0")
    for refused in (there.__dlpack_device__, there.__dlpack__):
        with pytest.raises(BufferError, match="dl_device"):
            refused()
    with pytest.raises(BufferError, match="takes a copy"):
        there.__dlpack__(dl_device=(1, 0), copy=False)
    assert np.from_dlpack(there, device="cpu").tolist() == [0, 1, 2]
    assert halon.from_dlpack(there).device == there.device
    assert halon.from_dlpack(there, device="cpu").device == halon.ones(1).device
    moved = halon.from_dlpack(np.ones(2), device="reference:0")
    assert str(moved.device) == "reference:0"
    with pytest.raises(BufferError, match="takes a copy"):
        halon.from_dlpack(np.ones(2), device="reference:0", copy=False)


class Accelerator(FakeDevice):
    """A device that DLPack knows as CUDA; its memory is the host's, so that a test can look."""

    def __init__(self):
        super().__init__()
        self.streams = []
        self.owners = []

    def dlpack_export(self, h, stream):
        self.streams.append(stream)
        return CUDA, 0, self.memory[h].ctypes.data

    def dlpack_adopt(self, device_type, device_id, address, nbytes, owner):
        if device_type != CUDA:
            return super().dlpack_adopt(device_type, device_id, address, nbytes, owner)
        self.owners.append(owner)
        return self.alloc(nbytes)


@pytest.fixture(scope="module")
def accelerator():
    device = Accelerator()
    return register(device), device


def test_a_driver_exports_its_addresses_and_orders_the_streams(accelerator):
    name, device = accelerator
    t = halon.empty(4, device=name)[1:]
    assert t.__dlpack_device__() == (CUDA, 0)
    capsule = t.__dlpack__(stream=7, max_version=(1, 0))
    assert device.streams[-1] == 7
    seen = dlpack._read(capsule)
    assert seen.device == (CUDA, 0)
    assert seen.address == device.memory[t.storage.handle].ctypes.data + 4
    assert seen.shape == (3,)


def test_a_driver_adopts_memory_and_the_owner_outlives_the_handle(accelerator):
    name, device = accelerator
    deleted = []

    class Producer:
        asked = []

        def __dlpack_device__(self):
            return CUDA, 0

        def __dlpack__(self, *, stream=None, max_version=None):
            self.asked.append(stream)
            capsule, self.kept = producer(deleted, device=(CUDA, 0))
            return capsule

    source = Producer()
    registry.open(name)
    t = halon.from_dlpack(source)
    assert str(t.device) == name
    assert source.asked == [1]  # the default stream, as consumers of CUDA memory count it
    device.owners.clear()
    assert deleted == []
    del t
    gc.collect()
    assert len(deleted) == 1
