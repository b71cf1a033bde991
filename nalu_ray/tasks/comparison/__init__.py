"""Comparisons of two numbers, from 1 to 9 in training to 10^18 in the test.

The experiment of Faber and Wattenhofer, "Neural Status Registers" (ICML 2023): six comparisons, of
numbers that differ by at most 5, whatever their size. All numbers are float64.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nalu_ray.results.specs import Axis, FigureSpec, Measure, Selection, TableSpec
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks.comparison import data, network
from nalu_ray.tasks.comparison.network import ComparisonSetting
from nalu_ray.training.metrics import (
    constant_errors,
    constant_errors_by_part,
    mean_absolute_error,
    mean_over_examples,
)
from nalu_ray.training.supervised import SupervisedTask

LAYERS = Axis(field="layer", labels={"sigmoid": "MLP", "nsr": "NSR"})
OPERATIONS = {"op": {name: operation.sign for name, operation in data.OPERATIONS.items()}}
RULE = Selection(metric="mae", split="interpolation", step="last")
PROBLEM = ("op", "balanced")
SHOWN = (1, 2, 3, 4, 5, 6, 7, 9, 12, 15, 18)  # exponents in the tables
PAIRS = "pairs that differ by at most 5 units, of numbers from 10^k to 10^(k+1)"


def _measures(metric: str, **rules: object) -> dict[str, Measure]:
    return {
        f"{metric}_1e{k}": Measure.model_validate(
            {
                "metric": f"{metric}_1e{k}",
                "split": "extrapolation",
                "label": f"10^{k}",
                "statistic": "mean",
                **rules,
            }
        )
        for k in SHOWN
    }


class ComparisonTask(SupervisedTask[ComparisonSetting]):
    """Whether a comparison of two numbers holds."""

    name = "comparison"
    title = "Comparing two numbers (Faber and Wattenhofer, 2023)"
    setting_type = ComparisonSetting
    axes = ("layer", "op")
    tables = (
        TableSpec(
            name="comparison",
            title="All pairs right",
            board=True,
            caption=f"a {{op}} b: seeds (%) that get all pairs right, by size of the numbers: "
            f"{PAIRS}. Trained on numbers from 1 to 9.",
            rows=LAYERS,
            measures=_measures("solved", scale=100, format=".0f", better="higher", worst=0.0),
            layout="columns",
            selection=RULE,
            words=OPERATIONS,
            problem=PROBLEM,
        ),
        TableSpec(
            name="comparison_error",
            title="Error of the probability",
            caption=f"a {{op}} b: mean absolute error of the probability, by size of the numbers: "
            f"{PAIRS}. Trained on numbers from 1 to 9.",
            rows=LAYERS,
            measures=_measures("mae", format=".2f"),
            layout="columns",
            selection=RULE,
            words=OPERATIONS,
            problem=PROBLEM,
        ),
    )
    figures = (
        FigureSpec(
            name="comparison",
            caption="a {op} b: share of pairs that are right; numbers from 10^k to 10^(k+1). "
            "Trained on numbers from 1 to 9.",
            metric="right",
            split="extrapolation",
            lines=LAYERS,
            selection=RULE,
            x_label="k",
            y_label="share of pairs",
            select_step=True,
            words=OPERATIONS,
            problem=PROBLEM,
        ),
    )

    def build(self, setting: ComparisonSetting) -> nn.Module:
        return network.build(setting)

    def sample(self, setting: ComparisonSetting, split: str, streams: Streams) -> Batch:
        if split == "extrapolation":
            return data.far(setting, streams)
        return data.near(setting, streams)

    def loss(self, setting: ComparisonSetting, prediction: Tensor, target: Tensor) -> Tensor:
        """Returns each seed's mean absolute error, as published."""
        return (prediction - target).abs().flatten(1).mean(1)

    def metrics(
        self, setting: ComparisonSetting, split: str, prediction: Tensor, target: Tensor
    ) -> dict[str, Tensor]:
        """Returns error and share of right answers; at each exponent for the extrapolation."""
        right = _right(prediction, target)
        values = {
            "mae": mean_absolute_error(prediction, target),
            "right": mean_over_examples(right),
        }
        if split == "extrapolation":
            errors = data.by_exponent((prediction - target).abs()).mean(2)
            solved = data.by_exponent(right).amin(2)
            for k, exponent in enumerate(data.EXPONENTS):
                values |= {f"mae_1e{exponent}": errors[:, k], f"solved_1e{exponent}": solved[:, k]}
        return values

    def references(
        self, setting: ComparisonSetting, split: str, batch: Batch, streams: Streams
    ) -> dict[str, Tensor]:
        """Returns errors of the best constant; of the extrapolation set at each exponent."""
        if split != "extrapolation":
            return constant_errors(batch.targets)
        answers = data.by_exponent(batch.targets).unbind(1)
        names = [f"1e{exponent}" for exponent in data.EXPONENTS]
        return constant_errors_by_part(dict(zip(names, answers, strict=True)))

    def curves(
        self, setting: ComparisonSetting, split: str, batch: Batch, prediction: Tensor
    ) -> dict[str, tuple[Tensor, Tensor]]:
        if split != "extrapolation":
            return {}
        shares = data.by_exponent(_right(prediction, batch.targets)).mean(2)
        return {"right": (torch.tensor(data.EXPONENTS), shares)}

    def memory(self, setting: ComparisonSetting, seeds: int) -> int:
        """Counts the extrapolation set, and the activations of the widest layers."""
        pairs = data.MOST_PAIRS * len(data.EXPONENTS)
        return 8 * seeds * pairs * 4 * (setting.hidden * (setting.hidden_layers + 1) + 2)


def _right(prediction: Tensor, target: Tensor) -> Tensor:
    """1 where the likelier answer is right, elementwise."""
    return ((prediction > 0.5) == (target > 0.5)).to(prediction.dtype)


TASK = ComparisonTask()
