"""Selects the step, seed and setting that a table shows; never by an extrapolation split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nalu_ray.results.analysis.statistics import Floats
from nalu_ray.results.specs import TRIAL, Measure, Selection
from nalu_ray.results.store.rows import COMPLETED, DIVERGED, FAILED, OUTCOME, RUN

OK = "ok"
_ALLOWED = ("interpolation", "validation", "train", "weights")


@dataclass(frozen=True)
class Runs:
    """One measure of stored runs: arrays of (runs,), a run being one seed of one setting.

    Attributes:
        setting_id, seed: the run.
        outcome: ``ok``, ``diverged`` or ``failed``.
        step: where it is read, by the selection; NaN if nowhere.
        selector: the selecting metric there; infinite for a run that diverged, failed or never had
            a finite one, so that it never wins.
        value: the measure there, unscaled; NaN if the run has no step or it was not logged.
        limit: the success threshold; NaN if none was logged.
        below_at: the first logged step at which the measure was below it; NaN if never.
        logged: whether the measure was logged at any step.
    """

    setting_id: NDArray[np.object_]
    seed: NDArray[np.int64]
    outcome: NDArray[np.object_]
    step: Floats
    selector: Floats
    value: Floats
    limit: Floats
    below_at: Floats
    logged: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.seed)

    def take(self, which: NDArray[Any]) -> Runs:
        """Some of the runs, by position or mask."""
        return Runs(**{item.name: getattr(self, item.name)[which] for item in fields(self)})

    @property
    def ok(self) -> NDArray[np.bool_]:
        """Returns which runs completed, (runs,)."""
        return np.asarray(self.outcome == OK, dtype=bool)

    def winner(self) -> int | None:
        """The run with the lowest selector; None if all runs are lost.

        Among equal ones, it is the one with the lowest seed.
        """
        order = np.lexsort((np.arange(len(self)), self.seed, self.selector))
        return int(order[0]) if len(self) and np.isfinite(self.selector[order[0]]) else None

    def best_setting(self) -> str:
        """The setting with the lowest median selector; of equal ones, that with more seeds."""
        scores = {}
        for sid in dict.fromkeys(self.setting_id):
            selectors = self.selector[self.setting_id == sid]
            scores[str(sid)] = (float(np.median(selectors)), -len(selectors))
        return min(scores, key=lambda sid: scores[sid])

    def best_settings(self, parts: NDArray[Any] | None) -> list[str]:
        """The best setting of each part of the runs; ``parts``, (runs,), says which is whose."""
        if parts is None:
            return [self.best_setting()]
        return [self.take(parts == part).best_setting() for part in dict.fromkeys(parts)]


def check(selection: Selection) -> None:
    """Refuses a selection by an extrapolation split.

    Raises:
        ValueError: the split is not interpolation, validation, train or weights.
    """
    if selection.split not in _ALLOWED:
        raise ValueError(f"must not select by the split {selection.split!r}: {', '.join(_ALLOWED)}")


def runs_of(frame: pd.DataFrame, selection: Selection) -> pd.DataFrame:
    """Finds the selected step of every stored seed of every setting.

    Args:
        frame: (rows, columns) as :meth:`Store.load` gives them.
        selection: the rule.

    Returns:
        (runs, 5): ``setting_id, seed, outcome, step, selector`` as in :class:`Runs`, ordered by
        setting and seed.
    """
    check(selection)
    runs = frame[RUN].drop_duplicates().sort_values(RUN, ignore_index=True)
    logged = logged_rows(frame, selection.metric, selection.split)
    if selection.step == "last":
        logged = logged.drop_duplicates(RUN, keep="last")
    chosen = select(logged, by="value", group=RUN)
    chosen = chosen.rename(columns={"value": "selector"})
    runs = runs.merge(_outcomes(frame), on=RUN, how="left").merge(chosen, on=RUN, how="left")
    runs["outcome"] = runs["outcome"].astype(object).fillna(OK)
    lost = (runs["outcome"] != OK).to_numpy() | runs["selector"].isna().to_numpy(bool)
    runs["step"] = np.where(lost, np.nan, runs["step"].astype(float))
    runs["selector"] = np.where(lost, np.inf, runs["selector"].astype(float))
    return runs


def select(frame: pd.DataFrame, by: str, group: Sequence[str]) -> pd.DataFrame:
    """The row of each group with the lowest ``by``.

    NaN and infinities never win, so a group without a finite value has no row in the result. Ties
    go to the lowest seed, then to the earlier row. Missing values in ``group`` are a key of their
    own, since not every setting has every field.

    Args:
        frame: (rows, columns) with the columns ``by``, ``seed`` and those of ``group``.
        by: the selecting metric. Never an extrapolation one.
        group: columns that name a group; none means that the whole frame is one.

    Returns:
        (groups, columns), in the frame's order, index renumbered.
    """
    rows = frame.reset_index(drop=True)
    finite = rows[np.isfinite(rows[by].to_numpy(dtype=np.float64))]
    best = finite.sort_values([by, "seed"], kind="stable")
    winners: pd.DataFrame = best.drop_duplicates(list(group)) if group else best.head(1)
    return winners.sort_index().reset_index(drop=True)


def observe(frame: pd.DataFrame, runs: pd.DataFrame, measure: Measure, limit: str | None) -> Runs:
    """Reads a measure of every run, at its selected step unless it is of the whole run.

    Args:
        frame: the rows.
        runs: from :func:`runs_of`.
        measure: the number to read.
        limit: metric that holds each run's success threshold, logged once on the measure's split.
    """
    logged = logged_rows(frame, measure.metric, measure.split)
    keys = RUN if measure.split == TRIAL else [*RUN, "step"]
    read = logged.drop_duplicates(keys, keep="last").astype({"step": float})[[*keys, "value"]]
    limits = logged_rows(frame, limit or "", measure.split).drop_duplicates(RUN)
    limits = limits[[*RUN, "value"]].rename(columns={"value": "limit"})
    below = logged.merge(limits, on=RUN)
    below = below[below["value"] < below["limit"]].drop_duplicates(RUN)
    below = below[[*RUN, "step"]].rename(columns={"step": "below_at"})
    joined = runs.merge(read, on=keys, how="left")
    joined = joined.merge(limits, on=RUN, how="left").merge(below, on=RUN, how="left")
    numbers = {
        name: joined[name].to_numpy(np.float64)
        for name in ("step", "selector", "value", "limit", "below_at")
    }
    return Runs(
        setting_id=joined["setting_id"].to_numpy(object),
        seed=joined["seed"].to_numpy(np.int64),
        outcome=joined["outcome"].to_numpy(object),
        logged=pd.MultiIndex.from_frame(joined[RUN]).isin(pd.MultiIndex.from_frame(logged[RUN])),
        **numbers,
    )


def logged_rows(frame: pd.DataFrame, metric: str, split: str) -> pd.DataFrame:
    """One metric on one split: (rows, 4) ``setting_id, seed, step, value``, in that order."""
    here = (frame["metric"] == metric) & (frame["split"] == split)
    kept = frame.loc[here, [*RUN, "step", "value"]]
    return kept.sort_values([*RUN, "step"], kind="stable").astype({"value": float})


def references(frame: pd.DataFrame, metric: str | None, split: str) -> dict[str, Floats]:
    """Reads a reference metric, such as a random model's error, of each setting that logged it.

    Returns:
        (seeds,) finite values by setting id, ordered by seed, each seed's median over its steps.
    """
    if metric is None:
        return {}
    logged = logged_rows(frame, metric, split)
    by_run = logged[np.isfinite(logged["value"])].groupby(RUN)["value"].median()
    by_setting = by_run.groupby(level="setting_id", sort=True)
    return {str(sid): values.to_numpy(np.float64) for sid, values in by_setting}


def _outcomes(frame: pd.DataFrame) -> pd.DataFrame:
    final = frame[frame["metric"] == COMPLETED].drop_duplicates(RUN, keep="last")
    names = {COMPLETED: OK, DIVERGED: DIVERGED}
    return final[RUN].assign(outcome=[names.get(end, FAILED) for end in final[OUTCOME]])
