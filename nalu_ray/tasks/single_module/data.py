"""Sets of the single-module task, and the error below which a seed counts as solved."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks._inputs import draw
from nalu_ray.tasks._operands import OPERATIONS, divisible, operands, sections
from nalu_ray.tasks.single_module.network import SingleModuleSetting

_NOISE = torch.finfo(torch.float32).eps
_SMALLEST = torch.finfo(torch.float32).tiny


def sample(setting: SingleModuleSetting, split: str, streams: Streams) -> Batch:
    """Draws inputs, (R, N, inputs), R = 1 if shared, and targets, (R, N, 1)."""
    training, beyond = split == "train", split == "extrapolation"
    shape = (setting.batch if training else setting.test_size, setting.inputs)
    bounds = setting.test_range if beyond else setting.train_range
    x = draw(setting.distribution, streams, shape, bounds)
    if beyond and setting.test_signs:
        x *= np.copysign(np.float32(1), streams.uniform(shape, -1.0, 1.0))
    if setting.opposite:
        x[..., setting.inputs // 2 :] *= -1
    inputs = torch.from_numpy(x)
    shared = training and setting.shared_inputs
    places = chosen(setting, streams.seeds)
    a, b = operands(inputs, places, shared)
    least = (bounds[1] - bounds[0]) / 2**24
    if divisible(setting.op, inputs, (a, b), places, least, shared=shared):
        a, b = operands(inputs, places, shared)
    return Batch((inputs,), OPERATIONS[setting.op].apply(a, b).unsqueeze(2), shared)


def chosen(setting: SingleModuleSetting, seeds: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Returns the places of a and of b among the inputs, (R, 1) each.

    With ``opposite``, a lies in the first half of x and b in the second.
    """
    if not setting.opposite:
        return sections("single_module", tuple(seeds), setting.inputs, 1, 0)
    half = setting.inputs // 2
    streams = Streams("single_module", seeds, "sections")
    a = torch.from_numpy(streams.integers((1,), 0, half))
    b = torch.from_numpy(streams.integers((1,), half, setting.inputs))
    return a, b


def solved_error(setting: SingleModuleSetting, batch: Batch, seeds: Sequence[int]) -> Tensor:
    """Returns the error on an evaluation set below which each seed counts as solved, (R,)."""
    if setting.solved_below is not None:
        return torch.full((len(seeds),), setting.solved_below, dtype=torch.float64)
    x = batch.inputs[0].cpu()
    return perturbed_error(setting.op, x, chosen(setting, seeds), setting.weight_error)


def perturbed_error(
    op: str, x: Tensor, places: tuple[Tensor, Tensor], weight_error: float
) -> Tensor:
    """Returns the mean squared error of the exact unit with all weights off by e.

    As Mistry et al. (2022) write it out, with S the sum of |x_i| over all inputs and P the product
    of 1 - e |x_i| over the redundant ones:

    * add, sub: y is off by e S;
    * mul: (1 - e)^2 P times y;
    * div: (1 - e) / (1 + e) P times y.

    An error below float32's precision of the result counts as that precision.

    Args:
        op: one of ``add sub mul div``.
        x: (R, N, inputs), the examples of R seeds.
        places: of a and of b among the inputs, (R, 1) each.
        weight_error: e.

    Returns:
        (R,) float64, large enough to stay above 0 in float32.
    """
    x = x.double()
    a, b = operands(x, places)
    y, sizes = OPERATIONS[op].apply(a, b), x.abs()
    if op in ("add", "sub"):
        error, rounded = weight_error * sizes.sum(2), a.abs() + b.abs()
    else:
        redundant = (1 - weight_error * sizes).scatter(2, _index(places, x), 1.0).prod(2)
        factor = (1 - weight_error) ** 2 if op == "mul" else (1 - weight_error) / (1 + weight_error)
        error, rounded = (1 - factor * redundant) * y.abs(), y.abs()
    return error.maximum(_NOISE * rounded).square().mean(1).clamp_min(_SMALLEST)


def _index(places: tuple[Tensor, Tensor], x: Tensor) -> Tensor:
    return torch.cat(places, dim=1)[:, None].expand(-1, x.shape[1], -1)
