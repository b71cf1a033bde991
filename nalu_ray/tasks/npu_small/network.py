"""Settings and networks of the small task of the neural power unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, model_validator
from torch import nn

from nalu_ray import layers
from nalu_ray.layers import NAU
from nalu_ray.layers.stack import Stack
from nalu_ray.training.fields import (
    GateInit,
    LayerName,
    Options,
    Range,
    SupervisedSetting,
    WeightInit,
)

RESULTS = 4


class NPUSmallSetting(SupervisedSetting):
    """One network for the four operations."""

    layer: LayerName = Field("npu", description="layer by name")
    head: Literal["nau", "unbounded_nau", "own"] = Field(
        "nau",
        description="what computes the four results. nau: a NAU above the layer, which has "
        "`hidden` outputs; unbounded_nau: the same, with weights that start Glorot-uniform and may "
        "leave [-1, 1]; own: the last layer of the layer's own network",
    )
    hidden: int = Field(6, ge=1, description="outputs of each layer but the last")
    hidden_layers: int = Field(1, ge=1, le=1000, description="layers below the last one")
    train_range: Range = Field(
        (0.1, 2.0),
        description="range of x and y in training and interpolation, U(low, high), as low:high",
    )
    batch: int = Field(100, ge=1, description="examples per step, drawn anew at each step")
    lr: float = Field(0.005, gt=0, description="learning rate")
    steps: int = Field(20_000, ge=1, description="training steps per seed")
    weight_init: WeightInit = "glorot"
    gate_init: GateInit = "glorot"
    options: Options = Field(
        {}, description="further arguments of the layer, as name:value;name:value"
    )

    def built(self) -> Sequence[layers.LayerEntry]:
        return (layers.get(self.layer),)

    @model_validator(mode="after")
    def _possible(self) -> NPUSmallSetting:
        low, high = self.train_range
        if low <= 0:
            raise ValueError(
                f"train_range={low}:{high} must lie above 0: the network learns x / y and √x"
            )
        return self


def build(setting: NPUSmallSetting) -> nn.Module:
    """Builds the network of one seed, (batch, 2) to (batch, 4)."""
    entry, hidden, depth = layers.get(setting.layer), setting.hidden, setting.hidden_layers
    options = setting.layer_options(entry.options) | setting.options
    if setting.head == "own":
        return layers.build(setting.layer, 2, hidden, RESULTS, hidden_layers=depth, **options)
    depth = max(depth - 1, getattr(entry.factory, "least", 0))
    below = layers.build(setting.layer, 2, hidden, hidden, hidden_layers=depth, **options)
    if setting.head == "unbounded_nau":
        return Stack(below, NAU(hidden, RESULTS, start="glorot", clamp=False))
    return Stack(below, NAU(hidden, RESULTS))
