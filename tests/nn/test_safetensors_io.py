"""Weights files: exchange with torch, and every way a file or a disk can be bad."""

import json
import os
import stat
import struct
import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file as torch_load
from safetensors.torch import save_file as torch_save

import halon
from halon import nn
from halon.hal import dtypes as dt
from halon.hal.errors import HalonError
from halon.hal.registry import host
from halon.nn import safetensors_io
from halon.nn.safetensors_io import WeightsFileError, load_file, save_file

CONVERTS_BF16 = "bf16" in host().props.compute_dtypes


def state():
    return {
        "f32": halon.randn(2, 3),
        "f64": halon.randn(4).to(halon.float64),
        "f16": halon.randn(5).to(halon.float16),
        "i64": halon.tensor([[-1, 2**40]]),
        "u8": halon.tensor([0, 255], dtype=halon.uint8),
        "flag": halon.tensor([True, False]),
        "scalar": halon.tensor(3.5),
        "empty": halon.zeros(0, 2),
        "transposed": halon.randn(3, 4).t(),
    }


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "weights.safetensors"
    save_file(state(), path)
    return path


def test_torch_reads_what_halon_writes(tmp_path):
    path = tmp_path / "w.safetensors"
    saved = state()
    if CONVERTS_BF16:
        saved["bf16"] = halon.randn(2, 2).to(halon.bfloat16)
    save_file(saved, path)
    for name, t in torch_load(path).items():
        assert t.tolist() == saved[name].tolist(), name
        assert str(t.dtype).removeprefix("torch.") == str(saved[name].dtype).split(".")[-1]
        assert tuple(t.shape) == tuple(saved[name].shape)


def test_halon_reads_what_torch_writes(tmp_path):
    path = tmp_path / "w.safetensors"
    saved = {"a": torch.randn(3, 2), "c": torch.tensor([1, 2]), "d": torch.randn(4).half()}
    if CONVERTS_BF16:
        saved["b"] = torch.randn(4).bfloat16()
    torch_save(saved, path)
    for name, t in load_file(path).items():
        assert t.tolist() == saved[name].tolist(), name
        assert str(saved[name].dtype).removeprefix("torch.") == str(t.dtype).split(".")[-1]


EVERY = [d for d in dt.ALL if d is not dt.complex128]


@pytest.mark.parametrize("dtype", EVERY, ids=lambda d: d.name)
def test_every_dtype_goes_both_ways(tmp_path, dtype):
    ours = halon.from_numpy(np.arange(6).reshape(2, 3).astype(dtype.numpy))
    save_file({"t": ours, "turned": ours.t(), "none": ours[:0]}, tmp_path / "ours")
    found = torch_load(tmp_path / "ours")
    assert found["t"].dtype == getattr(torch, dtype.name)
    assert found["t"].tolist() == found["turned"].t().tolist() == ours.tolist()
    torch_save({"t": found["t"], "s": found["t"][1, 1].clone()}, tmp_path / "theirs")
    again = load_file(tmp_path / "theirs")
    assert again["t"].dtype is dtype
    assert again["t"].tolist() == ours.tolist()
    assert again["s"].shape == ()


def test_a_file_is_mapped_and_writing_to_its_tensors_does_not_change_it(tmp_path):
    path = tmp_path / "w"
    save_file({"a": halon.arange(4096), "b": halon.ones(3)}, path)
    before = path.read_bytes()
    found = load_file(path)
    assert found["a"].storage.owner is found["b"].storage.owner  # one mapping for all
    assert found["a"].numpy().ctypes.data % 64 == 0
    found["a"].zero_()
    assert path.read_bytes() == before
    assert load_file(path)["a"].tolist() == list(range(4096))
    save_file(found, path)
    assert found["b"].tolist() == [1, 1, 1]
    assert load_file(path)["a"].sum().item() == 0


def test_neither_loading_nor_saving_holds_a_second_copy(tmp_path):
    path, size = tmp_path / "w", 64 << 20
    code = (
        "import halon; from halon.nn.safetensors_io import load_file, save_file\n"
        f"path, n = {str(path)!r}, {size // 8}\n"
        "def peak():\n"
        "    status = open('/proc/self/status').read()\n"
        "    return int(status.split('VmHWM:')[1].split()[0]) << 10\n"
        "tensors = {k: halon.ones(n) for k in 'ab'}\n"
        "before = peak(); save_file(tensors, path); saving = peak() - before\n"
        "before = peak(); found = load_file(path); loading = peak() - before\n"
        "print(saving, loading, found['b'][7].item())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    saving, loading, value = done.stdout.split()
    assert value == "1.0"
    assert int(saving) < size // 4
    assert int(loading) < size // 4


def test_tensors_that_other_writers_do_not_align_are_read(tmp_path):
    fields = {
        "a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
        "b": {"dtype": "F32", "shape": [1], "data_offsets": [1, 5]},
    }
    header = json.dumps(fields).encode()
    path = tmp_path / "w"
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\7" + struct.pack("<f", 2.5))
    found = load_file(path)
    assert (found["a"].tolist(), found["b"].tolist()) == ([7], [2.5])
    assert found["b"].numpy().flags.aligned


def test_loading_to_a_device_moves_every_tensor(tmp_path):
    path = tmp_path / "w"
    save_file(state(), path)
    found = load_file(path, device="reference:0")
    assert {str(t.device) for t in found.values()} == {"reference:0"}
    assert found["transposed"].tolist() == load_file(path)["transposed"].tolist()


def test_a_round_trip_restores_a_model(tmp_path):
    path = tmp_path / "w.safetensors"
    first, second = nn.Linear(3, 2), nn.Linear(3, 2)
    save_file(first.state_dict(), path)
    second.load_state_dict(load_file(path, device=first.weight.device))
    assert first.weight.tolist() == second.weight.tolist()
    second.load_state_dict(load_file(str(path)))
    first.weight.detach().zero_()  # what was loaded owns its memory
    assert second.weight.abs().sum().item() > 0


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda raw: b"", "truncated: 0 bytes"),
        (lambda raw: raw[:5], "truncated: 5 bytes"),
        (lambda raw: raw[:50], "truncated: the header says"),
        (lambda raw: raw[:-3], "truncated: the tensors take"),
        (lambda raw: raw + b"more", "not a valid safetensors file"),
        (lambda raw: b"\x80\x02" + raw, "not a safetensors file"),
        (lambda raw: b"PK\x03\x04" + b"\0" * 200, "not a safetensors file"),
        (lambda raw: raw[:8] + b"{" + b"y" * 2000, "not a safetensors file"),
        (lambda raw: struct.pack("<Q", 6) + b"{[1,2]", "not a safetensors file"),
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong(file, damage, says):
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(WeightsFileError, match=says) as caught:
        load_file(file)
    assert str(file) in str(caught.value)
    assert isinstance(caught.value, HalonError)
    assert isinstance(caught.value, ValueError)


def test_a_dtype_halon_does_not_read_is_named(tmp_path):
    path = tmp_path / "w.safetensors"
    torch_save({"q": torch.zeros(2).to(torch.float8_e8m0fnu)}, path)
    with pytest.raises(WeightsFileError, match="F8_E8M0"):
        load_file(path)


def test_a_missing_file_is_an_os_error():
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_file("/nowhere/at/all")


def test_a_path_that_cannot_be_written_is_named(file, tmp_path):
    for path in (file / "below", tmp_path, tmp_path / "no" / "folder", "/dev/full"):
        with pytest.raises(OSError, match="cannot write weights") as caught:
            save_file(state(), path)
        assert str(path) in str(caught.value)
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_interrupted_save_keeps_the_old_file_and_leaves_no_other(file, monkeypatch, step):
    before = file.read_bytes()

    def fails(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(safetensors_io.os, step, fails)
    with pytest.raises(OSError, match="No space left"):
        save_file({"x": halon.zeros(1)}, file)
    assert file.read_bytes() == before
    assert os.listdir(file.parent) == [file.name]


def test_a_new_file_has_ordinary_permissions_and_an_old_one_keeps_its_own(file):
    mask = os.umask(0o027)
    try:
        other = file.with_name("new.safetensors")
        save_file(state(), other)
    finally:
        os.umask(mask)
    assert stat.S_IMODE(other.stat().st_mode) == 0o640
    os.chmod(file, 0o600)
    save_file(state(), file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_link_is_followed_and_kept(file):
    link = file.with_name("latest")
    link.symlink_to(file)
    save_file({"only": halon.ones(1)}, link)
    assert link.is_symlink()
    assert list(load_file(file)) == ["only"]


def test_values_that_cannot_be_stored_are_named(tmp_path):
    with pytest.raises(TypeError, match="'epoch' is a int"):
        save_file({"epoch": 3}, tmp_path / "w")  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="'z' has dtype"):
        save_file({"z": halon.tensor(np.zeros(1, np.complex128))}, tmp_path / "w")
    assert os.listdir(tmp_path) == []
