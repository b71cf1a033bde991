"""Checks of a task: each takes a task and raises AssertionError; most run its preset ``smoke``."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd
import torch

from nalu_ray.results.specs import TaskSpecs
from nalu_ray.results.store.rows import COLUMNS, COMPLETED, OF_TRIAL
from nalu_ray.sweep.presets import Point, expand, sweep_of
from nalu_ray.task import Run, Setting, Task
from nalu_ray.testing.modules import require
from nalu_ray.training.supervised import SupervisedTask

_CPU = torch.device("cpu")
_SMOKE = "smoke"
_MOST = 3  # points of the preset that a check runs to their end


def points(task: Task[Any], preset: str = _SMOKE) -> list[Point]:
    """Returns the points of a task's preset.

    Raises:
        AssertionError: it has no such preset.
    """
    presets = sweep_of(task).presets
    require(preset in presets, f"{task.name} has no preset {preset}: {', '.join(presets)}")
    return expand(presets[preset], task.setting_type, {})


def some_points(task: Task[Any]) -> list[Point]:
    """Returns at most three points of ``smoke``, from all over its grid: those run to their end."""
    listed = points(task)
    return listed[:: -(-len(listed) // _MOST)]


def finish(task: Task[Any], setting: Setting, seeds: Sequence[int]) -> pd.DataFrame:
    """Runs a block of seeds to its end and returns its rows."""
    return _to_the_end(task, setting, task.start(setting, seeds, _CPU))


def check_preset(task: Task[Any], preset: str = _SMOKE) -> None:
    """Checks that a preset's settings survive JSON, have a label, and need more memory per seed."""
    listed = points(task, preset)
    require(bool(listed), f"{preset} has no settings")
    for point in listed:
        setting = point.setting
        again = task.setting_type.model_validate(setting.model_dump(mode="json"))
        require(again.id == setting.id, f"{setting}: another id after JSON")
        fits = task.memory(setting, 10) >= task.memory(setting, 1) >= 0
        require(fits, f"{setting}: memory of 10 seeds is below that of 1")
        label = task.label(setting)
        for axis in task.axes:
            require(str(getattr(setting, axis)) in label, f"{axis} is not in the label '{label}'")


def check_presets(task: Task[Any]) -> None:
    """Checks every preset of a task's sweep."""
    for preset in sweep_of(task).presets:
        check_preset(task, preset)


def check_fields(task: Task[Any]) -> None:
    """Checks that each field of the setting has its help and a name that no column of rows has."""
    for name, field in task.setting_type.model_fields.items():
        require(bool(field.description), f"{name}: no description")
        require(name not in (*COLUMNS, "seeds"), f"{name}: a column of every row has this name")


def check_rows(task: Task[Any]) -> None:
    """Checks that a run gives rows of the right columns, none twice, and each seed its end."""
    for point in some_points(task):
        rows = finish(task, point.setting, [0, 1])
        final = rows[rows["metric"] == COMPLETED]
        require(sorted(final["seed"]) == [0, 1], "each seed needs one row of metric 'completed'")
        lost = final.loc[final["reason"].notna(), "reason"].tolist()
        require(not lost, f"{point.setting}: {lost}")
        wanted = set(COLUMNS) - {*OF_TRIAL}
        require(
            set(rows.columns) == wanted, f"columns {sorted(rows.columns)}, not {sorted(wanted)}"
        )
        twice = rows.duplicated(["seed", "step", "split", "metric", "x"])
        require(
            not twice.any(), f"{point.setting}: logged twice: {rows[twice].to_dict('records')[:1]}"
        )


def check_seeds(task: Task[Any]) -> None:
    """Checks that a seed gives the same rows each time."""
    setting = points(task)[0].setting
    same = finish(task, setting, [2]).equals(finish(task, setting, [2]))
    require(same, "the same seed gives other rows: all random numbers must come from its streams")


def check_block(task: Task[Any]) -> None:
    """Checks that a seed of a block gives the rows of the seed alone, if the task is supervised."""
    if not isinstance(task, SupervisedTask):
        return
    for point in some_points(task):
        # not at the end, where what does not fill a vector may be rounded differently
        block = finish(task, point.setting, [0, 3, 4])
        mine = block[block["seed"] == 3].reset_index(drop=True)
        alone = finish(task, point.setting, [3])
        # vectorised activations may round the last bit by position; what is learned is the same
        pd.testing.assert_frame_equal(mine, alone, check_dtype=False, rtol=1e-4, atol=1e-6)


def check_resume(task: Task[Any]) -> None:
    """Checks that a run that was interrupted gives the rows of an uninterrupted one."""
    setting = points(task)[0].setting
    first = task.start(setting, [0, 1], _CPU)
    paused = first.advance().step < task.steps(setting)
    require(paused, "smoke is too short to be interrupted: give it two evaluations")
    buffer = io.BytesIO()
    torch.save(first.state_dict(), buffer)
    buffer.seek(0)
    second = task.start(setting, [0, 1], _CPU)
    second.load_state_dict(torch.load(buffer, weights_only=True))
    resumed = _to_the_end(task, setting, second)
    require(resumed.equals(finish(task, setting, [0, 1])), "a resumed run gives other rows")


def check_specs(task: Task[Any]) -> None:
    """Checks that tables and figures survive being stored."""
    specs = task.specs()
    require(TaskSpecs.read(specs.model_dump_json().encode()) == specs, "changed by being stored")
    require((specs.task, specs.section) == (task.name, task.section), "of another task")


CHECKS: dict[str, Callable[[Task[Any]], None]] = {
    "presets": check_presets,
    "fields": check_fields,
    "rows": check_rows,
    "seeds": check_seeds,
    "block": check_block,
    "resume": check_resume,
    "specs": check_specs,
}


def _to_the_end(task: Task[Any], setting: Setting, run: Run) -> pd.DataFrame:
    steps = task.steps(setting)
    while (progress := run.advance()).step < progress.steps:
        require(progress.steps == steps, f"the run has {progress.steps} steps, the task {steps}")
    return run.rows()
