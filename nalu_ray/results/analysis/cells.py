"""One cell of a table: a measure of the runs in it, with its statistics."""

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
from nalu_ray.results.specs import SUCCESS, Measure
from nalu_ray.results.store.rows import DIVERGED, FAILED

NEVER = "never"  # no seed solved it, so there is no step at which it was solved
_PERCENT = 100
_SURE = 0.95


@dataclass(frozen=True)
class Cell:
    """One number of ours, what was published there, and how far to trust ours.

    Attributes:
        value: scaled as printed; infinite if the chosen run is lost; None if nothing was run, or
            if no seed solved it and the cell has the step at which they did.
        text: ``value`` as printed; with its interval, if it is a rate or a step of first success.
        published: the published value; None if there is none.
        bold: whether it is the best of the cells that it is compared with.
        n: stored seeds of the chosen setting; a diverged or failed one counts as infinite.
        median, low, high: over those seeds, with the interval of the median. Of a rate, which is in
            per cent, Wilson's interval and no median; of a step of first success, over the solved
            seeds.
        confidence: of that interval; the median of fewer than six seeds cannot reach 95 %.
        rate: share of those seeds below the success threshold; None without a threshold.
        solved_at: median of the first logged step below it, over the solved seeds.
        setting_id, setting: the chosen setting; ``setting`` has the fields that vary, ``lr=0.1``.
        seed, step: of the shown run; None if the value is over several seeds.
        diverged, failed: seeds among the ``n``.
        difference: median difference from another model's cell, seed by seed.
        reference: the value that prints as 100, from the chosen setting's seeds.
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
    """Fills a cell but for the published value.

    Args:
        measure: the number to show.
        runs: the measure, of every setting and seed of the cell.
        bases: setting id to (seeds,) values of the reference; the median of the chosen setting's
            is 100 if the measure is relative.
    """
    never_logged = np.isnan(runs.value).all() and runs.ok.any()
    if not len(runs) or never_logged:
        return Cell()
    if measure.statistic in SUCCESS:
        return _of_success(measure, runs)
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
    rate, at = _success(chosen)
    return replace(
        _counted(_spread(measure, values[here], value), chosen, rate, at),
        seed=None if best is None else int(runs.seed[best]),
        step=None if best is None else int(runs.step[best]),
        reference=base if base is not None and math.isfinite(base) else None,
    )


def _of_success(measure: Measure, runs: Runs) -> Cell:
    """Fills a cell with the success rate of the best setting's seeds, or with its solved-at."""
    chosen = runs.take(runs.setting_id == runs.best_setting())
    rate, at = _success(chosen)
    if rate is None:
        if chosen.ok.any():
            return Cell()  # no threshold was logged
        rate = success_rate(np.zeros(len(chosen)))
    cell = _counted(Cell(n=len(chosen), text=NEVER), chosen, rate, at)
    if measure.statistic == "rate":
        value, low, high = (_PERCENT * share for share in (rate.rate, rate.low, rate.high))
        return _with_interval(measure, cell, Interval(value, low, high, _SURE))
    if not at.size:
        return cell
    interval = median_interval(at)
    return replace(
        _with_interval(measure, cell, interval), median=interval.estimate * measure.scale
    )


def _with_interval(measure: Measure, cell: Cell, interval: Interval) -> Cell:
    value, low, high = (
        measure.scale * bound for bound in (interval.estimate, interval.low, interval.high)
    )
    scaled = Interval(value, low, high, interval.confidence)
    text = printed(scaled, measure)
    return replace(cell, value=value, text=text, low=low, high=high, confidence=interval.confidence)


def printed(interval: Interval, measure: Measure) -> str:
    """Returns an estimate with its interval, ``98 [93, 99]``; ``*``: less than 95 % sure."""
    middle, low, high = (
        number(value, measure.format, capped=measure.relative_to is not None)
        for value in (interval.estimate, interval.low, interval.high)
    )
    return f"{middle} [{low}, {high}]{'*' * (interval.confidence < _SURE)}"


def _counted(cell: Cell, chosen: Runs, rate: Rate | None, at: Floats) -> Cell:
    """Adds what is counted over the seeds of the chosen setting."""
    return replace(
        cell,
        rate=rate,
        solved_at=float(np.median(at)) if at.size else None,
        setting_id=str(chosen.setting_id[0]),
        diverged=int((chosen.outcome == DIVERGED).sum()),
        failed=int((chosen.outcome == FAILED).sum()),
    )


def reference(measure: Measure, values: Floats) -> Cell:
    """Fills a cell with the median of a reference, (seeds,), such as a random model's error."""
    if not values.size or measure.statistic in SUCCESS:
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
    """Returns the value that prints as 100; None if the measure is absolute, NaN if unknown."""
    if measure.relative_to is None:
        return None
    centre = float(np.median(base)) if base is not None and base.size else 0.0
    return centre or math.nan


def _success(runs: Runs) -> tuple[Rate | None, Floats]:
    """Returns the success rate of one setting's runs, and the solved runs' steps of first success.

    The rate is None, and no step given, if no run has a threshold.
    """
    if np.isnan(runs.limit).all():
        return None, np.empty(0)
    solved = runs.value < runs.limit
    return success_rate(solved), runs.below_at[solved]
