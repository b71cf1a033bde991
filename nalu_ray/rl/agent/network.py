"""The agent's network: vision, memory, policy and value, in plain torch."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from torch import Tensor, nn

from nalu_ray import layers
from nalu_ray.input.values import Named
from nalu_ray.rl.agent import cores
from nalu_ray.rl.agent.cores import (
    BesideLSTMCore,
    CellCore,
    Core,
    FeedbackNACCore,
    InstructionNACCore,
    LSTMCore,
    NACCore,
    Wiring,
)
from nalu_ray.rl.agent.vision import Vision
from nalu_ray.training.fields import Init

Variant = Annotated[str, AfterValidator(cores.check_name), Named(cores.names)]
"""A core by name: ``nac_core``, a unit or cell, ``lstm_`` and one of these, or a control."""


class NetworkConfig(BaseModel):
    """Variant and sizes of the network; the paper names the layers but no sizes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: Variant = Field(
        "lstm",
        description="part of the network that reads T: lstm, lstm_nac, nac_core, any unit or cell "
        "by name, or lstm_ and such a name; lstm_linear is the control of lstm_nac, linear_core "
        "that of nac_core",
    )
    wiring: Wiring = Field(
        "accumulator",
        description="what the NAC (or other unit) beside the LSTM reads. instruction: T; feedback: "
        "T and the LSTM's last output; accumulator: these and its own last output",
    )
    channels: int = Field(16, ge=1, description="channels of the convolution")
    vision: int = Field(64, ge=1, description="units of the layer above the convolution")
    hidden: int = Field(
        64, ge=1, description="units of the LSTM or cell, or of the layer in nac_core"
    )
    instruction_scale: float = Field(1.0, gt=0, description="factor on T in the network's input")
    nac_units: int = Field(4, ge=1, description="outputs of the NAC or other unit")
    nac_init: Init = Field("uniform", description="initialisation of the NAC or similar unit")
    counter_init: float = Field(
        4.0, description="initialisation of the counter in nac_core and linear_core"
    )
    bank: int = Field(32, ge=1, description="tanh units of these that read the remaining time")

    @model_validator(mode="after")
    def _wiring_fits(self) -> NetworkConfig:
        unit = cores.beside(self.variant)
        if unit in layers.pair_names() and self.wiring == "accumulator":
            raise ValueError(
                f"variant={self.variant}: {unit!r} is a pair of units, and a cell is a single "
                "one, so wiring=accumulator is not possible. Allowed: feedback, instruction"
            )
        if unit and self.wiring != "accumulator" and unit not in layers.names():
            raise ValueError(
                f"variant={self.variant}: {unit} has a state of its own, so wiring={self.wiring} "
                "is not possible; use wiring=accumulator"
            )
        return self


class Network(nn.Module):
    """Policy and value, computed from the pictures of a world and the instruction.

    Args:
        config: variant and sizes.
        frames: (F, P, P, 3) uint8, every picture of the world.
        cell_pixels: width of a cell in pixels.
        actions: number of actions.
    """

    def __init__(
        self, config: NetworkConfig, frames: NDArray[np.uint8], cell_pixels: int, actions: int = 5
    ) -> None:
        super().__init__()
        self.config = config
        self.vision = Vision(frames, cell_pixels, config.channels, config.vision)
        self.core = build_core(config)
        self.policy = nn.Linear(self.core.features, actions)
        self.value = nn.Linear(self.core.features, 1)
        for head, gain in ((self.policy, 0.01), (self.value, 1.0)):
            nn.init.orthogonal_(head.weight, gain=gain)
            nn.init.zeros_(head.bias)

    def initial_state(self, batch: int) -> Tensor:
        """Returns zeros, (batch, state_size)."""
        return self.policy.weight.new_zeros(batch, self.core.state_size)

    def forward(
        self, vision: Tensor, instruction: Tensor, keep: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Reads consecutive steps, time first.

        Args:
            vision: (steps, batch, V), from ``network.vision``.
            instruction: (steps, batch), T as seen at that step.
            keep: (steps, batch), 0 where an episode starts at that step, else 1.
            state: (batch, state_size), before the first step.

        Returns:
            Logits (steps, batch, actions), values (steps, batch), the state after the last step.
        """
        features, state = self.core(vision, instruction, keep, state)
        return self.policy(features), self.value(features)[..., 0], state

    def fractions(self) -> Tensor:
        """Returns the mean distance of the units' weights to the nearest of -1, 0 and 1."""
        weights = [weight.abs().flatten() for weight in unit_weights(self.core)]
        if not weights:
            return self.policy.weight.new_zeros(())
        size = torch.cat(weights)
        return torch.minimum(size, (1 - size).abs()).mean()


def unit_weights(core: cores.Core) -> list[Tensor]:
    """Returns the weights of a core's units: of each its ``weight``, else its ``W``, if any."""
    parts = [part for unit in core.arithmetic_units for part in unit.modules()]
    candidates = [getattr(part, "weight", getattr(part, "W", None)) for part in parts]
    return [weight for weight in candidates if isinstance(weight, Tensor)]


def build_core(config: NetworkConfig) -> Core:
    """Returns the core of a variant."""
    vision, hidden, scale = config.vision, config.hidden, config.instruction_scale
    units, init = config.nac_units, config.nac_init
    if config.variant in (cores.COUNTERS, cores.FREE_COUNTERS):
        counter, free = config.counter_init, config.variant == cores.FREE_COUNTERS
        return NACCore(
            vision,
            hidden,
            units=units,
            bank=config.bank,
            init=init,
            counter_init=counter,
            free=free,
        )
    if config.variant == "lstm":
        return LSTMCore(vision, hidden, scale)
    unit = cores.beside(config.variant)
    if unit != "nac":
        name = unit or config.variant
        unit_options = () if unit == cores.FREE else layers.first_cell(name).options
        options = {"init": init} if "init" in unit_options else {}
        if unit is None:
            return CellCore(vision, hidden, scale, name, **options)
        return BesideLSTMCore(
            vision, hidden, scale, unit, units=units, wiring=config.wiring, **options
        )
    if config.wiring == "instruction":
        return InstructionNACCore(vision, hidden, scale, units=units, init=init)
    accumulate = config.wiring == "accumulator"
    return FeedbackNACCore(vision, hidden, scale, units=units, init=init, accumulate=accumulate)
