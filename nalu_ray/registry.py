"""Finds tasks by looking into :mod:`nalu_ray.tasks`; nothing lists them."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from nalu_ray.config import ConfigError, did_you_mean
from nalu_ray.task import Task

GROUP = "nalu_ray.tasks"


def names() -> list[str]:
    """Returns the names of all tasks without loading any.

    They are the modules of ``nalu_ray.tasks`` (not ``_these``), and what other packages declare in
    the entry-point group ``nalu_ray.tasks``.
    """
    return sorted(_loaders())


@functools.cache
def tasks() -> dict[str, Task[Any]]:
    """Returns every task by name, in the paper's order."""
    found = [_load(name) for name in names()]
    return {task.name: task for task in sorted(found, key=lambda task: task.section)}


def task(name: str) -> Task[Any]:
    """Returns the task of that name; loads no other.

    Raises:
        ConfigError: there is none; the message says which is nearest.
    """
    if name not in _loaders():
        raise ConfigError([did_you_mean("task", name, names())])
    return _load(name)


def _loaders() -> dict[str, Callable[[], Any]]:
    package = importlib.import_module(GROUP)
    own = [item.name for item in pkgutil.iter_modules(package.__path__) if item.name[0] != "_"]
    loaders = {name: functools.partial(importlib.import_module, f"{GROUP}.{name}") for name in own}
    return {point.name: point.load for point in entry_points(group=GROUP)} | loaders


def _load(name: str) -> Task[Any]:
    found: Task[Any] = _loaders()[name]().TASK
    if found.name != name:
        raise RuntimeError(f"the task found as '{name}' calls itself '{found.name}'")
    return found
