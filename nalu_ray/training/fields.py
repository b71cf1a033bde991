"""Fields, and types of fields, that several tasks share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from nalu_ray import layers
from nalu_ray.config import Setting, did_you_mean
from nalu_ray.training.optimisers import OptimiserName, ScheduleName


class SupervisedSetting(Setting):
    """Fields of every supervised task: how it is trained and when it is evaluated."""

    lr: float = Field(0.01, gt=0, description="highest learning rate")
    steps: int = Field(1000, ge=1, description="training steps of a seed")
    optimiser: OptimiserName = Field("adam", description="torch optimiser, or Muon")
    adam_beta2: float = Field(0.999, ge=0, lt=1, description="Adam's second decay rate")
    momentum: float = Field(0.0, ge=0, lt=1, description="SGD's momentum, Nesterov's kind")
    weight_decay: float = Field(0.0, ge=0, description="Muon's, of the weights of linear layers")
    schedule: ScheduleName = Field("constant", description="learning rate over the steps")
    warmup: int = Field(
        0, ge=0, description="first steps, over which the learning rate rises to lr"
    )
    lr_end: float = Field(0.01, ge=0, le=1, description="last learning rate, as a share of lr")
    clip: float | None = Field(
        None, gt=0, description="largest gradient norm of a seed; none = no clipping"
    )
    evaluations: int = Field(
        20, ge=1, description="times the evaluation sets are scored, evenly spaced"
    )
    shared_inputs: bool = Field(
        False,
        description="seeds share the stream of training inputs (faster, no longer independent)",
    )


def _known_layer(name: str) -> str:
    if name not in layers.names():
        raise ValueError(did_you_mean("layer", name, layers.names()))
    return name


def _known_cell(name: str) -> str:
    if name not in layers.cell_names():
        raise ValueError(did_you_mean("cell", name, layers.cell_names()))
    return name


def split_range(value: Any) -> Any:
    """Cuts a text at its colons; leaves anything else as it is."""
    return value.split(":") if isinstance(value, str) else value


def _options(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    pairs = [part.partition(":") for part in value.split(";") if part]
    return {name: _number(text) for name, _, text in pairs}


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _known_init(init: float | str) -> float | str:
    layers.check_init("initialisation", init)
    return init


def _ordered(value: tuple[float, float]) -> tuple[float, float]:
    if not value[0] < value[1]:
        raise ValueError(f"empty range {value[0]}:{value[1]}; write low:high with low < high")
    return value


LayerName = Annotated[str, AfterValidator(_known_layer)]
"""A network of :mod:`nalu_ray.layers` by its registered name."""

CellName = Annotated[str, AfterValidator(_known_cell)]
"""A recurrent cell of :mod:`nalu_ray.layers` by its registered name, or any unit."""

Range = Annotated[tuple[float, float], BeforeValidator(split_range), AfterValidator(_ordered)]
"""A pair low < high, written ``low:high`` on the command line."""

NumberOrName = Annotated[float | str, Field(union_mode="left_to_right")]
"""A number where it reads as one, else a name."""

Init = Annotated[NumberOrName, AfterValidator(_known_init)]
"""An initialisation of :mod:`nalu_ray.layers`, a name or a constant."""

PerLayer = Annotated[tuple[Init, ...], BeforeValidator(split_range)]
"""An initialisation for each layer, first to last, written ``a:b``."""

Options = Annotated[dict[str, int | float | str], BeforeValidator(_options)]
"""Named values, written ``name:value;name:value`` on the command line."""


def starts(
    known: Collection[str],
    weight_init: float | str,
    gate_init: float | str,
    memory_init: float | None,
) -> dict[str, Any]:
    """How a unit or a cell starts: those of its ``known`` options that a task has as fields."""
    found = {"init": weight_init, "gate_init": gate_init, "memory_init": memory_init}
    return {name: value for name, value in found.items() if name in known}
