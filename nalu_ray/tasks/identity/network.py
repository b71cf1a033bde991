"""Settings and network of the identity task."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import nn

from nalu_ray import layers
from nalu_ray.training.fields import LayerName, SupervisedSetting
from nalu_ray.training.optimisers import OptimiserName


class IdentitySetting(SupervisedSetting):
    """One activation."""

    layer: LayerName = Field(
        "relu", description="activation of the hidden layers (Table 5), or any layer by name"
    )
    hidden: int = Field(8, ge=1, description="units per hidden layer (section 1.1)")
    hidden_layers: int = Field(3, ge=1, le=1000, description="hidden layers (section 1.1)")
    optimiser: OptimiserName = Field(
        "sgd",
        description="torch optimiser; the paper gives a learning rate only (docs/results.md "
        "compares optimisers)",
    )
    steps: int = Field(10_000, ge=1, description="training steps per seed (section 1.1)")
    train_limit: int = Field(5, ge=1, description="training covers -limit to limit (section 1.1)")
    figure_limit: int = Field(20, ge=1, description="Figure 1 covers -limit to limit")
    test_limit: int = Field(
        1000, ge=1, description="Table 5 covers the integers -limit to limit (App. A)"
    )
    train_inputs: Literal["integers", "uniform"] = Field(
        "uniform",
        description="new uniform numbers at each step, or all integers; the paper does not say",
    )
    batch: int = Field(64, ge=1, description="examples per step with train_inputs=uniform")

    def unread(self) -> dict[str, str]:
        idle = super().unread()
        if self.train_inputs == "integers":
            idle["batch"] = "train_inputs=integers uses all integers at each step"
        return idle


def build(setting: IdentitySetting) -> nn.Module:
    """Builds the MLP of one seed, (batch, 1) to (batch, 1)."""
    return layers.build(setting.layer, 1, setting.hidden, 1, hidden_layers=setting.hidden_layers)
