"""Every check of a task, over the chosen tasks: ``pytest --pyargs nalu_ray.testing``."""

from __future__ import annotations

import pytest

from nalu_ray.registry import task as find_task
from nalu_ray.testing import TASK_CHECKS
from nalu_ray.testing.chosen import chosen_tasks


@pytest.mark.parametrize("check", TASK_CHECKS)
@pytest.mark.parametrize("name", chosen_tasks())
def test_task(name: str, check: str) -> None:
    """Runs one check of one task."""
    TASK_CHECKS[check](find_task(name))
