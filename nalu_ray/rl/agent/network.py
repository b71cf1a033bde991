"""The agent's network: vision, memory, policy and value, in plain torch."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from nalu_ray.layers import NAC
from nalu_ray.rl.agent.cores import Core, FeedbackNACCore, InstructionNACCore, LSTMCore, NACCore
from nalu_ray.rl.agent.vision import Vision
from nalu_ray.training.fields import Init

Variant = Literal["lstm", "lstm_nac", "nac_core"]
Wiring = Literal["instruction", "feedback", "accumulator"]


class NetworkConfig(BaseModel):
    """Variant and sizes of the network; the paper names the layers but no sizes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    variant: Variant = Field(
        "lstm", description="part of the network that reads T: lstm, lstm_nac or nac_core"
    )
    wiring: Wiring = Field("accumulator", description="position of the NAC in lstm_nac")
    channels: int = Field(16, ge=1, description="channels of the convolution")
    vision: int = Field(64, ge=1, description="units of the layer above the convolution")
    hidden: int = Field(64, ge=1, description="units of the LSTM, or of the layer in nac_core")
    instruction_scale: float = Field(1.0, gt=0, description="factor on T in the network's input")
    nac_units: int = Field(4, ge=1, description="outputs of the NAC")
    nac_init: Init = Field("uniform", description="initialisation of the NAC")
    counter_init: float = Field(4.0, description="initialisation of the counter in nac_core")
    bank: int = Field(32, ge=1, description="tanh units of nac_core that read the remaining time")


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
        """Returns the mean distance of the NACs' weights to the nearest of -1, 0 and 1."""
        weights = [part.weight.abs().flatten() for part in self.modules() if isinstance(part, NAC)]
        if not weights:
            return self.policy.weight.new_zeros(())
        size = torch.cat(weights)
        return torch.minimum(size, 1 - size).mean()


def build_core(config: NetworkConfig) -> Core:
    """Returns the core of a variant."""
    vision, hidden, scale = config.vision, config.hidden, config.instruction_scale
    units, init = config.nac_units, config.nac_init
    if config.variant == "nac_core":
        counter, bank = config.counter_init, config.bank
        return NACCore(vision, hidden, units=units, bank=bank, init=init, counter_init=counter)
    if config.variant == "lstm":
        return LSTMCore(vision, hidden, scale)
    if config.wiring == "instruction":
        return InstructionNACCore(vision, hidden, scale, units=units, init=init)
    accumulate = config.wiring == "accumulator"
    return FeedbackNACCore(vision, hidden, scale, units=units, init=init, accumulate=accumulate)
