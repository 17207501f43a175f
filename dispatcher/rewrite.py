"""Rewriting history when memory shared by views is written in place.

Writing a view changes its base: the base gets a node that takes the gradient of the written window
away from its old history and gives it to the write's. Other views of the base are brought up to
date when they are next used. Both need the view to be a set of distinct elements of a row-major
base; anything else is refused, never wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from halon.dispatcher.structures import Meta, Node, TensorBase

Geometry = tuple[tuple[int, ...], tuple[int, ...], int]  # shape, strides, offset in elements


def geometry(view: TensorBase, base: TensorBase) -> Geometry | None:
    """Where a view lies in its base, or None if it cannot be described as distinct elements."""
    shape, strides = view.meta.shape, view.meta.strides
    repeats = any(n > 1 and s == 0 for n, s in zip(shape, strides, strict=True))
    if repeats or not base.meta.contiguous or view.meta.dtype is not base.meta.dtype:
        return None
    return shape, strides, (view.offset - base.offset) // base.meta.dtype.itemsize


class _ViewRow:
    """The derivative of taking a window: zeros with the gradient in it."""

    def __init__(self, base: Meta, window: Geometry) -> None:
        self.base = base
        self.window = window

    def backward(self, node: Node, grads: Sequence[Any], create_graph: bool) -> list[Any]:
        from halon.dispatcher.ops.views import window_backward

        return [window_backward(grads[0], self.base.shape, *self.window)]


class _WriteRow:
    """The derivative of writing a window: the base's part and the written values' part."""

    def __init__(self, window: Geometry) -> None:
        self.window = window

    def backward(self, node: Node, grads: Sequence[Any], create_graph: bool) -> list[Any]:
        from halon.dispatcher.ops.creation import full
        from halon.dispatcher.ops.movement import dense
        from halon.dispatcher.ops.views import window, window_assign

        g = grads[0] if grads[0].meta.contiguous else dense(grads[0])
        zeros = full(self.window[0], 0, g.meta.dtype, g.meta.device)
        return [window_assign(g, zeros, *self.window), window(g, *self.window)]


def _edge(t: TensorBase) -> Any:
    if not t.wants_grad:
        return None
    return t if t.node is None else (t.node, t.node_index)


def refresh(view: TensorBase) -> bool:
    """Bring a view's history up to date with its base's; False if that cannot be expressed."""
    base = view.base
    assert base is not None
    if base.wants_grad:
        window = geometry(view, base)
        if window is None:
            return False
        row = _ViewRow(base.meta, window)
        view.node = Node("AsStridedBackward0", row, (_edge(base),), (), [], (view.meta,), None)
        view.node_index = 0
    else:
        view.node = None
    view.wants_grad = base.wants_grad
    view.base_node = base.node
    return True


def rebase(view: TensorBase, before: Any) -> None:
    """Give the base of a view that was just written its new history.

    ``before`` is the base's edge from before the write.
    """
    base = view.base
    assert base is not None
    window = geometry(view, base)
    assert window is not None, "checked before the write"
    edges = (before, _edge(view))
    base.node = Node("CopySlices", _WriteRow(window), edges, (), [], (base.meta,), None)
    base.node_index = 0
    base.wants_grad = True
    view.base_node = base.node
