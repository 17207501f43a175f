"""Shape rules: broadcasting, dimension arithmetic and the strides of elementwise results."""

from __future__ import annotations

from collections.abc import Sequence

from halon.dispatcher.structures import Meta, contiguous_strides

Shape = tuple[int, ...]


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The common shape of the operands.

    Raises RuntimeError naming the two sizes that do not agree, with torch's text.

    >>> broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    ndim = max((len(s) for s in shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        for i in range(1, len(shape) + 1):
            n, have = shape[-i], result[-i]
            if n == have or n == 1:
                continue
            if have != 1:
                raise RuntimeError(
                    f"The size of tensor a ({have}) must match the size of tensor b ({n}) at "
                    f"non-singleton dimension {ndim - i}: shapes "
                    + " and ".join(str(list(s)) for s in shapes)
                )
            result[-i] = n
    return tuple(result)


def expand_strides(shape: Shape, strides: Shape, to: Shape) -> Shape:
    """Strides of an operand broadcast to a shape: 0 where it repeats."""
    lead = len(to) - len(shape)
    return (0,) * lead + tuple(
        0 if n == 1 and m != 1 else s for n, s, m in zip(shape, strides, to[lead:], strict=True)
    )


def elementwise_strides(shape: Shape, operands: Sequence[Meta]) -> Shape:
    """Strides of a fresh elementwise result: dense, in the operands' dimension order, as torch."""
    if all(m.contiguous and m.shape == shape for m in operands) or len(shape) < 2:
        return contiguous_strides(shape)
    strides = [expand_strides(m.shape, m.strides, shape) for m in operands if m.ndim]
    order = list(range(len(shape) - 1, -1, -1))  # fastest first
    for i in range(1, len(order)):
        moving = i
        for j in range(i - 1, -1, -1):
            swap = _should_swap(order[j], order[moving], shape, strides)
            if swap > 0:
                order[j], order[moving] = order[moving], order[j]
                moving = j
            elif swap < 0:
                break
    result = [0] * len(shape)
    step = 1
    for d in order:
        result[d] = step
        step *= max(shape[d], 1)
    return tuple(result)


def _should_swap(d0: int, d1: int, shape: Shape, strides: list[Shape]) -> int:
    for s in strides:
        if s[d0] == 0 or s[d1] == 0:
            continue
        if s[d0] != s[d1]:
            return 1 if s[d0] > s[d1] else -1
        if shape[d0] > shape[d1]:
            return 1
    return 0


def wrap_dim(dim: int, ndim: int) -> int:
    """A dimension counted from either end.

    Raises IndexError with torch's text.

    >>> wrap_dim(-1, 3)
    2
    """
    limit = max(ndim, 1)
    if not -limit <= dim < limit:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], "
            f"but got {dim})"
        )
    return dim + limit if dim < 0 else dim


def wrap_dims(dims: int | Sequence[int] | None, ndim: int) -> Shape:
    """Sorted, distinct dimensions; None and () mean all of them."""
    if isinstance(dims, int):
        dims = (dims,)
    if not dims:
        return tuple(range(ndim))
    wrapped = [wrap_dim(d, ndim) for d in dims]
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError(f"dim {wrapped[0]} appears multiple times in the list of dims")
    return tuple(sorted(wrapped)) if ndim else ()


def reduced_shape(shape: Shape, dims: Shape, keepdim: bool) -> Shape:
    """The shape after reducing ``dims``."""
    if keepdim:
        return tuple(1 if d in dims else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in dims)


def infer_size(shape: Shape, numel: int) -> Shape:
    """Replace one -1 in a target shape.

    >>> infer_size((2, -1), 6)
    (2, 3)
    """
    unknown = [d for d, n in enumerate(shape) if n == -1]
    known = 1
    for n in shape:
        if n < -1:
            raise RuntimeError(f"invalid shape dimension {n}")
        known *= n if n != -1 else 1
    if len(unknown) > 1:
        raise RuntimeError("only one dimension can be inferred")
    if unknown:
        if known == 0:
            raise RuntimeError(
                f"cannot reshape tensor of 0 elements into shape {list(shape)} because the "
                "unspecified dimension size -1 can be any value and is ambiguous"
            )
        if numel % known == 0:
            return tuple(numel // known if n == -1 else n for n in shape)
    elif known == numel:
        return shape
    raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")


def view_strides(shape: Shape, strides: Shape, to: Shape) -> Shape | None:
    """Strides that show the same memory in another shape, or None if a copy is needed."""
    if 0 in shape:
        return contiguous_strides(to)
    result = [1] * len(to)
    d = len(to) - 1
    chunk, base = 1, strides[-1] if strides else 1
    for i in range(len(shape) - 1, -1, -1):
        chunk *= shape[i]
        if i > 0 and (shape[i - 1] == 1 or strides[i - 1] == chunk * base):
            continue
        filled = 1
        while d >= 0 and (filled < chunk or to[d] == 1):
            result[d] = filled * base
            filled *= to[d]
            d -= 1
        if filled != chunk:
            return None
        if i > 0:
            chunk, base = 1, strides[i - 1]
    return tuple(result) if d < 0 or not shape else None


def conv_size(n: int, k: int, stride: int, pad: int, dilation: int, ceil: bool = False) -> int:
    """The output extent of a sliding window (Dumoulin and Visin, arXiv:1603.07285, section 4).

    >>> conv_size(8, 3, 1, 1, 1), conv_size(8, 2, 2, 0, 1)
    (8, 4)
    """
    span = n + 2 * pad - dilation * (k - 1) - 1
    out = (span + (stride - 1 if ceil else 0)) // stride + 1
    if ceil and (out - 1) * stride >= n + pad:
        out -= 1  # the last window would start in the padding
    return out
