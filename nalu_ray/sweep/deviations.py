"""How settings deviate from the task's shipped preset; stored with the rows, for the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nalu_ray.errors import ConfigError
from nalu_ray.sweep.presets import Point, Preset, expand, sweep_of
from nalu_ray.task import Task


def changes(
    task: Task[Any], preset: str, points: Sequence[Point], source: Preset | None = None
) -> dict[str, dict[str, Any]]:
    """Returns the fields of each setting that differ from the preset, by setting id.

    A setting is compared with the preset's settings of equal ``task.axes``, so a layer that the
    preset does not have is not a change; among several settings, the nearest counts. A user's sweep
    file is compared with the shipped preset of the same name, if there is one.

    Args:
        task: the task.
        preset: name of the preset.
        points: the settings.
        source: the preset in the user's file, for a name that no shipped preset has.

    Returns:
        Plain values of JSON.
    """
    shipped = _shipped(task).get(preset, source)
    if shipped is None:
        return {point.setting.id: {} for point in points}
    known = _own(task, shipped)
    changed = {}
    for point in points:
        axes = tuple(getattr(point.setting, axis) for axis in task.axes)
        if axes not in known:
            known[axes] = _expected(task, shipped, axes)
        changed[point.setting.id] = _nearest(point.values, known[axes])
    return changed


def _own(task: Task[Any], preset: Preset) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """Returns the preset's settings by the values of ``task.axes``."""
    settings: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    try:
        points = expand(preset, task.setting_type, {})
    except ConfigError:
        return settings
    for point in points:
        axes = tuple(getattr(point.setting, axis) for axis in task.axes)
        settings.setdefault(axes, []).append(point.values)
    return settings


def members(task: Task[Any]) -> dict[str, tuple[str, ...]]:
    """Returns the ids of the settings of each shipped preset that can be expanded."""
    ids = {}
    for name, preset in _shipped(task).items():
        try:
            points = expand(preset, task.setting_type, {})
        except ConfigError:
            continue
        ids[name] = tuple(point.setting.id for point in points)
    return ids


def question(task: Task[Any]) -> str:
    """Returns what the task asks, as its shipped sweep says; empty if it does not."""
    try:
        return sweep_of(task).question
    except ConfigError:
        return ""


def searched(task: Task[Any]) -> dict[str, str]:
    """Returns what each shipped preset says of whose recipes were chosen among several."""
    return {name: preset.searched for name, preset in _shipped(task).items() if preset.searched}


def _shipped(task: Task[Any]) -> dict[str, Preset]:
    try:
        return {str(name): preset for name, preset in sweep_of(task).presets.items()}
    except ConfigError:  # the task has no shipped sweep and is run from a file
        return {}


def _expected(task: Task[Any], preset: Preset, axes: Sequence[Any]) -> list[dict[str, Any]]:
    """Returns the preset's settings with these values of the axes, or all if there are none."""
    chosen: Mapping[str, Sequence[Any]] = {
        name: (value,) for name, value in zip(task.axes, axes, strict=True)
    }
    for words in (chosen, {}):
        try:
            points = expand(preset, task.setting_type, words)
        except ConfigError:
            continue
        return [point.values for point in points]
    return []


def _nearest(values: Mapping[str, Any], expected: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the values that differ from the nearest of the expected settings."""
    differing = [
        {name: value for name, value in values.items() if other.get(name) != value}
        for other in expected
    ]
    return min(differing, key=len, default={})
