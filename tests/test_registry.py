"""Tasks are found where they lie, by name, without loading the others."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from nalu_ray import registry
from nalu_ray.config import ConfigError


def test_every_task_has_its_modules_name() -> None:
    assert {"identity", "static"} <= set(registry.names())
    assert all(name == task.name for name, task in registry.tasks().items())
    assert set(registry.tasks()) == set(registry.names())


def test_a_task_of_another_package_joins(fake: Any) -> None:
    assert fake.name == "fake"
    assert "fake" in registry.names()


def test_a_mistyped_name_is_answered_without_loading_a_task() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'static'"):
        registry.task("statc")
    code = (
        "import sys; from nalu_ray import registry\n"
        "try: registry.task('statc')\n"
        "except ValueError: print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_underscored_modules_are_no_tasks() -> None:
    assert not any(name.startswith("_") for name in registry.names())
