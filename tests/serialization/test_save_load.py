"""halon.save and halon.load: what is kept, where it goes, and how files are replaced."""

import io
import os
import pickle
import sys
import zipfile
from collections import OrderedDict
from fractions import Fraction

import numpy as np
import pytest

import halon
from halon import nn
from halon.hal import dtypes as dt
from halon.hal.errors import HalonError, UnknownDevice
from halon.serialization import ArchiveError, ForbiddenObject, safe
from halon.tensor import atomic_file
from tests.hal.fakes import FakeDevice, register
from tests.serialization import samples


def saved(value):
    file = io.BytesIO()
    halon.save(value, file)
    return file.getvalue()


def round_trip(value, **options):
    return halon.load(io.BytesIO(saved(value)), **options)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tensors.pt"


# -- what is kept ----------------------------------------------------------------------------------
@pytest.mark.parametrize("name", [d.name for d in dt.ALL])
@pytest.mark.parametrize("mapped", [False, True])
def test_every_dtype_shape_and_stride_is_kept(name, mapped, path):
    t = halon.from_numpy(samples.array(name, (3, 4)))
    given = {"t": t, "view": t[1:, ::2], "turned": t.t(), "scalar": t[1, 1], "none": t[:0]}
    halon.save(given, path)
    for key, found in halon.load(path, mmap=mapped).items():
        assert found.dtype is t.dtype
        assert found.shape == given[key].shape
        assert found.tolist() == given[key].tolist()
        assert not found.numel() or found.stride() == given[key].stride()


VALUES = [
    None, True, False, 0, 1, 255, 256, 65535, 65536, -1, 2**31 - 1, -(2**31), 2**31, 2**100,
    -(2**600), 0.5, float("inf"), -0.0, "", "text", "ünïcödé 🜁", "\ud800", b"", b"raw\0\xff",
    bytearray(b"x"), 1 + 2j, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], [[]], {}, {1: {2: 3}},
    set(), {1, "a"}, frozenset({2}), OrderedDict(b=1, a=2), halon.float32, halon.bool,
    halon.device("cpu"), halon.Size([2, 3]), list(range(3000)), {i: str(i) for i in range(3000)},
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_every_plain_value_is_kept(value):
    found = round_trip([value, {"in": value}])
    assert found == [value, {"in": value}]
    assert type(found[0]) is type(value)
    assert type(value) is set or repr(found[0]) == repr(value)


@pytest.mark.parametrize("kind", ["float64", "float32", "int8", "uint16", "bool", "complex64"])
def test_numpy_scalars_are_kept(kind):
    value = np.dtype(kind).type(1)
    found = round_trip(value)
    assert found == value
    assert type(found) is type(value)


def test_shared_objects_stay_shared_and_cycles_stay_cycles():
    base = halon.arange(6.0)
    inner = [1]
    outer: list = [inner, inner, base, base[2:], base]
    outer.append(outer)
    outer.append((outer,))
    found = round_trip(outer)
    assert found[0] is found[1]
    assert found[2] is found[4]
    assert found[5] is found
    assert found[6][0] is found
    found[2].zero_()
    assert found[3].tolist() == [0, 0, 0, 0]
    loop: list = []
    pair = (loop, 1, 2, 3)
    loop.append(pair)
    again = round_trip(pair)
    assert again[0][0] is again


def test_parameters_and_gradient_wishes_are_kept():
    found = round_trip(
        [nn.Parameter(halon.ones(2), requires_grad=False), nn.Parameter(halon.ones(1))]
    )
    assert [type(p) for p in found] == [nn.Parameter, nn.Parameter]
    assert [p.requires_grad for p in found] == [False, True]
    x = halon.ones(2, requires_grad=True)
    again = round_trip([x, x * 2])
    assert [t.requires_grad for t in again] == [True, True]
    assert again[1].is_leaf


def test_a_model_and_its_optimizer_continue_from_a_file(path):
    first, second = nn.Linear(3, 2), nn.Linear(3, 2)
    ours, theirs = (halon.optim.Adam(m.parameters(), lr=0.1) for m in (first, second))
    first(halon.ones(1, 3)).sum().backward()
    ours.step()
    halon.save({"model": first.state_dict(), "optimizer": ours.state_dict(), "epoch": 3}, path)
    found = halon.load(path)
    second.load_state_dict(found["model"])
    theirs.load_state_dict(found["optimizer"])
    for m, o in ((first, ours), (second, theirs)):
        o.zero_grad()
        m(halon.ones(1, 3)).sum().backward()
        o.step()
    assert first.weight.tolist() == second.weight.tolist()
    assert found["model"]._metadata == first.state_dict()._metadata
    assert found["epoch"] == 3


def test_equal_objects_give_equal_files_with_aligned_data():
    value = {"a": halon.arange(5.0), "b": halon.ones(3).to(halon.float64)}
    content = saved(value)
    assert content == saved(value)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        assert [n.removeprefix("archive/") for n in archive.namelist()] == [
            "data.pkl", ".format_version", ".storage_alignment", "byteorder", "data/0", "data/1",
            "version", ".data/serialization_id",
        ]  # fmt: skip
        assert archive.read("archive/byteorder").decode() == sys.byteorder
        assert len(archive.read("archive/.data/serialization_id")) == 40
    assert content.index(halon.arange(5.0).numpy().tobytes()) % 64 == 0


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"opt": [print]}, r"the object\['opt'\]\[0\] is a builtins.builtin_function"),
        (nn.Linear(1, 1), "state_dict"),
        (np.zeros(2), "from_numpy"),
        ({"f": Fraction(1, 2)}, "fractions.Fraction"),
        ({halon.ones: 1}, "a key of the object"),
    ],
)
def test_what_load_would_refuse_is_not_saved(value, says, path):
    with pytest.raises(pickle.PicklingError, match=says):
        halon.save(value, path)
    assert not path.exists()


def test_a_class_the_user_allows_is_saved_and_loaded():
    with safe.safe_globals([Fraction]):
        content = saved({"f": Fraction(1, 3)})
        assert halon.load(io.BytesIO(content)) == {"f": Fraction(1, 3)}
    with pytest.raises(ForbiddenObject, match=r"fractions\.Fraction"):
        halon.load(io.BytesIO(content))


class Settings:
    def __init__(self):
        self.rate = 0.1


def test_state_of_an_allowed_class_is_kept():
    with safe.safe_globals([Settings]):
        found = round_trip([Settings()])[0]
    assert type(found) is Settings
    assert found.rate == 0.1


# -- where it goes ---------------------------------------------------------------------------------
def test_a_device_is_kept_and_map_location_moves_it():
    there = halon.arange(4.0).to("reference:0")
    content = saved({"t": there, "view": there[1:]})
    cpu = halon.device("cpu")

    def load(where=None):
        found = halon.load(io.BytesIO(content), map_location=where)
        assert found["view"].storage is found["t"].storage
        assert found["view"].tolist() == [1, 2, 3]
        return found["t"].device

    assert str(load()) == "reference:0"
    assert load("cpu") == load(cpu) == load({"reference:0": "cpu"}) == cpu
    assert str(load({"other:0": "cpu"})) == "reference:0"
    assert load(lambda storage, location: storage) == cpu
    assert load(lambda storage, location: "cpu") == cpu
    assert str(load(lambda storage, location: None)) == "reference:0"
    assert str(load(lambda storage, location: storage.to(location))) == "reference:0"
    assert load(lambda storage, location: storage.to("reference:0").cpu()) == cpu
    assert str(round_trip(halon.ones(2), map_location="reference:0").device) == "reference:0"


def test_a_device_that_is_not_here_is_named_with_what_to_do():
    content = saved(halon.ones(1).to(register(FakeDevice()))).replace(b"fake", b"gone")
    content = repaired(content)
    with pytest.raises(ArchiveError, match=r"saved on 'gone\d+:0'.*map_location"):
        halon.load(io.BytesIO(content))
    assert halon.load(io.BytesIO(content), map_location="cpu").tolist() == [1]
    with pytest.raises(UnknownDevice, match="nowhere"):
        halon.load(io.BytesIO(content), map_location="nowhere:0")


def repaired(content):
    """The zip file with right checksums again."""
    out = io.BytesIO()
    entries = {}
    end = content.rindex(b"PK\5\6")
    assert end > 0
    stream = io.BytesIO(content)
    with zipfile.ZipFile(stream) as archive:
        for info in archive.infolist():
            begin = info.header_offset + 30
            name, extra = content[begin - 4 : begin - 2], content[begin - 2 : begin]
            begin += int.from_bytes(name, "little") + int.from_bytes(extra, "little")
            entries[info.filename] = content[begin : begin + info.file_size]
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return out.getvalue()


def test_what_the_callers_function_raises_reaches_the_caller():
    def fails(storage, location):
        raise KeyError(location)

    with pytest.raises(KeyError, match="cpu"):
        round_trip(halon.ones(1), map_location=fails)
    with pytest.raises(TypeError, match="returned a int"):
        round_trip(halon.ones(1), map_location=lambda s, w: 3)
    with pytest.raises(TypeError, match="map_location must be"):
        round_trip(halon.ones(1), map_location=3)


def test_there_is_no_mode_that_runs_code():
    with pytest.raises(ValueError, match="never does"):
        round_trip(1, weights_only=False)
    assert round_trip(1, weights_only=None) == 1


# -- files -----------------------------------------------------------------------------------------
def test_a_mapped_file_is_read_when_used_and_never_written(path):
    halon.save({"t": halon.arange(1 << 16)}, path)
    before = path.read_bytes()
    t = halon.load(path, mmap=True)["t"]
    assert type(t.storage.owner).__name__ == "mmap"
    t.zero_()
    assert path.read_bytes() == before
    path.unlink()
    assert t.tolist() == [0] * (1 << 16)


def test_mapping_needs_a_path_and_a_zip_file(path):
    with pytest.raises(ValueError, match="needs a path"):
        round_trip(1, mmap=True)
    path.write_bytes(samples.files()["legacy"])
    with pytest.raises(ArchiveError, match="needs a zip file"):
        halon.load(path, mmap=True)


def test_streams_of_every_kind_are_read(path):
    halon.save([halon.ones(2)], path)
    content = path.read_bytes()
    with open(path, "rb") as file:
        assert halon.load(file)[0].tolist() == [1, 1]

    class Pipe:
        def read(self, count=-1):
            return content

    later = io.BytesIO(b"before" + content)
    later.seek(6)
    assert halon.load(later)[0].tolist() == halon.load(Pipe())[0].tolist() == [1, 1]
    for wrong in (3, None):
        with pytest.raises(TypeError, match="a path or a file object"):
            halon.load(wrong)
        with pytest.raises(TypeError, match="a path or a file object"):
            halon.save(1, wrong)


def test_a_missing_file_and_an_unwritable_path_are_os_errors(path, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"tensors\.pt"):
        halon.load(path)
    for bad in (tmp_path, tmp_path / "no" / "folder", "/dev/full"):
        with pytest.raises(OSError, match="cannot write tensors"):
            halon.save(halon.ones(1 << 16), bad)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_interrupted_save_keeps_the_old_file(path, monkeypatch, step):
    halon.save("old", path)

    def fails(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_file.os, step, fails)
    with pytest.raises(OSError, match="No space left"):
        halon.save({"new": halon.ones(3)}, path)
    monkeypatch.undo()
    assert os.listdir(path.parent) == [path.name]
    assert halon.load(path) == "old"


def test_a_mapped_file_may_be_saved_over(path):
    halon.save(halon.arange(1000), path)
    t = halon.load(path, mmap=True)
    halon.save(t + 1, path)
    assert t.tolist() == list(range(1000))
    assert halon.load(path).tolist() == list(range(1, 1001))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "truncated: 0 bytes"),
        (b"\x80\2K", "truncated: 3 bytes"),
        (b"\x93NUMPY" + bytes(30), "neither a zip file nor a pickle"),
        (b"\x40\0\0\0\0\0\0\0{" + bytes(70), "safetensors file"),
        (b"PK\3\4" + bytes(60), "zip directory is damaged"),
        (b"\x80\2K\1." + bytes(30), "does not begin as saved tensors do"),
    ],
)
def test_another_file_is_named_with_what_it_is(path, content, says):
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match=says) as caught:
        halon.load(path)
    assert str(path) in str(caught.value)
    assert isinstance(caught.value, HalonError)
    assert isinstance(caught.value, RuntimeError)


def test_a_flipped_bit_is_noticed(path):
    halon.save(halon.arange(100.0), path)
    content = bytearray(path.read_bytes())
    content[content.index(halon.arange(100.0).numpy().tobytes()) + 9] ^= 4
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match="'data/0' is damaged"):
        halon.load(path)


def test_a_compressed_archive_is_refused(path):
    source = zipfile.ZipFile(io.BytesIO(saved(halon.zeros(1000))))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in source.namelist():
            archive.writestr(name, source.read(name))
    with pytest.raises(ArchiveError, match="is compressed"):
        halon.load(path)
