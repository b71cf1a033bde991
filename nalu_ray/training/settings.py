"""Field types that several tasks share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from nalu_ray import layers
from nalu_ray.config import did_you_mean


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
