"""``halon.device``: what names mean and which are refused."""

from __future__ import annotations

import copy
import pickle

import pytest

from halon.hal.device_name import device
from halon.hal.errors import UnknownDevice


@pytest.mark.parametrize(("spec", "index", "type_", "shown"), [
    ("npu", None, "npu", "npu"), ("npu:0", 0, "npu", "npu:0"), ("npu:12", 12, "npu", "npu:12"),
])  # fmt: skip
def test_a_name_is_a_type_and_perhaps_an_index(
    spec: str, index: int | None, type_: str, shown: str
) -> None:
    d = device(spec)
    assert (d.type, d.index, str(d)) == (type_, index, shown)


def test_the_index_may_be_an_argument_of_its_own() -> None:
    assert device("npu", 1) == device("npu:1")
    assert repr(device("npu", 1)) == "device(type='npu', index=1)"
    assert repr(device("npu")) == "device(type='npu')"


def test_a_device_of_a_device_is_the_same_with_another_index_if_given() -> None:
    assert device(device("npu:1")) == device("npu:1")
    assert device(device("npu:1"), 2) == device("npu:2")


def test_without_an_index_it_differs_from_index_0_as_in_torch() -> None:
    assert device("npu") != device("npu:0")
    assert len({device("npu"), device("npu:0"), device("npu", 0)}) == 2
    assert device("npu") != "npu"


@pytest.mark.parametrize(
    "copier", [copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))]
)
@pytest.mark.parametrize("spec", ["npu", "npu:3"])
def test_copies_and_pickles_are_equal(spec: str, copier: object) -> None:
    assert copier(device(spec)) == device(spec)  # type: ignore[operator]


@pytest.mark.parametrize("spec", ["", ":", ":0", "npu:", "npu:x", "npu:1:2", "npu:-1", "npu: 1"])
def test_a_malformed_name_is_shown(spec: str) -> None:
    with pytest.raises(UnknownDevice, match=f"Invalid device string: {spec!r}"):
        device(spec)


def test_two_indices_are_refused() -> None:
    with pytest.raises(UnknownDevice, match="must not include an index: 'npu:0'"):
        device("npu:0", 1)


def test_a_negative_index_is_refused() -> None:
    with pytest.raises((UnknownDevice, ValueError), match="-1"):
        device("npu", -1)


@pytest.mark.parametrize("spec", [0, None, 1.5, ["npu"]])
def test_what_is_no_name_is_a_type_error(spec: object) -> None:
    with pytest.raises(TypeError, match=f"got {type(spec).__name__}"):
        device(spec)  # type: ignore[arg-type]
