"""Recurrent cells by name, and the cell of any arithmetic unit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from .. import registry
from .._checks import check_count
from ..registry import Registry
from ..stack import Stacked, reset_parameters
from .base import Cell, State

SHAPE = ("in_features", "hidden_features")


class UnitCell(Cell):
    """A unit as a recurrent cell, h_t = unit([x_t, h_{t-1}]).

    h_0 is the unit's ``recurrent_start``, where it names one: 1 where it multiplies. Else it is 0.

    Args:
        in_features: size of the input's last axis.
        hidden_features: size of h.
        unit: a module class with constructor ``(in_features, out_features, **options)``.
        options: options of the unit.

    Raises:
        ValueError: if a size is below 1.
    """

    def __init__(
        self, in_features: int, hidden_features: int, unit: type[nn.Module], **options: Any
    ) -> None:
        super().__init__()
        check_count("in_features", in_features)
        check_count("hidden_features", hidden_features)
        self.in_features, self.out_features = in_features, hidden_features
        self.unit = unit(in_features + hidden_features, hidden_features, **options)
        self.start = float(getattr(unit, "recurrent_start", 0.0))

    def initial(self, batch: int, like: Tensor) -> State:
        return (like.new_full((batch, self.out_features), self.start),)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        reset_parameters(self.unit, generator)

    def _step(
        self, projected: Tensor, state: State, weights: tuple[Tensor, ...]
    ) -> tuple[Tensor, State]:
        h = self.unit(torch.cat([projected, state[0]], -1))
        return h, (h,)


class _Cells(Registry):
    """Cells by name; a unit without a registered cell gets a :class:`UnitCell`."""

    def names(self) -> list[str]:
        """Every name that :meth:`build` takes, sorted."""
        super().names()  # registers the cells of units first
        cells = {
            entry.factory.unit: entry.factory
            for entry in self.entries.values()
            if isinstance(entry.factory, UnitFactory)
        }
        for name in registry.names():
            entry = registry.get(name)
            if name not in self.entries and isinstance(entry.factory, Stacked):
                first = entry.factory.first
                factory = cells.get(first) or UnitFactory(first)
                self.entries[name] = replace(entry, factory=factory)
        return sorted(self.entries)


class UnitFactory:
    """Factory of a unit's cell; its options are the unit's.

    Args:
        unit: a module class with constructor ``(in_features, out_features, *, options)``.
        cell: its cell class, with constructor ``(in_features, hidden_features, **options)``.
    """

    def __init__(self, unit: type[nn.Module], cell: Callable[..., Cell] | None = None) -> None:
        self.unit = unit
        self.cell = cell or partial(UnitCell, unit=unit)
        self.__module__ = unit.__module__
        self.passes_options_to = (unit,) if cell is None else (unit, cell)

    def __call__(self, in_features: int, hidden_features: int, **options: Any) -> Cell:
        return self.cell(in_features, hidden_features, **options)


_cells = _Cells("cell", SHAPE)
register_cell, cell_names, get_cell = _cells.register, _cells.names, _cells.get


def build_cell(name: str, in_features: int, hidden_features: int, /, **options: object) -> Cell:
    """The cell of a name, ready to train.

    Args:
        name: one of :func:`cell_names`.
        in_features: size of the input's last axis.
        hidden_features: size of the state, and of the output unless the cell has another.
        options: passed to the cell's factory.

    Raises:
        UnknownLayerError: if there is no such cell; the message suggests the nearest and lists all.
        TypeError: if the cell does not take one of the options.
        ValueError: if a size is out of range.
    """
    return cast(Cell, _cells.build(name, in_features, hidden_features, **options))
