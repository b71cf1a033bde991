"""Settings, sequences and network of the recurrent task; see the package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from nalu_ray import layers
from nalu_ray.seeding import Streams
from nalu_ray.tasks._operands import operands, sections
from nalu_ray.training.fields import (
    CellName,
    CellOptions,
    MemoryInit,
    PerLayer,
    Range,
    SupervisedSetting,
    WeightInit,
    starts,
)

Operation = Literal["a", "add", "sub", "mul", "div", "square", "sqrt"]

OPERATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "a": lambda a, b: a,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "square": lambda a, b: a * a,
    "sqrt": lambda a, b: a.sqrt(),
}
PIECE = 100  # steps of a long sequence that are held at a time


class RecurrentSetting(SupervisedSetting):
    """One recurrent network on one operation."""

    layer: CellName = Field("nalu", description="recurrent cell by name, or any unit (Table 9)")
    op: Operation = Field("add", description="operation on a and b (Table 9)")
    hidden: int = Field(2, ge=1, description="hidden units")
    inputs: int = Field(10, ge=1, description="length of each x_t (App. B)")
    section: int = Field(
        1, ge=1, description="elements of x_t in each of a and b; the paper leaves it open"
    )
    overlap: int = Field(0, ge=0, description="elements that a and b share")
    length: int = Field(10, ge=1, description="steps of a sequence in training (App. B)")
    test_length: int = Field(
        1000, ge=1, description="steps of a sequence in extrapolation (App. B)"
    )
    train_range: Range = Field((0.0, 1.0), description="x_t is U(low, high), as low:high")
    batch: int = Field(128, ge=1, description="sequences a step, fresh each step")
    test_size: int = Field(200, ge=1, description="sequences of each evaluation set")
    weight_init: WeightInit = "uniform"
    gate_init: PerLayer = Field(
        (0.2, -0.2),
        description="initialisation of the NALU's G in the cell and in the layer that reads it",
    )
    memory_init: MemoryInit = None
    options: CellOptions = Field({})
    reference_hidden: int = Field(
        32, ge=1, description="hidden units of the random LSTM that is 100 in Table 9"
    )

    def built(self) -> Sequence[layers.LayerEntry]:
        cell, name = layers.get_cell(self.layer), self.layer
        return (cell, layers.get(name)) if name in layers.names() else (cell,)

    @model_validator(mode="after")
    def _possible(self) -> RecurrentSetting:
        if len(self.gate_init) > 2:
            raise ValueError("gate_init: one for cell and layer, or cell:layer")
        span = 2 * self.section - self.overlap
        if self.overlap > self.section:
            raise ValueError(f"overlap={self.overlap} is more than section={self.section}")
        if span > self.inputs:
            raise ValueError(
                f"section={self.section} with overlap={self.overlap} takes {span} elements, "
                f"more than inputs={self.inputs}"
            )
        low, high = self.train_range
        if self.op == "sqrt" and low < 0:
            raise ValueError(f"op=sqrt needs a range of 0 or more, not {low}:{high}")
        if self.op == "div" and low < 0 < high:
            raise ValueError(f"op=div needs a range that does not cross 0, not {low}:{high}")
        if self.test_length <= self.length:
            raise ValueError(
                f"test_length={self.test_length} is no extrapolation from length={self.length}"
            )
        return self


class RecurrentNetwork(nn.Module):
    """A cell, and what reads its last output: of a unit's stack the last, else an affine layer."""

    def __init__(self, setting: RecurrentSetting) -> None:
        super().__init__()
        name, gates = setting.layer, setting.gate_init
        unit = layers.get(name) if name in layers.names() else None
        read = _chosen(unit.options if unit else (), setting, gates[-1])
        # the cell gets, and refuses, what neither knows
        cell = _chosen(layers.get_cell(name).options, setting, gates[0])
        cell |= {key: value for key, value in setting.options.items() if key not in read}
        self.cell = layers.build_cell(name, setting.inputs, setting.hidden, **cell)
        if unit is None:
            self.read: nn.Module = layers.Linear(self.cell.out_features, 1)
        else:
            assert isinstance(unit.factory, layers.Stacked)
            self.read = unit.factory.last(self.cell.out_features, 1, **read)

    def forward(self, x: Tensor, *state: Tensor) -> tuple[Tensor, layers.State]:
        """(batch, steps, inputs) and the state before, if any, to (batch, 1) and the next state."""
        outputs, after = self.cell(x, state or None)
        return self.read(layers.last(outputs)), after


def _chosen(known: Sequence[str], setting: RecurrentSetting, gate: float | str) -> dict[str, Any]:
    own = {name: value for name, value in setting.options.items() if name in known}
    return starts(known, setting.weight_init, gate, setting.memory_init) | own


def whole(setting: RecurrentSetting, split: str, streams: Streams) -> Tensor:
    """Draws x of sequences as long as in training, (R, N, length, inputs)."""
    count = setting.batch if split == "train" else setting.test_size
    shape = (count, setting.length, setting.inputs)
    return torch.from_numpy(streams.uniform(shape, *setting.train_range))


def pieces(setting: RecurrentSetting, streams: Streams) -> Iterator[Tensor]:
    """Draws x of long sequences in pieces of time, (R, N, up to PIECE, inputs) each."""
    for start in range(0, setting.test_length, PIECE):
        steps = min(PIECE, setting.test_length - start)
        shape = (setting.test_size, steps, setting.inputs)
        yield torch.from_numpy(streams.uniform(shape, *setting.train_range))


def target(setting: RecurrentSetting, parts: Iterable[Tensor], seeds: Sequence[int]) -> Tensor:
    """Returns y of sequences that come in pieces of time, (R, N, 1)."""
    sums = sum(part.sum(2, dtype=torch.float64) for part in parts)
    assert isinstance(sums, Tensor)
    shape = (setting.inputs, setting.section, setting.overlap)
    chosen = sections("recurrent", tuple(seeds), *shape)
    shared = len(sums) == 1 < len(seeds)
    y = OPERATIONS[setting.op](*operands(sums, chosen, shared))
    return y.float().unsqueeze(2)
