"""Stored rows to curves with a band: pure functions, no drawing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from nalu_ray.results.analysis import selection
from nalu_ray.results.analysis.axes import Heading, axis_column, headings
from nalu_ray.results.analysis.statistics import Floats, mean_interval, median_interval
from nalu_ray.results.analysis.text import budgets
from nalu_ray.results.specs import FigureSpec
from nalu_ray.results.store.rows import RUN

_LINE, _PANEL = "_line", "_panel"

Points = tuple[tuple[float, float], ...]
"""Points (x, y)."""


@dataclass(frozen=True)
class Curve:
    """One line: its heading, points ``x`` of (P,), and over seeds ``middle``, ``low``, ``high``.

    ``seeds`` were drawn; ``stored`` counts also those without a finite point. ``budget`` has the
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
    frame = rows[rows["metric"].isin(wanted) & (rows["split"] == spec.split)].copy()
    frame[_LINE] = axis_column(frame, spec.lines)
    frame[_PANEL] = "" if spec.panels is None else axis_column(frame, spec.panels)
    panel_headings: tuple[Heading, ...] = (Heading("", ""),)
    if spec.panels is not None:
        panel_headings = headings(spec.panels, frame[_PANEL].unique())
    drawn = frame[frame["metric"] == spec.metric]
    spent = budgets(drawn.drop_duplicates("setting_id"), spec.budget)
    drawn_panels = []
    for panel in panel_headings:
        here = drawn[drawn[_PANEL] == panel.key]
        curves = []
        for line in headings(spec.lines, here[_LINE].unique()):
            piece = _one_setting(here[here[_LINE] == line.key], scores)
            if len(piece):
                sid = str(piece["setting_id"].iloc[0])
                scale = _scale(spec, frame[frame["setting_id"] == sid])
                curves.append(replace(_curve(spec, line, piece, scale), budget=spent[sid]))
        if curves:
            drawn_panels.append(Panel(panel.label, tuple(curves)))
    return tuple(drawn_panels)


def _one_setting(piece: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    known = scores.loc[sorted(piece["setting_id"].unique())]
    if known.empty:
        return piece
    best = known.sort_values(["median", "size"], ascending=[True, False], kind="stable").index[0]
    kept: pd.DataFrame = piece[piece["setting_id"] == best]
    return kept


def _scale(spec: FigureSpec, frame: pd.DataFrame) -> float:
    """Returns the factor that makes the reference of one setting 100."""
    if spec.relative_to is None:
        return 1.0
    base = selection.per_seed(frame, spec.relative_to, spec.split)
    return 100 / float(np.median(base)) if base.size else float("nan")


def _curve(spec: FigureSpec, line: Heading, piece: pd.DataFrame, scale: float) -> Curve:
    piece = piece.sort_values([*RUN, "step"], kind="stable")
    if spec.select_step:
        last = piece.groupby("seed")["step"].transform("max")
        piece = piece[piece["step"] == last]
    wide = piece.drop_duplicates(["seed", spec.x], keep="last").pivot(
        index="seed", columns=spec.x, values="value"
    )
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
