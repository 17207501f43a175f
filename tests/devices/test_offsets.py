"""A device whose operations take no byte offset gets operands copied to buffers of their own."""

from __future__ import annotations

import dataclasses

import halon
from halon.devices.reference import kernels
from halon.devices.reference.driver import ReferenceDevice
from halon.hal.driver import DeviceDriver
from halon.hal.op_desc import OpCap, OpDesc
from halon.hal.properties import ANY, Layout


class ZeroOnly(ReferenceDevice):
    """The reference, refusing offsets and checking that none arrives."""

    props = dataclasses.replace(ReferenceDevice.props, name="no offsets")

    def op_caps(self) -> tuple[OpCap, ...]:
        return kernels.caps(ANY & ~Layout.OFFSET)

    def op_run(self, op: OpDesc, stream: object = None) -> None:
        assert all(t.byte_offset == 0 for t in (*op.ins, *op.outs)), op
        super().op_run(op)


class ZeroOnlyDriver(DeviceDriver):
    name = "zeroonly"

    def device_count(self) -> int:
        return 1

    def open(self, index: int) -> ZeroOnly:
        return ZeroOnly()


halon.register_device("zeroonly", ZeroOnlyDriver)


def test_views_at_an_offset_are_read_and_written_through_copies() -> None:
    x = halon.arange(6, device="zeroonly")
    assert (x[2:] + x[:-2]).tolist() == [2, 4, 6, 8]
    x[1::2].add_(10)
    assert x.tolist() == [0, 11, 2, 13, 4, 15]
    x[3] = 7
    assert x.tolist() == [0, 11, 2, 7, 4, 15]
    assert halon.fallback_counters("zeroonly") == {}
