"""Handwritten digits, 8×8 grey levels: 1,797 images that ship with halon (``data/README.md``)."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from halon.hal.errors import HalonError
from halon.tensor.creation import from_numpy
from halon.tensor.tensor import Tensor

FILE: Final = Path(__file__).parent / "data" / "optical_digits.npz"
SHA256: Final = "b2dab7b501728c22e9119ad76740b2e17c77a231e42d1e592380d90886f1a05e"
TEST_SHARE: Final = 0.2


class DataFileError(HalonError, ValueError):
    """A file that ships with halon is not the one that was released."""


class DigitsSplit(NamedTuple):
    """Images float32 [N, 1, 8, 8] and labels int64 [N] of both parts."""

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor


def load_digits() -> tuple[Tensor, Tensor]:
    """load_digits() -> (images float32 [1797, 1, 8, 8], labels int64 [1797]), on the host

    Grey levels are scaled to [0, 1].

    Raises:
        FileNotFoundError: the data file is missing from the installation.
        DataFileError: its sha256 is not the released one.

    >>> from halon.vision import load_digits
    >>> images, labels = load_digits()
    >>> tuple(images.shape), labels[:4].tolist()
    ((1797, 1, 8, 8), [0, 1, 2, 3])
    """
    images, labels = _arrays()
    return from_numpy(images), from_numpy(labels)


def digits_split(seed: int = 0) -> DigitsSplit:
    """digits_split(seed=0) -> (train_images, train_labels, test_images, test_labels)

    Stratified: of each digit, a fifth (rounded) drawn by ``seed`` is for testing, which makes 1,438
    images for training and 359 for testing. Both parts are shuffled. The draw is NumPy's legacy
    Mersenne Twister, whose stream is frozen, so a seed means the same images everywhere.

    Raises as ``load_digits``.

    >>> from halon.vision import digits_split
    >>> split = digits_split(seed=0)
    >>> len(split.train_labels), len(split.test_labels)
    (1438, 359)
    """
    images, labels = _arrays()
    draw = np.random.RandomState(seed)
    train, test = [], []
    for digit in range(10):
        members = draw.permutation(np.flatnonzero(labels == digit))
        count = round(len(members) * TEST_SHARE)
        test.append(members[:count])
        train.append(members[count:])
    train_rows = draw.permutation(np.concatenate(train))
    test_rows = draw.permutation(np.concatenate(test))
    return DigitsSplit(
        from_numpy(images[train_rows]),
        from_numpy(labels[train_rows]),
        from_numpy(images[test_rows]),
        from_numpy(labels[test_rows]),
    )


def _arrays() -> tuple[np.ndarray, np.ndarray]:
    content = FILE.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256:
        raise DataFileError(
            f"{FILE} is damaged or was replaced: sha256 {found}, expected {SHA256}. Reinstall halon"
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        images = arrays["images"].astype(np.float32) / np.float32(16)
        return images[:, None], arrays["labels"].astype(np.int64)
