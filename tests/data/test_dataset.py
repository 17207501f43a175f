"""Data sets and random_split."""

import pytest
import torch
import torch.utils.data as torch_data

import halon
from halon.data import Dataset, Subset, TensorDataset, random_split


def test_tensor_dataset_gives_rows_of_each_tensor():
    data = TensorDataset(halon.arange(4), halon.arange(8).reshape(4, 2))
    assert len(data) == 4
    label, row = data[2]
    assert (label.item(), row.tolist()) == (2, [4, 5])
    assert [t.tolist() for t in data[1:3]] == [[1, 2], [[2, 3], [4, 5]]]


def test_tensors_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="Size mismatch"):
        TensorDataset(halon.zeros(3), halon.zeros(4))


def test_a_base_dataset_says_what_is_missing():
    with pytest.raises(NotImplementedError, match="__getitem__"):
        Dataset()[0]


def test_subset_keeps_its_order_and_nests():
    subset = Subset(Subset("abcdef", [5, 3, 1]), [2, 0])
    assert [subset[i] for i in range(len(subset))] == ["b", "f"]
    assert subset.__getitems__([1, 0]) == ["f", "b"]


@pytest.mark.parametrize(
    "lengths", [[3, 7], [0.3, 0.3, 0.4], [0.5, 0.5], [1 / 3, 1 / 3, 1 / 3], [10]]
)
@pytest.mark.parametrize("size", [10])
def test_random_split_is_disjoint_complete_and_sized_as_torchs(size, lengths):
    parts = random_split(range(size), lengths, halon.Generator().manual_seed(1))
    theirs = torch_data.random_split(range(size), lengths)
    assert [len(p) for p in parts] == [len(p) for p in theirs]
    assert sorted(i for part in parts for i in part) == list(range(size))


def test_random_split_repeats_for_a_seed():
    def indices(seed):
        return [
            p.indices
            for p in random_split(range(50), [0.5, 0.5], halon.Generator().manual_seed(seed))
        ]

    assert indices(1) == indices(1)
    assert indices(1) != indices(2)


@pytest.mark.parametrize(
    ("lengths", "error"),
    [([3, 3], ValueError), ([1.5, -0.5], ValueError), ([0.5, 0.6], ValueError)],
)
def test_random_split_refuses_what_torch_refuses(lengths, error):
    for split in (random_split, torch_data.random_split):
        with pytest.raises(error):
            split(range(10), lengths)


def test_an_empty_part_warns():
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        random_split(range(1), [0.5, 0.5])
    assert torch.__version__.startswith("2.13")
