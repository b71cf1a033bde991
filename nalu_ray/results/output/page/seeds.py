"""What lies behind a table's cells: every seed as a dot, and performance profiles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from nalu_ray.results.analysis.axes import Heading
from nalu_ray.results.analysis.cells import TableCell
from nalu_ray.results.analysis.curves import Curve, Panel
from nalu_ray.results.analysis.references import REFERENCES
from nalu_ray.results.analysis.statistics import wilson_interval
from nalu_ray.results.analysis.table import Table
from nalu_ray.results.output.page import charts
from nalu_ray.results.output.page.svg import Frame, Scale, scale, short, text
from nalu_ray.results.specs import SUCCESS, TRIAL, Measure

GOLDEN = 0.618034  # spreads neighbouring seeds
TAUS = 90
_HEIGHT, _BOTTOM = 260.0, 186.0  # of a panel of dots, and of its axis, in pixels


@dataclass(frozen=True)
class Group:
    """The seeds of the models that one panel compares.

    Attributes:
        problem: the row or column that is not compared; its label may be empty.
        key, measure: what was measured.
        cells: model and cell, in printed order.
    """

    problem: Heading
    key: str
    measure: Measure
    cells: tuple[tuple[Heading, TableCell], ...]

    @property
    def title(self) -> str:
        """Returns the panel's title."""
        return ", ".join(text for text in (self.problem.label, self.measure.label) if text)


def groups(table: Table) -> list[Group]:
    """Returns the panels of a table, without those of fewer than two seeds."""
    by_column = table.spec.compared == "columns"
    models, problems = (table.columns, table.rows) if by_column else (table.rows, table.columns)
    listed = []
    seen = set()
    for key, measure in table.spec.measures.items():
        if measure.split == TRIAL or (measure.metric, measure.split) in seen:
            continue
        seen.add((measure.metric, measure.split))
        for problem in problems:
            cells = []
            for model in models:
                row, column = (problem, model) if by_column else (model, problem)
                cell = table.cells[row.key, column.key, key]
                if cell.values and not REFERENCES & {row.key, column.key}:
                    cells.append((model, cell))
            if sum(len(cell.values) for _, cell in cells) > 1:
                listed.append(Group(problem, key, measure, tuple(cells)))
    return listed


def identity(table: Table) -> tuple[object, ...]:
    """Returns a key that two tables share if their seeds show the same numbers, up to a scale."""
    spec = table.spec
    axes = frozenset({spec.rows.field, spec.columns.field if spec.columns else ""})
    return (table.label, axes, tuple(sorted(spec.where.items())))


# -- dots ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Panel:
    """Where the dots of a group go: the scale of the numbers, and the models from left to right."""

    y: Scale
    x: Scale
    field: str
    order: Sequence[str]

    @property
    def width(self) -> float:
        return self.x.end + 12

    @property
    def spacing(self) -> float:
        return self.x(1) - self.x(0)

    def height(self, value: float) -> float:
        """Returns the pixel of a number; what is infinite is above, and zero below, a log axis."""
        if math.isinf(value):
            return self.y.end - 9 if value > 0 or self.y.log else _BOTTOM
        return _BOTTOM if self.y.log and value <= 0 else self.y(value)


def dots(table: Table, listed: Sequence[Group]) -> str:
    """Returns a panel per problem and measure with a dot per seed of each model."""
    field, op = _fields(table)
    parts = []
    for key in dict.fromkeys(group.key for group in listed):
        of = [group for group in listed if group.key == key]
        finite = [v for g in of for _, c in g.cells for v in c.values if math.isfinite(v)]
        log = of[0].measure.better == "lower" and any(v > 0 for v in finite) and min(finite) >= 0
        y = scale(finite, _BOTTOM - 14 * log, 36, log=log)
        for group in of:
            count = len(group.cells)
            width = max(220.0, 62.0 + (30 if count < 9 else 22) * count)
            panel = _Panel(y, Scale(0, count, 50, width - 12), field, _labelled(table))
            about = f' data-op="{escape(group.problem.key)}"' if op else ""
            parts.append(_dots(group, panel, about))
    return f'<div class="panels">{"".join(parts)}</div>\n'


def _dots(group: Group, panel: _Panel, about: str) -> str:
    values = [value for _, cell in group.cells for value in cell.values]
    axis = Scale(panel.y.low, panel.y.high, panel.y.start, panel.y.end, panel.y.log)
    parts = [Frame(panel.width, _HEIGHT, panel.x, axis).axes("", "", [(-1.0, "")])]
    if any(map(math.isinf, values)):
        parts.append(text(45, panel.y.end - 6, "lost", ' text-anchor="end"'))
    published = [cell.published.value for _, cell in group.cells if cell.published]
    if panel.y.log and 0 in {*values, *published}:
        parts.append(text(45, _BOTTOM + 3, "0", ' text-anchor="end"'))
    parts += [_model(group, index, panel) for index in range(len(group.cells))]
    parts.append(text(50, 13, group.title, ' class="title"'))
    return (
        f'<svg class="panel seeds" viewBox="0 0 {panel.width:g} {_HEIGHT:g}"{about} '
        f'style="width:{panel.width:g}px" role="img" aria-label="seeds: {escape(group.title)}">'
        f"{''.join(parts)}</svg>"
    )


def _model(group: Group, index: int, panel: _Panel) -> str:
    model, cell = group.cells[index]
    middle, spacing = panel.x(index + 0.5), panel.spacing
    marks = "".join(
        f"M{middle + ((k * GOLDEN) % 1 - 0.5) * 0.55 * spacing:.1f} {panel.height(value):.1f}h0"
        for k, value in enumerate(cell.values, 1)
    )
    known = panel.order.index(model.key) if model.key in panel.order else index
    left, top = middle - spacing / 2, panel.y.end - 16
    column = f'x="{left:.1f}" y="{top:.1f}" width="{spacing:.1f}" height="{_BOTTOM - top:.1f}"'
    parts = [f'<rect class="hit" {column}/>']
    parts += [f'<path class="seed {charts.style_of(known)}" d="{marks}"/>']
    name, centre = _centre(cell, group.measure)
    at, half = panel.height(centre), 0.4 * spacing
    parts.append(f'<path class="centre" d="M{middle - half:.1f} {at:.1f}h{2 * half:.1f}"/>')
    if cell.published and group.measure.statistic not in SUCCESS:
        at = panel.height(cell.published.value * group.measure.published_scale)
        parts.append(f'<path class="theirs" d="M{middle - 4:.1f} {at - 4:.1f}l4 4l-4 4"/>')
    x, y = middle + 3, _BOTTOM + 16
    turned = f' text-anchor="end" transform="rotate(-40 {x:.1f} {y:.1f})"'
    said = f"{model.label}: {len(cell.values)} seeds, {name} {_plain(centre)}"
    said += f", solved {cell.rate.successes}/{cell.rate.n}" if cell.rate else ""
    said += f", published {cell.published.text}" if cell.published else ""
    numbered = cell.seeds != tuple(range(len(cell.seeds)))
    return (
        f'<g class="model" data-{charts.group(panel.field)}="{escape(model.key)}" '
        f'data-about="{escape(said)}" data-values="{" ".join(map(_plain, cell.values))}" '
        f'data-seeds="{" ".join(map(str, cell.seeds)) if numbered else ""}">'
        f"{''.join(parts)}{text(x, y, model.label, turned)}</g>"
    )


def _centre(cell: TableCell, measure: Measure) -> tuple[str, float]:
    """Returns the name and the value of a cell's bar."""
    if measure.statistic == "mean" and cell.value is not None:
        return "mean", cell.value
    return "median", float(np.median(cell.values))


def _plain(value: float) -> str:
    return short(value).replace(",", "") if math.isfinite(value) else ("∞" if value > 0 else "-∞")


# -- profiles --------------------------------------------------------------------------------------


def profiles(table: Table, listed: Sequence[Group]) -> str:
    """Returns the share of seeds with an error below tau, over tau, where successes are counted.

    These are the performance profiles of Agarwal et al. (2021), with errors for scores.
    """
    judged = [g for g in listed if g.measure.better == "lower" and _limit(g) is not None]
    field, op = _fields(table)
    parts = []
    for key in dict.fromkeys(g.key for g in judged):
        of = [g for g in judged if g.key == key]
        taus = _taus(of)
        panels = [Panel(g.problem.label, tuple(_profiles(g, taus))) for g in of]
        if not taus.size or not any(panel.curves for panel in panels):
            continue
        limits = {g.problem.label: limit for g in of if (limit := _limit(g)) is not None}
        lines = charts.lines_of(panels, _labelled(table))
        parts.append(f"<h4>{escape(of[0].measure.label)}</h4>\n{charts.legend(lines, field)}")
        operations = {g.problem.label: g.problem.key for g in of} if op else {}
        parts.append(
            charts.drawn(
                panels,
                lines,
                field,
                x_label="τ",
                y_label="seeds below τ, %",
                log_x=True,
                limits=limits,
                operations=operations,
            )
        )
    return "".join(parts)


def _limit(group: Group) -> float | None:
    """Returns the threshold of success of a panel: the median of its cells'."""
    limits = [cell.limit for _, cell in group.cells if cell.limit]
    return float(np.median(limits)) if limits else None


def _taus(of: Sequence[Group]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    values = [v for g in of for _, cell in g.cells for v in cell.values if 0 < v < math.inf]
    values += [limit for g in of if (limit := _limit(g))]
    if not values or min(values) == max(values):
        return np.empty(0)
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return np.logspace(low, high, TAUS)


def _profiles(group: Group, taus: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Iterator[Curve]:
    for model, cell in group.cells:
        values = np.asarray(cell.values)
        counts = (values[:, None] < taus).sum(0)
        ends = np.array([wilson_interval(int(k), values.size) for k in counts])
        share = 100 * counts / values.size
        yield Curve(
            model, taus, share, 100 * ends[:, 0], 100 * ends[:, 1], values.size, values.size
        )


def _labelled(table: Table) -> list[str]:
    axis = table.spec.rows
    if table.spec.compared == "columns" and table.spec.columns:
        axis = table.spec.columns
    return list(axis.labels)


def _fields(table: Table) -> tuple[str, bool]:
    """Returns the field of the models, and whether the problems are operations."""
    spec = table.spec
    other = spec.columns.field if spec.columns else ""
    by_column = spec.compared == "columns"
    models, problems = (other, spec.rows.field) if by_column else (spec.rows.field, other)
    return models, problems == charts.OP
