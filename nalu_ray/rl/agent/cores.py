"""The memory between vision and policy, which reads the instruction T.

The state of every core is a single tensor, (batch, state_size), that starts as zeros.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from nalu_ray.layers import LSTM, NAC, Init, lstm_steps

REACH = 10.0  # the largest distance in the paper's grid, 8, and a little more


class Core(nn.Module):
    """A memory of ``state_size`` numbers per environment with ``features`` outputs.

    ``forward(vision, instruction, keep, state)`` takes (steps, batch, V), (steps, batch),
    (steps, batch) with 0 where an episode starts at that step, and (batch, state_size); it returns
    (steps, batch, features) and the state after the last step.
    """

    state_size: int
    features: int


class LSTMCore(Core):
    """Section 4.5's first agent: T is an additional input of the LSTM.

    Args:
        vision: size of the vision's output.
        hidden: units of the LSTM.
        scale: factor on T.
    """

    def __init__(self, vision: int, hidden: int, scale: float, extra: int = 0) -> None:
        super().__init__()
        self.lstm = LSTM(vision + 1 + extra, hidden)
        self.hidden, self.scale = hidden, scale
        self.state_size, self.features = 2 * hidden, hidden

    def forward(
        self, vision: Tensor, instruction: Tensor, keep: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        x = torch.cat([vision, self.scale * instruction[..., None]], -1)
        h, c = state.chunk(2, -1)
        out, last = self.lstm.with_resets(x, keep, (h, c))
        return out, torch.cat(last, -1)


class InstructionNACCore(LSTMCore):
    """Wiring ``instruction``: a NAC of T joins the LSTM's inputs."""

    def __init__(self, vision: int, hidden: int, scale: float, *, units: int, init: Init) -> None:
        super().__init__(vision, hidden, scale, units)
        self.nac = NAC(1, units, init=init)

    def forward(
        self, vision: Tensor, instruction: Tensor, keep: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        return super().forward(
            torch.cat([vision, self.nac(self.scale * instruction[..., None])], -1),
            instruction,
            keep,
            state,
        )


class FeedbackNACCore(LSTMCore):
    """Wirings ``feedback`` and ``accumulator``: a NAC whose output goes back into the LSTM.

    It adds up T, the LSTM's previous output and, as an accumulator, its own previous output. As a
    NAC is linear, it is folded into the LSTM's matrices and costs no separate step.
    """

    def __init__(
        self, vision: int, hidden: int, scale: float, *, units: int, init: Init, accumulate: bool
    ) -> None:
        super().__init__(vision, hidden, scale, units)
        self.units = units if accumulate else 0
        self.nac = NAC(1 + hidden + self.units, units, init=init)
        self.state_size = 2 * hidden + self.units

    def forward(
        self, vision: Tensor, instruction: Tensor, keep: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        scaled = self.scale * instruction[..., None]
        seeing = vision.shape[-1]
        of_vision, of_nac, of_time = self.lstm.weight_x.split([seeing, self.nac.out_features, 1], 1)
        count = self.nac.weight
        projected = linear(vision, of_vision, self.lstm.bias) + scaled * (
            of_time + of_nac @ count[:, :1]
        ).squeeze(1)
        weight = pad(self.lstm.weight_h, (0, self.units)) + of_nac @ count[:, 1:]
        if self.units:
            projected = torch.cat([projected, scaled * count[:, 0]], -1)
            weight = torch.cat([weight, count[:, 1:]])
        h, c = state.split([self.hidden + self.units, self.hidden], -1)
        out, c = lstm_steps(projected, (h, c), weight, keep=keep)
        return out[..., : self.hidden], torch.cat([out[-1], c], -1)


class NACCore(Core):
    """Ours: T reaches the policy only through unbounded counters.

    A NAC counts elapsed time, c' = NAC([1, c]); another computes the remaining time from T and c. A
    row of tanh(scale * remaining + bias) distinguishes the small numbers that matter near the end
    and is flat beyond, so that all long waits look the same. T is held once it is seen, so it may
    be shown only once. There is no LSTM, as it could learn to tell time as well, but only within
    the range of training.

    Args:
        vision: size of the vision's output.
        hidden: units of the layer that joins vision and time.
        units: NAC outputs for the remaining time.
        bank: tanh units per output.
        init: initialisation of the NAC for the remaining time.
        counter_init: initialisation of the counter; a large value starts near an exact count.
    """

    def __init__(
        self, vision: int, hidden: int, *, units: int, bank: int, init: Init, counter_init: Init
    ) -> None:
        super().__init__()
        self.elapsed = NAC(2, 1, init=counter_init)
        self.remaining = NAC(2, units, init=init)
        self.scale = nn.Parameter(torch.ones(units, bank))
        self.bias = nn.Parameter(torch.linspace(-REACH, REACH, bank).repeat(units, 1))
        self.join = nn.Linear(vision + units * bank, hidden)
        nn.init.orthogonal_(self.join.weight, gain=2**0.5)
        nn.init.zeros_(self.join.bias)
        self.state_size, self.features = 2, hidden

    def forward(
        self, vision: Tensor, instruction: Tensor, keep: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        tick, before = self.elapsed.weight[0]
        count, held = state.unbind(-1)
        times = []
        for shown, reset in zip(instruction, keep == 0, strict=True):
            count = tick + before * count.masked_fill(reset, 0)
            held = torch.maximum(shown, held.masked_fill(reset, 0))
            times.append(torch.stack([held, count], -1))
        left = self.remaining(torch.stack(times))
        near = torch.tanh(left[..., None] * self.scale + self.bias).flatten(-2)
        features = torch.relu(self.join(torch.cat([vision, near], -1)))
        return features, torch.stack([count, held], -1)
