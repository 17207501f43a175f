"""From a list of samples to one batch."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from halon.hal import dtypes
from halon.tensor.creation import as_tensor, tensor
from halon.tensor.functions import stack
from halon.tensor.tensor import Tensor


def default_collate(batch: Sequence[Any]) -> Any:
    """default_collate(batch) -> the samples as one, with a batch dimension in front.

    Tensors and NumPy arrays are stacked, floats become a float64 tensor and ints an int64 one, text
    stays a list, and mappings, named tuples and sequences are collated member by member.

    Raises:
        TypeError: a sample of another type.
        RuntimeError: samples of different lengths or shapes.

    >>> from halon.data import default_collate
    >>> default_collate([{"x": 1, "name": "a"}, {"x": 2, "name": "b"}])
    {'x': tensor([1, 2]), 'name': ['a', 'b']}
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(list(batch), 0)
    if isinstance(first, np.ndarray):
        _check_array(first)
        return stack([as_tensor(array) for array in batch], 0)
    if isinstance(first, np.generic):
        return as_tensor(np.asarray(batch))
    if isinstance(first, float):
        return tensor(list(batch), dtype=dtypes.float64)
    if isinstance(first, int):
        return tensor(list(batch))
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, Mapping):
        columns = {key: default_collate([sample[key] for sample in batch]) for key in first}
        return _like_mapping(first, columns)
    if isinstance(first, Sequence):
        return _collate_sequences(first, batch)
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
        f"{type(first)}"
    )


def default_convert(data: Any) -> Any:
    """default_convert(data) -> the sample with its NumPy arrays as tensors, nothing else changed.

    >>> import numpy as np
    >>> from halon.data.collate import default_convert
    >>> default_convert({"x": np.array([1, 2]), "name": "a"})
    {'x': tensor([1, 2]), 'name': 'a'}
    """
    if isinstance(data, np.ndarray | np.generic):
        keeps = isinstance(data, np.ndarray) and data.dtype.kind in "SUO"
        return data if keeps else as_tensor(np.asarray(data))
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if _is_named_tuple(data):
        return type(data)(*(default_convert(value) for value in data))
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        values = [default_convert(value) for value in data]
        return values if isinstance(data, tuple) else _like_sequence(data, values)
    return data


def _collate_sequences(first: Sequence[Any], batch: Sequence[Any]) -> Any:
    if any(len(sample) != len(first) for sample in batch):
        raise RuntimeError("each element in list of batch should be of equal size")
    columns = [default_collate(column) for column in zip(*batch, strict=True)]
    if _is_named_tuple(first):
        return type(first)(*columns)
    return columns if isinstance(first, tuple) else _like_sequence(first, columns)


def _check_array(array: np.ndarray) -> None:
    if array.dtype.kind in "SUO":
        raise TypeError(
            "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
            f"found {array.dtype}"
        )


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _like_mapping(first: Mapping[Any, Any], columns: dict[Any, Any]) -> Any:
    """The columns in the mapping type of the samples, or in a dict if it cannot be rebuilt."""
    try:
        if isinstance(first, MutableMapping):
            clone = copy.copy(first)  # keeps what else the type holds, such as a default factory
            clone.update(columns)
            return clone
        return type(first)(columns)  # type: ignore[call-arg]
    except TypeError:
        return columns


def _like_sequence(first: Sequence[Any], columns: list[Any]) -> Any:
    """The columns in the sequence type of the samples, or in a list if it cannot be rebuilt."""
    try:
        if isinstance(first, MutableSequence):
            clone = copy.copy(first)
            clone[:] = columns
            return clone
        return type(first)(columns)  # type: ignore[call-arg]
    except TypeError:
        return columns
