"""Settings and networks of the comparison task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from nalu_ray import layers
from nalu_ray.layers import NSR
from nalu_ray.training.fields import LayerName, Options, SupervisedSetting

Comparison = Literal["greater", "less", "greater_equal", "less_equal", "equal", "not_equal"]


class ComparisonSetting(SupervisedSetting):
    """One network on one comparison."""

    layer: LayerName = Field(
        "nsr", description="nsr, or any layer by name below an affine layer and a sigmoid"
    )
    op: Comparison = Field("greater", description="comparison of the two numbers")
    hidden: int = Field(
        10,
        ge=1,
        description="registers of the NSR, or outputs of the layer; the published redundancy",
    )
    hidden_layers: int = Field(
        0, ge=0, le=1000, description="hidden layers below the affine layer and the sigmoid"
    )
    balanced: bool = Field(
        True,
        description="train equal and not_equal on 9 equal and 9 unequal pairs, as published, not "
        "on all 81",
    )
    lr: float = Field(1e-3, gt=0, description="learning rate")
    steps: int = Field(50_000, ge=1, description="training steps per seed, each on all pairs")
    options: Options = Field(
        {}, description="further arguments of the layer, as name:value;name:value"
    )

    @property
    def equality(self) -> bool:
        """Whether the order of the two numbers does not matter."""
        return self.op in ("equal", "not_equal")

    def built(self) -> Sequence[layers.LayerEntry]:
        return (layers.get(self.layer),)

    def option_defaults(self, entry: layers.LayerEntry) -> Mapping[str, Any]:
        usual = super().option_defaults(entry)
        lone = entry.name == "nsr" and not self.hidden_layers  # see build
        return {**usual, "registers": self.hidden} if lone else usual

    def unread(self) -> dict[str, str]:
        idle = super().unread()
        if not self.equality:
            idle["balanced"] = f"op={self.op} is trained on all pairs"
        return idle


class Probability(nn.Module):
    """A layer, an affine layer and a sigmoid: what the published baselines are."""

    def __init__(self, layer: nn.Module, features: int) -> None:
        super().__init__()
        self.layer, self.head = layer, layers.Linear(features, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(..., 2) to (..., 1)."""
        return torch.sigmoid(self.head(self.layer(x)))


def build(setting: ComparisonSetting) -> nn.Module:
    """Builds the network of one seed, (batch, 2) to (batch, 1) probabilities, in float64."""
    hidden, options = setting.hidden, dict[str, Any](setting.options)
    if setting.layer == "nsr" and not setting.hidden_layers:
        return NSR(2, 1, **({"registers": hidden} | options)).double()
    least = getattr(layers.get(setting.layer).factory, "least", 0)
    depth = max(setting.hidden_layers, least)
    layer = layers.build(setting.layer, 2, hidden, hidden, hidden_layers=depth, **options)
    return Probability(layer, hidden).double()
