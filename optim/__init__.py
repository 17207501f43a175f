"""Optimizers."""

if not __name__.startswith("halon."):
    raise ImportError(f"import this package as halon.{__name__}, not {__name__}")

from halon.optim.adam import Adam, AdamW
from halon.optim.optimizer import Optimizer
from halon.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]
