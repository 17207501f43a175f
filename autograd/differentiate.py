"""``backward`` and ``grad``: starting the engine from tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from halon.autograd import engine
from halon.dispatcher.hot import bring_up_to_date
from halon.dispatcher.structures import TensorBase
from halon.tensor import tensor as tensor_module
from halon.tensor.creation import ones_like
from halon.tensor.tensor import Tensor

TensorOrTensors = Tensor | Sequence[Tensor]


def _as_list(x: Any) -> list[Any]:
    return [x] if isinstance(x, TensorBase) or x is None else list(x)


def _roots(tensors: list[Tensor], grads: list[Any]) -> list[tuple[Any, Any]]:
    """(edge, gradient) per tensor; errors in torch's words."""
    if len(tensors) != len(grads):
        raise RuntimeError(
            f"Mismatch in number of tensors ({len(tensors)}) and gradients ({len(grads)})"
        )
    roots = []
    for i, (t, g) in enumerate(zip(tensors, grads, strict=True)):
        if t.base is not None and t.base.node is not t.base_node:
            bring_up_to_date(t)
        if not t.wants_grad:
            raise RuntimeError(
                f"element {i} of tensors does not require grad and does not have a grad_fn"
            )
        if g is None:
            if t.numel() != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            g = ones_like(t)
        elif g.shape != t.shape:
            raise RuntimeError(
                f"Mismatch in shape: grad_output[{i}] has a shape of {g.shape} and output[{i}] has "
                f"a shape of {t.shape}."
            )
        roots.append((engine.edge_of(t), g))
    return roots


def backward(
    tensors: TensorOrTensors, grad_tensors: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, inputs: Any = None,
) -> None:  # fmt: skip
    """Accumulate the gradients of ``tensors`` in the leaves they depend on.

    Args:
        tensors: outputs that require grad.
        grad_tensors: gradients of the outputs; may be omitted for scalars.
        retain_graph: keep saved values for another backward (default: ``create_graph``).
        create_graph: record the backward itself, for higher derivatives.
        inputs: accumulate into these tensors only.

    >>> import halon
    >>> x = halon.tensor([1., 2.], requires_grad=True)
    >>> halon.autograd.backward((x * x).sum())
    >>> x.grad
    tensor([2., 4.])
    """
    outs = _as_list(tensors)
    grads = [None] * len(outs) if grad_tensors is None else _as_list(grad_tensors)
    keep = create_graph if retain_graph is None else retain_graph
    roots = _roots(outs, grads)
    if inputs is None:
        engine.run(roots, keep, create_graph)
        return
    wanted = _as_list(inputs)
    edges = [engine.edge_of(t) for t in wanted]
    found = engine.run(roots, keep, create_graph, edges)
    for t, e in zip(wanted, edges, strict=True):
        if engine.edge_key(e) in found:
            engine.accumulate(t, found[engine.edge_key(e)], create_graph)


def grad(
    outputs: TensorOrTensors, inputs: TensorOrTensors, grad_outputs: Any = None,
    retain_graph: bool | None = None, create_graph: bool = False, allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The gradients of ``outputs`` with respect to ``inputs``, without touching any ``.grad``.

    Raises RuntimeError for an input that the outputs do not depend on, unless ``allow_unused``
    (None in its place) or ``materialize_grads`` (zeros).

    >>> import halon
    >>> x = halon.tensor(3., requires_grad=True)
    >>> halon.autograd.grad(x * x, x)
    (tensor(6.),)
    """
    outs, wanted = _as_list(outputs), _as_list(inputs)
    grads = [None] * len(outs) if grad_outputs is None else _as_list(grad_outputs)
    keep = create_graph if retain_graph is None else retain_graph
    for t in wanted:
        if not t.wants_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    edges = [engine.edge_of(t) for t in wanted]
    found = engine.run(_roots(outs, grads), keep, create_graph, edges)
    results = []
    for t, e in zip(wanted, edges, strict=True):
        g = found.get(engine.edge_key(e))
        if g is None:
            if not allow_unused and not materialize_grads:
                raise RuntimeError(
                    "One of the differentiated Tensors appears to not have been used in the graph. "
                    "Set allow_unused=True if this is the desired behavior."
                )
            g = ones_like(t) * 0 if materialize_grads else None
        results.append(g)
    return tuple(results)  # type: ignore[arg-type]


def _tensor_backward(
    t: Tensor, gradient: Any, retain_graph: bool | None, create_graph: bool, inputs: Any
) -> None:
    backward(t, gradient, retain_graph, create_graph, inputs)


def install() -> None:
    """Give Tensor its autograd methods."""
    tensor_module.autograd_backward.append(_tensor_backward)
    tensor_module.retained.append(engine.retain)
    tensor_module.hook_registrar.append(engine.register_hook)


install()
