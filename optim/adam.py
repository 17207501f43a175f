"""Adam (D. Kingma and J. Ba, 2015), AMSGrad (S. Reddi et al., 2018) and AdamW (I. Loshchilov and
F. Hutter, "Decoupled Weight Decay Regularization", 2019)."""

from __future__ import annotations

from typing import Any

from halon.hal import dtypes
from halon.optim.optimizer import Group, Optimizer, Params, check_options
from halon.tensor.creation import tensor, zeros_like
from halon.tensor.derived import maximum
from halon.tensor.tensor import Tensor


class Adam(Optimizer):
    """Adam(params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0, amsgrad=False, *,
    foreach=None, maximize=False, capturable=False, differentiable=False, fused=None,
    decoupled_weight_decay=False)

    ``weight_decay`` is added to the gradient, or shrinks the parameter where it is decoupled.
    ``foreach`` and ``fused`` are kept in the groups and change nothing: there is one update.

    Raises:
        ValueError: an option outside its range.

    >>> import halon
    >>> p = halon.tensor([1.0], requires_grad=True)
    >>> optimizer = halon.optim.Adam([p], lr=0.5)
    >>> (p * 3).sum().backward()
    >>> optimizer.step()
    >>> round(p.item(), 4)
    0.5
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        if not lr >= 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps >= 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for i in (0, 1):
            if not 0.0 <= betas[i] < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {betas[i]}")
        if not weight_decay >= 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        check_options(type(self).__name__, differentiable, capturable)
        defaults: dict[str, Any] = {
            "lr": lr,
            "betas": tuple(betas),
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def update(self, param: Tensor, grad: Tensor, group: Group) -> None:
        state = self._state_of(param, group)
        beta1, beta2 = group["betas"]
        lr, decay = group["lr"], group["weight_decay"]
        if group["maximize"]:
            grad = -grad
        state["step"] += 1
        if decay != 0:
            if group["decoupled_weight_decay"]:
                param.mul_(1 - lr * decay)
            else:
                grad = grad.add(param, alpha=decay)
        mean = state["exp_avg"].lerp_(grad, 1 - beta1)
        square = state["exp_avg_sq"].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        if group["amsgrad"]:
            square = state["max_exp_avg_sq"].copy_(maximum(state["max_exp_avg_sq"], square))
        # the averages start at zero; these undo the bias towards it
        step = state["step"].item()
        correction1, correction2 = 1 - beta1**step, 1 - beta2**step
        scale = (square.sqrt() / correction2**0.5).add_(group["eps"])
        param.addcdiv_(mean, scale, value=-(lr / correction1))

    def _state_of(self, param: Tensor, group: Group) -> dict[str, Any]:
        state = self.state[param]
        if not state:
            # on the host: only Python reads it
            state["step"] = tensor(0.0, dtype=dtypes.float32)
            state["exp_avg"] = zeros_like(param)
            state["exp_avg_sq"] = zeros_like(param)
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = zeros_like(param)
        return state


class AdamW(Adam):
    """AdamW(params, lr=0.001, betas=(0.9, 0.999), eps=1e-08, weight_decay=0.01, amsgrad=False, *,
    maximize=False, foreach=None, capturable=False, differentiable=False, fused=None)

    Adam with decoupled weight decay; otherwise as ``Adam``.

    >>> import halon
    >>> p = halon.tensor([1.0], requires_grad=True)
    >>> halon.optim.AdamW([p]).defaults["weight_decay"]
    0.01
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
