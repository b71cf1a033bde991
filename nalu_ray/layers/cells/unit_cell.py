"""Recurrent cells by name, and the cell of any arithmetic unit."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from .. import registry
from .._checks import check_count
from ..registry import LayerEntry, Registry, UnknownLayerError
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
        for name in registry.names():
            entry = registry.get(name)
            if name not in self.entries and _is_unit(entry):
                self.entries[name] = self._of(entry)
        return sorted(self.entries)

    def get(self, name: str) -> LayerEntry:
        """The entry of a name; see :func:`get_cell`."""
        if not self._has(name):
            check_no_pair(name, self.names())
        return super().get(name)

    def first(self, name: str) -> LayerEntry:
        """The entry of a name, or the cell of a pair's first unit; see :func:`first_cell`."""
        known = self._has(name) or name not in pair_names()
        return self.get(name) if known else self._of(registry.get(name))

    def _has(self, name: str) -> bool:
        return name in self.entries or name in self.names()

    def _of(self, entry: LayerEntry) -> LayerEntry:
        """The cell of a network's first unit, under the network's name."""
        first = cast(Stacked, entry.factory).first
        factories = (cell_entry.factory for cell_entry in self.entries.values())
        cells = {cell.unit: cell for cell in factories if isinstance(cell, UnitFactory)}
        return replace(entry, factory=cells.get(first) or UnitFactory(first))


def _is_unit(entry: LayerEntry) -> bool:
    return isinstance(entry.factory, Stacked) and not entry.factory.is_pair


def pair_names() -> list[str]:
    """The networks of two kinds of unit, such as ``nau_nmu``, sorted."""
    entries = map(registry.get, registry.names())
    return [e.name for e in entries if isinstance(e.factory, Stacked) and e.factory.is_pair]


def check_no_pair(name: str, allowed: Collection[str], what: str = "cell") -> None:
    """Refuses a pair where one unit is needed, of which the other would be left out.

    Args:
        name: any name.
        allowed: the names to choose from instead.
        what: what is needed.

    Raises:
        UnknownLayerError: if it is that of a pair.
    """
    if name in pair_names():
        raise UnknownLayerError(
            f"{name!r} is a pair of units, and a {what} is a single one. "
            f"Allowed: {', '.join(sorted(allowed))}"
        )


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


def first_cell(name: str) -> LayerEntry:
    """The cell of a name, or of a pair's first unit: for a network whose reader is the second.

    Raises:
        UnknownLayerError: if there is no such cell or pair.
    """
    return _cells.first(name)


def build_cell(
    name: str | LayerEntry, in_features: int, hidden_features: int, /, **options: object
) -> Cell:
    """The cell of a name, ready to train.

    Args:
        name: one of :func:`cell_names`, or the entry of a cell.
        in_features: size of the input's last axis.
        hidden_features: size of the state, and of the output unless the cell has another.
        options: passed to the cell's factory.

    Raises:
        UnknownLayerError: if there is no such cell, or if the name is that of a pair of units; the
            message lists all cells.
        TypeError: if the cell does not take one of the options.
        ValueError: if a size is out of range.
    """
    entry = _cells.get(name) if isinstance(name, str) else name
    return cast(Cell, _cells.build_entry(entry, in_features, hidden_features, **options))
