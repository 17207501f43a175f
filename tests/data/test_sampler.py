"""Samplers."""

import pytest
import torch.utils.data as torch_data

import halon
from halon.data import BatchSampler, RandomSampler, Sampler, SequentialSampler


def seeded(seed):
    return halon.Generator().manual_seed(seed)


def test_sequential_gives_every_index_in_order():
    assert list(SequentialSampler("abcd")) == [0, 1, 2, 3]
    assert len(SequentialSampler("abcd")) == 4


def test_random_gives_a_new_permutation_at_every_pass():
    sampler = RandomSampler(range(100), generator=seeded(0))
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(100))
    assert first != second
    assert list(RandomSampler(range(100), generator=seeded(0))) == first


def test_random_without_a_generator_follows_the_global_seed():
    halon.manual_seed(5)
    first = list(RandomSampler(range(50)))
    halon.manual_seed(5)
    assert list(RandomSampler(range(50))) == first


@pytest.mark.parametrize("count", [1, 9, 10, 25])
def test_more_samples_than_items_are_permutations_in_a_row(count):
    drawn = list(RandomSampler(range(10), num_samples=count, generator=seeded(0)))
    assert len(drawn) == count
    for start in range(0, count, 10):
        block = drawn[start : start + 10]
        assert len(set(block)) == len(block)


def test_replacement_may_repeat():
    drawn = list(RandomSampler(range(3), replacement=True, num_samples=200, generator=seeded(0)))
    assert len(drawn) == 200
    assert set(drawn) == {0, 1, 2}


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("size", [0, 1, 5, 6, 7])
def test_batch_sampler_is_torchs(size, drop_last):
    ours = BatchSampler(range(size), 3, drop_last)
    theirs = torch_data.BatchSampler(range(size), 3, drop_last)
    assert list(ours) == list(theirs)
    assert len(ours) == len(theirs)


@pytest.mark.parametrize(
    "action",
    [
        lambda lib: lib.RandomSampler([]),
        lambda lib: lib.RandomSampler([1], replacement=1),
        lambda lib: lib.RandomSampler([1], num_samples=-1),
        lambda lib: lib.BatchSampler([1], 0, False),
        lambda lib: lib.BatchSampler([1], True, False),
        lambda lib: lib.BatchSampler([1], 1, 1),
    ],
)
def test_a_mistake_raises_torchs_class(action):
    raised = []
    for lib in (halon.data, torch_data):
        with pytest.raises((TypeError, ValueError)) as caught:
            action(lib)
        raised.append(type(caught.value))
    assert raised[0] is raised[1]


def test_a_base_sampler_says_what_is_missing():
    with pytest.raises(NotImplementedError, match="__iter__"):
        iter(Sampler())
