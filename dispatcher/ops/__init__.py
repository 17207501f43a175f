"""The operator records, by family. Importing this package declares them all."""

from halon.dispatcher.ops import (
    contraction,
    creation,
    elementwise,
    indexing,
    loss,
    movement,
    normalisation,
    pooling,
    random,
    reduction,
    views,
)

__all__ = [
    "contraction", "creation", "elementwise", "indexing", "loss", "movement", "normalisation",
    "pooling", "random", "reduction", "views",
]  # fmt: skip
