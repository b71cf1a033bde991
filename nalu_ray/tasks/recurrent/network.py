"""Settings and network of the recurrent task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator
from torch import Tensor, nn

from nalu_ray import layers
from nalu_ray.input.values import Named
from nalu_ray.task import added
from nalu_ray.tasks._operands import RecurrentOperation, check_domain, check_sections
from nalu_ray.training.fields import (
    CellOptions,
    MemoryInit,
    PerLayer,
    Range,
    SupervisedSetting,
    WeightInit,
    known,
    without_gate,
)


def _cells() -> list[str]:
    return sorted([*layers.cell_names(), *layers.pair_names()])


def _known_cell(name: str) -> str:
    return known("cell", name, _cells())


def _known_reader(name: str | None) -> str | None:
    units = {*layers.names()} & {*layers.cell_names()}
    return None if name is None else known("unit", name, units, "reader")


class RecurrentSetting(SupervisedSetting):
    """One recurrent network on one operation."""

    layer: Annotated[str, AfterValidator(_known_cell), Named(_cells)] = Field(
        "nalu",
        description="recurrent cell by name, any unit, or a pair: a unit and its reader (Table 9)",
    )
    op: RecurrentOperation = Field("add", description="operation on a and b (Table 9)")
    hidden: int = Field(2, ge=1, description="hidden units")
    inputs: int = Field(10, ge=1, description="length of each x_t (App. B)")
    section: int = Field(
        1, ge=1, description="elements of x_t in each of a and b; the paper does not say"
    )
    overlap: int = Field(0, ge=0, description="elements that a and b share")
    length: int = Field(10, ge=1, description="steps per sequence in training (App. B)")
    test_length: int = Field(1000, ge=1, description="steps per sequence in extrapolation (App. B)")
    train_range: Range = Field((0.0, 1.0), description="x_t is U(low, high), as low:high")
    batch: int = Field(128, ge=1, description="sequences per step, drawn anew at each step")
    test_size: int = Field(200, ge=1, description="sequences of each evaluation set")
    weight_init: WeightInit = "uniform"
    gate_init: PerLayer = Field(
        (0.2, -0.2),
        description="initialisation of the NALU's G in the cell and in the layer that reads it",
    )
    memory_init: MemoryInit = None
    options: CellOptions = Field({})
    reader: Annotated[str | None, AfterValidator(_known_reader)] = added(
        "0.3.0",
        None,
        description="name of the unit that reads the last state; none = the cell's own unit if the "
        "cell is made of one, else an affine layer",
    )
    reference_hidden: int = Field(
        32, ge=1, description="hidden units of the untrained LSTM whose error is 100 in Table 9"
    )

    def built(self) -> Sequence[layers.LayerEntry]:
        cell, name = layers.first_cell(self.layer), self.reader or self.layer
        return (cell, layers.get(name)) if name in layers.names() else (cell,)

    def unread_parts(self) -> dict[str, dict[int, str]]:
        if len(self.gate_init) == 1:
            return {}
        reader = self.built()[1:]
        unit = getattr(reader[0].factory, "layer", None) if reader else None
        parts = {"the cell": self.built()[0].factory, "the reader": unit}
        return {"gate_init": without_gate(self.layer, parts)}

    @model_validator(mode="after")
    def _possible(self) -> RecurrentSetting:
        if len(self.gate_init) > 2:
            raise ValueError("gate_init takes one value for cell and layer, or cell:layer")
        check_sections(self.inputs, self.section, self.overlap)
        check_domain(self.op, *self.train_range)
        if self.reader and self.layer in layers.pair_names():
            raise ValueError(
                f"reader must be none: layer={self.layer} is a pair, whose second unit reads"
            )
        if self.test_length <= self.length:
            raise ValueError(
                f"test_length={self.test_length} must be more than length={self.length}"
            )
        return self


class RecurrentNetwork(nn.Module):
    """A cell, and a layer that reads its last output.

    The layer is that of the setting's ``reader``. Without one, it is the last of the stack of the
    cell's unit, or affine if the cell is not made of a unit.
    """

    def __init__(self, setting: RecurrentSetting) -> None:
        super().__init__()
        name, gates = setting.layer, setting.gate_init
        reader = setting.reader or name
        unit = layers.get(reader) if reader in layers.names() else None
        read = _chosen(unit.options if unit else (), setting, gates[-1])
        # the cell also gets, and refuses, options that neither knows
        entry = layers.first_cell(name)
        cell = _chosen(entry.options, setting, gates[0])
        cell |= {key: value for key, value in setting.options.items() if key not in read}
        self.cell = layers.build_cell(entry, setting.inputs, setting.hidden, **cell)
        if unit is None:
            self.read: nn.Module = layers.Linear(self.cell.out_features, 1)
        else:
            assert isinstance(unit.factory, layers.Stacked)
            self.read = unit.factory.last(self.cell.out_features, 1, **read)

    def forward(self, x: Tensor, *state: Tensor) -> tuple[Tensor, layers.State]:
        """Maps (batch, steps, inputs) and an optional state to (batch, 1) and the next state."""
        outputs, after = self.cell(x, state or None)
        return self.read(layers.last(outputs)), after


def _chosen(names: Sequence[str], setting: RecurrentSetting, gate: float | str) -> dict[str, Any]:
    options = {name: value for name, value in setting.options.items() if name in names}
    return setting.layer_options(names, gate_init=gate) | options
