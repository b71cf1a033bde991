"""Settings, network and digit metric of the program task; see ``program.py``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from nalu_ray import layers
from nalu_ray.seeding import Streams
from nalu_ray.tasks.program.data import (
    ADDITION,
    FEATURES,
    MAX_DIGITS,
    MAX_NESTING,
    PROGRAM,
    Programs,
    draw,
)
from nalu_ray.training.fields import CellName, CellOptions, SupervisedSetting
from nalu_ray.training.metrics import mean_over_examples

Variant = Literal["addition", "program"]
View = Literal["none", "raw", "log", "sign"]

_LARGEST = 10**9  # no digit beyond it can match: results stay far below
_MINUS, _BLANK = 10, 11  # characters beside the digits 0 to 9


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
        2, ge=1, le=MAX_DIGITS, description="numbers below 10^digits in training (section 4.4)"
    )
    validation_digits: int = Field(
        3, ge=2, le=MAX_DIGITS, description="digits of each number in validation (section 4.4)"
    )
    test_digits: int = Field(
        4, ge=3, le=MAX_DIGITS, description="digits of each number in the test (section 4.4)"
    )
    hidden: int = Field(
        32, ge=1, description="hidden units, of the LSTM where it configures a NALU"
    )
    registers: int = Field(
        4, ge=1, description="outputs of the configured NALU, read again at the next step"
    )
    view: View = Field(
        "sign",
        description="what the LSTM that configures the NALU sees of numbers and registers beside "
        "the symbols; none of them, the values, sign(v) log(1 + |v|), or signs and comparisons",
    )
    scale: float = Field(
        0.01,
        gt=0,
        description="unit in which networks compute: numbers are multiplied and results divided by "
        "it; the loss is in whole numbers all the same",
    )
    batch: int = Field(128, ge=1, description="programs a step, fresh each step")
    test_size: int = Field(1000, ge=1, description="programs of each evaluation set")
    options: CellOptions = Field({})

    def built(self) -> Sequence[layers.LayerEntry]:
        return (layers.get_cell(self.layer),)

    def unread(self) -> dict[str, str]:
        idle = super().unread()
        if self.variant == "addition":
            idle["nesting"] = "variant=addition is one sum"
        return idle

    @model_validator(mode="after")
    def _one_number_a_step(self) -> ProgramSetting:
        if "values" in self.options:
            raise ValueError("options: values cannot be among them; one number a step is given")
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
    """A cell, and what reads its last output: of a cell of registers the first, else affine."""

    def __init__(self, setting: ProgramSetting) -> None:
        super().__init__()
        known = layers.get_cell(setting.layer).options
        chosen: dict[str, Any] = {"registers": setting.registers, "view": setting.view}
        options = {name: value for name, value in chosen.items() if name in known}
        self.cell = layers.build_cell(
            setting.layer, FEATURES, setting.hidden, **options | setting.options
        )
        has_registers = "registers" in known
        self.read = None if has_registers else layers.Linear(self.cell.out_features, 1)
        self.scale = setting.scale

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """(batch, L, FEATURES) and the tokens of each, (batch,), to results, (batch, 1)."""
        symbols, numbers = x[..., :-1], x[..., -1:]
        outputs, _ = self.cell(torch.cat([symbols, numbers * self.scale], -1), lengths=lengths)
        # on padding the output stays, so the last is that at END
        last = layers.last(outputs)
        result: Tensor = last[:, :1] if self.read is None else self.read(last)
        return result / self.scale


def programs(setting: ProgramSetting, split: str, streams: Streams) -> Programs:
    """Draws a training batch or an evaluation set; training and interpolation are alike."""
    digits = {"validation": setting.validation_digits, "test": setting.test_digits}.get(split)
    addition = setting.variant == "addition"
    return draw(
        streams,
        setting.batch if split == "train" else setting.test_size,
        0 if digits is None else 10 ** (digits - 1),
        10 ** (digits or setting.train_digits),
        nesting=1 if addition else setting.nesting,
        operations=ADDITION if addition else PROGRAM,
    )


def matching_digits(prediction: Tensor, target: Tensor) -> Tensor:
    """Share of matching digits of each rounded prediction, elementwise, in [0, 1].

    Both are written as decimal numbers and right-aligned. A position matches where both have the
    same character; the minus sign is one, and so is its absence at the end of the other, which
    matches nothing. The share is of the longer number's positions: 1234 for 1334 is 3/4, -7 for 17
    is 1/2, 99 for 100 is 0. What is not finite matches nothing.

    Args:
        prediction: finite or not; beyond 10^9 it is taken for 10^9.
        target: whole numbers of at most 8 digits, of the same shape.
    """
    known = prediction.isfinite()
    rounded = prediction.nan_to_num().double().round().clamp(-_LARGEST, _LARGEST).long()
    (mine, length), (theirs, other) = _characters(rounded), _characters(target.double().long())
    matches = ((mine == theirs) & (mine != _BLANK)).sum(-1)
    return known * matches / torch.maximum(length, other)


def _characters(numbers: Tensor) -> tuple[Tensor, Tensor]:
    """Integers, (...), as characters from the right, (..., 11), and how many each has, (...)."""
    magnitude = numbers.abs()[..., None]
    powers = 10 ** torch.arange(len(str(_LARGEST)) + 1, device=numbers.device)
    digits = (magnitude >= powers).sum(-1, keepdim=True).clamp_min(1)
    minus = (numbers < 0)[..., None]
    place = torch.arange(len(powers), device=numbers.device)
    beyond = torch.where(minus & (place == digits), _MINUS, _BLANK)
    characters = torch.where(place < digits, magnitude // powers % 10, beyond)
    return characters, (digits + minus).squeeze(-1)


def root_mean_square(prediction: Tensor, target: Tensor) -> Tensor:
    """Root of each seed's mean squared error, (R, ...) x (R, ...) -> (R,)."""
    return mean_over_examples((prediction - target).square()).sqrt()
