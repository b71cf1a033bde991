"""The memory between vision and policy, which reads the instruction T.

The state of every core is a single tensor, (batch, state_size), that starts as zeros. Beside the
cores written out here, any recurrent cell of :mod:`nalu_ray.layers` is one, and any unit or cell
can stand beside the LSTM in the NAC's place.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from nalu_ray import layers
from nalu_ray.layers import LSTM, NAC, Cell, Init, State, UnitCell, lstm_steps

Wiring = Literal["instruction", "feedback", "accumulator"]

COUNTERS = "nac_core"
FREE_COUNTERS = "linear_core"  # our control of nac_core: the same counters with free weights
BESIDE = "lstm_"  # prefix of a unit or cell beside the LSTM
FREE = "linear"  # our control beside the LSTM: a NAC's recursion with free weights
REACH = 10.0  # the largest distance in the paper's grid, 8, and a little more


def names() -> list[str]:
    """Every name of a core."""
    cells = layers.cell_names()
    beside_lstm = [*cells, *layers.pair_names(), FREE]
    return [COUNTERS, FREE_COUNTERS, *cells, *(f"{BESIDE}{name}" for name in beside_lstm)]


def check_name(name: str) -> str:
    """Returns the name of a core if there is one.

    A name is that of a cell, which is the whole memory, ``lstm_`` and a cell's name, for a cell or
    unit beside the LSTM, ``nac_core``, or ``linear_core``, its control.

    Raises:
        ValueError: if there is no such core; the message suggests the nearest and says what there
            is.
    """
    cells = layers.cell_names()
    if name in names():
        return name
    layers.check_no_pair(name, cells, "core")
    near = get_close_matches(name, names(), n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    raise ValueError(
        f"unknown core.{hint} Allowed: {COUNTERS}, a unit or cell, or {BESIDE} and one of these "
        f"for an LSTM with it: {', '.join(cells)}; {BESIDE}{FREE} is the control of {BESIDE}nac, "
        f"{FREE_COUNTERS} that of {COUNTERS}"
    )


def beside(name: str) -> str | None:
    """The unit or cell that stands beside the LSTM in the core of a name, if one does."""
    is_cell = name in layers.cell_names()
    return None if is_cell or name in (COUNTERS, FREE_COUNTERS) else name.removeprefix(BESIDE)


class Core(nn.Module):
    """A memory of ``state_size`` numbers per environment with ``features`` outputs.

    ``forward(vision, instruction, keep, state)`` takes (steps, batch, V), (steps, batch),
    (steps, batch) with 0 where an episode starts at that step, and (batch, state_size); it returns
    (steps, batch, features) and the state after the last step.
    """

    state_size: int
    features: int

    @property
    def arithmetic_units(self) -> list[nn.Module]:
        """The arithmetic units, which have a learning rate of their own."""
        return [part for part in self.modules() if isinstance(part, NAC)]


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


class CellCore(Core):
    """Any recurrent cell in the place of the LSTM: T is an additional input.

    Args:
        vision: size of the vision's output.
        hidden: hidden units of the cell.
        scale: factor on T.
        cell: a name in :func:`nalu_ray.layers.cell_names`.
        options: options of the cell.
    """

    def __init__(self, vision: int, hidden: int, scale: float, cell: str, **options: Any) -> None:
        super().__init__()
        self.cell = layers.build_cell(cell, vision + 1, hidden, **options)
        self.scale = scale
        self.state_size, self.features = state_size(self.cell), self.cell.out_features

    @property
    def arithmetic_units(self) -> list[nn.Module]:
        return [self.cell.unit] if isinstance(self.cell, UnitCell) else []

    def forward(
        self, vision: Tensor, instruction: Tensor, keep: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        x = torch.cat([vision, self.scale * instruction[..., None]], -1)
        out, last = self.cell.with_resets(x, keep, unpacked(self.cell, state))
        return out, packed(self.cell, last)


class BesideLSTMCore(LSTMCore):
    """Any unit or cell in the NAC's place beside the LSTM, in one of the NAC's three wirings.

    Its output is an additional input of the LSTM. It reads T (``instruction``), or T and the LSTM's
    previous output (``feedback``), or as a cell with a state of its own the same two
    (``accumulator``); a unit's state is its own previous output. ``FREE`` is a linear unit without
    offset, which is an accumulator: what a NAC computes, but with weights of any size.

    Args:
        vision: size of the vision's output.
        hidden: units of the LSTM.
        scale: factor on T.
        unit: ``FREE``, or a name in :func:`nalu_ray.layers.cell_names`; without a state, that of a
            layer, which may be a pair.
        units: outputs of the unit.
        wiring: one of ``Wiring``.
        options: options of the unit.
    """

    def __init__(
        self,
        vision: int,
        hidden: int,
        scale: float,
        unit: str,
        *,
        units: int,
        wiring: Wiring,
        **options: Any,
    ) -> None:
        inputs = 1 if wiring == "instruction" else 1 + hidden
        part: nn.Module
        if unit == FREE:
            part = UnitCell(inputs, units, layers.Linear, bias=False)
        elif wiring == "accumulator":
            part = layers.build_cell(unit, inputs, units, **options)
            units = part.out_features  # some cells have another number of outputs
        else:
            least = getattr(layers.get(unit).factory, "least", 0)
            part = layers.build(unit, inputs, units, units, hidden_layers=least, **options)
        super().__init__(vision, hidden, scale, units)
        self.part, self.sees_output = part, wiring != "instruction"
        if isinstance(part, Cell):
            self.state_size += state_size(part)

    @property
    def arithmetic_units(self) -> list[nn.Module]:
        if isinstance(self.part, Cell):
            return [self.part.unit] if isinstance(self.part, UnitCell) else []
        return [self.part]

    def forward(
        self, vision: Tensor, instruction: Tensor, keep: Tensor, state: Tensor
    ) -> tuple[Tensor, Tensor]:
        scaled = self.scale * instruction[..., None]
        if not self.sees_output:
            return super().forward(
                torch.cat([vision, self.part(scaled)], -1), instruction, keep, state
            )
        outputs = []
        for step_vision, time, step_keep in zip(vision, scaled, keep, strict=True):
            state = state.masked_fill(step_keep[:, None] == 0, 0)
            h, c, unit_state = state.tensor_split([self.hidden, 2 * self.hidden], -1)
            value, unit_state = self._compute(torch.cat([time, h], -1), unit_state)
            _, (h, c) = self.lstm.step(torch.cat([step_vision, value, time], -1), (h, c))
            outputs.append(h)
            state = torch.cat([h, c, unit_state], -1)
        return torch.stack(outputs), state

    def _compute(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Output and next state of the unit; a unit without a state has an empty one."""
        if not isinstance(self.part, Cell):
            return self.part(x), state
        value, after = self.part.step(x, unpacked(self.part, state))
        return value, packed(self.part, after)


class FreeNAC(nn.Module):
    """A linear layer without offset that starts with the weights of a NAC, but keeps no bounds.

    Args:
        in_features, out_features: sizes of the last axis of input and output.
        init: initialisation of the NAC.
    """

    def __init__(self, in_features: int, out_features: int, *, init: Init) -> None:
        super().__init__()
        start = NAC(in_features, out_features, init=init).weight
        self.weight = nn.Parameter(start.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) to (..., out)."""
        return linear(x, self.weight)


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
        free: whether the two NACs are linear layers that only start as NACs, a control.
    """

    def __init__(
        self,
        vision: int,
        hidden: int,
        *,
        units: int,
        bank: int,
        init: Init,
        counter_init: Init,
        free: bool = False,
    ) -> None:
        super().__init__()
        unit: type[NAC] | type[FreeNAC] = FreeNAC if free else NAC
        self.elapsed = unit(2, 1, init=counter_init)
        self.remaining = unit(2, units, init=init)
        self.scale = nn.Parameter(torch.ones(units, bank))
        self.bias = nn.Parameter(torch.linspace(-REACH, REACH, bank).repeat(units, 1))
        self.join = nn.Linear(vision + units * bank, hidden)
        nn.init.orthogonal_(self.join.weight, gain=2**0.5)
        nn.init.zeros_(self.join.bias)
        self.state_size, self.features = 2, hidden

    @property
    def arithmetic_units(self) -> list[nn.Module]:
        return [self.elapsed, self.remaining]

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
        remaining = self.remaining(torch.stack(times))
        near = torch.tanh(remaining[..., None] * self.scale + self.bias).flatten(-2)
        features = torch.relu(self.join(torch.cat([vision, near], -1)))
        return features, torch.stack([count, held], -1)


def state_size(cell: Cell) -> int:
    """Numbers in the state of a cell per environment."""
    return sum(part.numel() for part in cell.initial(1, torch.empty(())))


def packed(cell: Cell, state: State) -> Tensor:
    """A cell's state as one tensor, (batch, state_size), less its start: a core's starts as 0."""
    starts = cell.initial(1, state[0])
    parts = zip(state, starts, strict=True)
    return torch.cat([(part - start).flatten(1) for part, start in parts], -1)


def unpacked(cell: Cell, state: Tensor) -> State:
    """The reverse of :func:`packed`."""
    starts = cell.initial(1, state)
    parts = state.split([start.numel() for start in starts], -1)
    pairs = zip(parts, starts, strict=True)
    return tuple(part.unflatten(-1, start.shape[1:]) + start for part, start in pairs)
