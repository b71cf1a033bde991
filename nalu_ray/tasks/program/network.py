"""Settings, network and digit metric of the program task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from nalu_ray import layers
from nalu_ray.task import added
from nalu_ray.tasks.program.data import FEATURES, HINTS, MAX_DIGITS, MAX_NESTING
from nalu_ray.training.fields import CellName, CellOptions, SupervisedSetting
from nalu_ray.training.metrics import mean_over_examples

Variant = Literal["addition", "program"]
View = Literal["none", "raw", "log", "sign"]
Hints = Literal["comparisons"]

_LARGEST = 10**9  # results stay far below
_MINUS, _BLANK = 10, 11  # characters after the digits 0 to 9


class ProgramSetting(SupervisedSetting):
    """One network on sums or programs."""

    OPTION_FIELDS: ClassVar[Mapping[str, str]] = {"registers": "registers", "view": "view"}

    layer: CellName = Field(
        "nalu_lstm", description="network by name: `nalu_lstm` or a baseline (Figures 4, 6)"
    )
    variant: Variant = Field(
        "program",
        description="sums of two numbers (Figure 6) or programs of +, - and if (Figure 4)",
    )
    nesting: int = Field(
        2, ge=1, le=MAX_NESTING, description="operations of a program; the paper leaves it open"
    )
    train_digits: int = Field(
        2, ge=1, le=MAX_DIGITS, description="digits of numbers in training, at most (section 4.4)"
    )
    validation_digits: int = Field(
        3, ge=2, le=MAX_DIGITS, description="digits of each number in validation (section 4.4)"
    )
    test_digits: int = Field(
        4, ge=3, le=MAX_DIGITS, description="digits of each number in the test (section 4.4)"
    )
    hidden: int = Field(
        32,
        ge=1,
        description="hidden units; for nalu_lstm, of the LSTM that configures the NALU",
    )
    registers: int = Field(
        4, ge=1, description="outputs of the configured NALU, which it reads again at the next step"
    )
    view: View = Field(
        "sign",
        description="what the LSTM that configures the NALU reads besides symbols. none: nothing; "
        "raw: numbers and registers; log: sign(v) log(1 + |v|) of each; sign: only their signs and "
        "comparisons",
    )
    hints: Hints | None = added(
        "0.9.0",
        None,
        description="what a network without `view` reads besides symbols and numbers. comparisons: "
        "the signs of each number and of its difference from the number before",
    )
    scale: float = Field(
        0.01,
        gt=0,
        description="factor on the numbers a network reads, divided out of its result; the loss is "
        "computed on unscaled results",
    )
    batch: int = Field(128, ge=1, description="programs per step, drawn anew at each step")
    test_size: int = Field(1000, ge=1, description="programs of each evaluation set")
    options: CellOptions = Field({})

    def built(self) -> Sequence[layers.LayerEntry]:
        return (layers.get_cell(self.layer),)

    def unread(self) -> dict[str, str]:
        idle = super().unread()
        if self.variant == "addition":
            idle["nesting"] = "variant=addition is one sum"
        if "view" in layers.get_cell(self.layer).options:
            idle["hints"] = f"layer={self.layer} has view"
        return idle

    @model_validator(mode="after")
    def _one_number_a_step(self) -> ProgramSetting:
        if "values" in self.options:
            raise ValueError("options cannot contain values: the task gives one number per step")
        return self

    @model_validator(mode="after")
    def _extrapolates(self) -> ProgramSetting:
        if not self.train_digits < self.validation_digits < self.test_digits:
            digits = self.train_digits, self.validation_digits, self.test_digits
            raise ValueError(
                "digits must rise from train_digits over validation_digits to test_digits, "
                f"got {', '.join(map(str, digits))}"
            )
        return self


class ProgramNetwork(nn.Module):
    """A cell and a reader of its last output: its first register if it has any, else affine."""

    def __init__(self, setting: ProgramSetting) -> None:
        super().__init__()
        cell_options = layers.get_cell(setting.layer).options
        options = setting.layer_options(cell_options) | setting.options
        features = FEATURES + (HINTS if setting.hints else 0)
        self.cell = layers.build_cell(setting.layer, features, setting.hidden, **options)
        has_registers = "registers" in cell_options
        self.read = None if has_registers else layers.Linear(self.cell.out_features, 1)
        self.scale = setting.scale

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Maps tokens, (batch, L, features), and lengths, (batch,), to results, (batch, 1)."""
        symbols, numbers = x[..., :-1], x[..., -1:]
        outputs, _ = self.cell(torch.cat([symbols, numbers * self.scale], -1), lengths=lengths)
        # outputs stay constant over padding, so the last is that at END
        last = layers.last(outputs)
        result: Tensor = last[:, :1] if self.read is None else self.read(last)
        return result / self.scale


def matching_digits(prediction: Tensor, target: Tensor) -> Tensor:
    """Returns the share of matching digits of each rounded prediction, elementwise, in [0, 1].

    Both numbers are written in decimal and right-aligned. A position matches if both have the same
    character there; a minus sign is a character, and a missing character matches nothing. The share
    is relative to the longer number: 1234 for 1334 is 3/4, -7 for 17 is 1/2, 99 for 100 is 0. NaN
    and infinities match nothing.

    Args:
        prediction: any shape; clamped to -10^9..10^9.
        target: whole numbers of at most 8 digits, of the same shape.
    """
    finite = prediction.isfinite()
    rounded = prediction.nan_to_num().double().round().clamp(-_LARGEST, _LARGEST).long()
    (characters, length), (target_characters, target_length) = (
        _characters(rounded),
        _characters(target.double().long()),
    )
    matches = ((characters == target_characters) & (characters != _BLANK)).sum(-1)
    return finite * matches / torch.maximum(length, target_length)


def _characters(numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Writes integers, (...), as characters from the right, (..., 11), with their counts, (...)."""
    magnitude = numbers.abs()[..., None]
    powers = 10 ** torch.arange(len(str(_LARGEST)) + 1, device=numbers.device)
    digits = (magnitude >= powers).sum(-1, keepdim=True).clamp_min(1)
    minus = (numbers < 0)[..., None]
    position = torch.arange(len(powers), device=numbers.device)
    beyond = torch.where(minus & (position == digits), _MINUS, _BLANK)
    characters = torch.where(position < digits, magnitude // powers % 10, beyond)
    return characters, (digits + minus).squeeze(-1)


def root_mean_square(prediction: Tensor, target: Tensor) -> Tensor:
    """Returns the root of each seed's mean squared error, (R, ...) x (R, ...) -> (R,)."""
    return mean_over_examples((prediction - target).square()).sqrt()
