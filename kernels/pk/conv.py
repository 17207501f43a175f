"""Direct convolutions and pooling: forward, input gradient, weight gradient, windows.

A transposed convolution is the input gradient of the convolution with the same weight, so three
sources do for both: forward and input gradient change places, and the weight gradient's operands.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, Final

from halon.hal.errors import Declined
from halon.hal.op_desc import OpSpec
from halon.kernels.pk.launch import (
    Grid,
    Launch,
    Step,
    Target,
    ceil_div,
    launch,
    require_f64,
    round_up,
)  # fmt: skip
from halon.kernels.pk.text import assemble, literal, read
from halon.kernels.pk.types import Types

_CHANNELS: Final = 8  # output channels of an item
_GRID_LIMIT: Final = 65535  # CUDA's, of the second and third dimension

Three = tuple[int, int, int]


def conv(spec: OpSpec, target: Target) -> Launch:
    """The launch of ``conv``."""
    x, w = spec.ins
    y = spec.outs[0]
    if spec.attrs["transposed"]:
        return _launch(spec, target, "conv_input", small=x.shape, large=y.shape, w=w.shape)
    return _launch(spec, target, "conv_forward", small=y.shape, large=x.shape, w=w.shape)


def conv_bwd_input(spec: OpSpec, target: Target) -> Launch:
    """The launch of ``conv_bwd_input``."""
    g, w = spec.ins
    dx = spec.outs[0]
    if spec.attrs["transposed"]:
        return _launch(spec, target, "conv_forward", small=dx.shape, large=g.shape, w=w.shape)
    return _launch(spec, target, "conv_input", small=g.shape, large=dx.shape, w=w.shape)


def conv_bwd_weight(spec: OpSpec, target: Target) -> Launch:
    """The launch of ``conv_bwd_weight``."""
    g, x = spec.ins
    dw = spec.outs[0]
    if spec.attrs["transposed"]:
        return _launch(
            spec, target, "conv_weight", small=x.shape, large=g.shape, w=dw.shape, order=(1, 0, 2)
        )
    return _launch(spec, target, "conv_weight", small=g.shape, large=x.shape, w=dw.shape)


def _launch(
    spec: OpSpec, target: Target, name: str, *, small: tuple[int, ...], large: tuple[int, ...],
    w: tuple[int, ...], order: tuple[int, int, int] = (0, 1, 2),
) -> Launch:  # fmt: skip
    """``large`` is the side a window slides over, ``small`` the side of its positions."""
    require_f64(target, spec.ins)
    groups: Any = spec.attrs["groups"]
    cin, cout, images = large[1] // groups, small[1] // groups, small[0]
    shown, window, places = _three(large[2:], 1), _three(w[2:], 1), _three(small[2:], 1)
    made = cin if name == "conv_input" else cout
    blocks = ceil_div(made, _CHANNELS)
    fixed = (groups, cin, cout, *shown, *window, *places, *_steps(spec), blocks, images)
    if name == "conv_weight":
        taps = cin * prod(window)
        width = min(64, taps)
        size, group = (round_up(taps, width), groups * blocks, 1), (width, 1, 1)
    else:
        size, group = _grid(shown if name == "conv_input" else places, images * groups * blocks)
    _check_grid(spec, target, size)
    types = Types(spec.ins[0].dtype, spec.outs[0].dtype)
    entry = "conv" if name == "conv_forward" else name
    return launch(spec, [Step(_source(name, types), entry, order, fixed, size, group)])


def _three(values: tuple[int, ...], missing: int) -> Three:
    if len(values) > 3:
        raise Declined(f"{len(values)} spatial dimensions; there are kernels for up to three")
    return (missing,) * (3 - len(values)) + tuple(values)  # type: ignore[return-value]


def _steps(spec: OpSpec) -> tuple[int, ...]:
    """Strides, paddings and dilations of three dimensions."""
    a: Any = spec.attrs
    return (*_three(a["stride"], 1), *_three(a["padding"], 0), *_three(a["dilation"], 1))


def _grid(places: Three, planes: int) -> tuple[Grid, Grid]:
    """Items along the innermost dimension, lines, and planes (which the kernels loop over)."""
    width = min(64, places[2])
    lines = places[0] * places[1]
    return (round_up(places[2], width), lines, min(planes, _GRID_LIMIT)), (width, 1, 1)


def _check_grid(spec: OpSpec, target: Target, size: Grid) -> None:
    if not target.cpu and size[1] > _GRID_LIMIT:
        raise Declined(f"{spec}: {size[1]} lines exceed a grid")


@lru_cache
def _source(name: str, types: Types) -> str:
    return assemble(f"{types.defines}#define OB {_CHANNELS}\n{read(f'{name}.cl')}")


def window_reduce(spec: OpSpec, target: Target) -> Launch:
    """The launch of ``window_reduce``."""
    require_f64(target, spec.ins)
    x, y = spec.ins[0], spec.outs[0]
    kernel: Any = spec.attrs["kernel"]
    planes, places = x.shape[0] * x.shape[1], _three(y.shape[2:], 1)
    fixed = (planes, *_three(x.shape[2:], 1), *_three(kernel, 1), *places, *_steps(spec))
    size, group = _grid(places, planes)
    _check_grid(spec, target, size)
    indices = len(spec.outs) == 2
    source = _window_source(str(spec.attrs["mode"]), x.dtype, y.dtype, indices)
    operands = tuple(range(2 + indices))
    return launch(spec, [Step(source, "window_reduce", operands, fixed, size, group)])


_LEAST: Final = {
    "bool": 0, "u8": 0, "i32": -(2**31), "i64": -(2**63), "f32": float("-inf"),
    "f64": float("-inf"),
}  # fmt: skip


@lru_cache
def _window_source(mode: str, stored: str, out: str, indices: bool) -> str:
    """A maximum is kept in the operand's dtype; the last NaN wins, then the first of equals."""
    if mode == "sum":
        types, take = Types(stored, out), "total = MADD(value, (ACC)1, total);"
        start = "(ACC)0"
    else:
        types = Types(stored, out, "f32" if stored == "f16" else stored)
        start = literal(_LEAST[types.acc], types.acc)
        take = "if (index < 0 || value > total || value != value) { total = value; index = at; }"
    operand = "GLOBAL i64 *yi, i64 oyi, " if indices else ""
    store = "yi[oyi + to] = index < 0 ? 0 : index;" if indices else ""
    return assemble(
        f"{types.defines}#define INIT {start}\n#define INDEX_OPERAND {operand}\n"
        f"#define TAKE {take}\n#define STORE_INDEX {store}\n{read('window_reduce.cl')}"
    )
