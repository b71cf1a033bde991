"""Settings and network of the language task; see ``language.py``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from nalu_ray import layers
from nalu_ray.tasks.language.data import VOCABULARY
from nalu_ray.training.fields import (
    GateInit,
    Init,
    LayerName,
    MemoryInit,
    Options,
    SupervisedSetting,
    WeightInit,
    starts,
)

Combine = Literal["last", "sum", "recurrent"]
LINEAR = "none"  # the network without an activation


class LanguageSetting(SupervisedSetting):
    """One LSTM and what turns its outputs into a number."""

    head: LayerName = Field(
        "nalu", description="unit over the LSTM's outputs: none (linear), nac, nalu, any (Table 3)"
    )
    combine: Combine = Field(
        "recurrent",
        description="what the head reads; the last output, their sum over words (Table 11), or "
        "each with what it gave before; the paper leaves it open",
    )
    hidden: int = Field(32, ge=1, description="units of the LSTM; 16 or 32 (App. D)")
    embedding: int = Field(32, ge=1, description="width of the words' embedding; not in the paper")
    forget_init: float = Field(
        0.0, description="initial bias of the LSTM's forget gate; below 0 it starts by forgetting"
    )
    recurrent_init: Init = Field(
        "linear", description="initialisation of the LSTM's weights from its own outputs"
    )
    head_layers: int = Field(
        1, ge=1, description="layers of the head; of combine=recurrent the last one is recurrent"
    )
    registers: int = Field(
        1,
        ge=1,
        description="width of the head's inner layers, and how many numbers a recurrent head "
        "remembers; their sum is the result",
    )
    loss: Literal["mae", "mse"] = Field("mse", description="what is minimised; not in the paper")
    division: Literal["fixed", "seed"] = Field(
        "fixed",
        description="one division into training, validation and test for all seeds, as there is "
        "one data set in the paper, or one for each seed",
    )
    weight_init: WeightInit = "linear"
    gate_init: GateInit = "glorot"
    memory_init: MemoryInit = None
    options: Options = Field(
        {}, description="further arguments of the head, as name:value;name:value"
    )

    def built(self) -> Sequence[layers.LayerEntry]:
        recurrent = self.combine == "recurrent"
        stack = not recurrent or self.head_layers > 1
        cell = recurrent and self.head != LINEAR and self.head in layers.cell_names()
        return (
            *((layers.get_cell(self.head),) if cell else ()),
            *((layers.get(self.head),) if stack else ()),
        )

    def unread(self) -> dict[str, str]:
        idle = super().unread()
        if self.combine != "recurrent" and self.head_layers == 1:
            idle["registers"] = f"a head of one layer has none with combine={self.combine}"
        return idle

    @model_validator(mode="after")
    def _possible(self) -> LanguageSetting:
        if self.shared_inputs:
            raise ValueError("shared_inputs: training draws nothing here; division=fixed shares it")
        recurrent = self.combine == "recurrent" and self.head != LINEAR
        if recurrent and self.head not in layers.cell_names():
            raise ValueError(f"head={self.head} is no unit, so combine=recurrent cannot use it")
        if self.options and not self.built():
            raise ValueError(f"options: head={self.head} with combine=recurrent takes none")
        return self


class LanguageNetwork(nn.Module):
    """An embedding, an LSTM, and a head over its outputs."""

    def __init__(self, setting: LanguageSetting) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(len(VOCABULARY), setting.embedding))
        nn.init.normal_(self.embedding)
        self.lstm = layers.LSTM(
            setting.embedding,
            setting.hidden,
            forget_init=setting.forget_init,
            recurrent_init=setting.recurrent_init,
        )
        self.combine = setting.combine
        recurrent = self.combine == "recurrent"
        inner = setting.head_layers - 1
        self.values: nn.Module = nn.Identity()
        width = setting.hidden
        if recurrent and inner:
            self.values = _stack(setting, width, setting.registers, inner)
            width = setting.registers
        self.head = _cell(setting, width) if recurrent else _stack(setting, width, 1, inner + 1)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Reads padded rows of words, (batch, L), of (batch,) words each: numbers, (batch, 1)."""
        if self.combine == "recurrent":
            return layers.last(self.after_each(tokens, lengths))
        number: Tensor = self.head(layers.last(self._combined(tokens, lengths)))
        return number

    def after_each(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Returns what would be the number after each word, (batch, L, 1); on padding the last."""
        combined = self._combined(tokens, lengths)
        if self.combine != "recurrent":
            numbers: Tensor = self.head(combined)
            return numbers
        registers, _ = self.head(self.values(combined), lengths=lengths)
        return cast(Tensor, registers.sum(-1, keepdim=True))

    def _combined(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """The LSTM's outputs after each word, or their sums up to there, (batch, L, hidden)."""
        # a word's part of the gates is a row of one small product
        table = nn.functional.linear(self.embedding, self.lstm.weight_x, self.lstm.bias)
        active = torch.arange(tokens.shape[1], device=tokens.device)[:, None] < lengths
        state = self.lstm.initial(len(tokens), table)
        outputs, _ = layers.lstm_steps(table[tokens.T], state, self.lstm.weight_h, active=active)
        if self.combine == "sum":
            outputs = outputs.masked_fill(~active[..., None], 0).cumsum(0)
        return outputs.transpose(0, 1)


def _stack(setting: LanguageSetting, inputs: int, outputs: int, count: int) -> nn.Module:
    options = _chosen(layers.get(setting.head).options, setting)
    try:
        return layers.build(
            setting.head, inputs, setting.registers, outputs, hidden_layers=count - 1, **options
        )
    except ValueError as error:  # it counts hidden layers, users the head's
        raise ValueError(
            f"head={setting.head} head_layers={setting.head_layers}: {error}"
        ) from error


def _cell(setting: LanguageSetting, inputs: int) -> layers.Cell:
    if setting.head == LINEAR:
        return layers.UnitCell(inputs, setting.registers, layers.Linear)
    options = _chosen(layers.get_cell(setting.head).options, setting)
    return layers.build_cell(setting.head, inputs, setting.registers, **options)


def _chosen(known: Sequence[str], setting: LanguageSetting) -> dict[str, Any]:
    options = starts(known, setting.weight_init, setting.gate_init, setting.memory_init)
    return options | setting.options
