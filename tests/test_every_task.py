"""What every task must do, run over the registry: a new task is tested by being there.

A task of another package that is installed, or on PYTHONPATH with its metadata, is among them.
"""

from __future__ import annotations

import pytest

from nalu_ray.registry import tasks
from nalu_ray.results import published
from nalu_ray.sweep.presets import sweep_of
from nalu_ray.sweep.resources import PRESETS
from nalu_ray.testing import TASK_CHECKS
from nalu_ray.testing.tasks import check_preset
from nalu_ray.training.supervised import SupervisedTask

TASKS = sorted(tasks())
SUPERVISED = [name for name in TASKS if isinstance(tasks()[name], SupervisedTask)]
PRESETS_OF_TASKS = [
    (name, preset)
    for name in TASKS
    for preset in dict.fromkeys((*PRESETS, *sweep_of(tasks()[name]).presets))
]
CHECKS = [name for name in TASK_CHECKS if name != "presets"]


@pytest.fixture(autouse=True)
def _ray(request: pytest.FixtureRequest) -> None:
    """Starts Ray for what may train on it, as the gridworld does."""
    if request.node.callspec.params["name"] not in SUPERVISED:
        request.getfixturevalue("cluster")


@pytest.mark.parametrize(("name", "preset"), PRESETS_OF_TASKS)
def test_every_preset_is_a_valid_sweep(name: str, preset: str) -> None:
    task = tasks()[name]
    if preset not in sweep_of(task).presets and not type(task).__module__.startswith("nalu_ray."):
        pytest.skip(f"{name} has no preset {preset}")
    check_preset(task, preset)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", TASKS)
def test_task(name: str, check: str) -> None:
    if check == "block" and name not in SUPERVISED:
        pytest.skip("its seeds share no network")
    TASK_CHECKS[check](tasks()[name])


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
