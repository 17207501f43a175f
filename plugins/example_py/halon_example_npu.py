"""A whole device plug-in: memory behind keys and a few float32 operations, in NumPy.

What is not listed in ``OPS`` halon decomposes, or runs on the host and reports.
"""

import itertools

import numpy as np

from halon.hal.driver import Device, DeviceDriver
from halon.hal.op_desc import OpCap
from halon.hal.properties import DeviceProps

F32 = frozenset({"f32"})
OPS = {"add": np.add, "mul": np.multiply, "neg": np.negative, "max": np.maximum,
       "copy": np.positive, "matmul": np.matmul,
       "fill": lambda out, value: out.fill(value)}  # fmt: skip


class Npu(Device):
    props = DeviceProps(name="Example NPU", vendor="halon", compute_dtypes=F32)

    def __init__(self):
        self.memory, self.keys = {}, itertools.count(1)

    def alloc(self, nbytes, kind=0):
        self.memory[key := next(self.keys)] = np.empty(nbytes, np.uint8)
        return key

    def free(self, h):
        del self.memory[h]

    def h2d(self, dst, off, src, stream=None):
        self.memory[dst][off : off + len(src)] = np.frombuffer(src, np.uint8)

    def d2h(self, dst, src, off, stream=None):
        np.frombuffer(dst, np.uint8)[:] = self.memory[src][off : off + len(dst)]

    def op_caps(self):
        return [OpCap(name, F32, F32) for name in OPS]

    def op_run(self, op, stream=None):
        *ins, out = [
            np.ndarray(t.shape, "f4", self.memory[t.buf].data, t.byte_offset,
                       [4 * s for s in t.strides])
            for t in (*op.ins, *op.outs)
        ]  # fmt: skip
        OPS[op.op](*ins, out=out, **op.attrs)


class Driver(DeviceDriver):
    name = "npu"

    def device_count(self):
        return 1

    def open(self, index):
        return Npu()
