"""The operator records, by family. Importing this package declares them all."""

from halon.dispatcher.ops import (
    activation,
    arrangement,
    complex,
    contraction,
    creation,
    einsum,
    elementwise,
    index_writes,
    indexing,
    loss,
    movement,
    normalisation,
    order,
    pooling,
    products,
    random,
    reduction,
    scan,
    sets,
    splitting,
    statistics,
    transcendental,
    views,
)

__all__ = [
    "activation", "arrangement", "complex", "contraction", "creation", "einsum", "elementwise", "index_writes", "indexing",
    "loss", "movement", "normalisation", "order", "pooling", "products", "random", "reduction", "scan", "sets", "splitting",
    "statistics", "transcendental", "views",
]  # fmt: skip
