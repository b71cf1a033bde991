"""Settings and network of the static task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, model_validator
from torch import nn

from nalu_ray import layers
from nalu_ray.task import added
from nalu_ray.tasks._operands import StaticOperation, check_domain, check_sections
from nalu_ray.training.fields import (
    LayerName,
    Options,
    PerLayer,
    Range,
    SupervisedSetting,
    WeightInit,
)


class StaticSetting(SupervisedSetting):
    """One network on one operation."""

    layer: LayerName = Field(
        "nalu", description="network by name: `nalu`, `nac` or a baseline (Tables 6, 7)"
    )
    op: StaticOperation = Field("add", description="operation on a and b (Table 7)")
    hidden: int = Field(2, ge=1, description="hidden units; 2 are enough (App. B)")
    inputs: int = Field(100, ge=1, description="length of x (App. B)")
    section: int = Field(
        10, ge=1, description="elements of x in each of a and b; the paper does not say"
    )
    overlap: int = Field(0, ge=0, description="elements that a and b share")
    train_range: Range = Field(
        (0.0, 1.0), description="x of training and interpolation is U(low, high), as low:high"
    )
    test_range: Range = Field(
        (0.0, 3.0),
        description="x of extrapolation is U(low, high), as low:high; examples with a or b beyond "
        "training are kept",
    )
    sets: Literal["separated", "plain"] = added(
        "0.3.0",
        "separated",
        description="separated: interpolation within what training showed, extrapolation always "
        "beyond it; plain: both as their ranges give them (Madsen and Johansen, 2020)",
    )
    test_signs: bool = added(
        "0.3.0",
        False,
        description="give each x of extrapolation a random sign; for sets=plain",
    )
    threshold: Literal["adding", "golden"] = added(
        "0.3.0",
        "adding",
        description="error below which a seed is solved, of selecting weights off by 1e-5: adding: "
        "their errors add up (Mistry et al., 2022); golden: 1 is 1 - 1e-5 and 0 is 1e-5, so that "
        "errors may cancel (Madsen and Johansen, 2020)",
    )
    batch: int = Field(128, ge=1, description="examples per step, drawn anew at each step")
    test_size: int = Field(1000, ge=1, description="examples of each evaluation set")
    weight_init: WeightInit = "uniform"
    gate_init: PerLayer = Field(
        (0.2, -0.2),
        description="initialisation of the NALU's G per layer: the first leans to its sum, the "
        "next to its product",
    )
    options: Options = Field(
        {}, description="further arguments of the layer, as name:value;name:value"
    )

    def built(self) -> Sequence[layers.LayerEntry]:
        return (layers.get(self.layer),)

    @model_validator(mode="after")
    def _possible(self) -> StaticSetting:
        check_sections(self.inputs, self.section, self.overlap)
        (low, high), (test_low, test_high) = self.train_range, self.test_range
        if low <= test_low and test_high <= high:
            raise ValueError(
                f"test_range={test_low}:{test_high} never leaves train_range={low}:{high}"
            )
        if self.test_signs and self.sets != "plain":
            raise ValueError(f"test_signs=true needs sets=plain, not sets={self.sets}")
        smallest = -max(abs(test_low), abs(test_high)) if self.test_signs else test_low
        check_domain(self.op, min(low, smallest), max(high, test_high))
        return self


def build(setting: StaticSetting) -> nn.Module:
    """Builds the network of one seed, (batch, inputs) to (batch, 1)."""
    known = layers.get(setting.layer).options
    # not by `starts`: a unit's gate has one initialisation per layer
    chosen: dict[str, Any] = {"init": setting.weight_init, "gate_init": setting.gate_init}
    options = {name: value for name, value in chosen.items() if name in known} | setting.options
    return layers.build(setting.layer, setting.inputs, setting.hidden, 1, **options)
