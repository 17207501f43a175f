"""The reference device: memory behind keys, exactly the primitives of the contract, edge cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import halon
from halon.devices.reference import kernels
from halon.devices.reference.driver import ReferenceDevice
from halon.hal.errors import HalInvalidArgument, IndexOutOfRange, OutOfMemoryError
from halon.hal.op_desc import OpDesc, TensorRef
from halon.hal.properties import layout_of
from halon.kernels.scalar_ops import SCALAR_OPS

NAMES = {
    "b1": "bool", "u1": "u8", "i1": "i8", "i2": "i16", "i4": "i32", "i8": "i64",
    "f2": "f16", "f4": "f32", "f8": "f64",
}  # fmt: skip


def run(op: str, *ins: Any, out: np.ndarray, **attrs: Any) -> np.ndarray:
    """One operation through handles, as the planner calls the device."""
    device = ReferenceDevice()
    outs = [out]

    def place(a: np.ndarray) -> TensorRef:
        handle = device.alloc(a.nbytes + 8)
        device.h2d(handle, 8, memoryview(np.ascontiguousarray(a).tobytes()))
        strides = tuple(s // a.itemsize for s in np.ascontiguousarray(a).reshape(a.shape).strides)
        return TensorRef(NAMES[a.dtype.str[1:]], handle, 8, a.shape, strides,
                         layout_of(a.shape, strides))  # fmt: skip

    refs = [place(np.asarray(a)) for a in ins]
    targets = [place(a) for a in outs]
    device.op_run(OpDesc(op, tuple(refs), tuple(targets), attrs))
    return device.array(targets[0]).copy()


# -- memory --------------------------------------------------------------------------------------
def test_handles_are_keys_not_addresses() -> None:
    device = ReferenceDevice()
    handles = [device.alloc(n) for n in (0, 0, 100)]
    assert handles == [1, 2, 3]


def test_bytes_go_in_and_out_at_any_offset() -> None:
    device = ReferenceDevice()
    h = device.alloc(10)
    device.h2d(h, 3, memoryview(b"abcd"))
    into = bytearray(2)
    device.d2h(memoryview(into), h, 4)
    assert into == b"bc"


def test_bytes_move_inside_the_device() -> None:
    device = ReferenceDevice()
    a, b = device.alloc(4), device.alloc(8)
    device.h2d(a, 0, memoryview(b"wxyz"))
    device.d2d(b, 5, a, 1, 3)
    into = bytearray(3)
    device.d2h(memoryview(into), b, 5)
    assert into == b"xyz"


@pytest.mark.parametrize(("offset", "nbytes"), [(0, 11), (8, 3), (-1, 2), (11, 0)])
def test_a_range_outside_its_buffer_is_refused(offset: int, nbytes: int) -> None:
    device = ReferenceDevice()
    h = device.alloc(10)
    with pytest.raises(HalInvalidArgument, match=f"{nbytes} bytes at {offset} of buffer {h}"):
        device.h2d(h, offset, memoryview(bytes(nbytes)))
    with pytest.raises(HalInvalidArgument):
        device.d2h(memoryview(bytearray(nbytes)), h, offset)


def test_a_freed_buffer_is_gone() -> None:
    device = ReferenceDevice()
    h = device.alloc(4)
    device.free(h)
    with pytest.raises(HalInvalidArgument):
        device.h2d(h, 0, memoryview(b"abcd"))
    assert device.alloc(4) != h


def test_an_impossible_allocation_raises() -> None:
    with pytest.raises(OutOfMemoryError, match="cannot allocate"):
        ReferenceDevice().alloc(1 << 62)


# -- the table -----------------------------------------------------------------------------------
def test_it_has_every_scalar_primitive_and_no_other_scalar_operation() -> None:
    primitives = {op.name for op in SCALAR_OPS.values() if op.primitive}
    others = set(SCALAR_OPS) - primitives
    assert primitives <= set(kernels.TABLE)
    assert not others & set(kernels.TABLE)


def test_its_capabilities_are_its_table() -> None:
    caps = ReferenceDevice().op_caps()
    assert [c.op for c in caps] == list(kernels.TABLE)
    assert all(c.in_dtypes and c.out_dtypes for c in caps)


# -- rules that implementations get wrong --------------------------------------------------------
@pytest.mark.parametrize("op", ["max", "min", "max_reduce", "min_reduce"])
def test_nan_wins(op: str) -> None:
    x, y = np.array([np.nan, 1.0]), np.array([2.0, np.nan])
    if op.endswith("reduce"):
        assert np.isnan(run(op, x, out=np.zeros(()), axes=(0,), keepdim=False))
    else:
        assert np.isnan(run(op, x, y, out=np.zeros(2))).all()


def test_the_first_index_wins_and_nan_wins_over_all() -> None:
    x = np.array([[1, 3, 3], [np.nan, 9, np.nan]])
    assert run("argmax", x, out=np.zeros(2, "i8"), axes=(1,)).tolist() == [1, 0]
    assert run("argmin", x, out=np.zeros((), "i8"), axes=(0, 1)) == 3


def test_round_is_half_to_even() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5])
    assert run("round", x, out=np.zeros(5)).tolist() == [0, 2, 2, -0.0, -2]


def test_integers_wrap() -> None:
    low = np.iinfo("i4").min
    assert run("neg", np.array([low], "i4"), out=np.zeros(1, "i4")).tolist() == [low]
    assert run("add", *[np.array([200], "u1")] * 2, out=np.zeros(1, "u1")).tolist() == [144]


@pytest.mark.parametrize("kind", ["i4", "i8", "f4", "f8"])
def test_idiv_and_mod_are_floored(kind: str) -> None:
    x, y = np.array([7, -7, 7, -7], kind), np.array([2, 2, -2, -2], kind)
    assert run("idiv", x, y, out=np.zeros(4, kind)).tolist() == [3, -4, -4, 3]
    assert run("mod", x, y, out=np.zeros(4, kind)).tolist() == [1, 1, -1, -1]


def test_integer_division_is_exact_beyond_the_floats() -> None:
    x, y = np.array([2**62 + 1], "i8"), np.array([3], "i8")
    assert run("idiv", x, y, out=np.zeros(1, "i8")).tolist() == [(2**62 + 1) // 3]


@pytest.mark.parametrize("op", ["idiv", "mod"])
def test_an_integer_divisor_of_zero_raises_and_a_float_one_does_not(op: str) -> None:
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run(op, np.array([1], "i4"), np.array([0], "i4"), out=np.zeros(1, "i4"))
    got = run(op, np.array([1.0, -1.0]), np.zeros(2), out=np.zeros(2))
    assert np.isinf(got).all() if op == "idiv" else np.isnan(got).all()


@pytest.mark.parametrize("kind", ["u1", "i4", "i8"])
def test_integer_powers_are_exact_and_negative_ones_round_to_zero(kind: str) -> None:
    x = np.array([3, 1, 2], kind)
    assert run("pow", x, np.array([4, 9, 5], kind), out=np.zeros(3, kind)).tolist() == [81, 1, 32]
    if kind != "u1":
        x = np.array([-1, -1, 1, 5], kind)
        y = np.array([-3, -2, -7, -1], kind)
        assert run("pow", x, y, out=np.zeros(4, kind)).tolist() == [-1, 1, 1, 0]


@pytest.mark.parametrize(("op", "want"), [("shl", [0, 0, 20]), ("shr", [-1, -1, -2])])
def test_a_shift_beyond_the_width_gives_zero_or_the_sign(op: str, want: list[int]) -> None:
    x = np.array([-5, -5, 5 if op == "shl" else -5], "i4")
    count = np.array([32, -1, 2], "i4")
    assert run(op, x, count, out=np.zeros(3, "i4")).tolist() == want


def test_the_other_side_of_where_never_leaks() -> None:
    c, x, y = np.array([True, False]), np.array([1.0, np.nan]), np.array([np.nan, 2.0])
    assert run("where", c, x, y, out=np.zeros(2)).tolist() == [1, 2]


@pytest.mark.parametrize(("x", "want"), [([0.0, -0.0, 0.5, np.nan], [False, False, True, True])])
def test_a_cast_to_bool_is_not_zero(x: list[float], want: list[bool]) -> None:
    assert run("cast", np.array(x), out=np.zeros(4, bool)).tolist() == want


def test_sums_accumulate_wider_than_they_are_stored() -> None:
    ones = np.ones(70_000, "f2")
    assert run("sum", ones, out=np.zeros((), "f4"), axes=(0,), keepdim=False) == 70_000
    many = np.full(1000, 255, "u1")
    assert run("sum", many, out=np.zeros((), "i8"), axes=(0,), keepdim=False) == 255_000


def test_a_product_over_no_terms_is_zero() -> None:
    got = run("matmul", np.ones((2, 0)), np.ones((0, 3)), out=np.full((2, 3), 7.0))
    assert got.tolist() == [[0] * 3] * 2


def test_half_matrices_accumulate_in_single() -> None:
    a, b = np.full((1, 4096), 1.0, "f2"), np.full((4096, 1), 1.0, "f2")
    assert run("matmul", a, b, out=np.zeros((1, 1), "f2")).item() == 4096


@pytest.mark.parametrize("bad", [-1, 3])
def test_an_index_out_of_range_is_named_before_anything_is_written(bad: int) -> None:
    x, index = np.zeros((2, 3)), np.array([[0], [bad]])
    for op, ins in (("gather", (x, index)), ("scatter", (x, index, np.ones((2, 1))))):
        with pytest.raises(IndexOutOfRange, match=f"index {bad} .* dimension 1 with size 3"):
            run(op, *ins, out=np.zeros((2, 1) if op == "gather" else (2, 3)), dim=1, mode="set")


def test_scatter_leaves_what_it_does_not_name_and_adds_what_it_names_twice() -> None:
    x, index, src = np.array([1.0, 2, 3]), np.array([0, 0]), np.array([10.0, 20])
    got = run("scatter", x, index, src, out=np.zeros(3), dim=0, mode="add")
    assert got.tolist() == [31, 2, 3]


def test_its_functions_give_no_numpy_warning() -> None:
    with np.errstate(all="raise"):
        assert np.isinf(run("recip", np.zeros(1), out=np.zeros(1)))
        assert np.isnan(run("log", np.array([-1.0]), out=np.zeros(1)))


def test_tensors_find_it_under_its_name() -> None:
    x = halon.arange(6, dtype=halon.float32).reshape(2, 3).to("reference")
    assert (x.t() @ x).tolist() == (
        np.arange(6).reshape(2, 3).T @ np.arange(6).reshape(2, 3)
    ).tolist()
