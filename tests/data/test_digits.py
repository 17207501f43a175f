"""The digits that ship with halon."""

import numpy as np
import pytest

import halon
from halon.hal.errors import HalonError
from halon.vision import digits, digits_split, load_digits


def test_images_and_labels_are_those_of_scikit_learn():
    reference = pytest.importorskip("sklearn.datasets").load_digits()
    images, labels = load_digits()
    assert np.array_equal(images.numpy()[:, 0] * 16, reference.images)
    assert np.array_equal(labels.numpy(), reference.target)


def test_shapes_dtypes_and_range():
    images, labels = load_digits()
    assert (tuple(images.shape), images.dtype) == ((1797, 1, 8, 8), halon.float32)
    assert (tuple(labels.shape), labels.dtype) == ((1797,), halon.int64)
    assert (images.min().item(), images.max().item()) == (0.0, 1.0)
    assert np.bincount(labels.numpy()).tolist() == [
        178,
        182,
        177,
        183,
        181,
        182,
        181,
        179,
        174,
        180,
    ]


def test_a_split_is_stratified_disjoint_and_complete():
    split = digits_split(3)
    images, _ = load_digits()
    rows = np.concatenate([split.train_images.numpy(), split.test_images.numpy()]).reshape(1797, 64)
    assert sorted(map(tuple, rows)) == sorted(map(tuple, images.numpy().reshape(1797, 64)))
    counts = np.bincount(split.test_labels.numpy())
    totals = counts + np.bincount(split.train_labels.numpy())
    assert counts.tolist() == [round(n * 0.2) for n in totals]


def test_a_seed_means_the_same_images_everywhere():
    first, again, other = digits_split(0), digits_split(0), digits_split(1)
    assert first.test_labels.tolist() == again.test_labels.tolist()
    assert first.test_labels.tolist() != other.test_labels.tolist()
    # these come from NumPy's frozen legacy stream; a change here breaks comparisons over time
    assert first.test_labels[:10].tolist() == [6, 3, 2, 4, 0, 1, 8, 5, 7, 6]


def test_a_damaged_file_is_named(tmp_path, monkeypatch):
    bad = tmp_path / "optical_digits.npz"
    bad.write_bytes(digits.FILE.read_bytes()[:-1])
    monkeypatch.setattr(digits, "FILE", bad)
    with pytest.raises(digits.DataFileError, match="damaged or was replaced") as caught:
        load_digits()
    assert str(bad) in str(caught.value)
    assert isinstance(caught.value, HalonError)


def test_a_missing_file_is_an_os_error(tmp_path, monkeypatch):
    monkeypatch.setattr(digits, "FILE", tmp_path / "gone.npz")
    with pytest.raises(FileNotFoundError, match="gone"):
        load_digits()
