"""DataLoader: order, batches and options that exclude each other, as torch's."""

import pytest
import torch
import torch.utils.data as torch_data

import halon
from halon.data import DataLoader, TensorDataset, WorkersNotAvailable
from halon.hal.errors import HalonError


class Squares:
    """A plain data set, for either loader."""

    def __len__(self):
        return 7

    def __getitem__(self, i):
        return {"i": i, "square": float(i * i)}


def values(batches):
    """Tensors of both libraries as lists."""
    if isinstance(batches, torch.Tensor | halon.Tensor):
        return batches.tolist()
    if isinstance(batches, dict):
        return {k: values(v) for k, v in batches.items()}
    return [values(b) for b in batches] if isinstance(batches, list | tuple) else batches


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": 3},
        {"batch_size": 3, "drop_last": True},
        {"batch_size": None},
        {"batch_size": 2, "sampler": [4, 0, 2]},
        {"batch_sampler": [[1, 2], [0]]},
        {"batch_size": 2, "collate_fn": len},
        {"batch_size": None, "sampler": [3, 1]},
    ],
    ids=str,
)
def test_batches_and_lengths_are_torchs(options):
    ours, theirs = DataLoader(Squares(), **options), torch_data.DataLoader(Squares(), **options)
    assert values(list(ours)) == values(list(theirs))
    assert len(ours) == len(theirs)


@pytest.mark.parametrize("options", [{"batch_size": 3}, {"batch_size": None}], ids=str)
def test_tensor_datasets_give_torchs_batches(options):
    rows = torch.randn(7, 2, 2)
    ours = DataLoader(TensorDataset(halon.tensor(rows.numpy()), halon.arange(7)), **options)
    theirs = torch_data.DataLoader(torch_data.TensorDataset(rows, torch.arange(7)), **options)
    for a, b in zip(ours, theirs, strict=True):
        assert type(a) is type(b)
        assert values(a) == values(b)


def test_a_gathered_tensor_dataset_equals_one_collated_row_by_row():
    data = TensorDataset(halon.randn(10, 3), halon.arange(10))
    quick = DataLoader(data, batch_size=4, shuffle=True, generator=halon.Generator().manual_seed(2))
    slow = DataLoader(
        data,
        batch_size=4,
        shuffle=True,
        generator=halon.Generator().manual_seed(2),
        collate_fn=lambda samples: halon.data.default_collate(samples),
    )
    assert values(list(quick)) == values(list(slow))


def test_shuffling_visits_everything_once_anew_at_each_pass_and_repeats_for_a_seed():
    def orders(seed):
        loader = DataLoader(
            range(40), batch_size=8, shuffle=True, generator=halon.Generator().manual_seed(seed)
        )
        return [[i for batch in loader for i in batch.tolist()] for _ in range(2)]

    first, second = orders(0)
    assert sorted(first) == sorted(second) == list(range(40))
    assert first != second
    assert orders(0) == [first, second]
    assert orders(1) != [first, second]


def test_getitems_is_used_where_a_dataset_has_it():
    class Fetches(Squares):
        def __getitems__(self, indices):
            return [sum(indices)]

    assert values(list(DataLoader(Fetches(), batch_size=4))) == [[6], [15]]


def test_two_passes_at_once_do_not_disturb_each_other():
    loader = DataLoader(range(6), batch_size=2)
    assert [(a.tolist(), b.tolist()) for a, b in zip(loader, loader, strict=True)] == [
        ([i, i + 1], [i, i + 1]) for i in (0, 2, 4)
    ]


@pytest.mark.parametrize("option", [{"num_workers": 2}, {"pin_memory": True}])
def test_worker_processes_and_pinned_memory_are_refused(option):
    with pytest.raises(WorkersNotAvailable, match="halon has no") as caught:
        DataLoader(range(3), **option)
    assert isinstance(caught.value, NotImplementedError)
    assert isinstance(caught.value, HalonError)


@pytest.mark.parametrize(
    "options",
    [
        {"num_workers": -1},
        {"sampler": [0], "shuffle": True},
        {"batch_sampler": [[0]], "batch_size": 2},
        {"batch_sampler": [[0]], "shuffle": True},
        {"batch_sampler": [[0]], "drop_last": True},
        {"batch_size": None, "drop_last": True},
        {"batch_size": 0},
        {"timeout": -1},
        {"prefetch_factor": 2},
        {"persistent_workers": True},
    ],
    ids=str,
)
def test_a_mistake_raises_torchs_class_and_words(options):
    with pytest.raises(ValueError, match=r".") as ours:
        DataLoader(Squares(), **options)
    with pytest.raises(ValueError, match=r".") as theirs:
        torch_data.DataLoader(Squares(), **options)
    assert str(ours.value)[:30] == str(theirs.value)[:30]


def test_something_that_cannot_be_indexed_is_named():
    with pytest.raises(TypeError, match="set has no __getitem__"):
        DataLoader({1, 2})
