"""Static arithmetic (section 4.1, appendix B): select two sections of a vector and combine them.

x in R^100; a and b are the sums of x over two sections that are random for each seed and fixed
within it; the target is a+b, a-b, a*b, a/b, a^2 or sqrt(a).

What each set guarantees, by construction:

* interpolation: every example's a, b and y lie within the values of a, b and y that *this seed's
  first training batches showed*;
* extrapolation: in every example a number the target is made of (a; for operations of two operands
  a or b) lies outside what the training distribution can produce at all.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from nalu_ray import layers
from nalu_ray.results.specs import Axis, FigureSpec, Measure, TableSpec
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch, SupervisedTask
from nalu_ray.tasks.static.data import (
    OPERATIONS,
    StaticSetting,
    beyond_inputs,
    inside_inputs,
    random_model_error,
    success_error,
    training_batch,
    with_target,
)

__all__ = ["OPERATIONS", "TASK", "StaticSetting", "StaticTask"]

SPLITS = {"interpolation": "Interpolation", "extrapolation": "Extrapolation"}
PROBLEM = ("inputs", "section", "overlap", "train_range", "test_range")
SETS = (
    "{inputs} inputs, {train_range} while training and {test_range} beyond; a and b sum {section} "
    "of them each."
)
PAPER = {"inputs": "100"}
ROWS = Axis(
    field="op",
    labels={
        "add": "a + b",
        "sub": "a - b",
        "mul": "a × b",
        "div": "a / b",
        "square": "a²",
        "sqrt": "√a",
    },
)
COLUMNS = Axis(
    field="layer",
    labels={
        "relu6": "Relu6",
        "softsign": "Softsign",
        "tanh": "Tanh",
        "sigmoid": "Sigmoid",
        "selu": "SELU",
        "elu": "ELU",
        "relu": "ReLU",
        "crelu": "Crelu",
        "none": "None",
        "nac": "NAC",
        "nalu": "NALU",
        "nac_nalu": "NAC+NALU (ours)",
    },
)


class StaticTask(SupervisedTask[StaticSetting]):
    """Section 4.1: static function learning."""

    name = "static"
    title = "Simple function learning, static"
    section = "4.1"
    setting_type = StaticSetting
    axes = ("layer", "op")
    tables = (
        TableSpec(
            name="static",
            number=7,
            caption="Static arithmetic, mean squared error relative to random initialisation. "
            + SETS,
            rows=ROWS,
            columns=COLUMNS,
            measures={
                split: Measure(
                    metric="mse", split=split, label=label, relative_to="random_mse", format=".1f"
                )
                for split, label in SPLITS.items()
            },
            solved_below="solved_mse",
            paper=PAPER,
            problem=PROBLEM,
        ),
        TableSpec(
            name="static_raw",
            number=6,
            caption="Static arithmetic, raw mean squared error; Random is a randomly initialised "
            "linear network (median over seeds). " + SETS,
            rows=ROWS,
            columns=COLUMNS,
            measures={
                split: Measure(metric="mse", split=split, label=label[0], format=".4g")
                for split, label in SPLITS.items()
            },
            layout="subrows",
            reference="random_mse",
            reference_by=("hidden",),
            solved_below="solved_mse",
            paper=PAPER,
            problem=PROBLEM,
        ),
    )
    figures = (
        FigureSpec(
            name="static_learning",
            caption="Extrapolation error while training.",
            metric="mse",
            split="extrapolation",
            x="step",
            lines=COLUMNS,
            panels=ROWS,
            statistic="median",
            relative_to="random_mse",
            x_label="training step",
            y_label="error (100 = random)",
            log_y=True,
            problem=PROBLEM,
        ),
    )

    def steps(self, setting: StaticSetting) -> int:
        return setting.steps

    def build(self, setting: StaticSetting) -> nn.Module:
        known = layers.get(setting.layer).options
        chosen: dict[str, Any] = {"init": setting.weight_init, "gate_init": setting.gate_init}
        options = {name: value for name, value in chosen.items() if name in known}
        options |= setting.options
        return layers.build(setting.layer, setting.inputs, setting.hidden, 1, **options)

    def sample(self, setting: StaticSetting, split: str, streams: Streams) -> Batch:
        if split == "train":
            return training_batch(setting, streams)
        x = (
            beyond_inputs(setting, streams)
            if split == "extrapolation"
            else inside_inputs(setting, streams)
        )
        return with_target(setting, x, streams.seeds)

    def references(
        self, setting: StaticSetting, split: str, batch: Batch, streams: Streams
    ) -> dict[str, Tensor]:
        """The error of a random linear model (100.0 of Table 7), and the threshold of success."""
        found = {"random_mse": random_model_error(setting, batch, streams.seeds)}
        if split == "extrapolation":
            found["solved_mse"] = success_error(setting, batch, streams.seeds)
        return found

    def memory(self, setting: StaticSetting, seeds: int) -> int:
        """Evaluation sets, a step's inputs with three temporaries, and what hidden units make."""
        examples = len(self.splits) * setting.test_size + 4 * max(setting.batch, setting.test_size)
        # a NALU's, measured; other networks take less
        made = max(18 * setting.batch, 5 * setting.test_size)
        return 4 * seeds * (examples * setting.inputs + made * setting.hidden)


TASK = StaticTask()
