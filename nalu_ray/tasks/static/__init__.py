"""Static arithmetic (section 4.1, appendix B): select two sections of a vector and combine them.

x is in R^100. The operands a and b are the sums of x over two sections, which are random per seed
and fixed within a seed. The target is a+b, a-b, a*b, a/b, a^2 or sqrt(a).

With ``sets=separated``, the default, each set guarantees by construction:

* interpolation: every example's a, b and y lie within the values of a, b and y that *this seed's
  first training batches showed*;
* extrapolation: every example has an operand (a; for operations of two operands a or b) outside
  what the training distribution can produce at all.

The Arithmetic Dataset Task of Madsen and Johansen (2020), preset ``madsen``, draws the sets plainly
from their ranges.
"""

from __future__ import annotations

from typing import get_args

from torch import Tensor, nn

from nalu_ray.results.specs import Axis, FigureSpec, Measure, TableSpec
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks._operands import StaticOperation, axis
from nalu_ray.tasks.static import data, madsen, network, npu
from nalu_ray.tasks.static.network import StaticSetting
from nalu_ray.training.metrics import constant_errors
from nalu_ray.training.supervised import SupervisedTask

SPLITS = {"interpolation": "Interpolation", "extrapolation": "Extrapolation"}
PROBLEM = (
    "inputs", "section", "overlap", "train_range", "test_range", "sets", "test_signs", "threshold",
)  # fmt: skip
SETS = (
    "{inputs} inputs, drawn from {train_range} in training and from {test_range} in "
    "extrapolation; a and b are sums of {section} inputs each."
)
PAPER = {"inputs": "100"}
RELATIVE = {
    split: Measure(metric="mse", split=split, label=label, relative_to="random_mse", format=".1f")
    for split, label in SPLITS.items()
}
PRESETS = ("*", f"!{madsen.PRESETS}", f"!{npu.PRESET}")
ROWS = axis(get_args(StaticOperation))
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
            caption="Static arithmetic: mean squared error relative to an untrained network. "
            + SETS,
            rows=ROWS,
            columns=COLUMNS,
            measures=RELATIVE,
            solved_below="solved_mse",
            paper=PAPER,
            presets=PRESETS,
            problem=PROBLEM,
        ),
        TableSpec(
            name="static_summary",
            number=1,
            caption="Static half: mean squared error relative to an untrained network. " + SETS,
            rows=axis(get_args(StaticOperation), others=False),
            columns=Axis(
                field="layer",
                labels={"relu6": "Relu6", "none": "None", "nac": "NAC", "nalu": "NALU"},
                others=False,
                published={name: f"static_{name}" for name in ("relu6", "none", "nac", "nalu")},
            ),
            measures=RELATIVE,
            solved_below="solved_mse",
            paper=PAPER,
            presets=PRESETS,
            problem=PROBLEM,
        ),
        TableSpec(
            name="static_raw",
            number=6,
            caption="Static arithmetic: mean squared error. Random is an untrained linear network "
            "(median over seeds). " + SETS,
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
            presets=PRESETS,
            problem=PROBLEM,
        ),
        *madsen.TABLES,
        *npu.TABLES,
    )
    figures = (
        FigureSpec(
            name="static_learning",
            caption="Extrapolation error during training.",
            metric="mse",
            split="extrapolation",
            x="step",
            lines=COLUMNS,
            panels=ROWS,
            statistic="median",
            relative_to="random_mse",
            x_label="training step",
            y_label="error (100 = untrained network)",
            log_y=True,
            presets=PRESETS,
            problem=PROBLEM,
        ),
        *madsen.FIGURES,
    )

    def build(self, setting: StaticSetting) -> nn.Module:
        return network.build(setting)

    def sample(self, setting: StaticSetting, split: str, streams: Streams) -> Batch:
        if split == "train":
            return data.training_batch(setting, streams)
        x = data.evaluation_inputs(setting, split, streams)
        return data.with_target(setting, x, streams.seeds)

    def references(
        self, setting: StaticSetting, split: str, batch: Batch, streams: Streams
    ) -> dict[str, Tensor]:
        """Returns errors of an untrained model (100 in Table 7), of the best constant, of success.

        The success threshold is of the extrapolation set only.
        """
        errors = {"random_mse": data.random_model_error(setting, batch, streams.seeds)}
        errors |= constant_errors(batch.targets)
        if split == "extrapolation":
            errors["solved_mse"] = data.success_error(setting, batch, streams.seeds)
        return errors

    def memory(self, setting: StaticSetting, seeds: int) -> int:
        """Counts the evaluation sets, a step's inputs with three copies, and activations."""
        examples = len(self.splits) * setting.test_size + 4 * max(setting.batch, setting.test_size)
        # measured with the NALU; other networks take less
        activations = max(18 * setting.batch, 5 * setting.test_size)
        return 4 * seeds * (examples * setting.inputs + activations * setting.hidden)


TASK = StaticTask()
