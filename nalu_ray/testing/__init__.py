"""Conformance tests for units, layers and tasks of your own.

As functions, each of which raises ``AssertionError`` with what is wrong::

    from nalu_ray import testing

    testing.check_unit(MyUnit, width=3)     # a module class and its options
    testing.check_layer("mine")             # a registered layer
    testing.check_task("my_task")           # a task that the registry finds

With pytest, for whatever other packages have joined by entry points::

    python -m pytest --pyargs nalu_ray.testing
    NALU_RAY_TEST=mine,my_task python -m pytest --pyargs nalu_ray.testing

The environment variable names layers and tasks, ours too. :mod:`.modules` and :mod:`.training` have
the single checks of a unit, :mod:`.cells` those of a recurrent cell, and :mod:`.tasks` those of a
task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from nalu_ray.registry import task as find_task
from nalu_ray.task import Task
from nalu_ray.testing import cells, modules, tasks, training
from nalu_ray.testing.cells import BuildCell, of_cell
from nalu_ray.testing.modules import Build, of_layer, of_unit

UNIT_CHECKS: dict[str, Callable[[Build], None]] = {**modules.CHECKS, **training.CHECKS}
"""Every check of a unit or layer, by name."""

CELL_CHECKS: dict[str, Callable[[BuildCell], None]] = cells.CHECKS
"""Every check of a recurrent cell, by name."""

TASK_CHECKS: dict[str, Callable[[Task[Any]], None]] = tasks.CHECKS
"""Every check of a task, by name."""

__all__ = [
    "CELL_CHECKS",
    "TASK_CHECKS",
    "UNIT_CHECKS",
    "check_cell",
    "check_layer",
    "check_task",
    "check_unit",
    "of_cell",
    "of_layer",
    "of_unit",
]


def check_unit(unit: Callable[..., nn.Module], **options: Any) -> None:
    """Checks a module class with the constructor ``(in_features, out_features, *, options)``.

    Raises:
        AssertionError: it does not do what a unit must; the message says what.
    """
    for check in UNIT_CHECKS.values():
        check(of_unit(unit, **options))


def check_layer(name: str, **options: Any) -> None:
    """Checks a registered layer, as a network of two layers.

    Raises:
        AssertionError: it does not do what a layer must; the message says what.
        UnknownLayerError: there is no such layer.
    """
    for check in UNIT_CHECKS.values():
        check(of_layer(name, **options))


def check_cell(cell: str | type[nn.Module], **options: Any) -> None:
    """Checks a recurrent cell: a registered one by its name, or that of a unit's class.

    Raises:
        AssertionError: it does not do what a cell must; the message says what.
        UnknownLayerError: there is no such cell.
    """
    for check in CELL_CHECKS.values():
        check(of_cell(cell, **options))


def check_task(task: Task[Any] | str) -> None:
    """Checks a task, by its name or as an object. Its preset ``smoke`` is run several times.

    Raises:
        AssertionError: it does not do what a task must; the message says what.
        ConfigError: there is no such task, or it cannot be loaded.
    """
    for check in TASK_CHECKS.values():
        check(find_task(task) if isinstance(task, str) else task)
