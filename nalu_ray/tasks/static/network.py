"""Settings and network of the static task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

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
    without_gate,
)


class StaticSetting(SupervisedSetting):
    """One network on one operation."""

    layer: LayerName = Field(
        "nalu", description="network by name: `nalu`, `nac` or a baseline (Tables 6, 7)"
    )
    op: Literal[StaticOperation, "reciprocal"] = Field(
        "add", description="operation on a and b (Table 7); reciprocal: 1 / a"
    )
    hidden: int = Field(2, ge=1, description="hidden units; 2 are enough (App. B)")
    inputs: int = Field(100, ge=1, description="length of x (App. B)")
    section: int = Field(
        10, ge=1, description="elements of x that make up each operand; the paper does not say"
    )
    overlap: int = Field(0, ge=0, description="elements that a and b share")
    train_range: Range = Field(
        (0.0, 1.0),
        description="range of x in training and interpolation, U(low, high), as low:high",
    )
    test_range: Range = Field(
        (0.0, 3.0),
        description="range of x in extrapolation, U(low, high), as low:high; only examples with a "
        "or b outside the training range are kept",
    )
    sets: Literal["separated", "plain"] = added(
        "0.3.0",
        "separated",
        description="separated: interpolation stays within the values seen in training, "
        "extrapolation always lies outside; plain: drawn from the ranges alone (Madsen "
        "and Johansen, 2020)",
    )
    test_signs: bool = added(
        "0.3.0",
        False,
        description="give each x of extrapolation a random sign; for sets=plain",
    )
    distribution: Literal["uniform", "normal"] = added(
        "0.5.0",
        "uniform",
        description="distribution of x over its range, for sets=plain. normal: the standard "
        "deviation is a sixth of the range, and nothing lies beyond the range",
    )
    operands: Literal["sections", "scattered", "nested"] = added(
        "0.5.0",
        "sections",
        description="elements that make up a and b. sections: two random sections; scattered, for "
        "sets=plain: each element is in a with probability 1/2, in b with 1/4, or in neither "
        "(Schlör et al., 2020); nested, for inputs=4 sets=plain: a is x1 + x2, b is x1 + ... + x4 "
        "(Madsen and Johansen, 2020)",
    )
    threshold: Literal["adding", "golden"] = added(
        "0.3.0",
        "adding",
        description="a seed counts as solved below the error of a model whose selecting weights "
        "are off by 1e-5. adding: the errors of the weights add up (Mistry et al., 2022); golden: "
        "weights are 1 - 1e-5 instead of 1 and 1e-5 instead of 0, so errors may cancel (Madsen and "
        "Johansen, 2020)",
    )
    solved_below: float | None = added(
        "0.5.0",
        None,
        gt=0,
        description="count a seed as solved below this error instead; none = use threshold",
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

    def unread(self) -> dict[str, str]:
        idle = super().unread()
        if self.operands != "sections":
            idle |= dict.fromkeys(("section", "overlap"), f"operands={self.operands} has none")
        if self.solved_below is not None:
            idle["threshold"] = "solved_below gives the threshold"
        return idle

    def unread_parts(self) -> dict[str, dict[int, str]]:
        factory = layers.get(self.layer).factory
        if not isinstance(factory, layers.Stacked) or not factory.is_pair:
            return {}
        parts = {"the first layer": factory.first, "the second layer": factory.layer}
        return {"gate_init": without_gate(self.layer, parts)}

    @model_validator(mode="after")
    def _possible(self) -> StaticSetting:
        if self.operands == "sections":
            check_sections(self.inputs, self.section, self.overlap)
        elif self.operands == "nested" and self.inputs != 4:
            raise ValueError(f"operands=nested needs inputs=4, not inputs={self.inputs}")
        self._check_plain()
        (low, high), (test_low, test_high) = self.train_range, self.test_range
        if low <= test_low and test_high <= high:
            raise ValueError(
                f"test_range={test_low}:{test_high} never leaves train_range={low}:{high}"
            )
        if self.sets == "plain" and self.op in ("div", "reciprocal"):
            return self  # published ranges cross 0
        smallest = -max(abs(test_low), abs(test_high)) if self.test_signs else test_low
        check_domain(self.op, min(low, smallest), max(high, test_high))
        return self

    def _check_plain(self) -> None:
        """Refuses what only plain sets can have."""
        if self.sets == "plain":
            return
        for name, usual in {
            "test_signs": False,
            "distribution": "uniform",
            "operands": "sections",
        }.items():
            if (value := getattr(self, name)) != usual:
                text = str(value).lower()
                raise ValueError(f"{name}={text} needs sets=plain, not sets={self.sets}")


def build(setting: StaticSetting) -> nn.Module:
    """Builds the network of one seed, (batch, inputs) to (batch, 1)."""
    options = setting.layer_options(layers.get(setting.layer).options) | setting.options
    return layers.build(setting.layer, setting.inputs, setting.hidden, 1, **options)
