"""Reverse-mode automatic differentiation over recorded nodes."""

if not __name__.startswith("halon."):
    raise ImportError(f"import this package as halon.{__name__}, not {__name__}")

from halon.autograd.differentiate import backward, grad
from halon.autograd.modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from halon.autograd.numerical import GradcheckError, gradcheck, gradgradcheck

__all__ = [
    "GradcheckError", "backward", "enable_grad", "grad", "gradcheck", "gradgradcheck",
    "is_grad_enabled", "no_grad", "set_grad_enabled",
]  # fmt: skip
