"""Memory of parameters in training with gradients and moments, and what is known of networks."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import nn

from nalu_ray.layers import Cell
from nalu_ray.training.activations import Activations
from nalu_ray.training.optimisers import OptimiserName

N = TypeVar("N", bound=nn.Module)

FLOAT = 4
# Tensors as large as the parameters, at the peak: networks as built, the rows made of them,
# gradients, what the backward pass keeps of a unit's weights. Measured: 9 (ReLU) to 12 (NAC).
COPIES = 12
# An optimiser's moments, and what it makes while it steps.
OF_OPTIMISER: dict[OptimiserName, int] = {"adam": 2, "rmsprop": 2, "sgd": 1, "muon": 7}
# Setting fields whose work on a step takes more; measured for each alone.
OF_FIELD = {"penalty": 6, "lr_factor": 2, "phases": 6}


@dataclass(frozen=True)
class Counted:
    """Numbers of a network.

    Attributes:
        parameters: per seed.
        state: of the recurrent cell with the largest state, per example; 0 without a cell.
    """

    parameters: int
    state: int


_counted: dict[tuple[str, str], Counted] = {}
_noted: dict[tuple[str, str], Activations | None] = {}


def count(task: str, setting_id: str, build: Callable[[], nn.Module]) -> Counted:
    """Returns the numbers of a setting's network; builds each setting once, on meta."""
    key = task, setting_id
    if key not in _counted:
        network = without_memory(build)
        states = (_state(part) for part in network.modules() if isinstance(part, Cell))
        parameters = sum(part.numel() for part in network.parameters())
        _counted[key] = Counted(parameters, max(states, default=0))
    return _counted[key]


def note(task: str, setting_id: str, activations: Activations | None) -> None:
    """Keeps what was measured of a setting's network, for :func:`noted`."""
    _noted[task, setting_id] = activations


def noted(task: str, setting_id: str) -> Activations | None:
    """Returns what was measured of a setting's network; None if nothing was."""
    return _noted.get((task, setting_id))


def _state(cell: Cell) -> int:
    return sum(part.numel() for part in cell.initial(1, torch.empty((), device="meta")))


def without_memory(build: Callable[[], N]) -> N:
    """Builds a network on the meta device, or on the CPU if its constructor reads its numbers.

    Raises:
        RuntimeError: its size is impossible.
    """
    try:
        with torch.device("meta"):
            return build()
    except (NotImplementedError, RuntimeError, TypeError) as error:
        if "overflow" in str(error):  # a CPU would try to find the memory
            raise
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
