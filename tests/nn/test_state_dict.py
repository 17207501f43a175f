"""state_dict and load_state_dict, exchanged with torch both ways."""

import pytest
import torch

import halon
from halon import nn


def model(lib):
    return lib.Sequential(
        lib.Conv2d(1, 4, 3), lib.BatchNorm2d(4), lib.Flatten(), lib.Linear(144, 10)
    )


def to_torch(state):
    return {name: torch.from_numpy(t.cpu().numpy().copy()) for name, t in state.items()}


def to_halon(state):
    return {name: halon.tensor(t.numpy()) for name, t in state.items()}


def test_keys_order_shapes_and_dtypes_are_torchs():
    ours, theirs = model(nn).state_dict(), model(torch.nn).state_dict()
    assert list(ours) == list(theirs)
    assert [tuple(t.shape) for t in ours.values()] == [tuple(t.shape) for t in theirs.values()]
    for a, b in zip(ours.values(), theirs.values(), strict=True):
        assert str(a.dtype).split(".")[-1] == str(b.dtype).split(".")[-1]
    assert ours._metadata == theirs._metadata


def test_weights_go_to_torch_and_back_unchanged():
    ours, theirs, again = model(nn), model(torch.nn), model(nn)
    theirs.load_state_dict(to_torch(ours.state_dict()))
    result = again.load_state_dict(to_halon(theirs.state_dict()))
    assert repr(result) == "<All keys matched successfully>"
    for a, b in zip(ours.state_dict().values(), again.state_dict().values(), strict=True):
        assert a.tolist() == b.tolist()


def test_the_dict_shares_memory_and_is_detached_unless_asked():
    layer = nn.Linear(2, 1)
    state = layer.state_dict()
    assert not state["weight"].requires_grad
    state["weight"].zero_()
    assert layer.weight.abs().sum().item() == 0
    assert layer.state_dict(keep_vars=True)["weight"] is layer.weight
    assert list(layer.state_dict(prefix="net.")) == ["net.weight", "net.bias"]


def test_a_non_persistent_buffer_is_neither_saved_nor_expected():
    module = nn.Module()
    module.register_buffer("kept", halon.zeros(1))
    module.register_buffer("scratch", halon.zeros(1), persistent=False)
    module.register_buffer("nothing", None)
    assert list(module.state_dict()) == ["kept"]
    module.load_state_dict({"kept": halon.ones(1)})
    assert module.kept.item() == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"0.weight": None},
        {"9.weight": (2,)},
        {"0.extra": (2,)},
        {"3.weight": (10, 7)},
        {"0.weight": None, "1.bias": None, "x": (1,), "3.bias": (4,)},
        {"1.num_batches_tracked": None},
    ],
)
def test_all_problems_are_listed_in_torchs_words(changes):
    def text(lib, make):
        state = model(lib).state_dict()
        for name, shape in changes.items():
            if shape is None:
                del state[name]
            else:
                state[name] = make(shape)
        with pytest.raises(RuntimeError) as caught:
            model(lib).load_state_dict(state)
        return str(caught.value).replace("halon.", "torch.")

    assert text(nn, halon.zeros) == text(torch.nn, torch.zeros)


def test_not_strict_reports_instead_of_raising():
    target = nn.Linear(2, 1)
    result = target.load_state_dict(
        {"weight": halon.ones(1, 2), "other": halon.ones(1)}, strict=False
    )
    assert result.missing_keys == ["bias"]
    assert result.unexpected_keys == ["other"]
    assert target.weight.tolist() == [[1.0, 1.0]]
    with pytest.raises(RuntimeError, match="size mismatch for weight"):
        target.load_state_dict({"weight": halon.ones(3, 3)}, strict=False)


def test_assign_takes_the_given_tensors():
    target = nn.Linear(2, 1)
    given = {"weight": halon.ones(1, 2, dtype=halon.float64), "bias": halon.zeros(1)}
    target.load_state_dict(given, assign=True)
    assert target.weight.dtype == halon.float64
    assert isinstance(target.weight, nn.Parameter)
    assert target.weight.requires_grad
    given["weight"].zero_()
    assert target.weight.abs().sum().item() == 0


def test_a_value_that_is_no_tensor_and_a_state_that_is_no_mapping_are_named():
    with pytest.raises(RuntimeError, match='parameter named "bias"'):
        nn.Linear(1, 1).load_state_dict({"weight": halon.zeros(1, 1), "bias": [0.0]})
    with pytest.raises(TypeError, match="dict-like"):
        nn.Linear(1, 1).load_state_dict([1])  # type: ignore[arg-type]


def test_batch_norm_accepts_a_state_older_than_its_counter():
    state = nn.BatchNorm1d(2).state_dict()
    del state["num_batches_tracked"]
    state._metadata[""]["version"] = 1
    target = nn.BatchNorm1d(2)
    target.load_state_dict(state)
    assert target.num_batches_tracked.item() == 0
