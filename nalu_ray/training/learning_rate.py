"""Learning-rate schedules by name."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

ScheduleName = Literal["constant", "cosine", "linear"]


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
    remaining = 1 - progress if name == "linear" else (1 + math.cos(math.pi * progress)) / 2
    return end + (1 - end) * remaining
