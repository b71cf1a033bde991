"""Program evaluation (section 4.4, appendix E): read a program and compute its result.

There are two variants: sums of two numbers, and programs of +, - and conditional expressions such
as ``( 31 + 4 ) if 15 < 92 else 65``. A network reads one token per step, the one-hot symbol and the
whole number, and gives the result after the last. It trains on numbers of up to two digits and is
tested on two, three and four.

The NALU is configured by an LSTM: its weights and gate are functions of the LSTM's state at each
step (cell ``nalu_lstm``).
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from nalu_ray.results.specs import Axis, Measure, Selection, TableSpec, learning_figure
from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks.program.data import ADDITION, FEATURES, PROGRAM, draw, encode
from nalu_ray.tasks.program.network import (
    ProgramNetwork,
    ProgramSetting,
    matching_digits,
    root_mean_square,
)
from nalu_ray.training.metrics import constant_errors, mean_over_examples
from nalu_ray.training.supervised import SupervisedTask

SPLITS = {"interpolation": "train", "validation": "validation", "test": "test"}  # Figures 4, 6
DIGITS = (
    "Numbers have up to {train_digits} digits in training, exactly {validation_digits} in "
    "validation and {test_digits} in the test."
)
PAPER = {"train_digits": "2", "validation_digits": "3", "test_digits": "4"}
WORDS = {"variant": {"addition": "Sums of two numbers", "program": "Programs of nesting {nesting}"}}
METRICS = {"digits": "matching digits", "exact": "exact"}
PROBLEM = ("variant", "nesting", "train_digits", "validation_digits", "test_digits")
MODELS = Axis(
    field="layer",
    labels={"lstm": "LSTM", "ugrnn": "UGRNN", "dnc": "DNC", "nalu_lstm": "NALU (LSTM)"},
    given={
        "nalu_lstm": "signs and comparisons of numbers and registers",
        **{
            f"{name}@hints": "signs and comparisons of numbers" for name in ("lstm", "ugrnn", "dnc")
        },
    },
    apart={
        "hints": {
            "lstm": "LSTM, comparisons given",
            "ugrnn": "UGRNN, comparisons given",
            "dnc": "DNC, comparisons given",
        }
    },
)
VARIANTS = Axis(
    field="variant",
    labels={
        "addition": "Addition (Figure 6)",
        "program": "Programs of nesting {nesting} (Figure 4)",
    },
)
# the paper calls three digits "validation", but they are extrapolation and must not select
RULE = Selection(metric="rmse", split="interpolation", step="last")
_SMALLEST = 1e-12  # squared error below which the gradient of the root is 0, not infinite


class ProgramTask(SupervisedTask[ProgramSetting]):
    """Section 4.4: program evaluation."""

    name = "program"
    title = "Program evaluation"
    section = "4.4"
    setting_type = ProgramSetting
    axes = ("layer", "variant")
    splits: ClassVar[tuple[str, ...]] = tuple(SPLITS)
    tables = (
        TableSpec(
            name="program",
            caption="{variant}: matching digits of the rounded, right-aligned result (%) and "
            f"exact results (%). {DIGITS}",
            rows=MODELS,
            measures={
                f"{metric}_{split}": Measure(
                    metric=metric,
                    split=split,
                    label=f"{label}: {shown}",
                    statistic="mean",
                    scale=100,
                    better="higher",
                    worst=0.0,
                )
                for metric, label in METRICS.items()
                for split, shown in SPLITS.items()
            },
            layout="columns",
            words=WORDS,
            paper=PAPER,
            selection=RULE,
            problem=PROBLEM,
        ),
    )
    figures = tuple(
        learning_figure(
            name=f"program_{shown}",
            number="4, 6",
            caption=f"Program evaluation during training, on {shown} numbers. {DIGITS}",
            paper=PAPER,
            metric="digits",
            split=split,
            lines=MODELS,
            panels=VARIANTS,
            statistic="two_sigma",
            selection=RULE,
            log_y=False,
            y_label="share of matching digits",
            problem=PROBLEM,
        )
        for split, shown in SPLITS.items()
    )

    def build(self, setting: ProgramSetting) -> nn.Module:
        return ProgramNetwork(setting)

    def sample(self, setting: ProgramSetting, split: str, streams: Streams) -> Batch:
        digits = {"validation": setting.validation_digits, "test": setting.test_digits}.get(split)
        addition = setting.variant == "addition"
        drawn = draw(
            streams,
            setting.batch if split == "train" else setting.test_size,
            0 if digits is None else 10 ** (digits - 1),
            10 ** (digits or setting.train_digits),
            nesting=1 if addition else setting.nesting,
            operations=ADDITION if addition else PROGRAM,
        )
        tokens = encode(drawn, hints=bool(setting.hints))
        inputs = torch.from_numpy(tokens), torch.from_numpy(drawn.lengths)
        targets = torch.from_numpy(drawn.values).float()[..., None]
        return Batch(inputs, targets, len(streams) < len(streams.seeds))

    def loss(self, setting: ProgramSetting, prediction: Tensor, target: Tensor) -> Tensor:
        """Returns the root of each seed's mean squared error over the batch (section 4.4)."""
        return super().loss(setting, prediction, target).clamp_min(_SMALLEST).sqrt()

    def metrics(
        self, setting: ProgramSetting, split: str, prediction: Tensor, target: Tensor
    ) -> dict[str, Tensor]:
        matched = matching_digits(prediction, target)
        return {
            "rmse": root_mean_square(prediction, target),
            "digits": mean_over_examples(matched),
            "exact": mean_over_examples((matched == 1).float()),
        }

    def references(
        self, setting: ProgramSetting, split: str, batch: Batch, streams: Streams
    ) -> dict[str, Tensor]:
        return {"constant_rmse": constant_errors(batch.targets)["constant_mse"].sqrt()}

    def memory(self, setting: ProgramSetting, seeds: int) -> int:
        """Counts the evaluation sets, and the activations of a step over all tokens."""
        tokens = 4 if setting.variant == "addition" else 8 * setting.nesting
        examples = len(SPLITS) * setting.test_size * FEATURES
        activations = max(2 * setting.batch, setting.test_size) * 24 * (setting.hidden + FEATURES)
        # a memory beside the hidden units is written anew at each token
        activations += 8 * setting.batch * self.state(setting, 4 * setting.hidden)
        return 4 * seeds * tokens * (examples + activations)


TASK = ProgramTask()
