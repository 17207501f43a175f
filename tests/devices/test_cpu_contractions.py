"""Matrix products and convolutions on the CPU, with and without the library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from halon.devices.cpu.library import why_not_onednn
from tests.devices.cpu_launch import F32, LEVELS, NUMPY, isa, matrix, run, same


def test_onednn_is_open_where_its_wheel_is_installed() -> None:
    assert why_not_onednn() == ""


def _matrices(dtype: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(16)

    def make(*shape: int) -> np.ndarray:
        values = rng.normal(size=shape) if dtype[0] == "f" else rng.integers(0, 100, shape)
        return values.astype(NUMPY[dtype])

    return {
        "tiny": (make(1, 1), make(1, 1)),
        "one row": (make(1, 65), make(65, 33)),
        "one column": (make(33, 65), make(65, 1)),
        "outer product": (make(33, 1), make(1, 20)),
        "odd": (make(61, 67), make(67, 73)),
        "several blocks": (make(150, 600), make(600, 300)),
        "transposed": (make(67, 61).T, make(73, 67).T),
        "stepped": (make(60, 80)[::2, ::2], make(40, 20)),
        "rows with a pitch": (make(30, 80)[:, :50], make(50, 20)),
        "batch": (make(3, 4, 5, 6), make(3, 4, 6, 7)),
        "batch with one matrix": (make(3, 4, 5, 6), np.broadcast_to(make(6, 7), (3, 4, 6, 7))),
        "batch broadcast both ways": (
            np.broadcast_to(make(3, 1, 5, 6), (3, 4, 5, 6)),
            np.broadcast_to(make(1, 4, 6, 7), (3, 4, 6, 7)),
        ),
        "batch transposed": (make(3, 6, 5).swapaxes(1, 2), make(3, 7, 6).swapaxes(1, 2)),
        "heads": (make(2, 9, 4, 8).transpose(0, 2, 1, 3), make(2, 9, 4, 8).transpose(0, 2, 3, 1)),
        "rows broadcast": (np.broadcast_to(make(1, 20), (30, 20)), make(20, 10)),
    }  # fmt: skip


@matrix(level=LEVELS, dtype=["f16", "f32", "f64", "i64", "i32", "u8"], case=_matrices("f32"))
def test_matmul(level: int, dtype: str, case: str) -> None:
    with isa(level):
        a, b = _matrices(dtype)[case]
        wide = "f64" if dtype[0] == "f" else dtype
        want = a.astype(NUMPY[wide]) @ b.astype(NUMPY[wide])
        got = run("matmul", [a, b], [np.full(want.shape, 3, NUMPY[dtype])])
        if dtype[0] != "f":
            same(got, want)
            return
        tolerance = {"f16": 1e-3, "f32": 1e-6, "f64": 1e-14}[dtype] * max(1, a.shape[-1]) ** 0.5
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=4 * tolerance)


@pytest.mark.parametrize("level", LEVELS)
def test_matmul_without_the_library(level: int, monkeypatch: Any) -> None:
    with isa(level):
        monkeypatch.setattr("halon.devices.cpu.contraction.why_not_onednn", lambda: "left out")
        for a, b in _matrices("f32").values():
            want = a.astype(np.float64) @ b
            got = run("matmul", [a, b], [np.empty(want.shape, F32)])
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4)


CONVS: dict[str, tuple[int, dict[str, Any]]] = {
    "1-D": (1, {"stride": 2, "padding": 1, "dilation": 2, "groups": 1}),
    "2-D": (2, {"stride": 1, "padding": 1, "dilation": 1, "groups": 1}),
    "2-D stepped": (2, {"stride": (2, 3), "padding": (0, 2), "dilation": (2, 1), "groups": 1}),
    "2-D grouped": (2, {"stride": 2, "padding": 1, "dilation": 1, "groups": 2}),
    "2-D depthwise": (2, {"stride": 1, "padding": 1, "dilation": 1, "groups": 4}),
    "3-D": (3, {"stride": 2, "padding": 1, "dilation": 1, "groups": 2}),
}


def _tuples(rank: int, options: dict[str, Any]) -> dict[str, Any]:
    return {
        k: v if k == "groups" or isinstance(v, tuple) else (v,) * rank for k, v in options.items()
    }


@matrix(case=CONVS, dtype=["f16", "f32", "f64"], kind=["conv", "transposed"], by=["onednn", "own"])
def test_convolutions_and_their_gradients(
    case: str, dtype: str, kind: str, by: str, monkeypatch: Any
) -> None:
    transposed = kind == "transposed"
    if by == "own":
        monkeypatch.setattr("halon.devices.cpu.contraction.why_not_onednn", lambda: "left out")
    rank, options = CONVS[case]
    options = _tuples(rank, options)
    rng = np.random.default_rng(17)
    kernel = (3, 2, 3)[:rank]
    x = rng.normal(size=(2, 4, 11, 10, 7)[: 2 + rank]).astype(NUMPY[dtype])
    filters = (4, 8 // options["groups"]) if transposed else (8, 4 // options["groups"])
    w = rng.normal(size=(*filters, *kernel)).astype(NUMPY[dtype])
    extra = tuple(s - 1 for s in options["stride"]) if transposed else (0,) * rank
    tx, tw = (torch.from_numpy(a).double().requires_grad_() for a in (x, w))
    name = f"conv{'_transpose' if transposed else ''}{rank}d"
    ty = getattr(torch.nn.functional, name)(
        tx, tw, **options, **({"output_padding": extra} if transposed else {})
    )
    g = rng.normal(size=ty.shape).astype(NUMPY[dtype])
    dx, dw = torch.autograd.grad(ty, (tx, tw), torch.from_numpy(g).double())
    attrs = {**options, "output_padding": extra, "transposed": transposed}
    tolerance = {"f16": 2e-2, "f32": 2e-5, "f64": 1e-12}[dtype]
    for op, ins, want in (
        ("conv", (x, w), ty), ("conv_bwd_input", (g, w), dx), ("conv_bwd_weight", (g, x), dw),
    ):  # fmt: skip
        got = run(op, ins, [np.full(want.shape, 3, NUMPY[dtype])], **attrs)
        np.testing.assert_allclose(got, want.detach().numpy(), rtol=tolerance, atol=20 * tolerance)
