"""Which layers, cells and tasks the pytest modules of this package check."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache

from nalu_ray import layers, registry
from nalu_ray.errors import ConfigError, did_you_mean

VARIABLE = "NALU_RAY_TEST"
"""Environment variable with names of layers, cells and tasks, separated by commas."""

_OURS = "nalu_ray."


@cache
def chosen_layers() -> list[str]:
    """Returns the layers to check: those that are named, else those of other packages.

    Raises:
        ConfigError: a name is of no layer, no cell and no task.
    """
    return _chosen(layers.names(), lambda name: layers.get(name).factory.__module__)


@cache
def chosen_cells() -> list[str]:
    """Returns the recurrent cells to check, likewise; a unit is one by its own name."""
    return _chosen(layers.cell_names(), lambda name: layers.get_cell(name).factory.__module__)


@cache
def chosen_tasks() -> list[str]:
    """Returns the tasks to check, likewise."""
    return _chosen(registry.names(), registry.module_of)


def _chosen(known: Iterable[str], module: Callable[[str], str]) -> list[str]:
    names = [name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]
    allowed = {*layers.names(), *layers.cell_names(), *registry.names()}
    if unknown := [name for name in names if name not in allowed]:
        raise ConfigError([f"{VARIABLE}: {did_you_mean('name', unknown[0], allowed)}"])
    if names:
        return [name for name in known if name in names]
    return [name for name in known if not module(name).startswith(_OURS)]
