"""Settings and network of the single-module task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, model_validator
from torch import nn

from nalu_ray import layers
from nalu_ray.tasks._inputs import Distribution, check_distribution
from nalu_ray.training.fields import (
    GateInit,
    Options,
    Range,
    SingleName,
    SupervisedSetting,
    WeightInit,
)

ModuleOperation = Literal["add", "sub", "mul", "div"]


class SingleModuleSetting(SupervisedSetting):
    """One unit on one operation and range."""

    layer: SingleName = Field("nalu", description="unit by name; a network of this one layer")
    op: ModuleOperation = Field("mul", description="operation on the two inputs")
    inputs: int = Field(2, ge=2, description="length of x; those beyond two are redundant")
    train_range: Range = Field(
        (1.0, 2.0),
        description="range of x in training and interpolation, U(low, high), as low:high",
    )
    test_range: Range = Field(
        (2.0, 6.0), description="range of x in extrapolation, U(low, high), as low:high"
    )
    distribution: Distribution = Field(
        "uniform",
        description="distribution of x over its range. normal: the standard deviation is a sixth "
        "of the range, and nothing lies beyond the range; exponential: low plus an exponential "
        "number of mean high - low, without an upper end; benford: the logarithm of x is uniform",
    )
    test_signs: bool = Field(False, description="give each x of extrapolation a random sign")
    opposite: bool = Field(
        False, description="the second half of x, in which b lies, is negated in all sets"
    )
    weight_error: float = Field(
        1e-5,
        gt=0,
        lt=0.1,
        description="a seed counts as solved if its error is below that of the exact unit with all "
        "weights off by this much (1e-4 in a later version of the published code)",
    )
    solved_below: float | None = Field(
        None,
        gt=0,
        description="count a seed as solved below this error instead; none = use weight_error",
    )
    batch: int = Field(128, ge=1, description="examples per step, drawn anew at each step")
    test_size: int = Field(10_000, ge=1, description="examples of each evaluation set")
    weight_init: WeightInit = "variance"
    gate_init: GateInit = "glorot"
    options: Options = Field(
        {}, description="further arguments of the unit, as name:value;name:value"
    )

    def built(self) -> Sequence[layers.LayerEntry]:
        return (layers.get(self.layer),)

    def option_defaults(self, entry: layers.LayerEntry) -> Mapping[str, Any]:
        usual = dict(super().option_defaults(entry))
        # stored rows of snmu-noise have both ends of a range whose upper end is not the default
        if self.options.get("noise_high", usual.get("noise_high")) != usual.get("noise_high"):
            usual.pop("noise_low", None)
        return usual

    @model_validator(mode="after")
    def _possible(self) -> SingleModuleSetting:
        if self.test_signs and self.opposite:
            raise ValueError("test_signs=true gives signs at random: it excludes opposite=true")
        check_distribution(self.distribution, self.train_range, self.test_range)
        return self


def build(setting: SingleModuleSetting) -> nn.Module:
    """Builds the unit of one seed, (batch, inputs) to (batch, 1)."""
    options = setting.layer_options(layers.get(setting.layer).options) | setting.options
    return layers.build(setting.layer, setting.inputs, 1, 1, hidden_layers=0, **options)
