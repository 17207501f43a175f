"""Complex numbers: their parts, as views and as values, and their making."""

from __future__ import annotations

from typing import Any

from halon.dispatcher.op import COMPOSE, op
from halon.dispatcher.promote import Types
from halon.dispatcher.structures import Meta, TensorBase
from halon.hal import dtypes as dt

_PUBLIC = ("function", "method")


def is_complex(x: Any) -> bool:
    """Whether an operand (tensor or number) is complex."""
    return x.meta.dtype.is_complex if isinstance(x, TensorBase) else isinstance(x, complex)


def conjugate(x: Any) -> Any:
    """The complex conjugate; real operands pass through.

    Gradients are those of torch, conjugate Wirtinger derivatives: the rule of a holomorphic f
    multiplies by the conjugate of f'.
    """
    if not isinstance(x, TensorBase):
        return x.conjugate() if isinstance(x, complex) else x
    return conj(x) if x.meta.dtype.is_complex else x


def _same(x: Meta) -> Types:
    return Types((x.dtype,), x.dtype)


def _complex_only(name: str) -> Any:
    def rule(x: Meta) -> Types:
        if not x.dtype.is_complex:
            raise RuntimeError(
                f"{name} is not implemented for tensors with non-complex dtypes: {x}"
            )
        return Types((x.dtype,), x.dtype.real)

    return rule


conj = op(
    "conj(input: Tensor) -> Tensor", expr="conj(input)", dtype=_same, methods=(),
    doc="The complex conjugate of a complex tensor.", grad=lambda g, out, x: conj(g),
    samples=lambda t: [],
)  # fmt: skip

conj_physical = op(
    "conj_physical(input: Tensor) -> Tensor", methods=_PUBLIC,
    doc="The complex conjugate; a real tensor as it is.",
    eager=lambda x: conjugate(x), samples=lambda t: [(t(3, 4),), (t(),)],
)  # fmt: skip

real_part = op(
    "real_part(input: Tensor) -> Tensor", expr="real(input)", dtype=_complex_only("real"),
    doc="The real parts as a tensor of their own.",
    grad=lambda g, out, x: make_complex(g, g * 0), samples=lambda t: [],
)  # fmt: skip
imag_part = op(
    "imag_part(input: Tensor) -> Tensor", expr="imag(input)", dtype=_complex_only("imag"),
    doc="The imaginary parts as a tensor of their own.",
    grad=lambda g, out, x: make_complex(g * 0, g), samples=lambda t: [],
)  # fmt: skip


def _pair(real: Any, imag: Any) -> Types:
    if real.dtype is not imag.dtype or not real.dtype.is_floating_point:
        raise RuntimeError(
            f"Expected both inputs to be Half, Float or Double tensors of one dtype, got {real} and "
            f"{imag}"
        )
    parts = real.dtype.to_complex()
    return Types((parts.real, parts.real), parts)


make_complex = op(
    "make_complex(real: Tensor, imag: Tensor) -> Tensor", expr="complex(real, imag)", dtype=_pair,
    doc="Complex numbers of their parts.",
    grad=lambda g, out, a, b: (real_part(g), imag_part(g)), samples=lambda t: [],
)  # fmt: skip


# -- views of the parts ----------------------------------------------------------------------------
def _as_real(input: Meta) -> tuple[Any, ...]:
    if not input.dtype.is_complex:
        raise RuntimeError(f"view_as_real is only supported for complex tensors, got {input}")
    return (*input.shape, 2), (*(2 * s for s in input.strides), 1), 0, input.dtype.real


view_as_real = op(
    "view_as_real(input: Tensor) -> Tensor", view=_as_real, methods=("function",),
    doc="Complex numbers seen as pairs of their parts, in a new last dimension.",
    grad=lambda g, out, x: as_complex(g), samples=lambda t: [],
)  # fmt: skip


def _as_complex(input: Meta) -> tuple[Any, ...] | None:
    if not input.dtype.is_floating_point or input.dtype.itemsize < 4:
        raise RuntimeError(f"view_as_complex is only supported for floating point tensors: {input}")
    if not input.ndim or input.shape[-1] != 2:
        raise RuntimeError(f"Tensor must have a last dimension of size 2, got {input}")
    if input.strides[-1] != 1 or any(s % 2 for s in input.strides[:-1]):
        return None
    strides = tuple(s // 2 for s in input.strides[:-1])
    return input.shape[:-1], strides, 0, input.dtype.to_complex()


def _joined(x: Any) -> Any:
    from halon.dispatcher.ops.views import select

    return make_complex(select(x, -1, 0), select(x, -1, 1))


as_complex = op(
    "as_complex(input: Tensor) -> Tensor", view=_as_complex, decompose=_joined,
    doc="Pairs in the last dimension seen as complex numbers (a copy where they are not adjacent).",
    grad=lambda g, out, x: view_as_real(g), samples=lambda t: [],
)  # fmt: skip


def _view_as_complex(x: Any) -> Any:
    """As ``as_complex``, refusing what would need a copy."""
    if x.meta.ndim and x.meta.shape[-1] == 2:
        if x.meta.strides[-1] != 1:
            raise RuntimeError("Tensor must have a last dimension with stride 1")
        if any(s % 2 for s in x.meta.strides[:-1]):
            raise RuntimeError(
                "Tensor must have a stride divisible by 2 for all but last dimension"
            )
        if x.offset // x.meta.dtype.itemsize % 2:
            raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    return as_complex(x)


view_as_complex = op(
    "view_as_complex(input: Tensor) -> Tensor", eager=_view_as_complex, methods=("function",),
    doc="A view of float32 or float64 pairs in the last dimension as complex numbers.",
    samples=lambda t: [(t.floats(3, 2),), (t.floats(2),)],
)  # fmt: skip


def _part(index: int) -> Any:
    def run(x: Any) -> Any:
        from halon.dispatcher.ops.views import select

        if not x.meta.dtype.is_complex:
            if index == 0:
                return x
            raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
        return select(view_as_real(x), -1, index)

    return run


real = op("real(input: Tensor) -> Tensor", methods=("function",), eager=_part(0),
          doc="A view of the real parts; a real tensor itself.", samples=lambda t: [(t(3, 4),)])  # fmt: skip
imag = op("imag(input: Tensor) -> Tensor", methods=("function",), eager=_part(1),
          doc="A view of the imaginary parts.", samples=lambda t: [(t(3, 4),)])  # fmt: skip


def by_parts(product: Any, a: Any, b: Any) -> Any:
    """A bilinear product of complex operands by four real ones; NotImplemented for real operands."""
    if not a.meta.dtype.is_complex:
        return NotImplemented
    ar, ai, br, bi = real_part(a), imag_part(a), real_part(b), imag_part(b)
    return make_complex(product(ar, br) - product(ai, bi), product(ar, bi) + product(ai, br))


def linear_by_parts(f: Any, x: Any) -> Any:
    """A real linear map of a complex operand, applied to its parts; NotImplemented otherwise."""
    if not x.meta.dtype.is_complex:
        return NotImplemented
    return make_complex(f(real_part(x)), f(imag_part(x)))


def _complex(re: Any, im: Any) -> Any:
    return make_complex(re, im)


complex_ = op(
    "complex(real: Tensor, imag: Tensor) -> Tensor", methods=("function",), decompose=_complex,
    doc="Complex numbers of real and imaginary parts of one floating dtype.", grad=COMPOSE,
    samples=lambda t: [(t.floats(3, 4), t.floats(3, 4)), (t.floats(3, 1), t.floats(4))],
)  # fmt: skip


def _polar(magnitude: Any, angle: Any) -> Any:
    from halon.dispatcher.ops.elementwise import cos, sin

    if magnitude.meta.dtype not in (dt.float16, dt.float32, dt.float64):
        raise RuntimeError(
            "Expected both inputs to be Half, Float or Double tensors but got "
            f"{magnitude.meta} and {angle.meta}"
        )
    return make_complex(magnitude * cos(angle), magnitude * sin(angle))


polar = op(
    "polar(abs: Tensor, angle: Tensor) -> Tensor", methods=("function",), decompose=_polar,
    doc="Complex numbers of magnitude and angle (radians).", grad=COMPOSE,
    samples=lambda t: [(t.floats(3, 4), t.floats(3, 4))],
)  # fmt: skip

resolve_conj = op("resolve_conj(input: Tensor) -> Tensor", methods=_PUBLIC, eager=lambda x: x,
                  doc="The tensor itself: conjugates are never lazy here.",
                  samples=lambda t: [(t(3),)])  # fmt: skip
resolve_neg = op("resolve_neg(input: Tensor) -> Tensor", methods=_PUBLIC, eager=lambda x: x,
                 doc="The tensor itself: negatives are never lazy here.",
                 samples=lambda t: [(t(3),)])  # fmt: skip
