"""Files go both ways between halon and torch, in all formats of both."""

import io
import warnings
from collections import OrderedDict

import numpy as np
import pytest
import torch

import halon
from halon.hal import dtypes as dt
from halon.serialization import ArchiveError, ForbiddenObject
from tests.serialization import samples

ALL = [d.name for d in dt.ALL]
FORMATS = [
    pytest.param({}, id="zip"),
    pytest.param({"_use_new_zipfile_serialization": False}, id="legacy"),
]


def from_torch(value, **options):
    file = io.BytesIO()
    torch.save(value, file, **options)
    file.seek(0)
    return halon.load(file)


def to_torch(value):
    file = io.BytesIO()
    halon.save(value, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("name", ALL)
def test_torch_reads_every_dtype_of_halon(name):
    t = halon.from_numpy(samples.array(name, (3, 4)))
    found = to_torch({"t": t, "view": t[1:, ::2], "turned": t.t()})
    assert found["t"].dtype == getattr(torch, name)
    assert found["t"].tolist() == t.tolist()
    assert found["view"].tolist() == t[1:, ::2].tolist()
    assert found["turned"].stride() == t.t().stride()
    assert found["view"].untyped_storage().data_ptr() == found["t"].untyped_storage().data_ptr()


@pytest.mark.parametrize("name", ALL)
def test_halon_reads_every_dtype_of_torch(name):
    t = torch.arange(12).reshape(3, 4).to(getattr(torch, name))
    found = from_torch({"t": t, "view": t[1:, ::2], "turned": t.t()})
    assert found["t"].dtype is getattr(halon, name)
    for key, theirs in (("t", t), ("view", t[1:, ::2]), ("turned", t.t())):
        assert found[key].tolist() == theirs.tolist()
        assert found[key].stride() == theirs.stride()
    assert found["view"].storage is found["t"].storage


@pytest.mark.parametrize("name", samples.TYPED)
def test_halon_reads_the_older_format_of_torch(name):
    t = torch.arange(12).reshape(3, 4).to(getattr(torch, name))
    found = from_torch([t, t[1:]], _use_new_zipfile_serialization=False)
    assert [f.tolist() for f in found] == [t.tolist(), t[1:].tolist()]
    assert found[0].dtype is getattr(halon, name)
    assert found[0].storage is found[1].storage


PLAIN = [None, True, 3, -(2**70), 1.5, "ü", b"", b"\xff\0", [1, [2]], (1, (2, 3)), {"k": {1: 2}},
         {1, 2}, 1j, bytearray(b"b"), OrderedDict(a=1)]  # fmt: skip


@pytest.mark.parametrize("protocol", range(2, 6))
@pytest.mark.parametrize("options", FORMATS)
def test_plain_values_arrive_from_every_protocol(protocol, options):
    assert from_torch(PLAIN, pickle_protocol=protocol, **options) == PLAIN


def test_plain_values_arrive_in_torch():
    assert to_torch(PLAIN) == PLAIN


@pytest.mark.parametrize("options", FORMATS)
def test_names_of_the_two_libraries_are_translated(options):
    theirs = [torch.float16, torch.device("cpu"), torch.device("cuda", 1), torch.Size([1, 2])]
    ours = [halon.float16, halon.device("cpu"), halon.device("cuda", 1), halon.Size([1, 2])]
    assert from_torch(theirs, **options) == ours
    assert to_torch(ours) == theirs


@pytest.mark.parametrize("options", FORMATS)
def test_state_dicts_and_parameters_arrive_both_ways(options):
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    ours = halon.nn.Sequential(halon.nn.Linear(3, 4), halon.nn.BatchNorm1d(4))
    ours.load_state_dict(from_torch(theirs.state_dict(), **options))
    for name, value in theirs.state_dict().items():
        assert ours.state_dict()[name].tolist() == value.tolist()
    other = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    found = to_torch(ours.state_dict())
    other.load_state_dict(found)
    assert found._metadata == ours.state_dict()._metadata
    parameter = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    arrived = from_torch(parameter, **options)
    assert type(arrived) is halon.nn.Parameter
    assert not arrived.requires_grad
    back = to_torch(halon.nn.Parameter(halon.ones(2)))
    assert type(back) is torch.nn.Parameter
    assert back.requires_grad


def test_an_optimizer_of_torch_arrives():
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    found = from_torch(optimizer.state_dict())
    theirs = optimizer.state_dict()
    assert found["param_groups"] == theirs["param_groups"]
    assert found["state"][0]["exp_avg"].tolist() == theirs["state"][0]["exp_avg"].tolist()


@pytest.mark.parametrize("options", FORMATS)
def test_numpy_scalars_arrive(options):
    found = from_torch([np.float32(1.5), np.int64(-3), np.bool_(True)], **options)
    assert found == [1.5, -3, True]
    assert [type(f) for f in found] == [np.float32, np.int64, np.bool_]


def test_a_tensor_of_a_cuda_device_is_named_and_can_be_placed():
    file = io.BytesIO()
    torch.save(torch.arange(3.0), file, _use_new_zipfile_serialization=False)
    content = file.getvalue().replace(b"\3\0\0\0cpu", b"\6\0\0\0cuda:9")
    with pytest.raises(ArchiveError, match=r"saved on 'cuda:9'.*map_location"):
        halon.load(io.BytesIO(content))
    assert halon.load(io.BytesIO(content), map_location="cpu").tolist() == [0, 1, 2]
    there = halon.load(io.BytesIO(content), map_location={"cuda:9": "reference:0"})
    assert str(there.device) == "reference:0"
    assert there.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (torch.nn.Linear(1, 1), r"torch\.nn\.modules\.linear\.Linear"),
        (torch.eye(2).to_sparse(), "torch._utils._rebuild_sparse_tensor"),
        (torch.zeros(1).to(torch.float8_e8m0fnu), "torch.float8_e8m0fnu"),
        (np.zeros(2), "_reconstruct"),
    ],
)
def test_what_halon_does_not_have_is_named(value, says):
    with pytest.raises(ForbiddenObject, match=says):
        from_torch(value)


def test_a_conjugate_view_is_refused_with_what_to_do():
    with pytest.raises(ArchiveError, match="resolve_conj"):
        from_torch(torch.ones(2, dtype=torch.complex64).conj())


def test_a_torchscript_program_is_called_one(tmp_path):
    path = str(tmp_path / "script.pt")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), path)
    with pytest.raises(ArchiveError, match="TorchScript"):
        halon.load(path)


def test_two_objects_in_one_old_file_are_read_one_after_the_other(tmp_path):
    path = tmp_path / "two.pt"
    with open(path, "wb") as file:
        for value in (torch.ones(1), torch.zeros(2)):
            torch.save(value, file, _use_new_zipfile_serialization=False)
    with open(path, "rb") as file:
        assert halon.load(file).tolist() == [1]
        assert halon.load(file).tolist() == [0, 0]
