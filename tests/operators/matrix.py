"""One cell of the matrix: an operator, a dtype, a way its operands are given, a device."""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np
import torch

import halon
from halon.dispatcher.op import OPERAND, OPS, REQUIRED, Op
from halon.dispatcher.structures import TensorBase
from halon.hal import dtypes as dt
from halon.testing import TERMS, Maker, assert_close
from tests.operators.exceptions import reason
from tests.operators.spellings import torch_call

DTYPES: Final = tuple(d.name for d in dt.ALL)
#: how operands are given: "special" has NaN, infinities and signed zeros among them
FORMS: Final = (
    "plain", "strided", "transposed", "offset", "special", "inplace", "out",
)  # fmt: skip
DEVICES: Final = ("cpu", "opencl:0", "reference:0")

#: what torch says where it lacks an implementation for a dtype, rather than refuses the operation
_TORCH_LACKS: Final = re.compile(
    r"not implemented for|not supported|not yet supported|unsupported|Unsupported|Could not run|"
    r"Promotion for|only support|does not support|expected (floating|scalar|m1)|"
    r"expects? (a )?float|"
    r"Expected both inputs to be|view size is not compatible|"
    r"Expected (object|.*floating)|must be float|not support|is not defined|unexpected dtype"
)


@dataclass(frozen=True)
class Cell:
    """One cell; ``str`` is its name in reports."""

    op: str
    dtype: str
    form: str
    device: str

    def __str__(self) -> str:
        return f"{self.op} {self.dtype} {self.form} {self.device}"


@dataclass(frozen=True)
class Outcome:
    """What a cell showed: "pass", "refused" (as torch does), "absent" (not in torch: compared with
    the reference device), "skip" (see exceptions.py), "empty" (no case) or "fail", and why."""

    status: str
    note: str = ""
    cases: int = 0


# -- operands --------------------------------------------------------------------------------------
def to_torch(array: np.ndarray) -> torch.Tensor:
    """A torch tensor of any of halon's dtypes."""
    name = dt.from_numpy(array.dtype).name
    if not hasattr(ml_dtypes, name):
        return torch.from_numpy(np.array(array, order="C", copy=True))
    bits = np.array(array, order="C", copy=True).view(
        np.uint8 if array.dtype.itemsize == 1 else np.uint16
    )
    return torch.from_numpy(bits).view(getattr(torch, name))


def to_array(x: Any) -> Any:
    """The NumPy array of a torch tensor of any dtype."""
    if not isinstance(x, torch.Tensor):
        return x
    x = x.detach().resolve_conj().resolve_neg()
    name = str(x.dtype).removeprefix("torch.")
    if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        bits = x.contiguous().view(torch.uint8 if x.element_size() == 1 else torch.uint16)
        return bits.numpy().view(getattr(ml_dtypes, name))
    return x.numpy()


def laid_out(array: np.ndarray, form: str, place: Callable[[np.ndarray], Any]) -> Any:
    """A tensor with these elements whose memory is arranged as ``form`` says."""
    if form == "strided" and array.ndim:
        return place(np.repeat(array, 2, -1))[..., ::2]
    if form == "transposed" and array.ndim > 1:
        turned = place(np.ascontiguousarray(array.T))
        return turned.permute(*range(array.ndim - 1, -1, -1))
    if form == "offset" and array.ndim:
        return place(np.concatenate([array[:1], array]))[min(1, len(array)) :]
    return place(array)


def arguments(op: Op, dtype: str, form: str, place: Callable[[np.ndarray], Any]) -> list[Any]:
    """Every argument list of a record: its own samples and, for expressions, generated ones."""
    assert op.samples is not None
    kind = dt.from_numpy(np.dtype(getattr(ml_dtypes, dtype, dtype))).numpy
    maker = Maker(lambda a: laid_out(a, form, place), kind, special=form == "special")
    return [*op.samples(maker), *_generated(op, maker)]


_UNARY_SHAPES: Final = ((), (0,), (3, 0, 2), (2, 3, 4), (67,))
_PAIRS: Final = (((), ()), ((3, 1), (1, 4)), ((2, 3), ()), ((0,), (1,)), ((5, 1, 3), (2, 1)))


def _generated(op: Op, t: Maker) -> Iterator[tuple[Any, ...]]:
    needed = [p for p in op.params if p.default is REQUIRED]
    if op.expr is None or not op.methods or any(p.kind != OPERAND for p in needed):
        return
    if len(needed) == 1:
        yield from ((t(*shape),) for shape in _UNARY_SHAPES)
    elif len(needed) == 2 and op.name not in _NOT_PAIRS:
        yield from ((t(*a), t(*b)) for a, b in _PAIRS)


#: binary expressions whose second operand is not of the first one's dtype
_NOT_PAIRS: Final = frozenset({"ldexp"})


# -- running one cell ------------------------------------------------------------------------------
def on_device(device: str) -> Callable[[np.ndarray], Any]:
    return lambda a: halon.tensor(a, device=device)


def spelled(op: Op, args: Any) -> tuple[Any, dict[str, Any]]:
    """Arguments for torch: halon's dtypes become torch's, keywords are named."""
    given = [getattr(torch, a.name) if isinstance(a, dt.DType) else a for a in args]
    packed = [i for i, p in enumerate(op.params) if p.annotation == "TensorArgs"]
    if packed:
        (i,) = packed
        positional, named = _keyworded(op, given)
        return [*positional[:i], *positional[i], *positional[i + 1 :]], named
    return _keyworded(op, given)


def run(cell: Cell) -> Outcome:
    """Compare every case of a cell with torch."""
    op, form = OPS[cell.op], cell.form
    excused = reason(cell.op, cell.dtype, form)
    if excused:
        return Outcome("skip", excused)
    if form == "special" and dt.from_numpy(_numpy(cell.dtype)).category != 2:
        return Outcome("empty")
    if not _has(op, form):
        return Outcome("empty")
    try:
        theirs = arguments(op, cell.dtype, form, to_torch)
        ours = arguments(op, cell.dtype, form, on_device(cell.device))
    except Exception as error:
        return Outcome("fail", f"samples: {type(error).__name__}: {error}")
    seen: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, (a, t) in enumerate(zip(ours, theirs, strict=True)):
            try:
                seen.append(_compare(op, form, a, t, cell, number))
            except Exception as error:  # every error of a cell is a finding
                shown = ", ".join(str(getattr(x, "meta", x)) for x in a)
                said = f"{type(error).__name__}: {error}"
                return Outcome("fail", f"{op.name}({shown}): {said[:900]}", len(ours))
    status = next((s for s in ("pass", "absent", "refused") if s in seen), "empty")
    return Outcome(status, "", len(ours))


def _numpy(dtype: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, dtype, dtype))


def _has(op: Op, form: str) -> bool:
    """Whether a record is called in this form at all."""
    if form == "out":
        return "function" in op.methods and op.outputs == 1 and op.eager is None
    return "inplace" in op.methods if form == "inplace" else op.methods != {"inplace"}


def _theirs(op: Op, form: str) -> Callable[..., Any] | None:
    if form == "inplace":
        return getattr(torch.Tensor, f"{op.name}_", None)
    call = torch_call(op)
    if form != "out" or call is None:
        return call
    return lambda *args, **kw: call(*args, **kw, out=torch.empty(0, dtype=call(*args, **kw).dtype))


def _ours(op: Op, form: str) -> Callable[..., Any]:
    if form == "inplace":
        method = getattr(halon.Tensor, f"{op.name}_")
        return lambda *args: method(*_keyworded(op, args)[0], **_keyworded(op, args)[1])
    if form == "out":
        function = getattr(halon, op.name)

        def into(*args: Any) -> Any:
            like = op(*args)
            out = halon.empty(0, dtype=like.dtype, device=like.device)
            positional, named = _keyworded(op, args)
            result = function(*positional, **named, out=out)
            assert result is out
            return out

        return into
    return lambda *args: op.call(op, op.bind(args, {}))


def _keyworded(op: Op, args: Any) -> tuple[Any, dict[str, Any]]:
    first = next((i for i, p in enumerate(op.params) if p.keyword_only), len(args))
    return args[:first], dict(zip([p.name for p in op.params[first:]], args[first:], strict=False))


def _compare(op: Op, form: str, a: Any, t: Any, cell: Cell, number: int) -> str:
    call = _theirs(op, form)
    mine = _ours(op, form)
    if call is None:
        return _like_reference(op, form, mine, a, cell, number)
    try:
        positional, named = spelled(op, t)
        expected = call(*positional, **named)
    except (RuntimeError, NotImplementedError, TypeError, IndexError, ValueError) as error:
        return _refused(op, form, mine, a, error, cell, number)
    try:
        actual = mine(*a)
    except NotImplementedError:
        if cell.dtype.startswith("float8"):  # float8 is stored and converted, not computed with
            return "refused"
        raise
    _check_half(op, actual, call, positional, named, expected, cell)
    return "pass"


def _check_half(
    op: Op, actual: Any, call: Any, args: Any, named: Any, expected: Any, cell: Cell
) -> None:
    """Half precision that torch rounds at every step may instead be the float32 result rounded."""
    try:
        _check(op, actual, expected, cell)
    except AssertionError:
        if cell.dtype not in ("float16", "bfloat16") or cell.form == "inplace":
            raise
        wide = call(*_widened(args), **_widened(named))
        _check(op, actual, _narrowed(wide, expected), cell)


def _widened(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    if isinstance(x, dict):
        return {k: _widened(v) for k, v in x.items()}
    return type(x)(map(_widened, x)) if isinstance(x, (list, tuple)) else x


def _narrowed(x: Any, like: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return [_narrowed(a, b) for a, b in zip(x, like, strict=True)]
    return torch.empty_like(like).copy_(x) if isinstance(x, torch.Tensor) else x


def _refused(
    op: Op, form: str, mine: Any, a: Any, error: Exception, cell: Cell, number: int
) -> str:
    """Torch raised: halon raises as well, or computes what torch merely lacks."""
    try:
        actual = mine(*a)
    except (RuntimeError, NotImplementedError, TypeError, IndexError, ValueError):
        return "refused"
    if form == "out" and isinstance(error, TypeError):  # torch has the function without ``out=``
        return "absent"
    assert _TORCH_LACKS.search(str(error)), f"torch refuses ({error}), halon gives {actual}"
    return _like_reference(op, form, mine, a, cell, number, actual)


def _like_reference(
    op: Op, form: str, mine: Any, a: Any, cell: Cell, number: int, actual: Any = None
) -> str:
    place = on_device("reference:0")
    there = arguments(op, cell.dtype, form, place)[number]
    try:
        expected = mine(*there)
    except (RuntimeError, NotImplementedError, TypeError, IndexError, ValueError):
        try:
            mine(*a)
        except (RuntimeError, NotImplementedError, TypeError, IndexError, ValueError):
            return "refused"
        raise
    if cell.device != "reference:0":
        _check(op, mine(*a) if actual is None else actual, expected, cell)
    return "absent"


def _check(op: Op, actual: Any, expected: Any, cell: Cell) -> None:
    if isinstance(expected, (tuple, list)):
        assert isinstance(actual, (tuple, list)), f"expected {len(expected)} results"
        assert len(actual) == len(expected), f"{len(actual)} results, expected {len(expected)}"
        for mine, theirs in zip(actual, expected, strict=True):
            _check(op, mine, theirs, cell)
        return
    if not isinstance(expected, (torch.Tensor, TensorBase)):
        assert actual == expected, (actual, expected)
        return
    wanted = expected if isinstance(expected, TensorBase) else to_array(expected)
    assert_close(actual, wanted, op=op.name, terms=TERMS.get(op.name, 1))
    here = "cpu" if actual.meta.device.is_host else cell.device
    assert str(actual.device) == here, f"the result is on {actual.device}"
    exact = (op.expr is not None or op.view is not None) and op.name not in _OTHER_STRIDES
    if exact and expected.numel() and cell.form not in ("inplace", "out"):
        assert tuple(actual.stride()) == tuple(expected.stride()), (
            f"strides {actual.stride()}, expected {tuple(expected.stride())}"
        )


#: torch's own kernels for these make a row-major result whatever the operands' strides are
_OTHER_STRIDES: Final = frozenset({"logsigmoid", "masked_fill"})


# -- the whole matrix ------------------------------------------------------------------------------
def records() -> list[Op]:
    """Public records with samples: what the matrix is about."""
    return [op for op in OPS.values() if op.methods and op.samples is not None]


def cells(devices: tuple[str, ...] = DEVICES, names: tuple[str, ...] = ()) -> Iterator[Cell]:
    """Every cell that may have a case, of all operators or the named ones."""
    wanted = [OPS[n] for n in names] if names else records()
    for op, dtype, form, device in itertools.product(wanted, DTYPES, FORMS, devices):
        if _has(op, form):
            yield Cell(op.name, dtype, form, device)
