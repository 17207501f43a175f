"""default_collate and default_convert return what torch's do."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest
import torch
from torch.utils.data._utils import collate as torch_collate

import halon
from halon.data.collate import default_collate, default_convert

Point = namedtuple("Point", "x y")


def described(value):
    """Types and values, the same text for both libraries."""
    if isinstance(value, torch.Tensor | halon.Tensor):
        name = str(value.dtype).split(".")[-1]
        return f"tensor({value.tolist()}, {name}, {tuple(value.shape)})"
    if isinstance(value, dict):
        return type(value).__name__, {k: described(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value).__name__, [described(v) for v in value]
    return type(value).__name__, str(value)


@pytest.mark.parametrize(
    "batch",
    [
        [1, 2, 3],
        [1.5, 2.5],
        [True, False],
        ["a", "b"],
        [b"a", b"b"],
        [np.zeros(2, np.float32), np.ones(2, np.float32)],
        [np.float32(1), np.float32(2)],
        [np.int16(1), np.int16(2)],
        [{"a": 1, "b": [1.0, 2.0]}, {"a": 2, "b": [3.0, 4.0]}],
        [OrderedDict(a=1), OrderedDict(a=2)],
        [Point(1, 2.0), Point(3, 4.0)],
        [(1, "x"), (2, "y")],
        [[1, {"n": (2, 3)}], [4, {"n": (5, 6)}]],
        [range(2), range(2)],
    ],
    ids=str,
)
def test_default_collate(batch):
    assert described(default_collate(batch)) == described(torch_collate.default_collate(batch))


def test_tensors_are_stacked():
    batch = [halon.ones(2, 3), halon.zeros(2, 3)]
    assert tuple(default_collate(batch).shape) == (2, 2, 3)


def test_arrays_become_tensors_that_own_their_memory():
    array = np.zeros(2, np.float32)
    batch = default_collate([array, array])
    array[:] = 7
    assert batch.tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    "batch",
    [[object()], [(1, 2), (1,)], [None], [np.array(["text"])], [{1, 2}]],
    ids=["object", "ragged", "None", "array of text", "set"],
)
def test_a_mistake_raises_torchs_class_and_words(batch):
    with pytest.raises((TypeError, RuntimeError)) as ours:
        default_collate(batch)
    with pytest.raises((TypeError, RuntimeError)) as theirs:
        torch_collate.default_collate(batch)
    assert type(ours.value) is type(theirs.value)
    assert str(ours.value)[:50] == str(theirs.value)[:50]


@pytest.mark.parametrize(
    "sample",
    [
        1,
        "text",
        None,
        np.arange(3),
        np.float64(3),
        np.array(["text"]),
        [np.zeros(2), 1],
        (1, np.ones(1)),
        Point(np.ones(1), 2),
        {"a": np.ones(2), "b": "text"},
    ],
    ids=str,
)
def test_default_convert(sample):
    assert described(default_convert(sample)) == described(torch_collate.default_convert(sample))
