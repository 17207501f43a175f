"""The demo: what it writes, what it compares, and what happens when a device fails."""

import json

import numpy as np
import pytest

import halon
from halon.cli import demo, demo_run, demo_training
from halon.cli.main import main
from halon.hal.errors import UnknownDevice
from halon.hal.registry import host, registry
from halon.nn.safetensors_io import load_file
from halon.vision.digits import digits_split

HOST = host().name


@pytest.fixture
def out(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # tables wrap nothing that is looked for
    return tmp_path / "demo"


def run(out, *arguments):
    return main(["demo", "--out", str(out), *arguments])


def test_one_epoch_on_the_host_writes_everything(out, capsys):
    assert run(out, "--devices", HOST, "--epochs", "1") == 0
    text = capsys.readouterr().out
    assert "test accuracy" in text
    assert HOST in text
    results = json.loads((out / "results.json").read_text())
    (row,) = results["devices"]
    assert row["accuracy"] > 0.85
    assert row["images_per_second"] > 0
    assert row["ms_per_step"] > 0
    assert row["fallback_share"] == 0.0
    assert len(row["losses"]) == 1
    assert (out / "loss.png").read_bytes().startswith(b"\x89PNG")
    weights = load_file(out / row["weights"])
    assert set(weights) == set(demo_training.build_model().state_dict())


def test_every_device_here_predicts_the_same_from_the_first_ones_weights(out):
    present = registry.available()
    names = [name for name in ("cpu", "opencl:0", "reference:0") if name in present]
    assert run(out, "--devices", ",".join(names), "--epochs", "1") == 0
    results = json.loads((out / "results.json").read_text())
    assert [row["device"] for row in results["devices"]] == names
    assert [row["device"] for row in results["agreement"]] == names[1:]
    assert all(row["equal"] == row["total"] == 359 for row in results["agreement"])
    for name in names:
        assert (out / f"weights-{name.replace(':', '-')}.safetensors").exists()


def test_a_seed_gives_the_same_training_again():
    split = digits_split(0)
    first = demo_training.train(HOST, split, 1, seed=4)[1]
    again = demo_training.train(HOST, split, 1, seed=4)[1]
    other = demo_training.train(HOST, split, 1, seed=5)[1]
    assert first.losses == again.losses
    assert first.losses != other.losses


def test_a_device_that_fails_is_shown_others_go_on_and_the_status_is_1(out, monkeypatch, capsys):
    real = demo_run.train

    def fails(device, *arguments):
        if device == "broken:0":
            raise RuntimeError("kernel refused [x]")
        return real(device, *arguments)

    monkeypatch.setattr(demo_run, "train", fails)
    assert demo_run.compare_devices(["broken:0", HOST], 1, 0, _made(out)) == 1
    text = capsys.readouterr().out
    assert "kernel refused" in text
    assert "Traceback" in (out / "error-broken-0.txt").read_text()
    results = json.loads((out / "results.json").read_text())
    assert results["devices"][0]["error"] == "RuntimeError: kernel refused [x]"
    assert results["devices"][1]["accuracy"] > 0.5


def test_different_predictions_make_the_status_1_and_are_explained(out, monkeypatch, capsys):
    monkeypatch.setattr(demo_run, "train", lambda *a: _untrained(a[0]))
    monkeypatch.setattr(
        demo_run,
        "_logits",
        lambda path, split, device: np.eye(359, 10)[:, :: 1 if device == HOST else -1],
    )
    assert demo_run.compare_devices([HOST, "other:0"], 1, 0, _made(out)) == 1
    assert "no ties" in " ".join(capsys.readouterr().out.split())


def test_a_tie_is_called_a_tie():
    logits = np.array([[1.0, 1.0 + 1e-7], [5.0, 0.0]])
    assert "ties" in demo_run._explain(np.array([0]), logits)
    assert "no ties" in demo_run._explain(np.array([1]), logits)


def test_an_out_that_cannot_be_written_is_refused_before_training(tmp_path, monkeypatch, capsys):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setattr(demo_run, "compare_devices", lambda *a: pytest.fail("training started"))
    for bad in (file, file / "below", "/dev/full/x"):
        assert run(bad, "--devices", HOST) == 2
        assert "cannot write there" in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["rich", "matplotlib"])
def test_a_missing_package_names_the_extra(out, monkeypatch, capsys, missing):
    find = demo.importlib.util.find_spec
    monkeypatch.setattr(
        demo.importlib.util, "find_spec", lambda name: None if name == missing else find(name)
    )
    assert run(out) == 2
    assert f'{missing}, not installed here: pip install "halon[demo]"' in capsys.readouterr().err


def test_absent_drivers_are_named_with_their_reason(out, monkeypatch, capsys):
    from halon.hal.registry import DeviceRow

    rows = [DeviceRow("npu", "built-in", "1", "absent", 0, 'pip install "halon[npu]"')]
    monkeypatch.setattr(registry, "table", lambda: rows)
    monkeypatch.setattr(demo_run, "train", lambda *a: _untrained(a[0]))
    demo_run.compare_devices([HOST], 1, 0, _made(out))
    assert 'npu: absent. pip install "halon[npu]"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ("all", ["cpu", "gpu:0", "gpu:1"]),
        ("gpu", ["gpu:0"]),
        ("gpu:1, cpu:0,gpu:1", ["gpu:1", "cpu"]),
    ],
)
def test_names_are_chosen_in_the_order_given(wanted, chosen):
    assert demo.choose(wanted, ["cpu", "gpu:0", "gpu:1"]) == chosen


@pytest.mark.parametrize("wanted", ["tpu", "gpu:2", "", "cpu,,"])
def test_a_name_that_is_not_here_is_refused(wanted):
    with pytest.raises(UnknownDevice, match="Available: cpu, gpu:0"):
        demo.choose(wanted, ["cpu", "gpu:0"])


def _made(folder):
    folder.mkdir()
    return folder


def _untrained(device):
    halon.manual_seed(0)
    return demo_training.build_model(), demo_training.Training(device, losses=[1.0])
