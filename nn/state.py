"""``state_dict`` and ``load_state_dict``: what a module saves, and how it takes it back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from halon.autograd.modes import no_grad
from halon.nn.parameter import Parameter
from halon.tensor.tensor import Tensor


class StateDict(OrderedDict[str, Any]):
    """Names → tensors, in registration order; ``_metadata`` holds each module's version."""

    _metadata: dict[str, dict[str, Any]]


class IncompatibleKeys(NamedTuple):
    """What ``load_state_dict`` could not pair up."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )

    __str__ = __repr__


@dataclass
class LoadReport:
    """What one module's loading appends to."""

    missing: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def saved_tensors(module: Any) -> Iterator[tuple[str, Tensor]]:
    """The module's own parameters and persistent buffers, without those of its children."""
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield name, parameter
    for name, buffer in module._buffers.items():
        if buffer is not None and name not in module._non_persistent_buffers_set:
            yield name, buffer


def save(module: Any, destination: StateDict, prefix: str, keep_vars: bool) -> None:
    """Fill ``destination`` from the module and its children, depth first."""
    destination._metadata[prefix[:-1]] = {"version": module._version}
    module._save_to_state_dict(destination, prefix, keep_vars)
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(
                destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
            )


def load(
    module: Any, state_dict: Mapping[str, Any], strict: bool, assign: bool
) -> IncompatibleKeys:
    """Copy ``state_dict`` into the module tree.

    Raises RuntimeError listing every missing key, unexpected key and size mismatch at once.
    """
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    metadata = getattr(state_dict, "_metadata", None)
    values = OrderedDict(state_dict)
    report = LoadReport()
    _load_tree(module, values, metadata, "", assign, report)
    errors = []
    if strict and report.missing:
        errors.append(f"Missing key(s) in state_dict: {_quoted(report.missing)}. ")
    if strict and report.unexpected:
        errors.append(f"Unexpected key(s) in state_dict: {_quoted(report.unexpected)}. ")
    errors += report.errors
    if errors:
        raise RuntimeError(
            f"Error(s) in loading state_dict for {type(module).__name__}:\n\t" + "\n\t".join(errors)
        )
    return IncompatibleKeys(report.missing, report.unexpected)


def _load_tree(
    module: Any,
    values: dict[str, Any],
    metadata: Mapping[str, dict[str, Any]] | None,
    prefix: str,
    assign: bool,
    report: LoadReport,
) -> None:
    local = {} if metadata is None else dict(metadata.get(prefix[:-1], {}))
    if assign:
        local["assign_to_params_buffers"] = True
    module._load_from_state_dict(
        values, prefix, local, True, report.missing, report.unexpected, report.errors
    )
    for name, child in module._modules.items():
        if child is not None:
            inside = f"{prefix}{name}."
            own = {key: value for key, value in values.items() if key.startswith(inside)}
            _load_tree(child, own, metadata, inside, assign, report)


def load_own(
    module: Any,
    values: Mapping[str, Any],
    prefix: str,
    assign: bool,
    report: LoadReport,
    strict: bool,
) -> None:
    """Load the module's own tensors and, when strict, look for keys nobody claims."""
    expected = dict(saved_tensors(module))
    for name, target in expected.items():
        key = prefix + name
        if key not in values:
            if strict:
                report.missing.append(key)
            continue
        error = _copy_one(module, name, key, target, values[key], assign)
        if error:
            report.errors.append(error)
    if strict:
        for key in values:
            if key.startswith(prefix):
                head, dot, _ = key[len(prefix) :].partition(".")
                if head not in (module._modules if dot else expected):
                    report.unexpected.append(key)


def _copy_one(module: Any, name: str, key: str, target: Tensor, value: Any, assign: bool) -> str:
    """Copy one tensor into place; the text of the problem, or empty."""
    if not isinstance(value, Tensor):
        return (
            f'While copying the parameter named "{key}", expected a Tensor from checkpoint but '
            f"received {type(value)}"
        )
    if tuple(value.shape) != tuple(target.shape):
        return (
            f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, "
            f"the shape in current model is {target.shape}."
        )
    try:
        with no_grad():
            if not assign:
                target.copy_(value.to(target.device))
            elif isinstance(target, Parameter) and not isinstance(value, Parameter):
                setattr(module, name, Parameter(value, requires_grad=target.requires_grad))
            else:
                setattr(module, name, value)
    except Exception as error:  # a device may refuse a copy in ways of its own; all are listed
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are '
            f"{target.shape} and whose dimensions in the checkpoint are {value.shape}, an "
            f"exception occurred : {error.args}."
        )
    return ""


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{key}"' for key in keys)
