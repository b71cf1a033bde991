"""Optimisers by name, on one stacked tensor.

Adam, RMSprop and SGD act on each number separately, so a single optimiser of torch on the stacked
parameters equals one optimiser per seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim import SGD, Adam, Optimizer, RMSprop

from nalu_ray.training.muon import Muon

OptimiserName = Literal["adam", "rmsprop", "sgd", "muon"]


def optimiser(
    name: OptimiserName,
    flat: Tensor,
    lr: float,
    *,
    beta2: float = 0.999,
    eps: float = 1e-8,
    decay: float = 0.99,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    shapes: Mapping[str, torch.Size] | None = None,
) -> Optimizer:
    """Returns the optimiser ``name`` over the stacked parameters of R seeds, (R, P).

    Args:
        name: adam, rmsprop, sgd or muon.
        flat: the stacked parameters.
        lr: learning rate.
        beta2: Adam's second decay rate.
        eps: Adam's epsilon.
        decay: RMSprop's decay rate.
        momentum: Nesterov momentum of SGD.
        weight_decay: decoupled weight decay of Muon.
        shapes: shapes of the parameters in a row, by name; Muon needs them.
    """
    if name == "adam":
        return FusedAdam(flat, lr, (0.9, beta2), eps)
    if name == "sgd":
        return SGD([flat], lr=lr, momentum=momentum, nesterov=momentum > 0, fused=True)
    if name == "muon":
        return Muon(flat, shapes or {}, lr, weight_decay)
    return RMSprop([flat], lr=lr, alpha=decay)


class FusedAdam(Adam):
    """torch's fused Adam of one tensor, without the search for groups of tensors before each step.

    The search takes 15 times as long as the kernel on a small network (docs/performance.md).

    Args:
        flat: the stacked parameters.
        lr: learning rate.
        betas, eps: Adam's.
    """

    def __init__(self, flat: Tensor, lr: float, betas: tuple[float, float], eps: float) -> None:
        super().__init__([flat], lr=lr, betas=betas, eps=eps, fused=True)
        self._flat = flat

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Moves the parameters along their gradient."""
        flat, state = self._flat, self.state.get(self._flat)
        if not state or closure is not None or flat.grad is None:  # torch makes the state
            return super().step(closure)
        group = self.param_groups[0]
        count = state["step"]
        count += 1
        torch._fused_adam_(
            [flat],
            [flat.grad],
            [state["exp_avg"]],
            [state["exp_avg_sq"]],
            [],
            [count],
            lr=group["lr"],
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
            grad_scale=None,
            found_inf=None,
        )
        return None


def largest_gradient(name: OptimiserName, dtype: torch.dtype) -> float:
    """Returns the largest magnitude of a gradient from which an optimiser can make a step.

    All but SGD divide by the root of a mean of squares: where a square overflows, that is infinite
    from then on, and the parameter stands still.
    """
    largest: float = torch.finfo(dtype).max
    return largest if name == "sgd" else math.sqrt(largest)
