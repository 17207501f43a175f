"""Deterministic mode: the same bits twice on each device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import halon
from halon.dispatcher import deterministic
from halon.dispatcher.op import OPS
from halon.hal.op_desc import OpSpec, TensorSpec
from halon.hal.properties import layout_of
from halon.kernels.pk import indexing
from halon.kernels.pk.launch import Target


@pytest.fixture
def mode() -> Iterator[None]:
    halon.use_deterministic_algorithms(True)
    yield
    halon.use_deterministic_algorithms(False)


def program(device: str) -> list[bytes]:
    """Duplicated indices, reductions, scans, sorts, random numbers, a training step."""
    halon.manual_seed(11)
    rng = np.random.default_rng(0)
    x = halon.tensor(rng.standard_normal((50_000,), np.float32), device=device)
    at = halon.tensor(rng.integers(0, 97, 50_000), device=device)
    sums = halon.zeros(97, device=device).index_add(0, at, x)
    rows = halon.zeros(97, 8, device=device).scatter_add(
        0, at[:40_000].reshape(5000, 8), x[:40_000].reshape(5000, 8)
    )
    put = halon.zeros(97, device=device)
    put[at] = x
    model = halon.nn.Sequential(halon.nn.Linear(8, 16), halon.nn.ReLU(), halon.nn.Linear(16, 4))
    model.to(device)
    loss = model(rows).square().mean()
    loss.backward()
    grads = [p.grad for p in model.parameters()]
    found = [sums, rows, put, x.sum(), x.cumsum(0), x.sort()[1], halon.rand(999, device=device),
             halon.randn(999, device=device), loss, *grads]  # fmt: skip
    return [t.detach().cpu().numpy().tobytes() for t in found]


@pytest.mark.usefixtures("mode")
def test_the_same_program_gives_the_same_bits_twice(device: str) -> None:
    first = program(device)
    for _ in range(3):
        assert program(device) == first


@pytest.mark.usefixtures("mode")
def test_scatters_are_told_and_take_the_kernel_without_atomics() -> None:
    metas = [halon.zeros(9).meta, 0, halon.zeros(5, dtype=halon.int64).meta, halon.zeros(5).meta]
    call = OPS["scatter_add"].kernel(*metas)  # type: ignore[misc]
    assert call.attrs["deterministic"] is True

    def spec(**attrs: bool) -> OpSpec:
        def dense(dtype: str, n: int) -> TensorSpec:
            return TensorSpec(dtype, (n,), (1,), layout_of((n,), (1,)))

        ins = dense("f32", 9), dense("i64", 5), dense("f32", 5)
        return OpSpec("scatter", ins, (dense("f32", 9),), {"dim": 0, "mode": "add", **attrs})

    gpu = Target(cpu=False, units=64)
    assert "pk_atomic_combine" in indexing.scatter(spec(), gpu).steps[-1].source
    told = indexing.scatter(spec(deterministic=True), gpu).steps[-1]
    assert "pk_atomic_combine" not in told.source


def test_the_mode_is_what_was_set() -> None:
    halon.use_deterministic_algorithms(True, warn_only=True)
    assert halon.are_deterministic_algorithms_enabled()
    assert halon.is_deterministic_algorithms_warn_only_enabled()
    halon.use_deterministic_algorithms(False)
    assert not halon.are_deterministic_algorithms_enabled()
    assert deterministic.attributes() == {}
    with pytest.raises(TypeError, match="must be bool"):
        halon.use_deterministic_algorithms(1)  # type: ignore[arg-type]
