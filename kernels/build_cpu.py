"""Builds ``halon.kernels._native``: the tile loops are generated from the scalar-operation table.

setuptools executes this file (``cffi_modules=["kernels/build_cpu.py:ffibuilder"]``), also in an
isolated build where halon cannot be imported, so it finds everything relative to itself.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from cffi import FFI

HERE: Final = Path(__file__).resolve().parent
SOURCES: Final = HERE / "cpu"
GENERATED: Final = Path("build") / "halon_native"

#: Short dtype name → C type of an element. bool is a byte that holds 0 or 1; f16, bf16 and the
#: float8 types are their bits.
C_TYPES: Final = {
    "bool": "uint8_t", "u8": "uint8_t", "i8": "int8_t", "i16": "int16_t", "u16": "uint16_t",
    "i32": "int32_t", "u32": "uint32_t", "i64": "int64_t", "u64": "uint64_t",
    "f16": "uint16_t", "bf16": "uint16_t", "f8e4m3": "uint8_t", "f8e5m2": "uint8_t",
    "f32": "float", "f64": "double", "c64": "hl_c64", "c128": "hl_c128",
}  # fmt: skip
COMPUTED: Final = ("bool", "u8", "i32", "i64", "u64", "f32", "f64", "c64", "c128")
#: Storage only: programs convert such operands to these and back (see kernels/cpu/program.py).
STORED: Final = {
    "f16": ("f32", "f64"), "bf16": ("f32",), "f8e4m3": ("f32",), "f8e5m2": ("f32",),
    "i8": ("i32", "i64"), "i16": ("i32", "i64"), "u16": ("i32", "i64"), "u32": ("i64",),
}  # fmt: skip
MOVES: Final = {1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint64_t", 16: "hl_c128"}
#: Modes of a scatter that combine, in the order of ``enum hl_scatter``.
COMBINERS: Final = ("add", "mul", "max", "min")
#: Written by hand in tile_reduce_typed.h. Over bool, max and min are those of u8.
REDUCTIONS: Final = (
    *(f"{name}_{t}" for name in ("rsum", "rprod") for t in ("i64", "u64", "f32", "f64")),
    *(f"{name}_{t}" for name in ("rmax", "rmin", "argmax", "argmin")
      for t in ("u8", "i32", "i64", "u64", "f32", "f64")),
)  # fmt: skip

_LOOP: Final = """\
static int {name}(size_t n, void *d_, const void *a_, const void *b_, const void *c_) {{
    {out} *d = d_;
    {operands}
    HL_INDEPENDENT
    for (size_t i = 0; i < n; i++) d[i] = ({out}){value};
    return HL_OK;
}}
"""
_DIVISION: Final = """\
static int {name}(size_t n, void *d_, const void *a_, const void *b_, const void *c_) {{
    {out} *d = d_;
    {operands}
    int zero = 0;
    HL_INDEPENDENT
    for (size_t i = 0; i < n; i++) {{
        zero |= b[i] == 0;
        d[i] = ({out}){value};
    }}
    return zero ? HL_ZERO_DIVISION : HL_OK;
}}
"""
_COMBINER: Final = """\
static void {name}(void *out, const void *src) {{
    {stored} *d = out;
    {computed} a = {load_d}, b = {load_s};
    *d = {store};
}}
"""
# One out-of-range operand sends the tile to libm: the vector form has a bounded range reduction.
_TRIG: Final = """\
static int {name}(size_t n, void *d_, const void *a_, const void *b_, const void *c_) {{
    {out} *d = d_;
    {operands}
    int far = 0;
    for (size_t i = 0; i < n; i++) far |= !(fabsf(a[i]) < HL_TRIG_LIMIT);
    if (far) {{
        for (size_t i = 0; i < n; i++) d[i] = {libm}(a[i]);
        return HL_OK;
    }}
    HL_INDEPENDENT
    for (size_t i = 0; i < n; i++) d[i] = {value};
    return HL_OK;
}}
"""


def scalar_ops() -> ModuleType:
    """``kernels/scalar_ops.py`` by path: the package need not be installed."""
    spec = importlib.util.spec_from_file_location("halon_scalar_ops", HERE / "scalar_ops.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def _operands(types: list[str]) -> str:
    """Declares ``a``, ``b``, ``c`` as the loop's typed operands."""
    used = [f"const {t} *{v} = {v}_;" for t, v in zip(types, "abc", strict=False)]
    unused = [f"(void){v}_;" for v in "abc"[len(types) :]]
    return " ".join(used + unused)


def _op_loop(op: Any, dtype: str) -> str:
    name, arity, template = op.name, op.arity, op.template(dtype)
    types = [C_TYPES[dtype]] * arity
    if name == "where":
        types[0] = C_TYPES["bool"]
    layout = _LOOP
    if name in ("idiv", "mod", "fmod") and dtype[0] in "iu":
        layout = _DIVISION
    if name in ("sin", "cos") and dtype == "f32":
        layout = _TRIG
    return layout.format(
        name=f"{name}_{dtype}",
        out=C_TYPES[op.result_dtype(dtype)],
        operands=_operands(types),
        value=template.format("a[i]", "b[i]", "c[i]", t=dtype),
        libm=f"{name}f",
    )


def _cast_value(src: str, dst: str) -> str:
    """``a[i]`` converted: truncating to integers, ``!= 0`` to bool."""
    if src in STORED and dst in ("f32", "f64"):
        return f"hl_{src}_to_f32(a[i])"
    if dst in STORED and src[0] == "f":
        return f"hl_{src}_to_{dst}(a[i])"
    if dst == "bool":
        return "(a[i] != 0)"
    if src[0] == "c" and dst[0] != "c":
        return _cast_value({"c64": "f32", "c128": "f64"}[src], dst).replace(
            "a[i]", f"pk_real_{src}(a[i])"
        )
    if src[0] == "f" and dst == "u64":
        return "(a[i] < 0 ? (uint64_t)(int64_t)a[i] : (uint64_t)a[i])"
    if src[0] == "f" and dst in ("u8", "i32"):
        return "(int64_t)a[i]"  # wraps as an integer conversion does
    return "a[i]"


def casts() -> list[tuple[str, str]]:
    """Pairs of dtypes with a loop of their own; the others go through computed dtypes."""
    pairs = [(a, b) for a in COMPUTED for b in COMPUTED if a != b]
    for stored, wide in STORED.items():
        for t in wide:
            pairs += [(stored, t), (t, stored)]
    return pairs


def _cast_loop(src: str, dst: str) -> str:
    return _LOOP.format(
        name=f"cast_{src}_{dst}",
        out=C_TYPES[dst],
        operands=_operands([C_TYPES[src]]),
        value=_cast_value(src, dst),
    )


def _move_loop(itemsize: int, c_type: str) -> str:
    return _LOOP.format(
        name=f"move_{itemsize}", out=c_type, operands=_operands([c_type]), value="a[i]"
    )


def tile_loops() -> dict[str, str]:
    """Name → C of every generated loop, in the order of the op table."""
    loops: dict[str, str] = {}
    for op in scalar_ops().SCALAR_OPS.values():
        if op.name == "cast":
            continue
        for dtype in COMPUTED:
            try:
                loops[f"{op.name}_{dtype}"] = _op_loop(op, dtype)
            except ValueError:  # not defined for this dtype
                continue
    for src, dst in casts():
        loops[f"cast_{src}_{dst}"] = _cast_loop(src, dst)
    for itemsize, c_type in MOVES.items():
        loops[f"move_{itemsize}"] = _move_loop(itemsize, c_type)
    return loops


def _combiner(op: Any, dtype: str) -> str:
    """``*out = op(*out, *src)`` for one element, in the dtype its arithmetic runs in."""
    computed = STORED[dtype][0] if dtype in STORED else dtype
    stored, floating = C_TYPES[dtype], computed != dtype and computed[0] == "f"
    load, store = "{0}", "(" + stored + ")({0})"
    if floating:
        load, store = f"hl_{dtype}_to_f32({{0}})", f"hl_f32_to_{dtype}({{0}})"
    return _COMBINER.format(
        name=f"{op.name}_{dtype}",
        stored=stored,
        computed=C_TYPES[computed],
        load_d=load.format("*d"),
        load_s=load.format(f"*(const {stored} *)src"),
        store=store.format(op.template(computed).format("a", "b", t=computed)),
    )


def combiners() -> str:
    """The combining functions of scatter, and ``hl_combiners[dtype][mode]`` of them."""
    ops = scalar_ops().SCALAR_OPS
    functions, rows = [], []
    for dtype in C_TYPES:
        names = []
        for mode in COMBINERS:
            try:
                functions.append(_combiner(ops[mode], dtype))
            except ValueError:  # complex numbers have no order
                continue
            names.append(f"[HL_{mode.upper()}] = {mode}_{dtype}")
        rows.append(f"    [HL_{dtype.upper()}] = {{{', '.join(names)}}},\n")
    table = "static const hl_combine_fn hl_combiners[][HL_MIN + 1] = {\n" + "".join(rows) + "};\n"
    return "\n".join([*functions, table])


def write_generated() -> None:
    """Writes the loops and their names; an unchanged file keeps its time stamp."""
    loops = tile_loops()
    names = [*loops, *REDUCTIONS]
    table = (
        "static const hl_tile_fn hl_ops[] = {\n" + "".join(f"    {n},\n" for n in names) + "};\n"
    )
    texts = {
        "tile_ops.h": "\n".join([*loops.values(), table]),
        "combiners.h": combiners(),
        "tile_names.h": "static const char *const hl_names[] = {\n"
        + "".join(f'    "{n}",\n' for n in names)
        + "};\n",
    }
    GENERATED.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        path = GENERATED / file
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def declarations() -> str:
    """api.h without its preprocessor lines, as cffi wants it."""
    lines = (SOURCES / "api.h").read_text().splitlines()
    return "\n".join(line for line in lines if not line.startswith("#"))


def _relative(path: Path) -> str:
    return os.path.relpath(path)  # setuptools refuses absolute sources


def make_builder() -> FFI:
    """The cffi builder of the extension; writes the generated headers it includes."""
    write_generated()
    builder = FFI()
    builder.cdef(declarations())
    builder.set_source(
        "halon.kernels._native",
        '#include "api.h"',
        sources=sorted(_relative(p) for p in SOURCES.glob("*.c")),
        depends=sorted(
            _relative(p) for d in (SOURCES, GENERATED) for p in d.glob("*.h")
        ),
        include_dirs=[_relative(SOURCES), str(GENERATED)],
        libraries=["m", "dl", "pthread"],
        extra_compile_args=[
            "-std=gnu11", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off",
            "-fopenmp-simd", "-fno-strict-aliasing", "-Wall", "-Wextra",
            # the vector types of the wider levels never cross a call
            "-Wno-psabi",
        ],
        py_limited_api=True,
    )  # fmt: skip
    return builder


ffibuilder = make_builder()
