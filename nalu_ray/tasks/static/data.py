"""Sets of the static task, and the error below which a seed counts as solved."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nalu_ray import layers
from nalu_ray.seeding import Streams, entropy
from nalu_ray.task import Batch
from nalu_ray.tasks._operands import OPERATIONS, Sections, operands, redraw, sections
from nalu_ray.tasks.static.network import StaticSetting
from nalu_ray.training.metrics import mean_squared_error
from nalu_ray.training.replicas import Replicas

OBSERVED_EXAMPLES = 10_000  # of training, at most, that bound the interpolation set
WEIGHT_ERROR = 1e-5
_NOISE = torch.finfo(torch.float32).eps
_SMALLEST = torch.finfo(torch.float32).tiny

# error of the result, from |a|, |b| and the error of each
_ERRORS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "add": lambda a, b, off_a, off_b: off_a + off_b,
    "sub": lambda a, b, off_a, off_b: off_a + off_b,
    "mul": lambda a, b, off_a, off_b: a * off_b + b * off_a + off_a * off_b,
    "div": lambda a, b, off_a, off_b: (a * off_b + b * off_a) / (b * (b + off_b)),
    "square": lambda a, b, off_a, off_b: (2 * a + off_a) * off_a,
    "sqrt": lambda a, b, off_a, off_b: off_a / ((a + off_a).sqrt() + a.sqrt()),
}
# magnitude to which float32 rounds: the sum of the parts for add and sub
_MAGNITUDES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "sub": torch.add,
    "mul": torch.mul,
    "div": torch.div,
    "square": lambda a, b: a.square(),
    "sqrt": lambda a, b: a.sqrt(),
}


def _operands(
    x: Tensor, setting: StaticSetting, seeds: Sequence[int], shared: bool = False
) -> tuple[Tensor, Tensor]:
    return operands(x, _chosen(setting, seeds), shared)


def _chosen(setting: StaticSetting, seeds: Sequence[int]) -> Sections:
    shape = (setting.inputs, setting.section, setting.overlap)
    return sections("static", tuple(seeds), *shape)


def training_batch(setting: StaticSetting, streams: Streams) -> Batch:
    """Draws a batch per seed: inputs (R, N, inputs), R = 1 if shared, and targets (R, N, 1)."""
    shape = (setting.batch, setting.inputs)
    x = torch.from_numpy(streams.uniform(shape, *setting.train_range))
    return with_target(setting, x, streams.seeds, setting.shared_inputs)


def with_target(
    setting: StaticSetting, x: Tensor, seeds: Sequence[int], shared: bool = False
) -> Batch:
    """Pairs inputs, (R or 1, N, inputs), with the targets that each seed's sections give."""
    y = OPERATIONS[setting.op].apply(*_operands(x, setting, seeds, shared))
    return Batch((x,), y.unsqueeze(2), shared)


def inside_inputs(setting: StaticSetting, streams: Streams) -> Tensor:
    """Draws training-range x whose a, b and y lie within those of the first training batches."""
    seen, low, high = _observed(setting, streams)
    shape = (setting.test_size, setting.inputs)

    def inside(x: Tensor) -> Tensor:
        values = _abc(setting, x, streams.seeds)
        return ((values >= low) & (values <= high)).all(dim=2)

    x = torch.from_numpy(streams.uniform(shape, *setting.train_range))
    # if the span is too narrow to hit, the observed examples themselves are inside
    return redraw(x, streams, setting.train_range, inside, seen)


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
    seen = first.expand(len(streams.seeds), -1, -1)
    return seen, low[:, None], high[:, None]


def beyond_inputs(setting: StaticSetting, streams: Streams) -> Tensor:
    """Draws test-range x with an operand outside what the training range can produce."""
    low, high = (setting.section * bound for bound in setting.train_range)
    shape = (setting.test_size, setting.inputs)

    def beyond(x: Tensor) -> Tensor:
        a, b = _operands(x, setting, streams.seeds)
        outside = (a < low) | (a > high)
        return outside if OPERATIONS[setting.op].operands == 1 else outside | (b < low) | (b > high)

    edge = max(setting.test_range, key=lambda value: abs(value - sum(setting.train_range) / 2))
    certain = torch.full((len(streams), 1, setting.inputs), edge)
    x = torch.from_numpy(streams.uniform(shape, *setting.test_range))
    return redraw(x, streams, setting.test_range, beyond, certain)


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
    chosen = _chosen(setting, seeds)
    return success_threshold(setting.op, batch.inputs[0].cpu(), chosen)


def success_threshold(op: str, x: Tensor, chosen: Sections) -> Tensor:
    """Returns the mean squared error of a model whose selecting weights are all off by 1e-5.

    This is the perturbed model of Madsen and Johansen (2020), with weight errors that add up, as
    Mistry et al. (2022, "A Primer for Neural Arithmetic Logic Modules") write them out for each
    operation. In the former they cancel where a and b cover all inputs.

    With e = 1e-5 and S the sum of |x_i| over all inputs, the operands are off by d_a + d_b = e S.
    An input of one operand counts for it; an input of both or of neither counts half for each. So
    d_a = e (S + S_a - S_b) / 2, where S_a is the sum of |x_i| over a. Operations of one operand
    take b = a: d_a = e S / 2.

    The operation itself is exact, so the result is off by

    * add, sub: d_a + d_b = e S;
    * mul: (|a| + d_a) (|b| + d_b) - |a b|;
    * div: |a / b| - (|a| - d_a) / (|b| + d_b);
    * square: (|a| + d_a)^2 - a^2;
    * sqrt: sqrt(a + d_a) - sqrt(a).

    An error below float32's precision of the result counts as that precision.

    Args:
        op: one of ``add sub mul div square sqrt``.
        x: (R, N, inputs), the examples of R seeds.
        chosen: the elements of a and of b.

    Returns:
        (R,) float64, large enough to stay above 0 in float32.
    """
    x = x.double()
    if OPERATIONS[op].operands == 1:
        chosen = chosen[0], chosen[0]
    a, b = (part.abs() for part in operands(x, chosen))
    size_a, size_b = operands(x.abs(), chosen)
    size = x.abs().sum(2)
    off_a = WEIGHT_ERROR * (size + size_a - size_b) / 2
    off_b = WEIGHT_ERROR * (size + size_b - size_a) / 2
    error = _ERRORS[op](a, b, off_a, off_b)
    return error.maximum(_NOISE * _MAGNITUDES[op](a, b)).square().mean(1).clamp_min(_SMALLEST)
