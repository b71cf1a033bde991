"""One cell of a table: a measure of the runs in it, with its statistics, as a number and a text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nalu_ray.results.analysis.selection import Runs
from nalu_ray.results.analysis.statistics import (
    Floats,
    Interval,
    Rate,
    median_interval,
    success_rate,
)
from nalu_ray.results.published import Published
from nalu_ray.results.specs import SUCCESS, Measure
from nalu_ray.results.store.rows import DIVERGED, FAILED

MISSING = "–"
CAP = 999.9  # the paper prints >999.9 for what is worse than ten random models
NEVER = "never"  # no seed solved it, so there is no step at which it was solved
LOST = "lost"  # every seed diverged or failed
_PERCENT = 100
SURE = 0.95


@dataclass(frozen=True)
class TableCell:
    """One number of ours, what was published there, and how far to trust ours.

    Attributes:
        value: scaled as printed; infinite if the chosen run is lost; None if nothing was run, or
            if the cell shows the step at which seeds solved the task and no seed did.
        text: ``value`` as printed, or ``lost`` if every seed is; with its interval, if it is a rate
            or a step of first success.
        published: the published value; None if there is none.
        bold: whether it is the best of the cells that it is compared with.
        n: stored seeds of the chosen setting; a diverged or failed one counts as infinite, or as
            the measure's ``worst``.
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
        setting_id, setting: of a pooled rate, the first one's id, and empty.
        seeds, values: the chosen setting's seeds and the measure of each, scaled like ``value``; a
            lost seed's is infinite. Of a rate or a step of first success, the error that is judged.
        limit: the median of these seeds' success thresholds, scaled like ``values``.
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
    seeds: tuple[int, ...] = ()
    values: tuple[float, ...] = ()
    limit: float | None = None

    @property
    def lost(self) -> bool:
        """Whether every seed diverged or failed."""
        return 0 < self.n == self.diverged + self.failed


def measured(
    measure: Measure,
    runs: Runs,
    bases: Mapping[str, Floats],
    parts: NDArray[np.object_] | None = None,
) -> TableCell:
    """Fills a cell but for the published value.

    Args:
        measure: the number to show.
        runs: the measure, of every setting and seed of the cell.
        bases: setting id to (seeds,) values of the reference; the median of the chosen setting's
            is 100 if the measure is relative.
        parts: (runs,) values of the field that a rate is pooled over: one setting of each is
            chosen; None: one setting of all.
    """
    if not len(runs) or (runs.ok.any() and not runs.logged.any()):
        return TableCell()
    if measure.statistic in SUCCESS:
        return _of_success(measure, runs, parts)
    best = runs.winner() if measure.statistic == "selected" else None
    sid = runs.best_setting() if best is None else str(runs.setting_id[best])
    base = _centre(measure, bases.get(sid))
    factor = measure.scale if base is None else measure.scale * 100 / base
    if not math.isfinite(factor):
        if np.isfinite(runs.value[runs.setting_id == sid]).any():
            return TableCell()
        factor = 1.0  # all seeds are lost, before a reference was logged too
    here = runs.setting_id == sid
    worst = math.inf if measure.better == "lower" else -math.inf
    if measure.worst is not None and np.isfinite(runs.value[here]).any():
        worst = measure.worst * factor
    values = np.where(np.isfinite(runs.value), runs.value * factor, worst)
    if measure.statistic == "selected":
        value = worst if best is None else values[best]
    else:
        value = (np.mean if measure.statistic == "mean" else np.median)(values[here])
    cell = _counted(_spread(measure, values[here], value), runs.take(here), values[here], factor)
    return replace(
        cell,
        text=LOST if cell.lost else cell.text,
        seed=None if best is None else int(runs.seed[best]),
        step=None if best is None else int(runs.step[best]),
        reference=base if base is not None and math.isfinite(base) else None,
    )


def _of_success(measure: Measure, runs: Runs, parts: NDArray[np.object_] | None) -> TableCell:
    """Fills a cell with the success rate of the best setting's seeds, or with its solved-at."""
    chosen = runs.take(np.isin(runs.setting_id, runs.best_settings(parts)))
    errors = np.where(np.isfinite(chosen.value), chosen.value, math.inf)
    cell = _counted(TableCell(n=len(chosen), text=NEVER), chosen, errors, 1.0)
    rate = cell.rate
    if rate is None:
        if chosen.ok.any():
            return TableCell()  # no threshold was logged
        rate = success_rate(np.zeros(len(chosen)))
        cell = replace(cell, rate=rate)
    if measure.statistic == "rate":
        value, low, high = (_PERCENT * share for share in (rate.rate, rate.low, rate.high))
        return _with_interval(measure, cell, Interval(value, low, high, SURE))
    if cell.solved_at is None:
        return cell
    interval = median_interval(_solved_at(chosen))
    return replace(
        _with_interval(measure, cell, interval), median=interval.estimate * measure.scale
    )


def _with_interval(measure: Measure, cell: TableCell, interval: Interval) -> TableCell:
    value, low, high = (
        measure.scale * bound for bound in (interval.estimate, interval.low, interval.high)
    )
    scaled = Interval(value, low, high, interval.confidence)
    text = printed(scaled, measure)
    return replace(cell, value=value, text=text, low=low, high=high, confidence=interval.confidence)


def printed(interval: Interval, measure: Measure) -> str:
    """Returns an estimate with its interval, ``98 [93, 99]``; ``*``: less than 95 % sure."""
    at_start = measure.statistic == "solved_at"  # step 0 is no small number
    middle, low, high = (
        "0"
        if at_start and value == 0
        else number(value, measure.format, capped=measure.relative_to is not None)
        for value in (interval.estimate, interval.low, interval.high)
    )
    return f"{middle} [{low}, {high}]{'*' * (interval.confidence < SURE)}"


def _counted(cell: TableCell, chosen: Runs, values: Floats, factor: float) -> TableCell:
    """Adds what is known of the chosen setting's seeds; ``factor`` scales their values."""
    at, limits = _solved_at(chosen), chosen.limit[np.isfinite(chosen.limit)]
    return replace(
        cell,
        rate=None if np.isnan(chosen.limit).all() else success_rate(chosen.value < chosen.limit),
        solved_at=float(np.median(at)) if at.size else None,
        setting_id=str(chosen.setting_id[0]),
        seeds=tuple(chosen.seed.tolist()),
        values=tuple(values.tolist()),
        limit=float(np.median(limits)) * factor if limits.size else None,
        diverged=int((chosen.outcome == DIVERGED).sum()),
        failed=int((chosen.outcome == FAILED).sum()),
    )


def reference(measure: Measure, values: Floats) -> TableCell:
    """Fills a cell with the median of a reference, (seeds,), such as a random model's error."""
    if not values.size or measure.statistic in SUCCESS:
        return TableCell()
    scaled = values * measure.scale
    return _spread(measure.model_copy(update={"relative_to": None}), scaled, np.median(scaled))


def _spread(measure: Measure, values: Floats, value: float) -> TableCell:
    interval = median_interval(values)
    return TableCell(
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


def _solved_at(runs: Runs) -> Floats:
    """Returns the steps of first success of the solved runs."""
    return runs.below_at[runs.value < runs.limit]


def number(value: float, style: str, *, capped: bool = False) -> str:
    """Returns a number as the paper prints it.

    Args:
        value: the number; what is not finite prints as infinity.
        style: a format of Python's, except that ``.4g`` means the style of table 6: four digits
            above 1, four decimals and no leading zero below it, ``<.0001`` below that.
        capped: print ``>999.9`` for anything above.
    """
    if capped and (not math.isfinite(value) or round(value, 1) > CAP):
        return f">{CAP}"
    if not math.isfinite(value):
        return "-∞" if value == -math.inf else "∞"
    if style.startswith(".") and style.endswith("g"):
        return "-" * (value < 0) + _significant(abs(value), int(style[1:-1]))
    text = format(value, style)
    # a rounded -0.04 is no negative number
    return text.lstrip("-") if not any(digit in text for digit in "123456789") else text


def _significant(value: float, digits: int) -> str:
    if value < 10.0**-digits:
        return "<." + "0" * (digits - 1) + "1"
    below_one = f"{value:.{digits}f}"
    if below_one.startswith("0."):
        return below_one[1:]
    power = int(f"{value:.{digits - 1}e}".split("e")[1])
    if power >= digits + 3:
        return f"{value:.2e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:.{max(0, digits - 1 - power)}f}"
