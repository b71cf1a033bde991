"""Curves over a field of the setting: each point is a cell, as a table would have it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from nalu_ray.results.analysis.axes import Heading, axis_column, headings
from nalu_ray.results.analysis.cells import TableCell, measured
from nalu_ray.results.analysis.curves import Curve, Panel, Points
from nalu_ray.results.analysis.selection import observe, references, runs_of
from nalu_ray.results.analysis.text import budgets, in_full
from nalu_ray.results.specs import FigureSpec, Measure

_LINE, _PANEL, _X = "_line", "_panel", "_x"


@dataclass(frozen=True)
class Along:
    """The values of the field along x, in order, as texts."""

    values: tuple[str, ...]
    log: bool = False

    @classmethod
    def of(cls, texts: Iterable[str], *, log: bool = False) -> Along:
        """Returns the distinct values, numbers and ranges of numbers in order; ``log`` is of x."""
        return cls(
            tuple(sorted(set(texts), key=lambda text: ([*map(_number, text.split(":"))], text))),
            log,
        )

    @cached_property
    def ticks(self) -> tuple[str, ...]:
        """Returns the values if one has no place on the axis, so that x is their index."""
        return () if all(self._is_on_axis(_number(text)) for text in self.values) else self.values

    def place(self, text: str) -> float | None:
        """Returns the x of a value; None if it has none."""
        if self.ticks:
            return float(self.values.index(text)) if text in self.values else None
        return number if self._is_on_axis(number := _number(text)) else None

    def _is_on_axis(self, number: float) -> bool:
        return math.isfinite(number) and (number > 0 or not self.log)


def panels(spec: FigureSpec, rows: pd.DataFrame) -> tuple[Panel, ...]:
    """Computes every panel that has a point.

    Args:
        spec: the figure; ``spec.swept`` is the field along x.
        rows: (rows, columns) as :meth:`Store.load` gives them.

    Returns:
        Panels in printed order. Of several settings of a point, ``spec.selection`` prefers one.
    """
    settings, point = _settings(spec, rows), _Points(spec, rows)
    along = Along.of(settings[_X], log=spec.log_x)
    spent = budgets(settings, [name for name in spec.budget if name != spec.swept])
    across: tuple[Heading, ...] = (Heading("", ""),)
    if spec.panels is not None:
        across = headings(spec.panels, settings[_PANEL].unique())
    drawn = []
    for panel in across:
        here = settings[settings[_PANEL] == panel.key]
        curves = []
        for line in headings(spec.lines, here[_LINE].unique()):
            of_line = here[here[_LINE] == line.key]
            cells = {x: point(of_line.loc[of_line[_X] == x, "setting_id"]) for x in along.values}
            points = {x: cell for x, cell in cells.items() if cell.value is not None}
            if points:
                budget = spent[str(next(iter(points.values())).setting_id)]
                beside = _published(spec, line, panel, along)
                curves.append(_curve(line, points, along, budget, beside))
        if curves:
            drawn.append(Panel(panel.label, tuple(curves), along.ticks))
    return tuple(drawn)


class _Points:
    """Reads points of a figure, each from the runs of some settings."""

    def __init__(self, spec: FigureSpec, rows: pd.DataFrame) -> None:
        self.measure = Measure.model_validate(
            {"metric": spec.metric, "split": spec.split, "label": spec.y_label}
            | {"statistic": spec.statistic, "relative_to": spec.relative_to}
        )
        runs = runs_of(rows, spec.selection)
        self.observed = observe(rows, runs, self.measure, spec.solved_below)
        self.bases = references(rows, spec.relative_to, spec.split)
        self.members = runs.groupby("setting_id").indices

    def __call__(self, ids: Iterable[str]) -> TableCell:
        nobody = np.empty(0, dtype=np.intp)
        runs = np.concatenate([nobody, *(self.members[sid] for sid in ids)])
        return measured(self.measure, self.observed.take(runs), self.bases)


def _settings(spec: FigureSpec, rows: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per setting that has the field, with its line, panel and x as texts."""
    settings = rows.drop_duplicates("setting_id").reset_index(drop=True)
    settings[_LINE] = axis_column(settings, spec.lines)
    settings[_PANEL] = "" if spec.panels is None else axis_column(settings, spec.panels)
    if spec.swept not in settings:
        return settings.assign(**{_X: ""}).head(0)
    texts = [in_full(value) for value in settings[spec.swept].astype(object)]
    if spec.x_part is None:
        return settings.assign(**{_X: texts})
    settings[_X] = [dict(enumerate(text.split(":"))).get(spec.x_part) for text in texts]
    return settings.dropna(subset=[_X])


def _curve(
    line: Heading,
    points: Mapping[str, TableCell],
    along: Along,
    budget: Mapping[str, str],
    beside: Points,
) -> Curve:
    cells = points.values()
    middle, low, high = (
        np.array([getattr(cell, name) for cell in cells], dtype=np.float64)
        for name in ("value", "low", "high")
    )
    x = np.array([along.place(text) for text in points], dtype=np.float64)
    seeds = min(cell.n for cell in cells)
    return Curve(line, x, middle, low, high, seeds, seeds, budget, beside)


def _published(spec: FigureSpec, line: Heading, panel: Heading, along: Along) -> Points:
    """Returns the published points of a line."""
    values = spec.publication.values if spec.publication else ()
    points = [
        (along.place(value.measure), value.published().value)
        for value in values
        if (value.row, value.column) == (line.key, panel.key)
    ]
    return tuple(sorted((x, y) for x, y in points if x is not None))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.inf
