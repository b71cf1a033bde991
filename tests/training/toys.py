"""Small units that say something beside their forward pass, and a task to train them on."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.training.fields import SupervisedSetting
from nalu_ray.training.supervised import SupervisedRun, SupervisedTask

CPU = torch.device("cpu")


class Adder(nn.Module):
    """y = W x, W in [-1, 1] from U(-1/2, 1/2)."""

    bounds: ClassVar[dict[str, tuple[float, float]]] = {"W": (-1.0, 1.0)}

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.in_features = in_features
        self.W = nn.Parameter(torch.rand(out_features, in_features) - 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.W)

    def penalty(self) -> dict[str, Tensor]:
        return {"sparsity": torch.minimum(self.W.abs(), (1 - self.W.abs()).abs()).mean()}

    def measure(self) -> dict[str, Tensor]:
        return {"sparsity_error": torch.minimum(self.W.abs(), (1 - self.W.abs()).abs()).max()}


class Attentive(Adder):
    """The same with a penalty of its inputs, mean (1 - |W|) z^2 with their means z."""

    def penalty(self, inputs: Tensor) -> dict[str, Tensor]:  # type: ignore[override]
        means = inputs.mean(0)
        return super().penalty() | {"inputs": ((1 - self.W.abs()) * means.square()).mean()}


class Rounding(Adder):
    """The same with W written back as multiples of 1/8."""

    def projected(self) -> dict[str, Tensor]:
        return {"W": (8 * self.W).round() / 8}


def two(first: type[nn.Module] = Adder, second: type[nn.Module] = Adder) -> nn.Module:
    """A network of 3 -> 2 -> 1."""
    return nn.Sequential(first(3, 2), second(2, 1))


class Sums(SupervisedTask[SupervisedSetting]):
    """y = the sum of three numbers; from step ``at`` on, inputs of seed 1 are not finite."""

    name, title, section, setting_type = "sums", "", "0", SupervisedSetting

    def __init__(self, make: Callable[[], nn.Module] = two, at: float = math.inf) -> None:
        self.make, self.at, self.calls = make, at, 0

    def build(self, setting: SupervisedSetting) -> nn.Module:
        return self.make()

    def sample(self, setting: SupervisedSetting, split: str, streams: Streams) -> Batch:
        x = torch.from_numpy(streams.uniform((4, 3), -1, 1))
        if split == "train":
            if self.calls >= self.at and 1 in streams.seeds:
                x[streams.seeds.index(1)] = math.nan
            self.calls += 1
        return Batch((x,), x.sum(-1, keepdim=True))


def start(
    task: Sums, seeds: Any = (0, 1), *, steps: int = 12, lr: float = 0.1, **fields: Any
) -> SupervisedRun:
    """The run of a setting with two evaluations."""
    setting = SupervisedSetting(steps=steps, lr=lr, **{"evaluations": 2, **fields})
    return task.start(setting, seeds, CPU)
