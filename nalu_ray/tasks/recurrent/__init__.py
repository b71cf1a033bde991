"""Recurrent arithmetic (section 4.1, appendix B): the static task, its input dealt over time.

x_t in R^10 comes step by step; a and b are the sums, over time and over two sections of x_t that
are random for each seed and fixed within it; after the last step the target is a, a+b, a-b, a*b,
a/b, a^2 or sqrt(a). Trained on sequences of 10 steps, extrapolated to 1000, which are drawn and
read piece by piece: a long sequence takes no more memory than a short one.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from nalu_ray import layers
from nalu_ray.results.specs import Axis, FigureSpec, Measure, TableSpec
from nalu_ray.seeding import Streams, entropy
from nalu_ray.task import Batch, SupervisedTask
from nalu_ray.tasks._models import MODELS
from nalu_ray.tasks.recurrent.data import (
    PIECE,
    RecurrentNetwork,
    RecurrentSetting,
    pieces,
    target,
    whole,
)
from nalu_ray.training.metrics import mean_squared_error
from nalu_ray.training.replicas import Replicas

SPLITS = {"interpolation": "Interpolation", "extrapolation": "Extrapolation"}
PROBLEM = ("inputs", "section", "overlap", "length", "test_length", "train_range")
SETS = "Trained on sequences of {length}, extrapolated to {test_length}."
PAPER = {"inputs": "10", "length": "10", "test_length": "1000"}
OPERATIONS = Axis(
    field="op",
    labels={
        "a": "a",
        "add": "a + b",
        "sub": "a - b",
        "mul": "a × b",
        "div": "a / b",
        "square": "a²",
        "sqrt": "√a",
    },
)
SUMMARY_OPERATIONS = {op: label for op, label in OPERATIONS.labels.items() if op != "a"}
RELATIVE = {
    split: Measure(metric="mse", split=split, label=label, relative_to="random_mse", format=".1f")
    for split, label in SPLITS.items()
}


class RecurrentTask(SupervisedTask[RecurrentSetting]):
    """Section 4.1: recurrent function learning."""

    name = "recurrent"
    title = "Simple function learning, recurrent"
    section = "4.1"
    setting_type = RecurrentSetting
    axes = ("layer", "op")
    splits: ClassVar[tuple[str, ...]] = ("interpolation", "extrapolation", "train")
    tables = (
        TableSpec(
            name="recurrent",
            number=9,
            caption="Recurrent arithmetic, mean squared error relative to a randomly initialised "
            "LSTM of {reference_hidden} units. " + SETS,
            rows=MODELS,
            columns=OPERATIONS,
            measures=RELATIVE,
            models="rows",
            paper=PAPER,
            problem=PROBLEM,
        ),
        TableSpec(
            name="recurrent_summary",
            number=1,
            caption="Recurrent half: mean squared error relative to a randomly initialised LSTM of "
            "{reference_hidden} units. " + SETS,
            rows=OPERATIONS.model_copy(update={"labels": SUMMARY_OPERATIONS, "others": False}),
            columns=Axis(
                field="layer",
                labels={"lstm": "LSTM", "rnn_relu": "ReLU", "nac": "NAC", "nalu": "NALU"},
                others=False,
                published={
                    name: f"recurrent_{name}" for name in ("lstm", "rnn_relu", "nac", "nalu")
                },
            ),
            measures=RELATIVE,
            paper=PAPER,
            problem=PROBLEM,
        ),
        TableSpec(
            name="recurrent_raw",
            number=8,
            caption="Recurrent arithmetic, raw mean squared error: T on {shared_inputs}, I and E "
            "on sequences of the trained and of the extrapolated length; Random is a randomly "
            "initialised LSTM (median over seeds). " + SETS,
            words={
                "shared_inputs": {
                    "false": "the first training batch",
                    "true": "a batch of each seed's own that is none of training",
                }
            },
            rows=MODELS,
            columns=OPERATIONS,
            measures={
                split: Measure(metric="mse", split=split, label=split[0].upper(), format=".4g")
                for split in ("train", *SPLITS)
            },
            layout="subrows",
            reference="random_mse",
            reference_by=("reference_hidden",),
            models="rows",
            paper=PAPER,
            problem=PROBLEM,
        ),
    )
    figures = (
        FigureSpec(
            name="recurrent_learning",
            caption="Extrapolation error while training.",
            metric="mse",
            split="extrapolation",
            x="step",
            lines=MODELS,
            panels=OPERATIONS,
            statistic="median",
            relative_to="random_mse",
            x_label="training step",
            y_label="error (100 = random)",
            log_y=True,
            problem=PROBLEM,
        ),
    )

    def steps(self, setting: RecurrentSetting) -> int:
        return setting.steps

    def build(self, setting: RecurrentSetting) -> nn.Module:
        return RecurrentNetwork(setting)

    def sample(self, setting: RecurrentSetting, split: str, streams: Streams) -> Batch:
        if split == "extrapolation":
            # too long to be held: drawn again, piece by piece, whenever it is read
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
        """The error of a random LSTM (100.0 of Table 9)."""
        if split == "train":
            return {}
        reference = {"layer": "lstm", "hidden": setting.reference_hidden, "options": {}}
        lstm = setting.model_copy(update=reference)
        inits = [entropy(self.name, seed, "reference") % 2**63 for seed in streams.seeds]
        random = Replicas(lambda: RecurrentNetwork(lstm), inits, batch.targets.device)
        with torch.no_grad():
            prediction = self.predict(random, setting, split, batch, streams)
        return {"random_mse": mean_squared_error(prediction, batch.targets)}

    def memory(self, setting: RecurrentSetting, seeds: int) -> int:
        """Sequences of training with what the backward pass keeps, and a piece of a long one."""
        wide = setting.inputs + 12 * max(setting.hidden, setting.reference_hidden)
        trained = 2 * setting.batch * setting.length + 2 * setting.test_size * setting.length
        return 4 * seeds * wide * (trained + 2 * setting.test_size * PIECE)


TASK = RecurrentTask()
