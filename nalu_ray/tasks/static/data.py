"""Settings and sets of the static task; what each set guarantees is said in ``static.py``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from nalu_ray import layers
from nalu_ray.seeding import Streams, entropy
from nalu_ray.task import Batch
from nalu_ray.tasks._operands import Sections, operands, redraw, sections
from nalu_ray.tasks._success import ONE_OPERAND, success_threshold
from nalu_ray.training.fields import (
    LayerName,
    Options,
    PerLayer,
    Range,
    SupervisedSetting,
    WeightInit,
)
from nalu_ray.training.metrics import mean_squared_error
from nalu_ray.training.replicas import Replicas

Operation = Literal["add", "sub", "mul", "div", "square", "sqrt"]

OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "square": lambda a, b: a * a,
    "sqrt": lambda a, b: a.sqrt(),
}
OBSERVED_EXAMPLES = 10_000


class StaticSetting(SupervisedSetting):
    """One network on one operation."""

    layer: LayerName = Field(
        "nalu", description="network by name: `nalu`, `nac` or a baseline (Tables 6, 7)"
    )
    op: Operation = Field("add", description="operation on a and b (Table 7)")
    hidden: int = Field(2, ge=1, description="hidden units; 2 suffice (App. B)")
    inputs: int = Field(100, ge=1, description="length of x (App. B)")
    section: int = Field(
        10, ge=1, description="elements of x in each of a and b; the paper leaves it open"
    )
    overlap: int = Field(0, ge=0, description="elements that a and b share")
    train_range: Range = Field(
        (0.0, 1.0), description="x of training and interpolation is U(low, high), as low:high"
    )
    test_range: Range = Field(
        (0.0, 3.0),
        description="x of extrapolation is U(low, high), as low:high, kept where a or b is beyond "
        "training",
    )
    batch: int = Field(128, ge=1, description="examples a step, fresh each step")
    test_size: int = Field(1000, ge=1, description="examples of each evaluation set")
    weight_init: WeightInit = "uniform"
    gate_init: PerLayer = Field(
        (0.2, -0.2),
        description="initialisation of the NALU's G in each layer: the first leans to its sum, "
        "the next to its product",
    )
    options: Options = Field(
        {}, description="further arguments of the layer, as name:value;name:value"
    )

    def built(self) -> Sequence[layers.LayerEntry]:
        return (layers.get(self.layer),)

    @model_validator(mode="after")
    def _possible(self) -> StaticSetting:
        span = 2 * self.section - self.overlap
        if self.overlap > self.section:
            raise ValueError(f"overlap={self.overlap} is more than section={self.section}")
        if span > self.inputs:
            raise ValueError(
                f"section={self.section} with overlap={self.overlap} takes {span} elements, "
                f"more than inputs={self.inputs}"
            )
        (low, high), (test_low, test_high) = self.train_range, self.test_range
        if low <= test_low and test_high <= high:
            raise ValueError(
                f"test_range={test_low}:{test_high} never leaves train_range={low}:{high}"
            )
        lowest, highest = min(low, test_low), max(high, test_high)
        if self.op == "sqrt" and lowest < 0:
            raise ValueError(f"op=sqrt needs ranges of 0 or more, not {lowest}:{highest}")
        if self.op == "div" and lowest < 0 < highest:
            raise ValueError(f"op=div needs ranges that do not cross 0, not {lowest}:{highest}")
        return self


def _operands(
    x: Tensor, setting: StaticSetting, seeds: Sequence[int], shared: bool = False
) -> tuple[Tensor, Tensor]:
    return operands(x, _chosen(setting, seeds), shared)


def _chosen(setting: StaticSetting, seeds: Sequence[int]) -> Sections:
    shape = (setting.inputs, setting.section, setting.overlap)
    return sections("static", tuple(seeds), *shape)


def training_batch(setting: StaticSetting, streams: Streams) -> Batch:
    """A batch per seed: inputs (R, N, inputs), R = 1 if shared, and targets (R, N, 1)."""
    shape = (setting.batch, setting.inputs)
    x = torch.from_numpy(streams.uniform(shape, *setting.train_range))
    return with_target(setting, x, streams.seeds, setting.shared_inputs)


def with_target(
    setting: StaticSetting, x: Tensor, seeds: Sequence[int], shared: bool = False
) -> Batch:
    """The batch of inputs (R or 1, N, inputs) and of what each seed's sections make of them."""
    y = OPERATIONS[setting.op](*_operands(x, setting, seeds, shared))
    return Batch((x,), y.unsqueeze(2), shared)


def inside_inputs(setting: StaticSetting, streams: Streams) -> Tensor:
    """Training-range x whose a, b and y the first training batches exceeded on both sides."""
    seen, low, high = _observed(setting, streams)
    shape = (setting.test_size, setting.inputs)

    def inside(x: Tensor) -> Tensor:
        values = _abc(setting, x, streams.seeds)
        return ((values >= low) & (values <= high)).all(dim=2)

    x = torch.from_numpy(streams.uniform(shape, *setting.train_range))
    # where the observed span is too narrow to hit, the observed examples themselves are inside
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
    """Test-range x that put an operand outside all that the training range can produce."""
    low, high = (setting.section * bound for bound in setting.train_range)
    shape = (setting.test_size, setting.inputs)

    def beyond(x: Tensor) -> Tensor:
        a, b = _operands(x, setting, streams.seeds)
        outside = (a < low) | (a > high)
        return outside if setting.op in ONE_OPERAND else outside | (b < low) | (b > high)

    edge = max(setting.test_range, key=lambda value: abs(value - sum(setting.train_range) / 2))
    certain = torch.full((len(streams), 1, setting.inputs), edge)
    x = torch.from_numpy(streams.uniform(shape, *setting.test_range))
    return redraw(x, streams, setting.test_range, beyond, certain)


def _abc(setting: StaticSetting, x: Tensor, seeds: Sequence[int], shared: bool = False) -> Tensor:
    """Returns a, b and y side by side, (R, N, 3)."""
    a, b = _operands(x, setting, seeds, shared)
    return torch.stack([a, b, OPERATIONS[setting.op](a, b)], dim=2)


def random_model_error(setting: StaticSetting, batch: Batch, seeds: Sequence[int]) -> Tensor:
    """Mean squared error of an untrained linear network of each seed on the batch, (R,)."""
    inits = [entropy("static", seed, "reference") % 2**63 for seed in seeds]
    random = Replicas(lambda: layers.build("none", setting.inputs, setting.hidden, 1), inits)
    with torch.no_grad():
        inputs = tuple(tensor.cpu() for tensor in batch.inputs)
        return mean_squared_error(random(*inputs), batch.targets.cpu())


def success_error(setting: StaticSetting, batch: Batch, seeds: Sequence[int]) -> Tensor:
    """Error on an evaluation set below which each seed counts as solved, (R,)."""
    chosen = _chosen(setting, seeds)
    return success_threshold(setting.op, batch.inputs[0].cpu(), chosen)
