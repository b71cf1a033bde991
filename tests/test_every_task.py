"""What every task must do, run over the registry: a new task is tested by being there.

A task of another package that is installed, or on PYTHONPATH with its metadata, is among them.
"""

from __future__ import annotations

import io
from typing import Any

import pandas as pd
import pytest
import torch

from nalu_ray.registry import tasks
from nalu_ray.results import published
from nalu_ray.results.store.rows import COLUMNS, COMPLETED, OF_TRIAL
from nalu_ray.sweep.presets import PRESETS, Point, expand, sweep_of
from nalu_ray.task import Setting, Task
from nalu_ray.training.supervised import SupervisedTask

CPU = torch.device("cpu")
TASKS = sorted(tasks())
SUPERVISED = [name for name in TASKS if isinstance(tasks()[name], SupervisedTask)]


@pytest.fixture(autouse=True)
def _ray(request: pytest.FixtureRequest) -> None:
    """Starts Ray for what may train on it, as the gridworld does."""
    if request.node.callspec.params["name"] not in SUPERVISED:
        request.getfixturevalue("cluster")


PRESETS_OF_TASKS = [
    (name, preset)
    for name in TASKS
    for preset in dict.fromkeys((*PRESETS, *sweep_of(tasks()[name]).presets))
]


def points(task: Task[Any], preset: str = "smoke") -> list[Point]:
    presets = sweep_of(task).presets
    if preset not in presets and not type(task).__module__.startswith("nalu_ray."):
        pytest.skip(f"{task.name} has no preset {preset}")
    return expand(presets[preset], task.setting_type, {})


def finish(task: Task[Any], setting: Setting, seeds: list[int]) -> pd.DataFrame:
    run = task.start(setting, seeds, CPU)
    while (progress := run.advance()).step < progress.steps:
        assert progress.steps == task.steps(setting)
    return run.rows()


@pytest.mark.parametrize(("name", "preset"), PRESETS_OF_TASKS)
def test_every_preset_is_a_valid_sweep(name: str, preset: str) -> None:
    task = tasks()[name]
    found = points(task, preset)
    assert found
    for point in found:
        again = task.setting_type.model_validate(point.setting.model_dump(mode="json"))
        assert again.id == point.setting.id
        assert task.memory(point.setting, 10) >= task.memory(point.setting, 1) >= 0
        assert all(
            str(getattr(point.setting, axis)) in task.label(point.setting) for axis in task.axes
        )


@pytest.mark.parametrize("name", TASKS)
def test_every_field_has_its_line_of_help_and_no_reserved_name(name: str) -> None:
    for field, info in tasks()[name].setting_type.model_fields.items():
        assert info.description, field
        assert field not in (*COLUMNS, "seeds")


@pytest.mark.parametrize("name", TASKS)
def test_smoke_run_writes_rows_and_each_seed_ends(name: str) -> None:
    task = tasks()[name]
    for point in points(task)[:3]:
        rows = finish(task, point.setting, [0, 1])
        final = rows[rows.metric == COMPLETED]
        assert sorted(final.seed) == [0, 1]
        assert final.reason.isna().all()
        assert set(rows.columns) == set(COLUMNS) - {*OF_TRIAL}
        keys = ["seed", "step", "split", "metric", "x"]
        assert not rows.duplicated(keys).any()


@pytest.mark.parametrize("name", TASKS)
def test_same_seed_gives_the_same_rows(name: str) -> None:
    task = tasks()[name]
    setting = points(task)[0].setting
    assert finish(task, setting, [2]).equals(finish(task, setting, [2]))


@pytest.mark.parametrize("name", SUPERVISED)
def test_a_seed_of_a_block_equals_the_seed_alone(name: str) -> None:
    task = tasks()[name]
    for point in points(task):
        block = finish(task, point.setting, [0, 3, 4])
        alone = finish(task, point.setting, [3])
        mine = block[block.seed == 3].reset_index(drop=True)
        # vectorised activations may round the last bit by position; what is learned is the same
        pd.testing.assert_frame_equal(mine, alone, check_dtype=False, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", TASKS)
def test_a_resumed_run_equals_an_uninterrupted_one(name: str) -> None:
    task = tasks()[name]
    setting = points(task)[0].setting
    first = task.start(setting, [0, 1], CPU)
    if first.advance().step == task.steps(setting):
        pytest.fail("smoke preset too short to be interrupted: give it two evaluations")
    buffer = io.BytesIO()
    torch.save(first.state_dict(), buffer)
    buffer.seek(0)
    second = task.start(setting, [0, 1], CPU)
    second.load_state_dict(torch.load(buffer, weights_only=True))
    while (progress := second.advance()).step < progress.steps:
        pass
    assert second.rows().equals(finish(task, setting, [0, 1]))


@pytest.mark.parametrize("name", TASKS)
def test_every_published_value_of_a_tasks_tables_has_its_cell(name: str) -> None:
    for table in tasks()[name].tables:
        if table.number is None:
            continue
        values = published.load(table.number)
        rows = {table.rows.published.get(label, label) for label in table.rows.labels}
        assert set(values.row) - {"random"} <= rows
        if table.number == 1:  # half of it each for static and recurrent arithmetic
            values = values[values.column.str.startswith(f"{name}_")]
        if table.number in {2, 10}:  # of counting and of addition
            values = values[values.column.str.startswith(name.removeprefix("mnist_"))]
        if table.columns is not None:
            ids = table.columns.published
            printed = {ids.get(label, label) for label in table.columns.labels}
            assert set(values.column) - {"random"} <= printed
            assert set(values.split) == set(table.measures)
        else:
            assert set(values.column) == set(table.measures)
        assert table.selection.split != "extrapolation"


@pytest.mark.parametrize("name", TASKS)
def test_specs_survive_json(name: str) -> None:
    specs = tasks()[name].specs()
    assert type(specs).model_validate_json(specs.model_dump_json()) == specs
    assert specs.task == name
    assert specs.section == tasks()[name].section
