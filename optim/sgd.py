"""SGD with momentum (I. Sutskever et al., "On the importance of initialization and momentum in
deep learning", 2013)."""

from __future__ import annotations

from typing import Any

from halon.optim.optimizer import Group, Optimizer, Params, check_options
from halon.tensor.tensor import Tensor


class SGD(Optimizer):
    """SGD(params, lr=0.001, momentum=0, dampening=0, weight_decay=0, nesterov=False, *,
    maximize=False, foreach=None, differentiable=False, fused=None)

    ``foreach`` and ``fused`` are kept in the groups and change nothing: there is one update.

    Raises:
        ValueError: a negative rate, momentum or decay, or Nesterov without plain momentum.

    >>> import halon
    >>> p = halon.tensor([1.0], requires_grad=True)
    >>> optimizer = halon.optim.SGD([p], lr=0.5)
    >>> (p * 2).sum().backward()
    >>> optimizer.step()
    >>> p.tolist()
    [0.0]
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if not lr >= 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not momentum >= 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if not weight_decay >= 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        check_options("SGD", differentiable)
        defaults: dict[str, Any] = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def update(self, param: Tensor, grad: Tensor, group: Group) -> None:
        if group["maximize"]:
            grad = -grad
        if group["weight_decay"] != 0:
            grad = grad.add(param, alpha=group["weight_decay"])
        if group["momentum"] != 0:
            velocity = self._velocity(param, grad, group)
            grad = grad.add(velocity, alpha=group["momentum"]) if group["nesterov"] else velocity
        param.add_(grad, alpha=-group["lr"])

    def _velocity(self, param: Tensor, grad: Tensor, group: Group) -> Tensor:
        state = self.state[param]
        velocity = state.get("momentum_buffer")
        if velocity is None:
            velocity = state["momentum_buffer"] = grad.detach().clone()
        else:
            velocity.mul_(group["momentum"]).add_(grad, alpha=1 - group["dampening"])
        return velocity
