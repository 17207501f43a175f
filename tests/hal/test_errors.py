"""The error classes are also the builtins that users of PyTorch catch."""

from __future__ import annotations

import pytest

from halon.hal import errors
from halon.hal.errors import STATUS_ERRORS, HalonError

BUILTINS: dict[str, tuple[type[BaseException], ...]] = {
    "HalInvalidArgument": (ValueError,),
    "OutOfMemoryError": (RuntimeError, MemoryError),
    "NotImplementedOnDevice": (NotImplementedError, RuntimeError),
    "CompileError": (RuntimeError,),
    "DeviceExecutionError": (RuntimeError,),
    "DeviceTimeout": (TimeoutError, RuntimeError, OSError),
    "DeviceLost": (RuntimeError,),
    "DeviceBusy": (RuntimeError,),
    "PluginABIError": (ImportError,),
    "DriverInternalError": (RuntimeError,),
    "DevicePermissionError": (PermissionError, OSError),
    "UnknownDevice": (RuntimeError,),
    "VersionError": (RuntimeError,),
    "IndexOutOfRange": (IndexError,),
    "Declined": (),
    "DeclinedAtLaunch": (),
    "NotProvided": (),
}
CLASSES = [
    c for c in vars(errors).values()
    if isinstance(c, type) and issubclass(c, HalonError) and c is not HalonError
]  # fmt: skip


@pytest.mark.parametrize("error", CLASSES, ids=lambda c: c.__name__)
def test_each_class_is_caught_as_its_builtins_and_as_a_halon_error(error: type) -> None:
    for builtin in (*BUILTINS[error.__name__], HalonError):
        with pytest.raises(builtin, match="what happened"):
            raise error("what happened")


def test_the_table_above_knows_every_class() -> None:
    assert {c.__name__ for c in CLASSES} <= set(BUILTINS)


def test_every_status_code_of_the_plug_in_contract_has_a_class() -> None:
    assert set(STATUS_ERRORS) == {2, *range(-11, 0)}
    assert len(set(STATUS_ERRORS.values())) == len(STATUS_ERRORS)


def test_steering_signals_are_not_taken_for_runtime_errors() -> None:
    for signal in (errors.Declined, errors.NotProvided):
        assert not issubclass(signal, RuntimeError)
