"""Running one operation on a kernel device without the dispatcher: for tests and bring-up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from halon.devices.rows import find_row
from halon.hal.dtypes import SHORT, from_numpy
from halon.hal.op_desc import OpSpec, TensorSpec
from halon.hal.properties import layout_of

INTS: Final = ("u8", "i32", "i64")
FLOATS: Final = ("f16", "f32", "f64")
ALL: Final = ("bool", *INTS, *FLOATS)
RTOL: Final = {"f16": 2e-3, "f32": 2e-6, "f64": 1e-13}

_GUARD: Final = 0xA5


class Runner:
    """Uploads operands with their strides at an offset, runs one operation, checks the margins.

    ``run(op, ins, outs, expr, scalars, **attrs)`` takes arrays, (dtype, shape) pairs and (dtype,
    number) pairs, and returns the results as arrays.
    """

    def __init__(self, device: Any) -> None:
        self.device = device

    def upload(self, array: np.ndarray) -> tuple[int, int, TensorSpec]:
        item = array.itemsize
        strides = tuple(s // item for s in array.strides)
        span = 1 + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True))
        data = np.lib.stride_tricks.as_strided(array, (span if array.size else 0,), (item,))
        offset = 3 * item
        handle = self.device.alloc(offset + data.nbytes)
        if data.size:
            host = np.ascontiguousarray(data)
            self.device.h2d(handle, offset, host.view(np.uint8).data)
        dtype = from_numpy(array.dtype).short
        return (
            handle,
            offset,
            TensorSpec(dtype, array.shape, strides, layout_of(array.shape, strides)),
        )

    def __call__(
        self, op: str, ins: list[np.ndarray], outs: list[tuple[str, tuple[int, ...]]],
        expr: object = None, scalars: tuple = (), **attrs: Any,
    ) -> list[np.ndarray]:  # fmt: skip
        handles, offsets, specs = [], [], []
        for array in ins:
            handle, offset, spec = self.upload(array)
            handles.append(handle)
            offsets.append(offset)
            specs.append(spec)
        results, where = [], []
        for dtype, shape in outs:
            empty = np.empty(shape, SHORT[dtype].numpy)
            margin = 5 * empty.itemsize
            handle = self.device.alloc(empty.nbytes + 2 * margin)
            self.device.fill(handle, 0, empty.nbytes + 2 * margin, bytes([_GUARD]))
            strides = tuple(s // empty.itemsize for s in empty.strides)
            results.append(TensorSpec(dtype, shape, strides, layout_of(shape, strides)))
            where.append((handle, margin, empty))
        spec = OpSpec(
            op, tuple(specs), tuple(results), attrs,
            tuple((f"s{k}", d) for k, (d, _) in enumerate(scalars)), expr,
        )  # fmt: skip
        row, _, why = find_row(self.device.rows, spec)
        assert row is not None, why
        plan = SimpleNamespace(kernel=row.entry(self.device, spec))
        handles += [h for h, _, _ in where]
        offsets += [m for _, m, _ in where]
        try:
            self.device.run_plan(plan, handles, offsets, [v for _, v in scalars])
            self.device.synchronize()
            return [self._download(*w) for w in where]
        finally:
            for handle in set(handles):
                self.device.free(handle)

    def _download(self, handle: int, margin: int, empty: np.ndarray) -> np.ndarray:
        whole = np.empty(empty.nbytes + 2 * margin, np.uint8)
        self.device.d2h(whole.data, handle, 0)
        around = np.concatenate([whole[:margin], whole[margin + empty.nbytes :]])
        assert (around == _GUARD).all(), "wrote outside its output"
        return whole[margin : margin + empty.nbytes].view(empty.dtype).reshape(empty.shape)


def values(dtype: str, shape: tuple[int, ...], seed: int = 0, special: bool = True) -> np.ndarray:
    """Numbers of a dtype; floats include NaN, infinities and both zeros if ``special``."""
    rng = np.random.default_rng(seed)
    kind = SHORT[dtype].numpy
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(kind)
    if dtype in INTS:
        info = np.iinfo(kind)
        a = rng.integers(-9 if info.min else 0, 10, shape).astype(kind)
        if special and a.size > 8:
            a.flat[[1, 4]] = info.min, info.max
        return a
    a = rng.normal(0, 2, shape).astype(kind)
    if special and a.size > 8:
        a.flat[[1, 3, 4, 6, 7]] = np.nan, np.inf, -np.inf, 0.0, -0.0
    return a


def same(got: np.ndarray, expected: np.ndarray, rtol: float = 0.0, atol: float = 0.0) -> None:
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=atol, equal_nan=True)
