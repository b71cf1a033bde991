"""Numbers that change over training."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from ray.rllib.utils.schedules.scheduler import Scheduler

# A number, or points [env steps, value] with straight lines between them.
Schedule = float | Sequence[Sequence[float]]


def scheduled(value: Schedule, steps: int) -> float:
    """Returns a schedule's value after ``steps`` env steps; the last one holds on."""
    if isinstance(value, int | float):
        return float(value)
    at, values = zip(*value, strict=True)
    return float(np.interp(steps, at, values))


def check_schedule(name: str, value: Any) -> None:
    """Raises ValueError, naming the field, unless ``value`` is a schedule of numbers from 0 on."""
    Scheduler.validate(fixed_value_or_schedule=value, setting_name=name, description=name)
    points = [(0, value)] if isinstance(value, int | float) else value
    if any(not (number >= 0 and math.isfinite(number)) for _, number in points):
        raise ValueError(f"{name}={value!r}: numbers of 0 or more are needed")
    if any(after < before for (before, _), (after, _) in itertools.pairwise(points)):
        raise ValueError(f"{name}={value!r}: steps may not fall")
