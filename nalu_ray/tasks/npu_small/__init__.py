"""Four operations of two numbers by one network: x + y, x y, x / y and sqrt(x).

The small task of Heim, Pevný and Šmídl, "Neural Power Units" (2020): trained on small positive
numbers, tested on a grid with negative ones.
"""

from __future__ import annotations

from importlib.resources import files

import torch
from torch import Tensor, nn

from nalu_ray.results.publication import read
from nalu_ray.results.specs import Axis, Measure, Selection, TableSpec, learning_figure
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks.npu_small import data, network
from nalu_ray.tasks.npu_small.network import NPUSmallSetting
from nalu_ray.training.metrics import constant_errors_by_part, mean_over_examples
from nalu_ray.training.supervised import SupervisedTask

LAYERS = Axis(field="layer", labels={"npu": "NPU", "real_npu": "Real NPU", "sigmoid": "MLP"})
RULE = Selection(metric="mae", split="interpolation", step="last")
PROBLEM = ("train_range",)
CAPTION = (
    "One network for x + y, x × y, x / y and √x: mean absolute error. Trained on numbers of "
    "{train_range}, tested on a grid from -4.1 to 3.9, of √x from 0.1 to 4."
)


def _measure(metric: str, split: str, label: str) -> Measure:
    return Measure(metric=metric, split=split, label=label, statistic="mean", format=".4g")


class NPUSmallTask(SupervisedTask[NPUSmallSetting]):
    """Four operations at once."""

    name = "npu_small"
    title = "Four operations at once (Heim et al., 2020)"
    setting_type = NPUSmallSetting
    axes = ("layer",)
    tables = (
        TableSpec(
            name="npu_small",
            title="Small task",
            caption=CAPTION,
            rows=LAYERS,
            measures={
                **{
                    name: _measure(f"mae_{name}", "extrapolation", operation.label)
                    for name, operation in data.OPERATIONS.items()
                },
                "interpolation": _measure("mae", "interpolation", "all four, within training"),
            },
            layout="columns",
            selection=RULE,
            publication=read(files("nalu_ray.results") / "published" / "npu.csv")["npu_small"],
            board=True,
            problem=PROBLEM,
            paper={"steps": "20000", "batch": "100"},
        ),
    )
    figures = (
        learning_figure(
            name="learning",
            caption="Mean absolute error of the four operations on the test grid during training. "
            "Numbers of {train_range} in training.",
            metric="mae",
            split="extrapolation",
            lines=LAYERS,
            selection=RULE,
            y_label="mean absolute error",
            problem=PROBLEM,
        ),
    )

    def build(self, setting: NPUSmallSetting) -> nn.Module:
        return network.build(setting)

    def sample(self, setting: NPUSmallSetting, split: str, streams: Streams) -> Batch:
        if split == "train":
            return data.drawn(setting, streams)
        return data.grid(setting, split, len(streams))

    def references(
        self, setting: NPUSmallSetting, split: str, batch: Batch, streams: Streams
    ) -> dict[str, Tensor]:
        """Returns the errors of the best constant for each operation, and their mean."""
        answers = {
            name: batch.targets[:, data.rows(split, name), column]
            for column, name in enumerate(data.OPERATIONS)
        }
        errors = constant_errors_by_part(answers)
        by_operation = {f"constant_mae_{name}": errors[f"constant_mae_{name}"] for name in answers}
        return {"constant_mae": torch.stack(list(by_operation.values())).mean(0), **by_operation}

    def metrics(
        self, setting: NPUSmallSetting, split: str, prediction: Tensor, target: Tensor
    ) -> dict[str, Tensor]:
        """Returns the mean absolute error of each operation, and their mean."""
        errors = (prediction - target).abs()
        by_operation = {
            f"mae_{name}": mean_over_examples(errors[:, data.rows(split, name), column])
            for column, name in enumerate(data.OPERATIONS)
        }
        return {"mae": torch.stack(list(by_operation.values())).mean(0), **by_operation}

    def memory(self, setting: NPUSmallSetting, seeds: int) -> int:
        """Counts the evaluation sets, a step's batch with three copies, and activations."""
        sets = data.EXAMPLES + 4 * setting.batch
        activations = max(setting.batch, data.EXAMPLES) * setting.hidden * setting.hidden_layers
        return 4 * seeds * (6 * sets + 10 * activations)


TASK = NPUSmallTask()
