"""The sum of some of the inputs, which each seed draws once."""

from __future__ import annotations

from importlib.resources import files

import torch
from pydantic import Field
from torch import Tensor, nn

from nalu_ray import layers
from nalu_ray.results import leaderboard, publication
from nalu_ray.results.specs import Axis, FigureSpec, Measure, TableSpec
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.training.fields import LayerName, SupervisedSetting
from nalu_ray.training.supervised import SupervisedTask

PUBLISHED = publication.read(files(__package__) / "published.csv")
UNITS = Axis(field="layer", labels={"choice": "Choice", "nac": "NAC", "none": "Linear"})
WEIGHT_ERROR = 0.01  # a seed counts as solved below the error of weights that are all off by this


class SubsetSetting(SupervisedSetting):
    """One network on vectors of one length."""

    layer: LayerName = Field("choice", description="network by name")
    inputs: int = Field(4, ge=2, description="length of the vector; half of it is summed")
    batch: int = Field(64, ge=1, description="examples per step")


class SubsetTask(SupervisedTask[SubsetSetting]):
    """Trained on U(0, 1), extrapolated to U(1, 2)."""

    name, title = "subset", "Sum of a subset"
    setting_type = SubsetSetting
    axes = ("layer", "inputs")
    tables = (
        TableSpec(
            name="subset",
            caption="Mean squared error of the sum of half of {inputs} numbers.",
            rows=UNITS,
            columns=Axis(field="inputs"),
            measures={
                "extrapolation": Measure(
                    metric="mse",
                    split="extrapolation",
                    label="extrapolation",
                    statistic="median",
                    format=".3g",
                )
            },
            models="rows",
            solved_below="solved_mse",
        ),
        *leaderboard.tables(
            "subset_units",
            "Sums of half of the inputs.",
            units=UNITS,
            operations=Axis(field="inputs", labels={"4": "4 inputs", "8": "8 inputs"}),
            solved_below="solved_mse",
            publication=PUBLISHED["subset_units"],
        ),
    )
    figures = (
        FigureSpec(
            name="subset_inputs",
            caption="Success rate by the number of inputs.",
            metric="mse",
            split="extrapolation",
            x="inputs",
            lines=UNITS,
            statistic="rate",
            solved_below="solved_mse",
            publication=PUBLISHED["subset_inputs"],
            x_label="inputs",
            y_label="solved, %",
        ),
    )

    def build(self, setting: SubsetSetting) -> nn.Module:
        return layers.build(setting.layer, setting.inputs, 1, 1)

    def sample(self, setting: SubsetSetting, split: str, streams: Streams) -> Batch:
        low, high = (1.0, 2.0) if split == "extrapolation" else (0.0, 1.0)
        x = torch.from_numpy(streams.uniform((setting.batch, setting.inputs), low, high))
        return Batch((x,), (x * chosen(setting, streams)).sum(2, keepdim=True))

    def references(
        self, setting: SubsetSetting, split: str, batch: Batch, streams: Streams
    ) -> dict[str, Tensor]:
        """Returns the success threshold of each seed, (R,)."""
        (x,) = batch.inputs
        return {"solved_mse": (WEIGHT_ERROR * x.abs().sum(2)).square().mean(1)}


def chosen(setting: SubsetSetting, streams: Streams) -> Tensor:
    """Returns 1 for the inputs that each seed sums, else 0: (R, 1, inputs)."""
    fixed = streams.fork("chosen")
    order = torch.from_numpy(fixed.uniform((setting.inputs,), 0.0, 1.0)).argsort(1).argsort(1)
    return (order < setting.inputs // 2).unsqueeze(1).float()


TASK = SubsetTask()
