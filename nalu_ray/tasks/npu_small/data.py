"""Pairs of numbers, and the results of four operations on them."""

from __future__ import annotations

import functools
from dataclasses import replace

import torch
from torch import Tensor

from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks import _operands
from nalu_ray.tasks._operands import Operation
from nalu_ray.tasks.npu_small.network import NPUSmallSetting

OPERATIONS = {
    "add": replace(_operands.OPERATIONS["add"], label="x + y"),
    "mul": replace(_operands.OPERATIONS["mul"], label="x × y"),
    "div": replace(_operands.OPERATIONS["div"], label="x / y"),
    # where it is not judged, x may be negative
    "sqrt": Operation("√x", lambda x, _: x.clamp(min=0).sqrt(), operands=1),
}
INSIDE = 20  # values of x, and of y, in the interpolation set
FAR = torch.arange(41, dtype=torch.float64) * 0.2 - 4.1  # of x, and of y, in the extrapolation set
ROOTS = torch.arange(1, 41, dtype=torch.float64) / 10  # the same for the root
EXAMPLES = len(FAR) ** 2 + len(ROOTS) ** 2  # of the larger set


def drawn(setting: NPUSmallSetting, streams: Streams) -> Batch:
    """Draws x and y of U(low, high): inputs (R, N, 2), R = 1 if shared, and targets (R, N, 4)."""
    pairs = torch.from_numpy(streams.uniform((setting.batch, 2), *setting.train_range))
    return _batch(pairs, len(streams), setting.shared_inputs)


def grid(setting: NPUSmallSetting, split: str, seeds: int) -> Batch:
    """Returns an evaluation set, the same for each seed.

    The interpolation set is a grid over the range of training. The extrapolation set is two grids,
    one after the other: that of x + y, x y and x / y, then that of sqrt(x), of positive numbers.
    """
    return _grid(split, setting.train_range, seeds)


@functools.lru_cache(maxsize=8)
def _grid(split: str, bounds: tuple[float, float], seeds: int) -> Batch:
    if split == "extrapolation":
        pairs = torch.cat([torch.cartesian_prod(values, values) for values in (FAR, ROOTS)])
    else:
        values = torch.linspace(*bounds, INSIDE, dtype=torch.float64)
        pairs = torch.cartesian_prod(values, values)
    return _batch(pairs.float().repeat(seeds, 1, 1), seeds)


def rows(split: str, operation: str) -> slice:
    """Returns the examples of an evaluation set on which an operation is judged."""
    if split != "extrapolation":
        return slice(None)
    count = len(FAR) ** 2
    return slice(count, None) if operation == "sqrt" else slice(count)


def _batch(pairs: Tensor, seeds: int, shared: bool = False) -> Batch:
    x, y = pairs.unbind(2)
    results = torch.stack([operation.apply(x, y) for operation in OPERATIONS.values()], 2)
    return Batch((pairs,), results.expand(seeds, -1, -1), shared)
