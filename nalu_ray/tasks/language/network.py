"""Settings and network of the language task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, cast

import torch
from pydantic import AfterValidator, Field, model_validator
from torch import Tensor, nn

from nalu_ray import layers
from nalu_ray.errors import did_you_mean
from nalu_ray.input.values import Named
from nalu_ray.tasks._recurrent_models import CONTROLS
from nalu_ray.tasks.language.data import VOCABULARY
from nalu_ray.training.fields import (
    GateInit,
    Init,
    MemoryInit,
    Options,
    SupervisedSetting,
    WeightInit,
)

Combine = Literal["last", "sum", "recurrent"]
LINEAR = "none"  # the network without an activation


def _heads() -> list[str]:
    return sorted({*layers.names(), *CONTROLS})


def _known_head(name: str) -> str:
    if name not in _heads():
        raise ValueError(did_you_mean("head", name, _heads()))
    return name


HeadName = Annotated[str, AfterValidator(_known_head), Named(_heads)]


class LanguageSetting(SupervisedSetting):
    """One LSTM and what turns its outputs into a number."""

    head: HeadName = Field(
        "nalu",
        description="head over the LSTM: none (linear), nac, nalu or any unit (Table 3), or a "
        "control with a given memory, sum or rnn_identity",
    )
    combine: Combine = Field(
        "recurrent",
        description="what the head reads: the last output, the sum of outputs (Table 11), or each "
        "output in turn as a recurrent unit; the paper does not say",
    )
    hidden: int = Field(32, ge=1, description="units of the LSTM; 16 or 32 (App. D)")
    embedding: int = Field(32, ge=1, description="width of the word embedding; not in the paper")
    forget_init: float = Field(
        0.0, description="initial bias of the LSTM's forget gate; below 0 it starts out forgetting"
    )
    recurrent_init: Init = Field(
        "linear", description="initialisation of the LSTM's weights from its own outputs"
    )
    head_layers: int = Field(
        1,
        ge=1,
        le=1000,
        description="layers of the head; combine=recurrent makes the last one recurrent",
    )
    registers: int = Field(
        1,
        ge=1,
        description="width of the head's inner layers, and of the state of a recurrent head, whose "
        "sum is the result",
    )
    loss: Literal["mae", "mse"] = Field("mse", description="loss to minimise; not in the paper")
    division: Literal["fixed", "seed"] = Field(
        "fixed",
        description="split into training, validation and test: fixed for all seeds, as in the "
        "paper, or one per seed",
    )
    weight_init: WeightInit = "linear"
    gate_init: GateInit = "glorot"
    memory_init: MemoryInit = None
    options: Options = Field(
        {}, description="further arguments of the head, as name:value;name:value"
    )

    def built(self) -> Sequence[layers.LayerEntry]:
        recurrent = self.combine == "recurrent"
        stack = self.head not in CONTROLS and (not recurrent or self.head_layers > 1)
        cell = recurrent and self.head != LINEAR and self.head in layers.cell_names()
        return (
            *((layers.get_cell(self.head),) if cell else ()),
            *((layers.get(self.head),) if stack else ()),
        )

    def unread(self) -> dict[str, str]:
        idle = super().unread()
        if self.combine != "recurrent" and self.head_layers == 1:
            idle["registers"] = f"a head of one layer with combine={self.combine} has no registers"
        return idle

    @model_validator(mode="after")
    def _possible(self) -> LanguageSetting:
        if self.shared_inputs:
            raise ValueError("shared_inputs must be false: division=fixed shares inputs here")
        recurrent = self.combine == "recurrent" and self.head != LINEAR
        if recurrent and self.head not in layers.cell_names():
            cells = {LINEAR, *layers.cell_names()} & {*_heads()}
            layers.check_no_pair(self.head, cells, "head with combine=recurrent")
            raise ValueError(f"head={self.head} is not a unit, which combine=recurrent needs")
        if self.head in layers.pair_names() and self.head_layers == 1:
            raise ValueError(f"head_layers must be at least 2: head={self.head} is a pair of units")
        if self.head in CONTROLS and (not recurrent or self.head_layers > 1):
            raise ValueError(
                f"head={self.head} is a cell: it needs combine=recurrent and head_layers=1"
            )
        if self.options and not self.built():
            raise ValueError(f"options must be empty: a recurrent head={self.head} has none")
        return self


class LanguageNetwork(nn.Module):
    """An embedding, an LSTM, and a head over its outputs.

    Its penalty ``memory`` is the mean of the LSTM's forget gates, over its units and the words of
    the vocabulary, each read as the first word. What the gates let through is all that an LSTM
    whose ``weight_h`` is 0 knows of the words before.
    """

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
        """Maps padded words, (batch, L), and lengths, (batch,), to numbers, (batch, 1)."""
        if self.combine == "recurrent":
            return layers.last(self.after_each(tokens, lengths))
        number: Tensor = self.head(layers.last(self._combined(tokens, lengths)))
        return number

    def after_each(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Returns the number after each word, (batch, L, 1); on padding the last one."""
        combined = self._combined(tokens, lengths)
        if self.combine != "recurrent":
            numbers: Tensor = self.head(combined)
            return numbers
        registers, _ = self.head(self.values(combined), lengths=lengths)
        return cast(Tensor, registers.sum(-1, keepdim=True))

    def penalty(self) -> dict[str, Tensor]:
        """Returns ``memory``, in [0, 1]."""
        gates = nn.functional.linear(self.embedding, self.lstm.weight_x, self.lstm.bias)
        _, forget, _, _ = gates.chunk(self.lstm.rows, -1)
        return {"memory": forget.sigmoid().mean()}

    def _combined(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Returns the LSTM's outputs after each word, or their running sums, (batch, L, hidden)."""
        # one small product gives every word's share of the gates
        table = nn.functional.linear(self.embedding, self.lstm.weight_x, self.lstm.bias)
        active = torch.arange(tokens.shape[1], device=tokens.device)[:, None] < lengths
        state = self.lstm.initial(len(tokens), table)
        outputs, _ = layers.lstm_steps(table[tokens.T], state, self.lstm.weight_h, active=active)
        if self.combine == "sum":
            outputs = outputs.masked_fill(~active[..., None], 0).cumsum(0)
        return outputs.transpose(0, 1)


def _stack(setting: LanguageSetting, inputs: int, outputs: int, count: int) -> nn.Module:
    options = setting.layer_options(layers.get(setting.head).options) | setting.options
    try:
        return layers.build(
            setting.head, inputs, setting.registers, outputs, hidden_layers=count - 1, **options
        )
    except ValueError as error:  # names hidden layers, which users do not set here
        raise ValueError(
            f"head={setting.head} head_layers={setting.head_layers}: {error}"
        ) from error


def _cell(setting: LanguageSetting, inputs: int) -> layers.Cell:
    if setting.head == LINEAR:
        return layers.UnitCell(inputs, setting.registers, layers.Linear)
    options = setting.layer_options(layers.get_cell(setting.head).options) | setting.options
    return layers.build_cell(setting.head, inputs, setting.registers, **options)
