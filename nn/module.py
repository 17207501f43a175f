"""Module: the base of every layer and model."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from halon.nn import state
from halon.nn.hooks import Hook, RemovableHandle, call_with_hooks
from halon.nn.moving import Moving
from halon.nn.parameter import Parameter
from halon.tensor.tensor import Tensor


class Module(Moving):
    """Module(), the base class of layers and models.

    Assigning a Parameter, a Module or (through ``register_buffer``) a Tensor to an attribute
    registers it, so that ``parameters()``, ``state_dict()`` and ``to()`` find it. A subclass calls
    ``super().__init__()`` first and defines ``forward``.

    >>> import halon
    >>> from halon import nn
    >>> class Scale(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = nn.Parameter(halon.tensor(2.0))
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> Scale()(halon.tensor([1.0, 3.0])).tolist()
    [2.0, 6.0]
    """

    _version: int = 1
    training: bool
    _non_persistent_buffers_set: set[str]
    _forward_hooks: OrderedDict[int, Hook]
    _forward_pre_hooks: OrderedDict[int, Hook]

    def __init__(self) -> None:
        # past __setattr__: its rules look into these very tables
        set_plain = super().__setattr__
        set_plain("training", True)
        set_plain("_parameters", {})
        set_plain("_buffers", {})
        set_plain("_non_persistent_buffers_set", set())
        set_plain("_modules", {})
        set_plain("_forward_hooks", OrderedDict())
        set_plain("_forward_pre_hooks", OrderedDict())

    def forward(self, *input: Any, **kwargs: Any) -> Any:
        """What calling the module computes; every subclass defines it."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._forward_hooks and not self._forward_pre_hooks:
            return self.forward(*args, **kwargs)
        return call_with_hooks(self, args, kwargs)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Register ``param`` as ``self.name``; None keeps the name without a value.

        Raises:
            KeyError: the name is empty, has a dot, or is taken.
            TypeError: ``param`` is no Parameter.
            ValueError: ``param`` is the result of a computation.
        """
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type(param).__name__}' object to parameter '{name}' "
                "(nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                "created explicitly. To express one parameter as a function of another, compute "
                "it in forward()."
            )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Register state that is not trained; a non-persistent one stays out of ``state_dict``.

        Raises:
            KeyError: the name is empty, has a dot, or is taken.
            TypeError: ``tensor`` is no Tensor.
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type(tensor).__name__}' object to buffer '{name}' "
                "(Tensor or None required)"
            )
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Register a child module as ``self.name``.

        Raises:
            KeyError: the name is empty, has a dot, or is taken.
            TypeError: ``module`` is no Module.
        """
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._modules[name] = module

    def register_module(self, name: str, module: Module | None) -> None:
        """Another name of ``add_module``."""
        self.add_module(name, module)

    def _check_name(self, kind: str, name: str, table: Mapping[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if hasattr(self, name) and name not in table:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain ".", got: {name}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before ``forward``; what it returns replaces the arguments.

        With ``with_kwargs`` it is ``hook(module, args, kwargs)`` and returns both or None.
        """
        return RemovableHandle(self._forward_pre_hooks, Hook(hook, with_kwargs), prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after ``forward``; a result replaces the output.

        With ``with_kwargs`` it is ``hook(module, args, kwargs, output)``; ``always_call`` runs it
        with output None where ``forward`` raised.
        """
        return RemovableHandle(self._forward_hooks, Hook(hook, with_kwargs, always_call), prepend)

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(table)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in own:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, self._buffers, self._modules)
            self.register_parameter(name, value)
        elif name in own.get("_parameters", ()):
            if value is not None:
                raise TypeError(_cannot_assign(value, "parameter", name, "nn.Parameter or None"))
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if "_modules" not in own:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, self._parameters, self._buffers)
            self._modules[name] = value
        elif name in own.get("_modules", ()):
            if value is not None:
                raise TypeError(_cannot_assign(value, "child module", name, "nn.Module or None"))
            self._modules[name] = value
        elif name in own.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(_cannot_assign(value, "buffer", name, "Tensor or None"))
            self._buffers[name] = value
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        for table in (self._parameters, self._buffers, self._modules):
            if name in table:
                del table[name]
                self._non_persistent_buffers_set.discard(name)
                return
        super().__delattr__(name)

    def _forget(self, name: str, *tables: dict[str, Any]) -> None:
        """Remove what ``name`` was, so that the table about to take it is the only one."""
        for table in (self.__dict__, *tables):
            table.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __dir__(self) -> list[str]:
        registered = [*self._parameters, *self._buffers, *self._modules]
        return sorted({*super().__dir__(), *registered})

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.__dict__.update(saved)

    def state_dict(
        self,
        *,
        destination: state.StateDict | None = None,
        prefix: str = "",
        keep_vars: bool = False,
    ) -> state.StateDict:
        """state_dict(*, prefix="", keep_vars=False) -> OrderedDict, names → tensors.

        The tensors share memory with the module and are detached unless ``keep_vars``.

        >>> from halon import nn
        >>> list(nn.Sequential(nn.Linear(2, 3), nn.ReLU()).state_dict())
        ['0.weight', '0.bias']
        """
        if destination is None:
            destination = state.StateDict()
            destination._metadata = {}
        state.save(self, destination, prefix, keep_vars)
        return destination

    def _save_to_state_dict(
        self, destination: state.StateDict, prefix: str, keep_vars: bool
    ) -> None:
        """Save what belongs to this module alone; override to save something else."""
        for name, tensor in state.saved_tensors(self):
            destination[prefix + name] = tensor if keep_vars else tensor.detach()

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> state.IncompatibleKeys:
        """load_state_dict(state_dict, strict=True, assign=False) -> (missing_keys, unexpected_keys)

        Copies values into the module; with ``assign`` the given tensors take the place of its own.

        Raises:
            TypeError: ``state_dict`` is no mapping.
            RuntimeError: a shape differs or, when ``strict``, a key is missing or unexpected; the
                message lists all of them.

        >>> from halon import nn
        >>> nn.Linear(2, 3).load_state_dict(nn.Linear(2, 3).state_dict())
        <All keys matched successfully>
        """
        return state.load(self, state_dict, strict, assign)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load what belongs to this module alone, appending problems to the three lists.

        Override to accept older layouts; ``local_metadata.get("version")`` says which it is.
        """
        assign = local_metadata.get("assign_to_params_buffers", False)
        report = state.LoadReport(missing_keys, unexpected_keys, error_msgs)
        state.load_own(self, state_dict, prefix, assign, report, strict)

    def extra_repr(self) -> str:
        """What stands between the parentheses of this module's line; override in layers."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        children = [f"({name}): {_indented(repr(m))}" for name, m in self._modules.items()]
        if len(extra_lines) == 1 and not children:
            return f"{self._get_name()}({extra_lines[0]})"
        lines = extra_lines + children
        if not lines:
            return f"{self._get_name()}()"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"


def _indented(text: str) -> str:
    """Every line but the first moved right by two."""
    return text.replace("\n", "\n  ")


def _cannot_assign(value: Any, kind: str, name: str, expected: str) -> str:
    return f"cannot assign '{type(value).__name__}' as {kind} '{name}' ({expected} expected)"
