"""Every check of a task, over the chosen tasks: ``pytest --pyargs nalu_ray.testing``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from nalu_ray.registry import task as find_task
from nalu_ray.testing import TASK_CHECKS
from nalu_ray.testing.chosen import chosen_tasks


@pytest.fixture(scope="module")
def _ray() -> Iterator[None]:
    """Starts Ray if one of the tasks uses it."""
    with contextlib.ExitStack() as stack:
        if any(find_task(name).uses_ray for name in chosen_tasks()):
            from nalu_ray.sweep import ray  # noqa: PLC0415 (slow to load)

            stack.enter_context(ray.beside(1))
        yield


@pytest.mark.usefixtures("_ray")
@pytest.mark.parametrize("check", TASK_CHECKS)
@pytest.mark.parametrize("name", chosen_tasks())
def test_task(name: str, check: str) -> None:
    """Runs one check of one task."""
    TASK_CHECKS[check](find_task(name))
