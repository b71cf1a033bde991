"""Static arithmetic (section 4.1, appendix B): select two sections of a vector and combine them.

x is in R^100. The operands a and b are the sums of x over two sections, which are random per seed
and fixed within a seed. The target is a+b, a-b, a*b, a/b, a^2 or sqrt(a).

With ``sets=separated``, the default, each set guarantees by construction:

* interpolation: every example's a, b and y lie within the values of a, b and y that *this seed's
  first training batches showed*;
* extrapolation: every example has an operand (a; for operations of two operands a or b) outside
  what the training distribution can produce at all.

The Arithmetic Dataset Task of Madsen and Johansen (2020), preset ``madsen``, draws the sets plainly
from their ranges, as do the tasks of Heim, Pevný and Šmídl (2020), preset ``npu``, and of Schlör,
Ring and Hotho (2020), preset ``inalu``.
"""

from __future__ import annotations

from typing import Any, get_args

from torch import Tensor, nn

from nalu_ray.results.specs import Axis
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks import _arithmetic_tables as arithmetic
from nalu_ray.tasks._operands import StaticOperation, axis
from nalu_ray.tasks.static import data, network, protocols
from nalu_ray.tasks.static.network import StaticSetting
from nalu_ray.training.metrics import constant_errors
from nalu_ray.training.supervised import SupervisedTask

PROBLEM = (
    "inputs", "section", "overlap", "train_range", "test_range", "sets", "test_signs", "threshold",
    "distribution", "operands", "solved_below",
)  # fmt: skip
DATA = (
    "{inputs} inputs, drawn from {train_range} in training and from {test_range} in "
    "extrapolation; a and b are sums of {section} inputs each."
)
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
SUMMARY = Axis(
    field="layer",
    labels={name: COLUMNS.labels[name] for name in ("relu6", "none", "nac", "nalu")},
    others=False,
    published={name: f"static_{name}" for name in ("relu6", "none", "nac", "nalu")},
)
SHOWN: dict[str, Any] = {
    "presets": ("*", *(f"!{pattern}" for pattern in protocols.PRESETS)),
    "problem": PROBLEM,
}


MISPRINTS = {
    "doubtful": tuple(("sqrt", layer, "interpolation") for layer in ("tanh", "sigmoid")),
    "doubt": "not the ratio of the errors of Table 6",
}


class StaticTask(SupervisedTask[StaticSetting]):
    """Section 4.1: static function learning."""

    name = "static"
    title = "Simple function learning, static"
    section = "4.1"
    setting_type = StaticSetting
    axes = ("layer", "op")
    tables = (
        *arithmetic.tables(
            "static",
            (7, 6),
            {"rows": ROWS, "columns": COLUMNS},
            summary=SUMMARY,
            untrained="an untrained network",
            legend="Random is an untrained linear network (median over seeds).",
            splits=arithmetic.SPLITS,
            reference_by=("hidden",),
            data=DATA,
            paper={"inputs": "100"},
            misprints=(MISPRINTS, {}),
            **SHOWN,
        ),
        *protocols.TABLES,
    )
    figures = (arithmetic.learning("static", COLUMNS, ROWS, **SHOWN), *protocols.FIGURES)

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
        """Counts the evaluation sets, copies of a step's or a set's inputs, and activations."""
        examples = len(self.splits) * setting.test_size
        examples += max(4 * setting.batch, 2 * setting.test_size)
        # measured with the NALU; other networks take less
        activations = max(18 * setting.batch, 5 * setting.test_size)
        return 4 * seeds * (examples * setting.inputs + activations * setting.hidden)


TASK = StaticTask()
