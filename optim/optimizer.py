"""Optimizer: parameter groups, per-parameter state, and how both are saved."""

from __future__ import annotations

import copy
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from halon.autograd.modes import enable_grad, no_grad
from halon.tensor.tensor import Tensor

Params = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
Group = dict[str, Any]
Closure = Callable[[], Any]


class Optimizer:
    """Optimizer(params, defaults), the base class: a subclass defines ``update``.

    Args:
        params: tensors, (name, tensor) pairs, or dicts ``{"params": …, "lr": …}`` with options of
            their own.
        defaults: the options of a group that does not set them.

    Attributes:
        param_groups: one dict per group: ``"params"`` and its options.
        state: parameter → what the optimizer remembers about it.

    Raises:
        TypeError: ``params`` is a tensor, or holds something else than tensors.
        ValueError: no parameters, one in two groups, or one that is a computed result.
    """

    param_groups: list[Group]
    state: defaultdict[Tensor, dict[str, Any]]

    def __init__(self, params: Params, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {type(params).__name__}"
            )
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups = []
        given: list[Any] = list(params)
        if not given:
            raise ValueError("optimizer got an empty parameter list")
        groups = given if isinstance(given[0], dict) else [{"params": given}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: Group) -> None:
        """Add a group of parameters with its options, for layers unfrozen during training.

        Raises as the constructor does.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = param_group
        params, names = _ordered_params(group["params"])
        group["params"] = params
        if names:
            group["param_names"] = names
        for param in params:
            self._check_param(param)
        for name, default in self.defaults.items():
            group.setdefault(name, default)
        identities = [id(param) for param in params]
        if len(set(identities)) != len(identities):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters: each is updated "
                "once per mention",
                stacklevel=3,
            )
        for other in self.param_groups:
            if ("param_names" in group) != ("param_names" in other):
                raise ValueError("all optimizer param groups should be with/without names")
            if not set(identities).isdisjoint(id(param) for param in other["params"]):
                raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(group)

    @staticmethod
    def _check_param(param: Any) -> None:
        if not isinstance(param, Tensor):
            raise TypeError(
                "optimizer can only optimize Tensors, but one of the params is "
                f"{type(param).__name__}"
            )
        if not param.is_leaf:
            raise ValueError("can't optimize a non-leaf Tensor")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop every gradient, or fill it with zeros where ``set_to_none`` is False."""
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is None:
                    continue
                param.grad = None if set_to_none else param.grad.detach().zero_()

    def step(self, closure: Closure | None = None) -> Any:
        """Update every parameter that has a gradient.

        ``closure`` is run first, with gradients on, and should compute them again; what it returns
        is returned.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                for param in group["params"]:
                    if param.grad is not None:
                        self.update(param, param.grad, group)
        return loss

    def update(self, param: Tensor, grad: Tensor, group: Group) -> None:
        """Change one parameter in place, by its gradient and its group's options."""
        raise NotImplementedError(f"{type(self).__name__} must define update()")

    def state_dict(self) -> dict[str, Any]:
        """state_dict() -> {"state": …, "param_groups": …}, parameters replaced by their numbers.

        >>> import halon
        >>> optimizer = halon.optim.SGD([halon.zeros(1, requires_grad=True)], lr=0.5)
        >>> optimizer.state_dict()["param_groups"][0]["params"]
        [0]
        """
        numbers: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            packed = {name: value for name, value in group.items() if name != "params"}
            packed["params"] = [
                numbers.setdefault(id(param), len(numbers)) for param in group["params"]
            ]
            groups.append(packed)
        state = {
            numbers[id(key)] if isinstance(key, Tensor) else key: value
            for key, value in self.state.items()
        }
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore what ``state_dict()`` returned, for the same parameters in the same order.

        State goes to the device and dtype of its parameter, except the step count.

        Raises:
            ValueError: the groups differ in number or in size.
        """
        saved_groups = copy.deepcopy(state_dict["param_groups"])
        if len(saved_groups) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        pairs = list(zip(self.param_groups, saved_groups, strict=True))
        if any(len(own["params"]) != len(saved["params"]) for own, saved in pairs):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        params = {
            number: param
            for own, saved in pairs
            for number, param in zip(saved["params"], own["params"], strict=True)
        }
        self.state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                self.state[params[key]] = _for_param(value, params[key])
            else:
                self.state[key] = value
        for own, saved in pairs:
            saved["params"] = own["params"]
            if "param_names" in own:
                saved["param_names"] = own["param_names"]
        # options that the saved groups do not know keep this optimizer's defaults
        self.param_groups = [{**self.defaults, **saved} for _, saved in pairs]

    def __getstate__(self) -> dict[str, Any]:
        return {
            "defaults": self.defaults,
            "state": self.state,
            "param_groups": self.param_groups,
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__} (" + "".join(self._group_lines()) + "\n)"

    def _group_lines(self) -> Iterator[str]:
        for i, group in enumerate(self.param_groups):
            yield f"\nParameter Group {i}"
            yield from (
                f"\n    {name}: {group[name]}" for name in sorted(group) if name != "params"
            )


def _ordered_params(given: Any) -> tuple[list[Tensor], list[str]]:
    """The tensors of a group, and their names where pairs were given."""
    if isinstance(given, Tensor):
        return [given], []
    if isinstance(given, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering "
            "of tensors in sets will change between runs. Please use a list instead."
        )
    items = list(given)
    names = [item[0] for item in items if isinstance(item, tuple)]
    if names and len(names) != len(items):
        raise ValueError(
            "all optimizer params should be with/without names. Some param names are missing"
        )
    return [item[1] if isinstance(item, tuple) else item for item in items], names


def _for_param(value: Any, param: Tensor, name: str = "") -> Any:
    """A copy of saved state for ``param``: its tensors follow the parameter."""
    if isinstance(value, Tensor):
        if name == "step":
            return value.detach().clone()
        dtype = param.dtype if param.is_floating_point() else value.dtype
        return value.detach().to(device=param.device, dtype=dtype, copy=True)
    if isinstance(value, dict):
        return {key: _for_param(item, param, key) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_for_param(item, param, name) for item in value)
    return copy.copy(value)


def check_options(name: str, differentiable: bool, capturable: bool = False) -> None:
    """Raise NotImplementedError for modes of ``step`` that halon does not have."""
    for option, wanted in (("differentiable", differentiable), ("capturable", capturable)):
        if wanted:
            raise NotImplementedError(
                f"{name}: {option}=True does not exist in halon, whose step() updates parameters "
                f"in place without recording. Leave {option} out"
            )
