"""Optimisers and learning-rate schedules by name, on one stacked tensor.

Adam, RMSprop and SGD act on each number separately, so a single optimiser of torch on the stacked
parameters equals one optimiser per seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Literal

import torch
from torch import Tensor
from torch.optim import SGD, Adam, Optimizer, RMSprop
from torch.optim.lr_scheduler import LambdaLR

from nalu_ray.training.muon import Muon

OptimiserName = Literal["adam", "rmsprop", "sgd", "muon"]
ScheduleName = Literal["constant", "cosine", "linear"]


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
        return Adam([flat], lr=lr, betas=(0.9, beta2), eps=eps, fused=True)
    if name == "sgd":
        return SGD([flat], lr=lr, momentum=momentum, nesterov=momentum > 0, fused=True)
    if name == "muon":
        return Muon(flat, shapes or {}, lr, weight_decay)
    return RMSprop([flat], lr=lr, alpha=decay)


def largest_gradient(name: OptimiserName, dtype: torch.dtype) -> float:
    """Returns the largest magnitude of a gradient from which an optimiser can make a step.

    All but SGD divide by the root of a mean of squares: where a square overflows, that is infinite
    from then on, and the parameter stands still.
    """
    largest: float = torch.finfo(dtype).max
    return largest if name == "sgd" else math.sqrt(largest)


def schedule(
    name: ScheduleName, optimizer: Optimizer, steps: int, end: float, warmup: int = 0
) -> LambdaLR:
    """Returns a schedule that multiplies the optimiser's rate by :func:`factor` at each step."""
    return LambdaLR(optimizer, partial(factor, name=name, steps=steps, end=end, warmup=warmup))


def factor(step: int, name: ScheduleName, steps: int, end: float, warmup: int) -> float:
    """Returns the learning rate at a step, as a fraction of the peak.

    It rises linearly over the first ``warmup`` steps, then falls along a line or half a cosine to
    ``end`` at ``steps``, or stays.
    """
    if step < warmup:
        return (step + 1) / warmup
    progress = min(1.0, (step - warmup) / max(1, steps - warmup))
    if name == "constant":
        return 1.0
    left = 1 - progress if name == "linear" else (1 + math.cos(math.pi * progress)) / 2
    return end + (1 - end) * left
