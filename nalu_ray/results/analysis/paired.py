"""Compares two models seed by seed; seed k of each has the same data, so they differ by less."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import pandas as pd

from nalu_ray.errors import did_you_mean
from nalu_ray.results.analysis.axes import stored_column
from nalu_ray.results.analysis.selection import Runs, observe, runs_of
from nalu_ray.results.analysis.statistics import Floats, Interval, median_interval
from nalu_ray.results.specs import Axis, Measure, Selection
from nalu_ray.results.store.rows import setting_fields


@dataclass(frozen=True)
class Paired:
    """Differences of a measure, scaled as printed, over the seeds that both have.

    Attributes:
        seeds: in order.
        values: (seeds,) a's minus b's; infinite where one is lost, 0 where both are.
        interval: of their median.
    """

    seeds: tuple[int, ...]
    values: Floats
    interval: Interval


def paired(
    rows: pd.DataFrame,
    group: str,
    a: str,
    b: str,
    *,
    measure: Measure,
    selection: Selection,
    dependent: Collection[str] = (),
) -> Paired:
    """Compares two values of a setting's field, a minus b, seed by seed.

    Each run is read at its selected step, and of several settings of a value the one with the
    lowest median selector is taken, as a table's medians are.

    Args:
        rows: (rows, columns) as :meth:`Store.load` gives them.
        group: the field, such as ``last``.
        a, b: its values, as tables name them.
        measure: the number compared.
        selection: the rule that picks step and setting.
        dependent: fields that may differ too, such as a learning rate tuned per model.

    Raises:
        ValueError: no such field or value, settings that differ in another field, a measure that
            was not logged, or no shared seed.
    """
    names = _names(rows.drop_duplicates("setting_id", ignore_index=True), group, (a, b), dependent)
    frame = rows[rows["setting_id"].isin(names.index)]
    observed = observe(frame, runs_of(frame, selection), measure, None)
    both = [observed.take(np.isin(observed.setting_id, names.index[names == v])) for v in (a, b)]
    first, second = (runs.take(runs.setting_id == runs.best_setting()) for runs in both)
    if any(np.isnan(runs.value).all() and runs.ok.any() for runs in (first, second)):
        raise ValueError(f"{measure.metric} of {measure.split} was not logged")
    return between(first, second, measure)


def _names(
    settings: pd.DataFrame, group: str, values: tuple[str, str], dependent: Collection[str]
) -> pd.Series[str]:
    """Returns the value of each compared setting, by its id; all else must be equal."""
    if group not in setting_fields(settings):
        raise ValueError(did_you_mean("field", group, setting_fields(settings)))
    names = stored_column(settings, group)
    for value in values:
        if value not in set(names):
            raise ValueError(did_you_mean(group, value, names.dropna()))
    if fields := _differing(settings[names.isin(values)], {group, *dependent}):
        raise ValueError(
            f"{' and '.join(values)} have settings that differ in {', '.join(fields)}: choose one "
            "value of each, or name those that depend on it"
        )
    kept = names[names.isin(values)]
    return kept.set_axis(settings.loc[kept.index, "setting_id"])


def between(a: Runs, b: Runs, measure: Measure) -> Paired:
    """Differences of two settings' runs.

    Raises:
        ValueError: the two share no seed.
    """
    seeds, of_a, of_b = np.intersect1d(a.seed, b.seed, return_indices=True)
    if not seeds.size:
        raise ValueError("the two models have no seed in common")
    lost = np.inf if measure.better == "lower" else -np.inf
    x, y = (
        np.where(np.isfinite(runs.value[which]), runs.value[which] * measure.scale, lost)
        for runs, which in ((a, of_a), (b, of_b))
    )
    # where both are infinite, neither is better
    values = np.subtract(x, y, out=np.zeros(seeds.size), where=x != y)
    return Paired(tuple(seeds.tolist()), values, median_interval(values))


def comparable(settings: pd.DataFrame, setting: str | None, other: str | None, axis: Axis) -> bool:
    """Whether two chosen settings differ, and in the axis's field only.

    Args:
        settings: one row per setting.
        setting, other: their ids; None where nothing was run.
        axis: the models.
    """
    if setting is None or other is None or setting == other:
        return False
    pair = settings[settings["setting_id"].isin([setting, other])]
    return not _differing(pair, {axis.field})


def _differing(settings: pd.DataFrame, allowed: Collection[str]) -> list[str]:
    """Returns the fields in which settings, one per row, differ; missing counts as a value."""
    fields = [name for name in setting_fields(settings) if name not in {*allowed}]
    return [name for name in fields if stored_column(settings, name).nunique(dropna=False) > 1]
