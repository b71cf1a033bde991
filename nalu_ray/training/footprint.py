"""Memory of parameters in training, together with gradients and the optimiser's moments."""

from __future__ import annotations

from collections.abc import Callable, Collection

import torch
from torch import nn

from nalu_ray.training.optimisers import OptimiserName

FLOAT = 4
# Tensors as large as the parameters, at the peak: networks as built, the rows made of them,
# gradients, what the backward pass keeps of a unit's weights. Measured: 9 (ReLU) to 12 (NAC).
COPIES = 12
# An optimiser's moments, and what it makes while it steps.
OF_OPTIMISER: dict[OptimiserName, int] = {"adam": 2, "rmsprop": 2, "sgd": 1, "muon": 7}
# Setting fields whose work on a step takes more; measured for each alone.
OF_FIELD = {"penalty": 6, "lr_factor": 2, "phases": 6}

_counted: dict[tuple[str, str], int] = {}


def parameters(task: str, setting_id: str, build: Callable[[], nn.Module]) -> int:
    """Returns the number of trained parameters per seed; builds each setting once, on meta."""
    key = task, setting_id
    if key not in _counted:
        _counted[key] = sum(part.numel() for part in without_memory(build).parameters())
    return _counted[key]


def without_memory(build: Callable[[], nn.Module]) -> nn.Module:
    """Builds a network on the meta device, or on the CPU if its constructor reads its numbers."""
    try:
        with torch.device("meta"):
            return build()
    except (NotImplementedError, RuntimeError, TypeError):
        # also where the caller's tensors are on meta
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            return build()


def trained(count: int, optimiser: OptimiserName, seeds: int, fields: Collection[str] = ()) -> int:
    """Returns the peak memory, in bytes, of ``seeds`` seeds with ``count`` parameters each.

    Args:
        count: parameters per seed.
        optimiser: its name.
        seeds: of the block.
        fields: those of ``OF_FIELD`` that the setting uses.
    """
    copies = COPIES + OF_OPTIMISER[optimiser] + sum(OF_FIELD[name] for name in fields)
    return FLOAT * seeds * count * copies
