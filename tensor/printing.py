"""How a tensor prints: PyTorch's layout, from a NumPy copy of the values.

One number format serves a whole tensor. It is chosen from the non-zero finite values that will be
shown: whole numbers print as ``3.``, a wide range or extreme magnitudes print in scientific
notation, everything else with ``precision`` decimals. Columns are as wide as the widest of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from halon.dispatcher.promote import default_dtype
from halon.hal import dtypes
from halon.hal.registry import host


@dataclass(frozen=True)
class PrintOptions:
    """What ``set_printoptions`` sets; ``sci_mode`` None means decide per tensor."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}
_options = PrintOptions()


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None,
    profile=None, sci_mode=None) -> None

    Changes how tensors print from now on; arguments left None keep their value, except
    ``sci_mode``, where None means that each tensor decides.

    Args:
        precision: digits after the decimal point.
        threshold: tensors with more elements are summarised with ``...``.
        edgeitems: items kept at each end of a summarised dimension.
        linewidth: characters of a line.
        profile: ``"default"``, ``"short"`` or ``"full"``, applied before the others.

    Raises:
        ValueError: the profile is not one of the three.

    >>> import halon
    >>> halon.set_printoptions(precision=2)
    >>> halon.tensor([0.125, 1.5])
    tensor([0.12, 1.50])
    >>> halon.set_printoptions(profile="default")
    """
    global _options
    options = _options
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"profile is {profile!r}; profiles are {', '.join(_PROFILES)}")
        options = _PROFILES[profile]
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    _options = replace(options, **changed, sci_mode=sci_mode)


def get_printoptions() -> PrintOptions:
    """get_printoptions() -> PrintOptions, the options in force."""
    return _options


def tensor_repr(t: Any) -> str:
    """tensor_repr(t) -> str, what ``repr(t)`` returns, for any shape, dtype and device.

    >>> import halon
    >>> halon.tensor([[1.0, 2.5], [3.0, 4.0]], requires_grad=True)
    tensor([[1.0000, 2.5000],
            [3.0000, 4.0000]], requires_grad=True)
    """
    prefix = f"{_title(t)}("
    body = "[]" if t.numel() == 0 else _body(host_values(t), len(prefix))
    return _with_suffixes(prefix + body, _suffixes(t), len(prefix))


def _title(t: Any) -> str:
    """``tensor``, or the name of a class somebody derived from Tensor."""
    own = type(t).__module__.startswith("halon.")
    return "tensor" if own else type(t).__name__


def host_values(t: Any) -> np.ndarray:
    """The values as an array; types that NumPy lacks come as float32, which holds them exactly."""
    values = t.detach().to(host().device).numpy()
    return values if values.dtype.isbuiltin == 1 else values.astype(np.float32)


def _suffixes(t: Any) -> list[str]:
    found = []
    if t.device != host().device:
        found.append(f"device='{t.device}'")
    empty = t.numel() == 0
    if (empty and t.dim() != 1) or (not empty and not _options.edgeitems):
        found.append(f"size={tuple(t.shape)}")
    if not _implied(t.dtype, empty):
        found.append(f"dtype={t.dtype!r}")
    if t.grad_fn is not None:
        found.append(f"grad_fn=<{t.grad_fn.name}>")
    elif t.requires_grad:
        found.append("requires_grad=True")
    return found


def _implied(dtype: dtypes.DType, empty: bool) -> bool:
    """Whether ``tensor(...)`` of the printed values would have this dtype anyway."""
    default = default_dtype()
    if empty:
        return dtype is default
    wide = default is dtypes.float64
    complex_default = dtypes.complex128 if wide else dtypes.complex64
    return dtype in (default, complex_default, dtypes.int64, dtypes.bool_)


def _body(values: np.ndarray, indent: int) -> str:
    summarize = values.size > _options.threshold
    return _array_text(values, indent, summarize, value_format(values, summarize))


def value_format(values: np.ndarray, summarize: bool) -> _Format | _ComplexFormat:
    """The number format of an array, chosen from the values that will be shown."""
    shown = edges(values) if summarize else values
    if np.iscomplexobj(values):
        return _ComplexFormat(_Format(np.real(shown)), _Format(np.imag(shown)))
    return _Format(shown)


class _Format:
    """Text of one value, right-aligned to ``width``."""

    def __init__(self, shown: np.ndarray) -> None:
        flat = shown.reshape(-1)
        self.text: Callable[[Any], str] = str
        if flat.dtype.kind != "f":
            self.width = max([1, *(len(str(v)) for v in flat.tolist())])
            return
        finite = flat[np.isfinite(flat) & (flat != 0)].astype(np.float64)
        self.text = _float_text(finite)
        self.width = max([1, *(len(self.text(v)) for v in finite.tolist())])

    def __call__(self, value: Any) -> str:
        return self.text(value).rjust(self.width)


def _float_text(finite: np.ndarray) -> Callable[[float], str]:
    """The number format for a float tensor, from its non-zero finite values."""
    precision = _options.precision
    if finite.size == 0:
        return _whole
    magnitude = np.abs(finite)
    low, high = magnitude.min(), magnitude.max()
    scientific = _options.sci_mode
    if scientific is None:
        scientific = bool(high / low > 1000.0 or high > 1.0e8 or low < 1.0e-4)
    if scientific:
        return lambda value: f"{value:.{precision}e}"
    if np.array_equal(finite, np.ceil(finite)):
        return _whole
    return lambda value: f"{value:.{precision}f}"


def _whole(value: float) -> str:
    return f"{value:.0f}." if math.isfinite(value) else f"{value:.0f}"


class _ComplexFormat:
    """Text of one complex value: both parts have a number format of their own."""

    def __init__(self, real: _Format, imag: _Format) -> None:
        self.real, self.imag = real, imag
        self.width = real.width + imag.width + 1

    def __call__(self, value: complex) -> str:
        imag = (self.imag(value.imag) + "j").lstrip()
        sign = "" if imag[0] in "+-" else "+"
        return self.real(value.real) + sign + imag


def edges(values: np.ndarray) -> np.ndarray:
    """The items a summarised print shows: ``edgeitems`` from each end of every long dimension."""
    edge = _options.edgeitems
    for axis, size in enumerate(values.shape):
        if size > 2 * edge:
            kept = np.r_[0:edge, size - edge : size].astype(np.intp)
            values = values.take(kept, axis=axis)
    return values


def _array_text(
    values: np.ndarray, indent: int, summarize: bool, text: _Format | _ComplexFormat
) -> str:
    if values.ndim == 0:
        return text(values.item())
    if values.ndim == 1:
        return _row_text(values, indent, summarize, text)
    edge = _options.edgeitems
    cut = summarize and len(values) > 2 * edge
    rows = [*values[:edge], *values[len(values) - edge :]] if cut else list(values)
    parts = [_array_text(row, indent + 1, summarize, text) for row in rows]
    if cut:
        parts.insert(edge, "...")
    return "[" + ("," + "\n" * (values.ndim - 1) + " " * (indent + 1)).join(parts) + "]"


def _row_text(row: np.ndarray, indent: int, summarize: bool, text: _Format | _ComplexFormat) -> str:
    edge = _options.edgeitems
    if summarize and not edge:
        words = ["..."]
    elif summarize and len(row) > 2 * edge:
        ends = [text(value) for value in [*row[:edge].tolist(), *row[len(row) - edge :].tolist()]]
        words = [*ends[:edge], " ...", *ends[edge:]]
    else:
        words = [text(value) for value in row.tolist()]
    # each value is followed by a comma and a space
    per_line = max(1, (_options.linewidth - indent) // (text.width + 2))
    lines = [", ".join(words[i : i + per_line]) for i in range(0, len(words), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _with_suffixes(text: str, suffixes: list[str], indent: int) -> str:
    """Append the suffixes, each on a new line where the current one is full, and close."""
    parts = [text]
    length = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if length + len(suffix) + 2 > _options.linewidth:
            parts.append(",\n" + " " * indent + suffix)
            length = indent + len(suffix)
        else:
            parts.append(", " + suffix)
            length += len(suffix) + 2
    return "".join(parts) + ")"
