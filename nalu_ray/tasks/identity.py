"""Learning the identity (section 1.1, appendix A): how each activation fails to extrapolate.

An MLP with three hidden layers of eight learns to return its input, -5 to 5, and is asked for
-20..20 (Figure 1) and -1000..1000 (Table 5).
"""

from __future__ import annotations

import functools
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from nalu_ray import layers
from nalu_ray.results.specs import Axis, FigureSpec, Measure, Selection, TableSpec
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.training.fields import LayerName, SupervisedSetting
from nalu_ray.training.metrics import mean_absolute_error, mean_squared_error
from nalu_ray.training.optimisers import OptimiserName
from nalu_ray.training.supervised import SupervisedTask

ACTIVATIONS = {
    "hardtanh": "Hardtanh",
    "relu6": "ReLU6",
    "softsign": "Softsign",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "threshold": "Threshold",
    "selu": "SELU",
    "elu": "ELU",
    "softshrink": "Softshrink",
    "relu": "ReLU",
    "leaky_relu": "LeakyReLU",
    "tanhshrink": "Tanhshrink",
    "softplus": "Softplus",
    "prelu": "PReLU",
    "none": "None",
}
PROBLEM = ("train_limit", "test_limit", "figure_limit")


class IdentitySetting(SupervisedSetting):
    """One activation."""

    layer: LayerName = Field(
        "relu", description="activation of the hidden layers (Table 5), or any layer by name"
    )
    hidden: int = Field(8, ge=1, description="units of a hidden layer (section 1.1)")
    hidden_layers: int = Field(3, ge=1, description="hidden layers (section 1.1)")
    optimiser: OptimiserName = Field(
        "sgd",
        description="torch optimiser; the paper names a rate and none: plain gradient descent "
        "(docs/results.md has the others)",
    )
    steps: int = Field(10_000, ge=1, description="training steps of a seed (section 1.1)")
    train_limit: int = Field(5, ge=1, description="training covers -limit to limit (section 1.1)")
    figure_limit: int = Field(20, ge=1, description="Figure 1 covers -limit to limit")
    test_limit: int = Field(
        1000, ge=1, description="Table 5 covers the integers -limit to limit (App. A)"
    )
    train_inputs: Literal["integers", "uniform"] = Field(
        "uniform",
        description="fresh uniform numbers at each step, or all integers (left open)",
    )
    batch: int = Field(64, ge=1, description="examples a step where train_inputs=uniform")

    def unread(self) -> dict[str, str]:
        idle = super().unread()
        if self.train_inputs == "integers":
            idle["batch"] = "train_inputs=integers takes all of them at each step"
        return idle


class IdentityTask(SupervisedTask[IdentitySetting]):
    """Section 1.1: extrapolation failure on the identity."""

    name = "identity"
    title = "Learning the identity function"
    section = "1.1"
    setting_type = IdentitySetting
    axes = ("layer",)
    splits = ("interpolation", "extrapolation", "figure")
    tables = (
        TableSpec(
            name="identity",
            number=5,
            caption="Mean absolute error of reconstructing the integers -{test_limit} to "
            "{test_limit} after training on -{train_limit} to {train_limit}; the percentage is of "
            "the error of predicting 0 everywhere.",
            rows=Axis(field="layer", labels=ACTIVATIONS),
            measures={
                "error": Measure(
                    metric="mae",
                    split="extrapolation",
                    label="Error",
                    statistic="mean",
                    format=".2f",
                ),
                "percent_error": Measure(
                    metric="mae",
                    split="extrapolation",
                    label="% Error",
                    statistic="mean",
                    percent_of_zero="test_limit",
                    format=".1f",
                ),
            },
            layout="columns",
            selection=Selection(step="last"),
            paper={"train_limit": "5", "test_limit": "1000"},
            problem=PROBLEM,
        ),
    )
    figures = (
        FigureSpec(
            name="identity",
            number="1",
            caption="MLPs learn the identity only for the range of values they are trained on.",
            metric="absolute_error",
            split="figure",
            lines=Axis(field="layer", labels=ACTIVATIONS),
            shade="train_limit",
            paper={"train_limit": "5", "figure_limit": "20"},
            x_label="input",
            y_label="mean absolute error",
            select_step=True,
            problem=PROBLEM,
        ),
    )

    def build(self, setting: IdentitySetting) -> nn.Module:
        return layers.build(
            setting.layer, 1, setting.hidden, 1, hidden_layers=setting.hidden_layers
        )

    def sample(self, setting: IdentitySetting, split: str, streams: Streams) -> Batch:
        if split == "train" and setting.train_inputs == "uniform":
            limit = float(setting.train_limit)
            x = torch.from_numpy(streams.uniform((setting.batch, 1), -limit, limit))
            return Batch((x,), x)
        limits = {
            "train": setting.train_limit,
            "interpolation": setting.train_limit,
            "figure": setting.figure_limit,
            "extrapolation": setting.test_limit,
        }
        x = _integers(limits[split]).expand(len(streams.seeds), -1, -1)
        return Batch((x,), x)

    def metrics(
        self, setting: IdentitySetting, split: str, prediction: Tensor, target: Tensor
    ) -> dict[str, Tensor]:
        return {
            "mae": mean_absolute_error(prediction, target),
            "mse": mean_squared_error(prediction, target),
        }

    def curves(
        self, setting: IdentitySetting, split: str, batch: Batch, prediction: Tensor
    ) -> dict[str, tuple[Tensor, Tensor]]:
        if split != "figure":
            return {}
        error = (prediction - batch.targets).abs().squeeze(2)
        return {"absolute_error": (batch.targets[0, :, 0], error)}

    def memory(self, setting: IdentitySetting, seeds: int) -> int:
        """The hidden layers of the largest evaluation set, before and after each activation."""
        points = 2 * setting.test_limit + 1
        return 4 * seeds * points * setting.hidden * (2 * setting.hidden_layers + 5)


@functools.cache
def _integers(limit: int) -> Tensor:
    """Returns -limit..limit as (1, 2 limit + 1, 1), shared by every seed."""
    return torch.arange(-limit, limit + 1, dtype=torch.float32)[None, :, None]


TASK = IdentityTask()
