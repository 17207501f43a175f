"""The backward engine: a heap on sequence numbers, iterative and re-entrant.

A node's users were recorded later and have higher sequence numbers, so popping the highest first
means every gradient of a node has arrived when its turn comes. No dependency count is needed.
"""

from __future__ import annotations

import heapq
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from halon.dispatcher.ops import movement
from halon.dispatcher.structures import Node, TensorBase, dense_meta, recording

Edge = Any  # a leaf tensor or (node, output index)


def edge_of(t: TensorBase) -> Edge:
    """Where a tensor's gradient goes."""
    return t if t.node is None else (t.node, t.node_index)


def run(
    roots: Sequence[tuple[Edge, Any]], retain_graph: bool, create_graph: bool,
    wanted: Sequence[Edge] | None = None,
) -> dict[Any, Any]:  # fmt: skip
    """Propagate gradients from ``roots``.

    Args:
        roots: (edge, gradient) pairs.
        wanted: edges whose gradients are returned, and only they; None accumulates into the leaves.

    Returns:
        Gradients by edge key for ``wanted`` (missing: nothing arrived).
    """
    needed = None if wanted is None else _reaching([e for e, _ in roots], wanted)
    grads: dict[Node, list[Any]] = {}
    leaves: dict[int, tuple[TensorBase, Any]] = {}
    heap: list[Node] = []
    keys = {edge_key(e) for e in wanted or ()}
    found: dict[Any, Any] = {}

    def arrive(edge: Edge, grad: Any) -> None:
        if isinstance(edge, TensorBase):
            before = leaves.get(id(edge))
            leaves[id(edge)] = (edge, grad if before is None else before[1] + grad)
            return
        node, index = edge
        if needed is not None and node not in needed and (id(node), index) not in keys:
            return
        slots = grads.get(node)
        if slots is None:
            slots = grads[node] = [None] * len(node.out_metas)
            heapq.heappush(heap, node)
        slots[index] = grad if slots[index] is None else slots[index] + grad

    with recording(create_graph):
        for edge, grad in roots:
            arrive(edge, grad)
        while heap:
            node = heapq.heappop(heap)
            slots = _hooked(node, grads.pop(node))
            for index, grad in enumerate(slots):
                if (id(node), index) in keys and grad is not None:
                    found[id(node), index] = grad
            if needed is not None and node not in needed:
                continue
            results = node.row.backward(node, slots, create_graph)
            for edge, grad in zip(node.edges, results, strict=True):
                if edge is not None and grad is not None:
                    arrive(edge, grad)
            if not retain_graph:
                node.saved = None if node.saved else ()
        for leaf, grad in leaves.values():
            grad = _leaf_hooked(leaf, grad)
            if wanted is None:
                accumulate(leaf, grad, create_graph)
            elif id(leaf) in keys:
                found[id(leaf)] = grad
    return found


def edge_key(edge: Edge) -> Any:
    return id(edge) if isinstance(edge, TensorBase) else (id(edge[0]), edge[1])


def _reaching(roots: Sequence[Edge], wanted: Sequence[Edge]) -> set[Node]:
    """Nodes on a path from a root to a wanted edge; iterative, for deep graphs."""
    keys = {edge_key(e) for e in wanted}
    order: list[Node] = []
    seen: set[Node] = set()
    stack = [e[0] for e in roots if not isinstance(e, TensorBase)]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        order.append(node)
        stack.extend(e[0] for e in node.edges if isinstance(e, tuple))
    needed: set[Node] = set()
    for node in sorted(order, key=lambda n: n.sequence):
        for e in node.edges:
            if e is not None and (edge_key(e) in keys or (isinstance(e, tuple) and e[0] in needed)):
                needed.add(node)
                break
    return needed


def accumulate(leaf: TensorBase, grad: Any, create_graph: bool) -> None:
    """Add a gradient to ``leaf.grad``; the first one is kept only if it has memory of its own."""
    if leaf.grad_value is None:
        if not create_graph:
            grad = _owned(grad.detach())
        leaf.grad_value = grad
    elif create_graph:
        leaf.grad_value = leaf.grad_value + grad  # type: ignore[operator]
    else:
        leaf.grad_value.add_(grad)  # type: ignore[attr-defined]


def _owned(grad: Any) -> Any:
    """A dense gradient nobody else can write: derivatives may hand one tensor to two inputs."""
    meta = grad.meta
    dense = dense_meta(meta.shape, meta.dtype, meta.device)
    return (
        movement.dense(grad)
        if meta is not dense or grad.storage.nbytes != meta.span
        else movement.clone(grad)
    )


# -- tensor hooks ----------------------------------------------------------------------------------
class RemovableHandle:
    """Removes its hook: ``handle.remove()``."""

    def __init__(self, table: dict[int, Any], key: int) -> None:
        self.table = table
        self.key = key

    def remove(self) -> None:
        self.table.pop(self.key, None)


_hooks_of_node: dict[int, dict[int, tuple[int, Callable[[Any], Any]]]] = {}
_next_hook = [0]


def register_hook(t: TensorBase, hook: Callable[[Any], Any]) -> RemovableHandle:
    """Call ``hook(grad)`` in backward; a returned tensor replaces the gradient."""
    _next_hook[0] += 1
    if t.node is None:
        if t.hooks is None:
            t.hooks = {}
        t.hooks[_next_hook[0]] = hook
        return RemovableHandle(t.hooks, _next_hook[0])
    node = t.node
    if id(node) not in _hooks_of_node:
        _hooks_of_node[id(node)] = {}
        weakref.finalize(node, _hooks_of_node.pop, id(node), None)
    table = _hooks_of_node[id(node)]
    table[_next_hook[0]] = (t.node_index, hook)
    return RemovableHandle(table, _next_hook[0])


def retain(t: TensorBase) -> None:
    """Keep the gradient of a tensor with history in its ``grad``."""
    reference = weakref.ref(t)

    def keep(grad: Any) -> None:
        target = reference()
        if target is not None:
            before = target.grad_value
            target.grad_value = grad.detach() if before is None else before + grad  # type: ignore[operator]

    register_hook(t, keep)


def _hooked(node: Node, slots: list[Any]) -> list[Any]:
    table = _hooks_of_node.get(id(node))
    if table:
        for index, hook in list(table.values()):
            if slots[index] is not None:
                replaced = hook(slots[index])
                slots[index] = slots[index] if replaced is None else replaced
    return slots


def _leaf_hooked(leaf: TensorBase, grad: Any) -> Any:
    for hook in list((leaf.hooks or {}).values()):
        replaced = hook(grad)
        grad = grad if replaced is None else replaced
    return grad
