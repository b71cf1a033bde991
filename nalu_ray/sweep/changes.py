"""What a sweep changes of its task's shipped preset: stored with the rows, so that tables know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nalu_ray.errors import ConfigError
from nalu_ray.sweep.presets import Point, Preset, expand, sweep_of
from nalu_ray.task import Task


def changes(task: Task[Any], preset: str, points: Sequence[Point]) -> dict[str, dict[str, Any]]:
    """Returns the fields that each setting has otherwise than the shipped preset, by setting id.

    A setting is compared with what the preset runs on the same ``task.axes``, so a layer that the
    preset does not have is no change; of several such settings, with the nearest. A sweep file of
    the user's is compared with the shipped preset of the same name. Values are as JSON has them.
    """
    shipped = _shipped(task).get(preset)
    if shipped is None:
        return {point.setting.id: {} for point in points}
    known: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    changed = {}
    for point in points:
        axes = tuple(getattr(point.setting, axis) for axis in task.axes)
        if axes not in known:
            known[axes] = _expected(task, shipped, axes)
        changed[point.setting.id] = _nearest(point.values, known[axes])
    return changed


def members(task: Task[Any]) -> dict[str, tuple[str, ...]]:
    """Returns the ids of the settings of each shipped preset; of those that can be expanded."""
    ids = {}
    for name, preset in _shipped(task).items():
        try:
            points = expand(preset, task.setting_type, {})
        except ConfigError:
            continue
        ids[name] = tuple(point.setting.id for point in points)
    return ids


def _shipped(task: Task[Any]) -> dict[str, Preset]:
    try:
        return {str(name): preset for name, preset in sweep_of(task).presets.items()}
    except ConfigError:  # a task without a sweep of its own, run by a file
        return {}


def _expected(task: Task[Any], preset: Preset, axes: Sequence[Any]) -> list[dict[str, Any]]:
    """What the preset runs where the axes have these values; all of it where they do not fit."""
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
    """The values that differ from those expected, from the setting with fewest such."""
    differing = [
        {name: value for name, value in values.items() if other.get(name) != value}
        for other in expected
    ]
    return min(differing, key=len, default={})
