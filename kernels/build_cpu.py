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
from typing import Final

from cffi import FFI

HERE: Final = Path(__file__).resolve().parent
SOURCES: Final = HERE / "cpu"
GENERATED: Final = Path("build") / "halon_native"

#: Short dtype name → C type of an element. bool is a byte that holds 0 or 1, f16 its bits.
C_TYPES: Final = {
    "bool": "uint8_t", "u8": "uint8_t", "i32": "int32_t", "i64": "int64_t",
    "f16": "uint16_t", "f32": "float", "f64": "double",
}  # fmt: skip
#: f16 is a storage type: programs compute it in f32.
COMPUTED: Final = ("bool", "u8", "i32", "i64", "f32", "f64")
MOVES: Final = {1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint64_t"}
#: Written by hand in tile_reduce_typed.h. Over bool, max and min are those of u8.
REDUCTIONS: Final = (
    *(f"{name}_{t}" for name in ("rsum", "rprod") for t in ("i64", "f32", "f64")),
    *(f"{name}_{t}" for name in ("rmax", "rmin", "argmax", "argmin")
      for t in ("u8", "i32", "i64", "f32", "f64")),
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


def _op_loop(name: str, arity: int, result: str, dtype: str, template: str) -> str:
    types = [C_TYPES[dtype]] * arity
    if name == "where":
        types[0] = C_TYPES["bool"]
    layout = _LOOP
    if name in ("idiv", "mod") and dtype[0] in "iu":
        layout = _DIVISION
    if name in ("sin", "cos") and dtype == "f32":
        layout = _TRIG
    return layout.format(
        name=f"{name}_{dtype}",
        out=C_TYPES["bool" if result == "bool" else dtype],
        operands=_operands(types),
        value=template.format("a[i]", "b[i]", "c[i]", t=dtype),
        libm=f"{name}f",
    )


def _cast_value(src: str, dst: str) -> str:
    """``a[i]`` converted: truncating to integers, ``!= 0`` to bool, f16 through f32."""
    if src == "f64" and dst == "f16":
        return "hl_f64_to_f16(a[i])"
    value = "hl_f16_to_f32(a[i])" if src == "f16" else "a[i]"
    if dst == "bool":
        return f"({value} != 0)"
    if dst == "f16":
        return f"hl_f32_to_f16((float){value})"
    if dst == "u8" and src[0] == "f":
        return f"(int32_t){value}"  # wraps as an integer conversion does
    return value


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
                template = op.template(dtype)
            except ValueError:  # not defined for this dtype
                continue
            loops[f"{op.name}_{dtype}"] = _op_loop(op.name, op.arity, op.result, dtype, template)
    for src in C_TYPES:
        for dst in C_TYPES:
            if src != dst:
                loops[f"cast_{src}_{dst}"] = _cast_loop(src, dst)
    for itemsize, c_type in MOVES.items():
        loops[f"move_{itemsize}"] = _move_loop(itemsize, c_type)
    return loops


def write_generated() -> None:
    """Writes the loops and their names; an unchanged file keeps its time stamp."""
    loops = tile_loops()
    names = [*loops, *REDUCTIONS]
    table = (
        "static const hl_tile_fn hl_ops[] = {\n" + "".join(f"    {n},\n" for n in names) + "};\n"
    )
    texts = {
        "tile_ops.h": "\n".join([*loops.values(), table]),
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
