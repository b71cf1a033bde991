"""Recurrent arithmetic (section 4.1, appendix B): the static task with its input dealt over time.

x_t in R^10 arrives step by step. The operands a and b are sums over time and over two sections of
x_t, which are random per seed and fixed within a seed. The target after the last step is a, a+b,
a-b, a*b, a/b, a^2 or sqrt(a).

Networks train on sequences of 10 steps and extrapolate to 1000. Long sequences are drawn and read
in pieces, so they take no more memory than short ones.
"""

from __future__ import annotations

from typing import Any, ClassVar, get_args

import torch
from torch import Tensor, nn

from nalu_ray import layers
from nalu_ray.results.specs import Axis
from nalu_ray.seeding import Streams, entropy
from nalu_ray.task import Batch
from nalu_ray.tasks import _arithmetic_tables as arithmetic
from nalu_ray.tasks._operands import RecurrentOperation, axis
from nalu_ray.tasks._recurrent_models import MODELS, STARTED
from nalu_ray.tasks.recurrent import mass
from nalu_ray.tasks.recurrent.data import PIECE, pieces, success_error, target, whole
from nalu_ray.tasks.recurrent.network import RecurrentNetwork, RecurrentSetting
from nalu_ray.training.metrics import constant_errors, mean_squared_error
from nalu_ray.training.replicas import Replicas
from nalu_ray.training.supervised import SupervisedTask

PROBLEM = ("inputs", "section", "overlap", "length", "test_length", "train_range")
DATA = "Trained on sequences of {length} steps, extrapolated to {test_length}."
OPERATIONS = axis(get_args(RecurrentOperation))
GATED = MODELS.model_copy(
    update={
        "given": {
            **MODELS.given,
            "nalu": "a gate that starts open",
            f"nalu@{STARTED}": "a start, and a gate that starts open",
        }
    }
)
"""The models; the presets that learn the NALU's recurrence have ``gate_init=5`` in its cell."""
SUMMARY = Axis(
    field="layer",
    labels={"lstm": "LSTM", "rnn_relu": "ReLU", "nac": "NAC", "nalu": "NALU"},
    others=False,
    published={name: f"recurrent_{name}" for name in ("lstm", "rnn_relu", "nac", "nalu")},
    given=GATED.given,
    apart=GATED.apart,
)
MISPRINT = {
    "doubtful": (("div", "rnn_relu", "extrapolation"),),
    "doubt": "not the number of Table 9, which is 862.5",
}
SHOWN: dict[str, Any] = {"presets": ("*", f"!{mass.PRESET}"), "problem": PROBLEM}


class RecurrentTask(SupervisedTask[RecurrentSetting]):
    """Section 4.1: recurrent function learning."""

    name = "recurrent"
    title = "Simple function learning, recurrent"
    section = "4.1"
    setting_type = RecurrentSetting
    axes = ("layer", "op")
    splits: ClassVar[tuple[str, ...]] = ("interpolation", "extrapolation", "train")
    tables = (
        *arithmetic.tables(
            "recurrent",
            (9, 8),
            {"rows": GATED, "columns": OPERATIONS, "models": "rows"},
            summary=SUMMARY,
            untrained="an untrained LSTM of {reference_hidden} units",
            legend="T is the training loss, on {shared_inputs}; I is measured on sequences of the "
            "training length, E on longer ones; Random is an untrained LSTM (median over seeds).",
            words={
                "shared_inputs": {
                    "false": "the first training batch",
                    "true": "a batch per seed that is not used in training",
                }
            },
            splits=("train", *arithmetic.SPLITS),
            reference_by=("reference_hidden",),
            data=DATA,
            paper={"inputs": "10", "length": "10", "test_length": "1000"},
            misprints=({}, MISPRINT),
            **SHOWN,
        ),
        mass.TABLE,
    )
    figures = (arithmetic.learning("recurrent", MODELS, OPERATIONS, **SHOWN),)

    def build(self, setting: RecurrentSetting) -> nn.Module:
        return RecurrentNetwork(setting)

    def sample(self, setting: RecurrentSetting, split: str, streams: Streams) -> Batch:
        if split == "extrapolation":
            # too long to hold: redrawn piece by piece whenever it is read
            return Batch((), target(setting, pieces(setting, streams), streams.seeds))
        x = whole(setting, split, streams)
        return Batch((x,), target(setting, [x], streams.seeds), len(streams) < len(streams.seeds))

    def predict(
        self,
        network: Replicas,
        setting: RecurrentSetting,
        split: str,
        batch: Batch,
        streams: Streams,
    ) -> Tensor:
        if split != "extrapolation":
            trained: Tensor = network(*batch.inputs, shared=batch.shared)[0]
            return trained
        state: layers.State = ()
        for piece in pieces(setting, streams):
            prediction, state = network(piece.to(batch.targets.device), *state)
        last: Tensor = prediction
        return last

    def references(
        self, setting: RecurrentSetting, split: str, batch: Batch, streams: Streams
    ) -> dict[str, Tensor]:
        """Returns errors of the best constant, of an untrained LSTM (100 in Table 9), of success.

        The success threshold is of the extrapolation set only.
        """
        errors = constant_errors(batch.targets)
        if split == "train":
            return errors
        if split == "extrapolation":
            again = streams.fork(split)
            errors["solved_mse"] = success_error(setting, again).to(batch.targets)
        reference = {"layer": "lstm", "hidden": setting.reference_hidden}
        lstm = setting.model_copy(update={**reference, "options": {}, "reader": None})
        inits = [entropy(self.name, seed, "reference") % 2**63 for seed in streams.seeds]
        random = Replicas(lambda: RecurrentNetwork(lstm), inits, batch.targets.device)
        with torch.no_grad():
            prediction = self.predict(random, setting, split, batch, streams)
        return errors | {"random_mse": mean_squared_error(prediction, batch.targets)}

    def memory(self, setting: RecurrentSetting, seeds: int) -> int:
        """Counts training sequences with their activations, and a piece of a long sequence."""
        wide = setting.inputs + 12 * max(setting.hidden, setting.reference_hidden)
        wide += 4 * self.state(setting, 4 * setting.hidden)
        trained = 2 * setting.batch * setting.length + 2 * setting.test_size * setting.length
        return 4 * seeds * wide * (trained + 2 * setting.test_size * PIECE)


TASK = RecurrentTask()
