"""Measures durations in the same way for every benchmark."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def median_seconds(
    work: Callable[[], object],
    seconds: float,
    *,
    least: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Returns the median duration of ``work`` in seconds, over ``least`` or more calls."""
    work()
    durations: list[float] = []
    while len(durations) < least or sum(durations) < seconds:
        start = clock()
        work()
        durations.append(clock() - start)
    return statistics.median(durations)
