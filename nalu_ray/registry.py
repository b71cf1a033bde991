"""Finds tasks by looking into :mod:`nalu_ray.tasks`; nothing lists them."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from importlib.metadata import entry_points
from typing import Any

from nalu_ray.config import ConfigError, did_you_mean
from nalu_ray.task import Task

GROUP = "nalu_ray.tasks"


@functools.cache
def tasks() -> dict[str, Task[Any]]:
    """Returns every task by name, in the paper's order.

    They are the modules of ``nalu_ray.tasks`` (not ``_these``) that hold a ``TASK``, and those that
    other packages declare in the entry-point group ``nalu_ray.tasks``.
    """
    package = importlib.import_module("nalu_ray.tasks")
    names = [item.name for item in pkgutil.iter_modules(package.__path__)]
    modules = [importlib.import_module(f"{GROUP}.{name}") for name in names if name[0] != "_"]
    modules += [point.load() for point in entry_points(group=GROUP)]
    found: list[Task[Any]] = [module.TASK for module in modules]
    return {task.name: task for task in sorted(found, key=lambda task: task.section)}


def task(name: str) -> Task[Any]:
    """Returns the task of that name.

    Raises:
        ConfigError: there is none; the message says which is nearest.
    """
    try:
        return tasks()[name]
    except KeyError:
        raise ConfigError([did_you_mean("task", name, tasks())]) from None
