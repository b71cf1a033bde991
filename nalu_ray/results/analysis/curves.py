"""Stored rows to curves with a band: pure functions, no drawing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from nalu_ray.results.analysis import selection
from nalu_ray.results.analysis.axes import Heading, axis_column, headings
from nalu_ray.results.analysis.selection import OK
from nalu_ray.results.analysis.statistics import Floats, mean_interval, median_interval
from nalu_ray.results.analysis.text import budgets
from nalu_ray.results.specs import FigureSpec
from nalu_ray.results.store.rows import RUN

_LINE, _PANEL = "_line", "_panel"
STEP = "step"

Points = tuple[tuple[float, float], ...]
"""Points (x, y)."""


@dataclass(frozen=True)
class Curve:
    """One line: its heading, points ``x`` of (P,), and over seeds ``middle``, ``low``, ``high``.

    ``seeds`` were drawn; ``stored`` counts also those without a finite point, as of a seed that
    diverged before its curve was logged: a median takes it as infinite. ``budget`` has the
    fields of its setting that ``FigureSpec.budget`` names, as texts. ``published`` are points
    (x, y) that stand beside it.
    """

    heading: Heading
    x: Floats
    middle: Floats
    low: Floats
    high: Floats
    seeds: int
    stored: int
    budget: Mapping[str, str] = field(default_factory=dict)
    published: Points = ()


@dataclass(frozen=True)
class Panel:
    """The curves of one panel, in printed order; a figure without panels has one, untitled.

    ``ticks`` are the texts at x = 0, 1, ... where x stands for values that are no numbers.
    """

    title: str
    curves: tuple[Curve, ...]
    ticks: tuple[str, ...] = ()


def panels(spec: FigureSpec, rows: pd.DataFrame) -> tuple[Panel, ...]:
    """Computes every panel that has a logged curve; :mod:`.swept` has those over a setting's field.

    Args:
        spec: the figure.
        rows: (rows, columns) as :meth:`Store.load` gives them.

    Returns:
        Panels in printed order. A line with several settings shows the one that ``spec.selection``
        prefers; without that metric, the one with most seeds.
    """
    runs = selection.runs_of(rows, spec.selection)
    scores = runs.groupby("setting_id")["selector"].agg(["median", "size"])
    wanted = [metric for metric in (spec.metric, spec.relative_to) if metric]
    here = rows["metric"].isin(wanted) & (rows["split"] == spec.split)
    read = dict.fromkeys([*RUN, "step", "split", "metric", "value", spec.x])
    frame = rows.loc[here, list(read)]
    drawn = frame[frame["metric"] == spec.metric]
    places = drawn.groupby("setting_id").indices
    settings = rows.drop_duplicates("setting_id").set_index("setting_id").loc[list(places)]
    lines, across = axis_column(settings, spec.lines), pd.Series("", index=settings.index)
    panel_headings: tuple[Heading, ...] = (Heading("", ""),)
    if spec.panels is not None:
        across = axis_column(settings, spec.panels)
        panel_headings = headings(spec.panels, across.unique())
    spent = budgets(settings.reset_index(), spec.budget)
    bases = selection.references(frame, spec.relative_to, spec.split)
    drawn_panels = []
    for panel in panel_headings:
        of_panel = lines[across == panel.key]
        curves = []
        for line in headings(spec.lines, of_panel.unique()):
            ids = of_panel.index[of_panel == line.key]
            if len(ids):
                sid = _preferred(scores.loc[sorted(ids)])
                outcomes = runs[runs["setting_id"] == sid].set_index("seed")["outcome"]
                scale = _scale(spec, bases.get(sid))
                curve = _curve(spec, line, drawn.iloc[places[sid]], scale, outcomes)
                curves.append(replace(curve, budget=spent[sid]))
        if curves:
            drawn_panels.append(Panel(panel.label, tuple(curves)))
    return tuple(drawn_panels)


def _preferred(scores: pd.DataFrame) -> str:
    """Returns the setting with the lowest median; of equal ones, that with more seeds."""
    by, ascending = ["median", "size"], [True, False]
    return str(scores.sort_values(by, ascending=ascending, kind="stable").index[0])


def _scale(spec: FigureSpec, base: Floats | None) -> float:
    """Returns the factor that makes a reference, (seeds,), 100."""
    if spec.relative_to is None:
        return 1.0
    middle = float("nan") if base is None else float(np.median(base))
    return 100 / (middle or float("nan"))


def _curve(
    spec: FigureSpec,
    line: Heading,
    piece: pd.DataFrame,
    scale: float,
    outcomes: pd.Series[Any],
) -> Curve:
    """Returns a line; completed seeds that stopped early keep their last value to its end.

    Seeds that diverged or failed before they logged a point have a curve of NaN.
    """
    piece = piece.sort_values([*RUN, "step"], kind="stable")
    if spec.select_step:
        last = piece.groupby("seed")["step"].transform("max")
        piece = piece[piece["step"] == last]
    wide = piece.drop_duplicates(["seed", spec.x], keep="last").pivot(
        index="seed", columns=spec.x, values="value"
    )
    if spec.x == STEP:
        early = wide.index.isin(outcomes.index[outcomes == OK])
        wide[early] = wide[early].ffill(axis=1)
    wide = wide.reindex(wide.index.union(outcomes.index[outcomes != OK]))
    values = wide.to_numpy(np.float64) * scale
    stored = len(values)
    if spec.statistic == "median":
        values = np.where(np.isfinite(values), values, np.inf)
        spread = [median_interval(column) for column in values.T]
        middle, low, high = (
            np.array([getattr(item, name) for item in spread])
            for name in ("estimate", "low", "high")
        )
    else:
        values = values[np.isfinite(values).all(axis=1)]
        middle, low, high = _mean(values, spec)
    x = wide.columns.to_numpy(np.float64)
    return Curve(line, x, middle, low, high, len(values), stored)


def _mean(values: Floats, spec: FigureSpec) -> tuple[Floats, Floats, Floats]:
    """Mean and band, (P,) each, of finite values, (seeds, P); NaN without seeds."""
    if not len(values):
        nothing = np.full(values.shape[1], np.nan)
        return nothing, nothing, nothing
    if spec.statistic == "two_sigma":
        middle = values.mean(axis=0)
        # one seed has no spread that could be known
        half = 2 * values.std(axis=0, ddof=1) if len(values) > 1 else np.full_like(middle, np.nan)
        return middle, middle - half, middle + half
    return values.mean(axis=0), *mean_interval(values)
