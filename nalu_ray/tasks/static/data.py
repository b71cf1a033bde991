"""Sets of the static task, and the error below which a seed counts as solved.

:mod:`nalu_ray.tasks._threshold` has the formulas of that error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from nalu_ray import layers
from nalu_ray.seeding import Streams, entropy
from nalu_ray.task import Batch
from nalu_ray.tasks import _threshold as threshold
from nalu_ray.tasks._inputs import draw
from nalu_ray.tasks._operands import OPERATIONS, Sections, divisible, operands, sections
from nalu_ray.tasks.static.network import StaticSetting
from nalu_ray.training.metrics import mean_squared_error
from nalu_ray.training.replicas import Replicas

OBSERVED_EXAMPLES = 10_000  # of training, at most, that bound the interpolation set
REDRAWS = 200


def _operands(
    x: Tensor, setting: StaticSetting, seeds: Sequence[int], shared: bool = False
) -> tuple[Tensor, Tensor]:
    return operands(_with_zero(setting, x), _chosen(setting, seeds), shared)


def _with_zero(setting: StaticSetting, x: Tensor) -> Tensor:
    """Appends the input 0, which operands shorter than others contain."""
    return x if setting.operands == "sections" else functional.pad(x, (0, 1))


def _chosen(setting: StaticSetting, seeds: Sequence[int]) -> Sections:
    if setting.operands == "nested":
        rows = torch.tensor([[0, 1, 4, 4], [0, 1, 2, 3]])
        a, b = rows[:, None].expand(2, len(seeds), 4)
        return a, b
    if setting.operands == "scattered":
        return _scattered(tuple(seeds), setting.inputs)
    shape = (setting.inputs, setting.section, setting.overlap)
    return sections("static", tuple(seeds), *shape)


@functools.lru_cache(maxsize=8)
def _scattered(seeds: tuple[int, ...], inputs: int) -> Sections:
    """Returns the elements of a and b, (R, inputs) each; the index ``inputs`` fills them up.

    As in the fourth experiment of Schlör, Ring and Hotho (2020): each element is in a with
    probability 1/2, in b with 1/4, or in neither. Draws with an empty operand are repeated.
    """
    places = torch.arange(inputs)
    memberships = []
    for rng in Streams("static", seeds, "scattered").generators:
        membership = rng.choice(3, inputs, p=(0.5, 0.25, 0.25))
        while not {0, 1} <= set(membership.tolist()):
            membership = rng.choice(3, inputs, p=(0.5, 0.25, 0.25))
        memberships.append(torch.from_numpy(membership))
    drawn = torch.stack(memberships)
    return torch.where(drawn == 0, places, inputs), torch.where(drawn == 1, places, inputs)


def training_batch(setting: StaticSetting, streams: Streams) -> Batch:
    """Draws a batch per seed: inputs (R, N, inputs), R = 1 if shared, and targets (R, N, 1)."""
    shape = (setting.batch, setting.inputs)
    x = torch.from_numpy(draw(setting.distribution, streams, shape, setting.train_range))
    return with_target(setting, x, streams.seeds, setting.shared_inputs)


def with_target(
    setting: StaticSetting, x: Tensor, seeds: Sequence[int], shared: bool = False
) -> Batch:
    """Pairs inputs, (R or 1, N, inputs), with the targets that each seed's sections give."""
    both = _operands(x, setting, seeds, shared)
    low, high = setting.train_range
    least = (high - low) / 2**24
    if divisible(setting.op, x, both, _chosen(setting, seeds), least, shared=shared):
        both = _operands(x, setting, seeds, shared)
    return Batch((x,), OPERATIONS[setting.op].apply(*both).unsqueeze(2), shared)


def evaluation_inputs(setting: StaticSetting, split: str, streams: Streams) -> Tensor:
    """Draws x of an evaluation set, (R, test_size, inputs)."""
    if setting.sets == "plain":
        return _plain_inputs(setting, split, streams)
    return (_beyond_inputs if split == "extrapolation" else _inside_inputs)(setting, streams)


def _plain_inputs(setting: StaticSetting, split: str, streams: Streams) -> Tensor:
    beyond = split == "extrapolation"
    shape = (setting.test_size, setting.inputs)
    bounds = setting.test_range if beyond else setting.train_range
    x = draw(setting.distribution, streams, shape, bounds)
    if beyond and setting.test_signs:
        x *= np.copysign(np.float32(1), streams.uniform(shape, -1.0, 1.0))
    return torch.from_numpy(x)


def _inside_inputs(setting: StaticSetting, streams: Streams) -> Tensor:
    """Draws training-range x whose a, b and y lie within those of the first training batches."""
    examples, low, high = _observed(setting, streams)

    def inside(x: Tensor) -> Tensor:
        values = _abc(setting, x, streams.seeds)
        return ((values >= low) & (values <= high)).all(dim=2)

    # if the span is too narrow to hit, the observed examples themselves are inside
    return _drawn(setting, streams, setting.train_range, inside, examples)


def _observed(setting: StaticSetting, streams: Streams) -> tuple[Tensor, Tensor, Tensor]:
    train = Streams(streams.task, streams.seeds, "train", shared=setting.shared_inputs)
    batches = max(1, min(setting.steps, OBSERVED_EXAMPLES // setting.batch))
    draws = (
        torch.from_numpy(train.uniform((setting.batch, setting.inputs), *setting.train_range))
        for _ in range(batches)
    )
    first = next(draws)
    values = _abc(setting, first, streams.seeds, setting.shared_inputs)
    low, high = values.amin(1), values.amax(1)
    for x in draws:
        values = _abc(setting, x, streams.seeds, setting.shared_inputs)
        low, high = low.minimum(values.amin(1)), high.maximum(values.amax(1))
    examples = first.expand(len(streams.seeds), -1, -1)
    return examples, low[:, None], high[:, None]


def _beyond_inputs(setting: StaticSetting, streams: Streams) -> Tensor:
    """Draws test-range x with an operand outside what the training range can produce."""
    low, high = (setting.section * bound for bound in setting.train_range)

    def beyond(x: Tensor) -> Tensor:
        a, b = _operands(x, setting, streams.seeds)
        outside = (a < low) | (a > high)
        return outside if OPERATIONS[setting.op].operands == 1 else outside | (b < low) | (b > high)

    edge = max(setting.test_range, key=lambda value: abs(value - sum(setting.train_range) / 2))
    certain = torch.full((len(streams), 1, setting.inputs), edge)
    return _drawn(setting, streams, setting.test_range, beyond, certain)


def _drawn(
    setting: StaticSetting,
    streams: Streams,
    bounds: tuple[float, float],
    wanted: Callable[[Tensor], Tensor],
    fallback: Tensor,
) -> Tensor:
    """Draws x of U(low, high), and unwanted examples again until there are none.

    Each seed draws from its own generator as often as it needs, so its examples do not depend on
    the other seeds of its block.

    Args:
        setting, streams, bounds: what is drawn.
        wanted: examples, (R, N, inputs), to whether each is kept, (R, N).
        fallback: (R, M, inputs), what an example becomes that is unwanted after 200 redraws.
    """
    x = torch.from_numpy(streams.uniform((setting.test_size, setting.inputs), *bounds))
    for _ in range(REDRAWS):
        bad = ~wanted(x)
        if not bad.any():
            return x
        for seed in bad.any(dim=1).nonzero().flatten().tolist():
            count = int(bad[seed].sum())
            x[seed, bad[seed]] = torch.from_numpy(streams.one(seed, (count, x.shape[2]), *bounds))
    bad = ~wanted(x)
    repeated = fallback[:, torch.arange(x.shape[1]) % fallback.shape[1]]
    x[bad] = repeated[bad]
    return x


def _abc(setting: StaticSetting, x: Tensor, seeds: Sequence[int], shared: bool = False) -> Tensor:
    """Returns a, b and y side by side, (R, N, 3)."""
    a, b = _operands(x, setting, seeds, shared)
    return torch.stack([a, b, OPERATIONS[setting.op].apply(a, b)], dim=2)


def random_model_error(setting: StaticSetting, batch: Batch, seeds: Sequence[int]) -> Tensor:
    """Returns the mean squared error of an untrained linear network per seed, (R,)."""
    inits = [entropy("static", seed, "reference") % 2**63 for seed in seeds]
    random = Replicas(lambda: layers.build("none", setting.inputs, setting.hidden, 1), inits)
    with torch.no_grad():
        inputs = tuple(tensor.cpu() for tensor in batch.inputs)
        return mean_squared_error(random(*inputs), batch.targets.cpu())


def success_error(setting: StaticSetting, batch: Batch, seeds: Sequence[int]) -> Tensor:
    """Returns the error on an evaluation set below which each seed counts as solved, (R,)."""
    if setting.solved_below is not None:
        return torch.full((len(seeds),), setting.solved_below, dtype=torch.float64)
    rule = threshold.RULES[setting.threshold]
    x = _with_zero(setting, batch.inputs[0].cpu())
    return rule(setting.op, x, _chosen(setting, seeds))
