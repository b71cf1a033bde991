"""One cell of a table: the number shown, the spread over seeds, the success rate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from nalu_ray.results.analysis.selection import Runs
from nalu_ray.results.analysis.statistics import (
    Floats,
    Interval,
    Rate,
    median_interval,
    success_rate,
)
from nalu_ray.results.analysis.text import MISSING, number
from nalu_ray.results.published import Published
from nalu_ray.results.specs import Measure
from nalu_ray.results.store.rows import DIVERGED, FAILED


@dataclass(frozen=True)
class Cell:
    """One number of ours, what the paper prints there, and how far to trust ours.

    Attributes:
        value: scaled as printed; infinite if the chosen run has none; None if nothing was run.
        text: ``value`` as printed.
        published: the paper's, or None where its table has no such cell.
        bold: whether it is the best of ours that it is compared with.
        n: stored seeds of the chosen setting; a diverged or failed one counts as infinite.
        median, low, high: over those seeds, with the interval of the median.
        confidence: of that interval; fewer than six seeds cannot reach 95 %.
        rate: share of those seeds below the success threshold; None without a threshold.
        solved_at: median of the first logged step below it, over the solved seeds.
        setting_id, setting: the chosen setting; ``setting`` names the fields that vary, ``lr=0.1``.
        seed, step: of the run that is shown, where it is a single one.
        diverged, failed: seeds among the ``n``.
        difference: median difference to another model's cell, seed by seed.
        reference: what is 100, where the number is relative: of the chosen setting's own seeds.
    """

    value: float | None = None
    text: str = MISSING
    published: Published | None = None
    bold: bool = False
    n: int = 0
    median: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    rate: Rate | None = None
    solved_at: float | None = None
    setting_id: str | None = None
    setting: str = ""
    seed: int | None = None
    step: int | None = None
    diverged: int = 0
    failed: int = 0
    difference: Interval | None = None
    reference: float | None = None


def measured(measure: Measure, runs: Runs, bases: Mapping[str, Floats]) -> Cell:
    """Fills a cell, all but what the paper prints there.

    Args:
        measure: the number wanted.
        runs: that measure of every setting and seed that could be shown.
        bases: (seeds,) values by setting id; the median of the chosen setting's is 100, if the
            measure is relative.
    """
    never_logged = np.isnan(runs.value).all() and runs.ok.any()
    if not len(runs) or never_logged:
        return Cell()
    best = runs.winner() if measure.statistic == "selected" else None
    sid = runs.best_setting() if best is None else str(runs.setting_id[best])
    base = _centre(measure, bases.get(sid))
    factor = measure.scale if base is None else measure.scale * 100 / base
    if not math.isfinite(factor):
        if np.isfinite(runs.value[runs.setting_id == sid]).any():
            return Cell()
        factor = 1.0  # all seeds are lost, before a reference was logged too
    worst = math.inf if measure.better == "lower" else -math.inf
    values = np.where(np.isfinite(runs.value), runs.value * factor, worst)
    here = runs.setting_id == sid
    if measure.statistic == "selected":
        value = worst if best is None else values[best]
    else:
        value = (np.mean if measure.statistic == "mean" else np.median)(values[here])
    chosen = runs.take(here)
    rate, solved_at = _success(chosen)
    return replace(
        _spread(measure, values[here], value),
        rate=rate,
        solved_at=solved_at,
        setting_id=sid,
        seed=None if best is None else int(runs.seed[best]),
        step=None if best is None else int(runs.step[best]),
        diverged=int((chosen.outcome == DIVERGED).sum()),
        failed=int((chosen.outcome == FAILED).sum()),
        reference=base if base is not None and math.isfinite(base) else None,
    )


def reference(measure: Measure, values: Floats) -> Cell:
    """The median of what needs no training, (seeds,), such as a random model's error."""
    if not values.size:
        return Cell()
    scaled = values * measure.scale
    return _spread(measure.model_copy(update={"relative_to": None}), scaled, np.median(scaled))


def _spread(measure: Measure, values: Floats, value: float) -> Cell:
    interval = median_interval(values)
    return Cell(
        value=float(value),
        text=number(float(value), measure.format, capped=measure.relative_to is not None),
        n=values.size,
        median=interval.estimate,
        low=interval.low,
        high=interval.high,
        confidence=interval.confidence,
    )


def _centre(measure: Measure, base: Floats | None) -> float | None:
    """What is 100; None if nothing is to be, NaN if it is not known."""
    if measure.relative_to is None:
        return None
    centre = float(np.median(base)) if base is not None and base.size else 0.0
    return centre or math.nan


def _success(runs: Runs) -> tuple[Rate | None, float | None]:
    """Success rate of the runs of one setting, and when the solved ones first were below."""
    if np.isnan(runs.limit).all():
        return None, None
    solved = runs.value < runs.limit
    at = runs.below_at[solved]
    return success_rate(solved), float(np.median(at)) if at.size else None
