"""x + y from Python to the device and back: how halon works inside, executed.

Run it: ``python docs/inside.py``. Every section looks at the real library while it works and
asserts what it says; nothing is imitated here. Read the source beside the output.

Words used below: an *operator* is what a user calls (``add``); its *record* is the one place where
it is declared; a *plan* is every decision about one *signature* (the operator with the shapes,
strides, dtypes and devices of its operands); a *driver* is the code of one kind of device.
"""

from __future__ import annotations

import itertools
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import halon
from halon.dispatcher import expr, select
from halon.dispatcher.op import OPS
from halon.dispatcher.ops import elementwise as ew
from halon.dispatcher.plan import LAUNCH, STEPS
from halon.hal.errors import NotImplementedOnDevice, VersionError
from halon.hal.op_desc import OpCap, OpDesc
from halon.hal.properties import DeviceProps, Layout
from halon.hal.registry import registry
from halon.kernels.cpu.program import compile_tree
from halon.kernels.pk.expr import statements
from halon.kernels.tree import Apply, Input

PACKAGE = Path(halon.__file__).parent


def section(number: int, title: str) -> None:
    print(f"\n{number}. {title}\n" + "-" * (len(title) + len(str(number)) + 2))


def walk(call: Callable[[], Any], file: str, function: str) -> list[tuple[str, str]]:
    """The frames of halon that are on the stack when ``function`` of ``file`` is first entered."""
    frames: list[tuple[str, str]] = []

    def watch(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or frames or code.co_name != function:
            return
        if not code.co_filename.endswith(file):
            return
        walked: FrameType | None = frame
        while walked is not None and Path(walked.f_code.co_filename).is_relative_to(PACKAGE):
            place = Path(walked.f_code.co_filename).relative_to(PACKAGE).as_posix()
            frames.insert(0, (place, walked.f_code.co_name))
            walked = walked.f_back

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return frames


def show(frames: list[tuple[str, str]]) -> None:
    for depth, (file, function) in enumerate(frames):
        print("  " + "  " * depth + f"{file} {function}")


def plan_of(call: Callable[[], Any]) -> Any:
    """The plan of the last operator that ``call`` runs; ``halon.explain`` watches the same way."""
    seen: list[Any] = []
    select.watchers.append(seen.append)
    try:
        call()
    finally:
        select.watchers.pop()
    return seen[-1]


section(1, "Four frames from x + y to the launch")
# The first x + y of a signature is planned. Each one after that is four nested calls: the method of
# Tensor, the look-up of the plan, the executor, and the launcher of the device.

x = halon.tensor([[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0], [8.0, 9.0, 10.0, 11.0]])
y = halon.tensor([10.0, 20.0, 30.0, 40.0])
z = x + y
# Where no compiler built the kernels, NumPy runs the CPU and the launcher is the op devices'.
compiled = hasattr(x.meta.device.impl, "rows")
launcher = ("devices/cpu/driver.py", "run_plan") if compiled else ("devices/planner.py", "_run")
hit = walk(lambda: x + y, *launcher)
show(hit)
assert hit == [
    ("tensor/tensor.py", "__add__"),
    ("dispatcher/select.py", "call"),
    ("dispatcher/hot.py", "run"),
    launcher,
]
# The launcher receives the plan, handles, byte offsets and numbers; it knows no Tensor.
assert z.tolist()[0] == [10.0, 21.0, 32.0, 43.0]

section(2, "Metadata is interned: a signature is a few pointers")
# Shape, strides, dtype and device form a Meta. Equal ones are one object, so the key of a plan
# compares by identity, and two tensors of one shape share their plans.

assert x.meta is halon.zeros(3, 4).meta
assert x.meta is x.t().t().meta
assert x.meta is not x.t().meta
for meta in (x.meta, x.t().meta):
    print(f"  {meta} has strides {meta.strides}")

plan = select.PLANS[ew.add, x.meta, y.meta]
assert plan is plan_of(lambda: x + y)
assert plan is plan_of(lambda: halon.ones(3, 4) + halon.ones(4))
print(f"  the plan of x + y: {plan}")

# Memory is a Storage: a device, an opaque handle, a version that counts writes. A view has the
# storage of its base. Freed memory is kept by size class and given out again.
assert x[1:].storage is x.storage
assert x[1:].offset == 4 * x.itemsize
handle = z.storage.handle
del z
assert (x + y).storage.handle == handle

section(3, "A miss: what is decided once")
# An int64 column plus a float16 row has no plan yet. The miss passes the resolver and ends in the
# entry of a row of the device's op table, which builds what the launcher will find in the plan.

i = halon.tensor([[1], [2], [3]])
h = halon.tensor([0.5, 1.5, 2.5, 3.5], dtype=halon.float16)
assert (ew.add, i.meta, h.meta) not in select.PLANS
deepest = (
    ("devices/cpu/elementwise.py", "elementwise") if compiled else ("devices/planner.py", "find")
)
miss = walk(lambda: i + h, *deepest)
show(miss)
assert len(miss) <= 11
assert (ew.add, i.meta, h.meta) in select.PLANS
assert walk(lambda: i + h, *deepest) == []  # now a hit

mixed = plan_of(lambda: i + h)
spec = mixed.spec
print(f"  promotion      {i.dtype} + {h.dtype} -> {mixed.outs[0].dtype}")
print(f"  broadcasting   {i.meta.shape} + {h.meta.shape} -> {mixed.outs[0].shape}")
print(f"  strides        {spec.ins[0].strides} + {spec.ins[1].strides} -> {spec.outs[0].strides}")
print(f"  resolver step  {mixed.how}")
assert mixed.outs[0].dtype is halon.float16
assert spec.ins[0].strides == (1, 0)  # the column does not move along a row
assert spec.ins[1].strides == (0, 1)  # the row does not move along a column
if compiled:
    assert (mixed.kind, mixed.how) == (LAUNCH, "native")
    row = next(r for r in i.meta.device.impl.rows if not r.refusal(spec)[0])
    print(f"  the row        {row.op!r} of {', '.join(sorted(row.dtypes))}: {row.entry.__name__}()")

section(4, "The record is the operator")
# `grep -rnE '^add = ' dispatcher/ops` finds the declaration. Functions, methods, in-place variants,
# type stubs and tests are derived from it.

add = OPS["add"]
assert add is ew.add
print(f"  {add.schema}\n  {add.doc}\n  {add.expr}")
assert add.methods == {"function", "method", "inplace"}
assert halon.add(x, y).tolist() == x.add(y).tolist() == (x + y).tolist()
assert halon.mul.__doc__ == OPS["mul"].doc
without = [op.name for op in OPS.values() if op.rule is None and not op.composes]
print(f"  {len(OPS)} records; {len(without)} say grad=None: {', '.join(without[:6])}, ...")

section(5, "The expression: one typed tree, printed for each compiler")
# The record says "input + other". For a signature it becomes a tree in which every node has a dtype
# and casts are explicit: float16 computes in float32 and rounds once. Nodes are interned as well,
# so that equality of trees is identity.

tree = spec.expr
print("  " + halon.explain(lambda: i + h).splitlines()[1].strip())
a, b = Input(0, "i64"), Input(1, "f16")
total = Apply("add", (Apply("cast", (a,), "f32"), Apply("cast", (b,), "f32")), "f32")
assert Apply("cast", (total,), "f16") is tree

print("  for kernel devices that compile C (OpenCL, CUDA):")
lines, result = statements(tree, {0: "x0", 1: "x1"}, {})
for line in (*lines, f"q[i] = {result};"):
    print(f"    {line}")
print("  for the CPU's tile machine (no compiler at run time):")
for step in compile_tree(tree, 2).code:
    print(f"    r{step.dst} = {step.op}({', '.join(f'r{r}' for r in step.args)})")
print("  for op devices, scalar operations that are no primitive expand: sub is")
difference = Apply("sub", (Input(0, "f32"), Input(1, "f32")), "f32")
expanded = expr.expand(difference)
negated = Apply("neg", (Input(1, "f32"),), "f32")
assert expanded is Apply("add", (Input(0, "f32"), negated), "f32")
print(f"    {expanded.op}(a, {expanded.args[1].op}(b))")

section(6, "The resolver on a device that runs named operations")
# `reference` has exactly the primitives, in NumPy. add is one of them; sub and tanh are not, and
# become steps, each of them native. Its handles are keys of a dict: nobody above the driver may
# treat one as an address.

rx, ry = x.to("reference"), y.to("reference")
show(walk(lambda: rx + ry, "devices/reference/driver.py", "op_run"))
for name, call in {
    "x + y": lambda: rx + ry,
    "x - y": lambda: rx - ry,
    "x.tanh()": lambda: rx.tanh(),
}.items():
    decided = plan_of(call)
    steps = [s.plan.spec.op for s in decided.steps.list] if decided.kind == STEPS else ["add"]
    shown = ", ".join(steps[:5]) + (f", ... ({len(steps)} steps)" if len(steps) > 5 else "")
    print(f"  {name:9} {decided.how:10} {shown}")
    assert decided.how == ("native" if name == "x + y" else "decomposed")
assert [s.plan.spec.op for s in plan_of(lambda: rx - ry).steps.list] == ["neg", "add"]
back = walk(lambda: rx.tolist(), "devices/reference/driver.py", "d2h")
print("  and back:")
show(back)
assert back[-1] == ("devices/reference/driver.py", "d2h")
assert np.allclose((rx - ry).tolist(), (x - y).tolist())

section(7, "A device written here: what it lacks, the host does, and it is counted")
# Six methods are a device. This one also adds, but only contiguous float32, and copies any layout.

F32 = frozenset({"f32"})


class Tiny(halon.Device):
    props = DeviceProps(name="Tiny", compute_dtypes=F32)

    def __init__(self) -> None:
        self.memory: dict[int, np.ndarray] = {}
        self.keys = itertools.count(1)

    def alloc(self, nbytes: int, kind: Any = 0) -> int:
        key = next(self.keys)
        self.memory[key] = np.empty(nbytes, np.uint8)
        return key

    def free(self, h: int) -> None:
        del self.memory[h]

    def h2d(self, dst: int, off: int, src: memoryview, stream: Any = None) -> None:
        self.memory[dst][off : off + len(src)] = np.frombuffer(src, np.uint8)

    def d2h(self, dst: memoryview, src: int, off: int, stream: Any = None) -> None:
        np.frombuffer(dst, np.uint8)[:] = self.memory[src][off : off + len(dst)]

    def op_caps(self) -> list[OpCap]:
        return [OpCap("add", F32, F32, Layout.CONTIG), OpCap("copy", F32, F32)]

    def op_run(self, op: OpDesc, stream: Any = None) -> None:
        *ins, out = (
            np.ndarray(
                t.shape, "f4", self.memory[t.buf].data, t.byte_offset, [4 * s for s in t.strides]
            )
            for t in (*op.ins, *op.outs)
        )
        np.copyto(out, ins[0] + ins[1] if op.op == "add" else ins[0])


class TinyDriver(halon.DeviceDriver):
    name = "tiny"

    def device_count(self) -> int:
        return 1

    def open(self, index: int) -> Tiny:
        return Tiny()


halon.register_device("tiny", TinyDriver)
tx, ty = x.to("tiny"), y.to("tiny")
assert plan_of(lambda: tx + tx).how == "native"
relayout = plan_of(lambda: tx + ty)  # the broadcast row is copied to contiguous memory first
assert [s.plan.spec.op for s in relayout.steps.list] == ["copy", "add"]
print(f"  tx + tx: native; tx + ty: {relayout.how}, because {relayout.reasons[0]}")

with warnings.catch_warnings(record=True) as caught, halon.fallback("warn"):
    warnings.simplefilter("always")
    product = tx * ty
    product = tx * ty
assert [w.category for w in caught] == [halon.FallbackWarning]  # once for two calls
print(f"  warned once: {str(caught[0].message).split('. ')[0]}")
((operator, dtypes, reason), stat) = next(iter(halon.fallback_counters("tiny").items()))
assert (operator, dtypes, reason) == ("mul", "f32,f32", "no native mul")
assert stat.calls == 2
assert stat.d2h_bytes == 2 * (x.nbytes + y.nbytes)
assert stat.h2d_bytes == 2 * x.nbytes
print(f"  {operator}: {stat.calls} calls, {stat.d2h_bytes} B to the host, {stat.h2d_bytes} B back")
assert product.tolist() == (x * y).tolist()
try:
    with halon.fallback("error"):
        tx * ty
except NotImplementedOnDevice as error:
    print(f"  in mode 'error': {error}")
else:
    raise AssertionError('fallback("error") did not raise')

section(8, "What backward keeps")
# A gradient rule is traced once per signature on symbolic tensors. The trace is a program, pruned
# to the gradients that are wanted; the inputs it still reads are what a call saves, nothing else.

p = halon.ones(3, 4).requires_grad_()
q = halon.ones(4).requires_grad_()
for name, out, kept in [
    ("p + q", p + q, []),
    ("p * q", p * q, ["f32[3, 4]", "f32[4]"]),
    ("p * y", p * y, ["f32[4]"]),  # y wants no gradient, so p is not needed
    ("p * 2", p * 2, []),  # a number is not memory
    ("p.exp()", p.exp(), ["f32[3, 4]"]),  # its output
]:
    node = out.grad_fn
    assert [str(s.meta) for s in node.saved] == kept
    program, _ = node.row.program((out.meta,))
    print(
        f"  {name:8} saves {', '.join(kept) or 'nothing':17} "
        f"backward runs {', '.join(instr.op.name for instr in program.instrs)}"
    )

# Adding saved nothing, so what it read may be overwritten.
free = p * 1
summed = (free + 1).sum()
free.add_(5)
summed.backward()
assert p.grad.tolist() == halon.ones(3, 4).tolist()

section(9, "A saved value that was overwritten is an error, never a wrong gradient")
# A save remembers the version of its storage. The message names both lines.

value = p * 1
squared = (value * value).sum()
value.add_(1)
try:
    squared.backward()
except VersionError as error:
    print(f"  {str(error).split(': ', 1)[1].replace(__file__, Path(__file__).name)}")
else:
    raise AssertionError("the write was not noticed")

section(10, "The order of backward")
# Nodes carry sequence numbers, and an operand's is lower than its user's. The engine pops the
# highest first, so every gradient of a node has arrived when its turn comes.

arrived: list[str] = []
leaf = halon.tensor(0.5, requires_grad=True)
first = leaf * 2
second = first.exp()
third = first + second  # first is used twice: here and by exp
for label, t in {"first": first, "second": second, "third": third}.items():
    t.register_hook(lambda grad, label=label: arrived.append(f"{label} {grad.item():.4f}"))
third.backward()
numbers = [t.grad_fn.sequence for t in (first, second, third)]
assert numbers == sorted(numbers)
assert [a.split()[0] for a in arrived] == ["third", "second", "first"]
assert np.isclose(leaf.grad.item(), 2 + 2 * np.e)
print(f"  gradients in the order of their nodes: {'; '.join(arrived)}; leaf {leaf.grad.item():.4f}")

# Backward replays programs through ordinary operator calls, so a derivative of a derivative needs
# nothing else.
t = halon.tensor(2.0, requires_grad=True)
(slope,) = halon.autograd.grad(t**3, t, create_graph=True)
(curvature,) = halon.autograd.grad(slope, t)
assert (slope.item(), curvature.item()) == (12.0, 12.0)
print(f"  t**3 at 2: first derivative {slope.item()}, second {curvature.item()}")

section(11, "The same program on every device: only the string changes")


def program_on(device: str) -> tuple[float, np.ndarray]:
    inputs = halon.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], device=device) / 6
    weights = halon.tensor([[0.1, -0.2], [0.3, 0.4]], device=device, requires_grad=True)
    loss = ((inputs @ weights).tanh() - 0.5).square().mean()
    loss.backward()
    return loss.item(), np.array(weights.grad.tolist())


# The counts are of everything above too.
expected_loss, expected_gradient = program_on("cpu")
for device in registry.available():
    with halon.fallback("silent"):
        loss, gradient = program_on(device)
    assert np.isclose(loss, expected_loss, rtol=1e-5)
    assert np.allclose(gradient, expected_gradient, rtol=1e-5)
    counts = halon.fallback_report(device).splitlines()[0].split(": ", 1)[1]
    print(f"  {device:12} loss {loss:.6f}   {counts}")

# On a device that compiles kernels the walk of section 1 ends in its own launcher.
if any(name.startswith("opencl") for name in registry.available()):
    ox, oy = x.to("opencl"), y.to("opencl")
    first_time = ox + oy
    show(walk(lambda: ox + oy, "devices/opencl/driver.py", "run_plan"))

print("\nEvery assertion held.")
