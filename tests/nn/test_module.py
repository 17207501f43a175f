"""Module: registration rules, traversal, hooks, modes, movement, copies and printing."""

import copy
import pickle

import pytest
import torch

import halon
from halon import nn


def model(lib):
    """The same small tree in halon or torch."""
    return lib.Sequential(
        lib.Conv2d(1, 4, 3, padding=1),
        lib.BatchNorm2d(4),
        lib.ReLU(),
        lib.MaxPool2d(2),
        lib.Dropout(0.25),
        lib.Flatten(),
        lib.ModuleList([lib.Linear(4, 4), lib.Linear(4, 4), lib.Tanh()]),
        lib.Linear(64, 10, bias=False),
    )


def message(action):
    """The class name and text of what ``action`` raises."""
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the class is what is compared
        action()
    return type(caught.value).__name__, str(caught.value)


def test_named_modules_parameters_and_buffers_are_torchs():
    ours, theirs = model(nn), model(torch.nn)
    assert [n for n, _ in ours.named_modules()] == [n for n, _ in theirs.named_modules()]
    assert [n for n, _ in ours.named_children()] == [n for n, _ in theirs.named_children()]
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    assert [n for n, _ in ours.named_buffers()] == [n for n, _ in theirs.named_buffers()]
    assert [n for n, _ in ours.named_parameters("net", recurse=False)] == []


def test_a_shared_parameter_is_listed_once_unless_asked():
    first = nn.Linear(2, 2)
    tree = nn.Sequential(first, nn.ReLU(), first)
    assert [n for n, _ in tree.named_parameters()] == ["0.weight", "0.bias"]
    assert len(list(tree.named_parameters(remove_duplicate=False))) == 4
    assert len(list(tree.modules())) == 3
    assert len(list(tree.children())) == 2


@pytest.mark.parametrize(
    "module", [model, lambda lib: lib.Linear(3, 2), lambda lib: lib.Sequential()]
)
def test_repr_is_torchs(module):
    assert repr(module(nn)) == repr(module(torch.nn))


@pytest.mark.parametrize(
    "layer",
    [
        lambda lib: lib.Identity(1, a=2),
        lambda lib: lib.Linear(3, 2, bias=False),
        lambda lib: lib.Conv2d(4, 8, (3, 5), 2, 1, dilation=2, groups=4, bias=False),
        lambda lib: lib.Conv2d(4, 8, 3, padding="same"),
        lambda lib: lib.Conv2d(4, 8, 3, padding="valid"),
        lambda lib: lib.BatchNorm1d(3, momentum=None, affine=False),
        lambda lib: lib.BatchNorm2d(3, eps=0.1, track_running_stats=False, bias=False),
        lambda lib: lib.ReLU(inplace=True),
        lambda lib: lib.Sigmoid(),
        lambda lib: lib.Softmax(dim=1),
        lambda lib: lib.LogSoftmax(-1),
        lambda lib: lib.MaxPool2d((2, 3), stride=1, padding=1, ceil_mode=True),
        lambda lib: lib.Dropout(0.1, inplace=True),
        lambda lib: lib.Flatten(0, 2),
        lambda lib: lib.CrossEntropyLoss(ignore_index=3),
        lambda lib: lib.MSELoss(),
        lambda lib: lib.NLLLoss(),
        lambda lib: lib.ModuleList(),
        lambda lib: lib.ModuleList(
            [lib.ReLU(), lib.Sequential(lib.Tanh()), lib.Sequential(lib.Tanh())]
        ),
    ],
)
def test_a_layer_prints_as_torchs(layer):
    assert repr(layer(nn)) == repr(layer(torch.nn))


def test_assigning_registers_and_reassigning_moves_between_tables():
    module = nn.Module()
    module.thing = nn.Parameter(halon.zeros(2))
    assert [n for n, _ in module.named_parameters()] == ["thing"]
    del module.thing
    module.register_buffer("thing", halon.zeros(2), persistent=False)
    module.thing = nn.Parameter(halon.ones(2))
    assert [n for n, _ in module.named_parameters()] == ["thing"]
    assert list(module.named_buffers()) == []
    assert list(module.state_dict()) == ["thing"]
    module.thing = None
    assert module.thing is None
    module.child = nn.ReLU()
    assert [n for n, _ in module.named_children()] == ["child"]
    module.child = None
    assert list(module.children()) == []


@pytest.mark.parametrize(
    "action",
    [
        lambda lib: setattr(lib.Linear(1, 1), "weight", 3),
        lambda lib: setattr(lib.BatchNorm1d(1), "running_mean", 3),
        lambda lib: setattr(lib.Sequential(lib.ReLU()), "0", 3),
        lambda lib: lib.Module().missing,
        lambda lib: lib.Module().add_module("a", 3),
        lambda lib: lib.Module().add_module("a.b", lib.ReLU()),
        lambda lib: lib.Module().add_module("", lib.ReLU()),
        lambda lib: lib.Module().add_module("forward", lib.ReLU()),
        lambda lib: lib.Module().register_buffer("a", 3),
        lambda lib: lib.Module().register_parameter("a", 3),
        lambda lib: lib.Module()(1),
        lambda lib: lib.Module().train(1),
        lambda lib: lib.Linear(1, 1).get_submodule("x"),
        lambda lib: lib.Linear(1, 1).get_submodule("weight"),
        lambda lib: lib.Linear(1, 1).get_parameter("x"),
        lambda lib: lib.Sequential(lib.ReLU())[1],
        lambda lib: lib.Dropout(1.5),
        lambda lib: lib.Conv2d(3, 4, 3, groups=2),
        lambda lib: lib.Conv2d(4, 3, 3, groups=2),
        lambda lib: lib.Conv2d(4, 4, 3, groups=0),
        lambda lib: lib.Conv2d(4, 4, 3, padding="half"),
        lambda lib: lib.Conv2d(4, 4, 3, stride=2, padding="same"),
    ],
)
def test_a_mistake_raises_torchs_class(action):
    assert message(lambda: action(nn))[0] == message(lambda: action(torch.nn))[0]


def test_assigning_before_init_says_so():
    class Early(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter(halon.zeros(1))

    with pytest.raises(AttributeError, match=r"before Module.__init__\(\) call"):
        Early()


def test_a_computed_tensor_is_no_parameter():
    module = nn.Module()
    computed = nn.Parameter(halon.ones(1)) * 2
    with pytest.raises(TypeError, match="cannot assign"):
        module.register_parameter("a", computed)


def test_another_padding_mode_is_refused_with_advice():
    with pytest.raises(NotImplementedError, match="Pad the input"):
        nn.Conv2d(1, 1, 3, padding_mode="reflect")


def test_get_submodule_parameter_and_buffer_follow_dots():
    tree = nn.Sequential(nn.Sequential(nn.BatchNorm1d(2)))
    assert tree.get_submodule("0.0") is tree[0][0]
    assert tree.get_submodule("") is tree
    assert tree.get_parameter("0.0.weight") is tree[0][0].weight
    assert tree.get_buffer("0.0.running_var") is tree[0][0].running_var


def test_sequential_slices_edits_and_concatenates():
    def edited(lib):
        tree = lib.Sequential(lib.Linear(2, 3), lib.ReLU(), lib.Linear(3, 1))
        tree.insert(1, lib.Tanh())
        tree.append(lib.Sigmoid())
        tree.pop(0)
        tree[0] = lib.Identity()
        del tree[2]
        return repr(tree), repr(tree[1:]), repr(tree + tree[:1]), len(tree), repr(2 * tree)

    assert edited(nn) == edited(torch.nn)


def test_pre_hooks_and_hooks_run_in_order_and_may_replace():
    calls = []
    layer = nn.Identity()

    def pre(module, args):
        calls.append("pre")
        return (args[0] + 1,)

    def post(module, args, output):
        calls.append("post")
        return output * 2

    handles = [layer.register_forward_pre_hook(pre), layer.register_forward_hook(post)]
    layer.register_forward_hook(lambda m, a, o: calls.append("first"), prepend=True)
    assert layer(halon.tensor(1.0)).item() == 4.0
    assert calls == ["pre", "first", "post"]
    for handle in handles:
        handle.remove()
    assert layer(halon.tensor(1.0)).item() == 1.0


def test_a_hook_with_kwargs_sees_and_replaces_them():
    class Add(nn.Module):
        def forward(self, x, other=0):
            return x + other

    layer = Add()
    layer.register_forward_pre_hook(
        lambda m, a, k: (a, {"other": k["other"] * 10}), with_kwargs=True
    )
    seen = []
    layer.register_forward_hook(lambda m, a, k, out: seen.append(k), with_kwargs=True)
    assert layer(1, other=2) == 21
    assert seen == [{"other": 20}]


def test_a_hook_with_always_call_runs_when_forward_raises():
    class Broken(nn.Module):
        def forward(self):
            raise KeyError("inside")

    layer, seen = Broken(), []
    layer.register_forward_hook(lambda m, a, o: seen.append(o), always_call=True)
    layer.register_forward_hook(lambda m, a, o: seen.append("never"))
    with pytest.raises(KeyError, match="inside"):
        layer()
    assert seen == [None]


def test_train_eval_requires_grad_zero_grad_and_apply_reach_the_whole_tree():
    tree = model(nn)
    assert not any(m.training for m in tree.eval().modules())
    assert all(m.training for m in tree.train().modules())
    assert not any(p.requires_grad for p in tree.requires_grad_(False).parameters())
    tree.requires_grad_()
    for p in tree.parameters():
        p.grad = halon.ones_like(p)
    tree.zero_grad(set_to_none=False)
    assert all(p.grad.abs().sum().item() == 0 for p in tree.parameters())
    tree.zero_grad()
    assert all(p.grad is None for p in tree.parameters())
    names = []
    tree.apply(lambda m: names.append(type(m).__name__))
    assert names[-1] == "Sequential"
    assert len(names) == len(list(tree.modules()))


def test_to_converts_floating_tensors_and_keeps_parameter_identity():
    tree = model(nn)
    before = list(tree.parameters())
    before[0].grad = halon.ones_like(before[0])
    assert tree.double() is tree
    assert all(a is b for a, b in zip(before, tree.parameters(), strict=True))
    assert {p.dtype for p in tree.parameters()} == {halon.float64}
    assert before[0].grad.dtype == halon.float64
    assert tree[1].num_batches_tracked.dtype == halon.int64
    assert tree.to(halon.float32)[1].running_mean.dtype == halon.float32
    assert tree.to(halon.zeros(1, dtype=halon.float64))[0].weight.dtype == halon.float64
    with pytest.raises(TypeError, match="only accepts floating point"):
        tree.to(halon.int32)
    with pytest.raises(TypeError):
        tree.to(dtype=halon.float32, nonsense=1)


@pytest.mark.parametrize("copier", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_is_equal_and_independent(copier):
    tree = model(nn)
    twin = copier(tree)
    assert repr(twin) == repr(tree)
    for (name, a), (other, b) in zip(
        tree.state_dict().items(), twin.state_dict().items(), strict=True
    ):
        assert name == other
        assert a.tolist() == b.tolist()
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in twin.parameters())
    nn.init.constant_(twin[0].weight, 7.0)
    assert tree[0].weight.max().item() < 7.0


def test_deepcopy_keeps_shared_parameters_shared():
    tree = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tree[1].weight = tree[0].weight
    twin = copy.deepcopy(tree)
    assert twin[1].weight is twin[0].weight
    assert twin[0].weight is not tree[0].weight


def test_a_parameter_is_a_leaf_that_requires_grad_and_prints_so():
    p = nn.Parameter(halon.tensor([1.0, 2.0]))
    assert p.requires_grad
    assert p.is_leaf
    assert repr(p) == repr(torch.nn.Parameter(torch.tensor([1.0, 2.0])))
    assert nn.Parameter().numel() == 0
    assert not nn.Parameter(halon.tensor([1]), requires_grad=False).requires_grad
    with pytest.raises(TypeError, match="expected a Tensor"):
        nn.Parameter([1.0])
    (p * 2).sum().backward()
    assert p.grad.tolist() == [2.0, 2.0]
    assert type(p * 2) is halon.Tensor


def test_dir_lists_registered_names_but_no_numbers_of_containers():
    assert "weight" in dir(nn.Linear(1, 1))
    assert "0" not in dir(nn.Sequential(nn.ReLU()))
