"""Finds tasks: the modules of :mod:`nalu_ray.tasks`, and entry points of other packages."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import ValidationError

from nalu_ray.errors import ConfigError, did_you_mean, explain, printable
from nalu_ray.results.specs import FigureSpec, TableSpec, TaskSpecs
from nalu_ray.task import Setting, Task

GROUP = "nalu_ray.tasks"
_LONGEST = 300  # characters of another package's error


@dataclass(frozen=True)
class Everything:
    """Every task by name, in the paper's order, and one sentence per task that cannot be loaded."""

    tasks: dict[str, Task[Any]]
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class _Source:
    """Where a task comes from: the module, as messages name it, and how it is loaded."""

    module: str
    load: Callable[[], Any]


def names() -> list[str]:
    """Returns the names of all tasks without loading any.

    They are the modules of ``nalu_ray.tasks`` (not ``_these``), and what other packages declare in
    the entry-point group ``nalu_ray.tasks``.
    """
    return sorted(_sources()[0])


def module_of(name: str) -> str:
    """Returns the module of a task among :func:`names`, without loading it."""
    return _sources()[0][name].module


def tasks() -> dict[str, Task[Any]]:
    """Returns every task that can be loaded, by name, in the paper's order."""
    return everything().tasks


@functools.cache
def everything() -> Everything:
    """Loads every task; one that cannot be loaded is left out with a sentence that says why."""
    sources, left_out = _sources()
    loaded = []
    for name in sorted(sources):
        try:
            loaded.append(_load(name, sources[name]))
        except ConfigError as error:
            left_out += error.messages
    return Everything({task.name: task for task in sorted(loaded, key=_order)}, tuple(left_out))


def task(name: str) -> Task[Any]:
    """Returns the task of that name; loads no other.

    Raises:
        ConfigError: there is none, and the message says which is nearest; or it cannot be loaded,
            and the message says why.
    """
    sources, _ = _sources()
    if name not in sources:
        raise ConfigError([did_you_mean("task", name, names())])
    return _load(name, sources[name])


def _sources() -> tuple[dict[str, _Source], list[str]]:
    """Returns each task's source by name, and a sentence for each name that is taken."""
    package = importlib.import_module(GROUP)
    modules = [item.name for item in pkgutil.iter_modules(package.__path__) if item.name[0] != "_"]
    sources = {name: _of_ours(f"{GROUP}.{name}") for name in modules}
    taken = []
    for point in sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value)):
        source = sources.setdefault(point.name, _of_package(point))
        if source.module != point.value:
            text = f"task '{point.name}' of {point.value} left out: {source.module} has the name"
            taken.append(text)
    return sources, taken


def _of_ours(module: str) -> _Source:
    return _Source(module, functools.partial(importlib.import_module, module))


def _of_package(point: EntryPoint) -> _Source:
    return _Source(point.value, point.load)


def _load(name: str, source: _Source) -> Task[Any]:
    try:
        loaded = source.load()
        candidate = loaded if isinstance(loaded, Task) else getattr(loaded, "TASK", None)
        mistake = _mistake(name, candidate)
    except (Exception, SystemExit) as error:  # whatever another package may do while it is imported
        text = f"task '{name}' of {source.module} cannot be loaded: {_in_a_line(error)}"
        raise ConfigError([text]) from error
    if mistake or not isinstance(candidate, Task):
        raise ConfigError([f"task '{name}' of {source.module} is not a task: {mistake}"])
    return candidate


def _mistake(name: str, candidate: object) -> str:
    """What keeps an object from being a task of that name; empty if nothing does."""
    if candidate is None:
        return "it has no TASK"
    if not isinstance(candidate, Task):
        return f"its TASK is of type {type(candidate).__name__}, not a nalu_ray.task.Task"
    for field in ("name", "title", "section"):
        value = getattr(candidate, field, None)
        if not isinstance(value, str):
            return f"{field} must be text, got {value!r}"
    if candidate.name != name:
        return f"it calls itself '{candidate.name}'"
    fields = getattr(candidate, "setting_type", None)
    if not (isinstance(fields, type) and issubclass(fields, Setting)):
        return f"setting_type must be a subclass of nalu_ray.task.Setting, got {fields!r}"
    return _mistake_of_specs(candidate)


def _mistake_of_specs(task: Task[Any]) -> str:
    """What keeps a task's tables and figures from being read again; empty if nothing does."""
    specs = TaskSpecs(task=task.name, title=task.title, tables=task.tables, figures=task.figures)
    TaskSpecs.read(specs.model_dump_json().encode())
    fields = task.setting_type.model_fields
    for where, field in _axes(task):
        if field not in fields:
            return f"{where}: {did_you_mean('field', field, fields)}"
    return ""


def _axes(task: Task[Any]) -> Iterator[tuple[str, str]]:
    """Yields where a task names a field along which trials, cells or curves are laid out."""
    yield from (("axes", field) for field in task.axes)
    specs: tuple[TableSpec | FigureSpec, ...] = (*task.tables, *task.figures)
    for spec in specs:
        for part in ("rows", "columns", "lines", "panels"):
            axis = getattr(spec, part, None)
            if axis is not None:
                yield f"{spec.name}.{part}", axis.field
                for condition in axis.apart:
                    yield f"{spec.name}.{part}.apart", condition.partition("<")[0]
        if isinstance(spec, FigureSpec) and spec.swept is not None:
            yield f"{spec.name}.x", spec.swept


def _in_a_line(error: BaseException) -> str:
    """An error in one line."""
    text = "; ".join(explain(error)) if isinstance(error, ValidationError) else str(error)
    return printable(" ".join(f"{type(error).__name__}: {text}".split()), most=_LONGEST)


def _order(task: Task[Any]) -> tuple[bool, list[tuple[bool, int, str]], str]:
    """By section as a reader counts, 4.10 after 4.9; what has no number comes last."""
    parts = re.findall(r"[0-9]+|[^0-9.]+", task.section)
    numbered = task.section[:1] in tuple("0123456789")
    keys = [(False, int(p), "") if p[0] in "0123456789" else (True, 0, p) for p in parts]
    return not numbered, keys, task.name
