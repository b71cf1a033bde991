"""Fills the cells of a table from stored rows, with the published value beside each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from nalu_ray.results import published
from nalu_ray.results.analysis.axes import (
    Heading,
    axis_column,
    base_key,
    headings,
    setting_labels,
    stored_column,
)
from nalu_ray.results.analysis.cells import TableCell, measured, number
from nalu_ray.results.analysis.groups import Sweep, problems
from nalu_ray.results.analysis.likeness import judged
from nalu_ray.results.analysis.paired import between, comparable
from nalu_ray.results.analysis.references import REFERENCES, metric_of, reference_models
from nalu_ray.results.analysis.selection import logged_rows, observe, references, runs_of
from nalu_ray.results.analysis.text import Budget, budget_sentence, budgets, filled
from nalu_ray.results.published import Published
from nalu_ray.results.specs import RECIPE, SUCCESS, TableSpec
from nalu_ray.results.store.rows import COMPLETED, OUTCOME, RUN

DOUBTED = "‡"  # after a published value
_ROW, _COLUMN = "_row", "_column"

Place = tuple[str, str, str]
"""Keys of row, column and measure."""


@dataclass(frozen=True)
class Table:
    """A table as numbers: ``cells`` by (row key, column key, measure key).

    Attributes:
        problem: its data, if rows of several problems are stored.
        sweep: the preset of its rows, if they were split by preset.
        budgets: a sentence on fields of the budget in which its cells differ; empty if none does.
        recipes: a sentence on how its cells were trained otherwise; empty if all were alike.
        searched: a sentence on whose recipes were chosen among several; empty if nothing is said.
        reference: label of its random model, ``hidden=2``; empty if the table has none.
        not_run: rows and columns that are not shown, ``2 rows, 1 column``; empty if all are.
        only: the filter that hides stored rows, ``layer=nac seeds=0-4``; empty if none does.
    """

    spec: TableSpec
    rows: tuple[Heading, ...]
    columns: tuple[Heading, ...]
    cells: Mapping[Place, TableCell]
    problem: str = ""
    sweep: Sweep | None = None
    budgets: str = ""
    recipes: str = ""
    searched: str = ""
    reference: str = ""
    not_run: str = ""
    only: str = ""

    @property
    def name(self) -> str:
        """Returns the specification's name, preset and problem."""
        return f"{self.spec.name} {self.label}".rstrip()

    @property
    def label(self) -> str:
        """Returns its preset, if known, and its problem, if there are several."""
        preset = self.sweep.label if self.sweep else ""
        return f"{preset} {self.problem}".strip()


def build_each(spec: TableSpec, groups: Iterable[tuple[Sweep, pd.DataFrame]]) -> list[Table]:
    """Fills one table per preset and problem.

    Args:
        spec: the table.
        groups: rows by preset, from :func:`nalu_ray.results.analysis.groups.sweeps`.
    """
    return [
        replace(build(spec, part), sweep=sweep, problem=problem)
        for sweep, rows in groups
        for problem, part in problems(spec, _kept(spec, rows))
        if len(part) or not spec.where
    ]


def build(spec: TableSpec, rows: pd.DataFrame) -> Table:
    """Fills a table from stored rows of one problem and one preset.

    Args:
        spec: the table.
        rows: (rows, columns) as :meth:`Store.load` gives them.

    Returns:
        A cell for every row, column and measure; those that were not run have no value. Without a
        column axis the only column has the key ``""``.
    """
    spec = filled(spec, rows)
    frame, settings = _wanted(spec, rows), _settings(spec, rows)
    down = headings(spec.rows, settings[_ROW])
    across: tuple[Heading, ...] = (Heading("", ""),)
    if spec.columns is not None:
        across = headings(spec.columns, settings[_COLUMN])
    cells = _measured_cells(spec, frame, settings, down, across)
    if spec.paired_with is not None:
        cells = _with_differences(spec, rows, cells)
    spent = _spent(spec, settings, cells, (down, across), spec.budget)
    seen = budget_sentence([_with_seeds(item, n) for item, n in spent])
    axes = {axis.field for axis in (spec.rows, spec.columns) if axis}
    fields = [name for name in RECIPE if name not in axes]
    trained = _spent(spec, settings, cells, (down, across), fields)
    otherwise = budget_sentence([item for item, _ in trained], "Recipes")
    by_column = spec.compared == "columns"
    problem, asked = (_ROW, down) if by_column else (_COLUMN, across)
    models, label = reference_models(spec, frame, settings, problem, asked)
    for model, beside in models.items():
        cells |= {
            (at, model.key, key) if by_column else (model.key, at, key): cell
            for (at, key), cell in beside.items()
        }
    down, across = (down, (*models, *across)) if by_column else ((*models, *down), across)
    cells = {place: replace(c, published=_published(spec, *place)) for place, c in cells.items()}
    marked = _with_bold(spec, cells)
    return Table(spec, down, across, marked, budgets=seen, recipes=otherwise, reference=label)


def _kept(spec: TableSpec, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the settings that belong in the table."""
    for field, value in spec.where.items():
        rows = rows[stored_column(rows, field) == value]
    return rows


def _wanted(spec: TableSpec, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the metrics that matter, without the settings' columns."""
    metrics = {COMPLETED, spec.selection.metric, spec.reference, spec.solved_below}
    for measure in spec.measures.values():
        metrics |= {measure.metric, measure.relative_to, metric_of(measure)}
    here = rows["metric"].isin([metric for metric in metrics if metric])
    return rows.loc[here, [*RUN, "step", "split", "metric", "value", OUTCOME]]


def _settings(spec: TableSpec, rows: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per setting, with the keys of its row and column."""
    settings = rows.drop_duplicates("setting_id").reset_index(drop=True)
    settings[_ROW] = axis_column(settings, spec.rows)
    settings[_COLUMN] = ""
    if spec.columns is not None:
        settings[_COLUMN] = axis_column(settings, spec.columns)
    return settings


def _measured_cells(
    spec: TableSpec,
    frame: pd.DataFrame,
    settings: pd.DataFrame,
    down: Iterable[Heading],
    across: Iterable[Heading],
) -> dict[Place, TableCell]:
    runs = runs_of(frame, spec.selection)
    places = settings.set_index("setting_id")[[_ROW, _COLUMN]]
    of_runs = places.loc[runs["setting_id"]].reset_index(drop=True)
    members = of_runs.groupby([_ROW, _COLUMN], sort=False).indices
    fields = [spec.rows.field, _ROW, _COLUMN, *([spec.columns.field] if spec.columns else [])]
    labels = setting_labels(settings, fields)
    pooled = None
    if spec.pooled is not None:
        values = stored_column(settings, spec.pooled).fillna("none")
        values = values.set_axis(settings["setting_id"])
        pooled = values.loc[runs["setting_id"]].to_numpy(object)
    nobody = np.empty(0, dtype=np.intp)
    cells = {}
    for key, measure in spec.measures.items():
        observed = observe(frame, runs, measure, spec.solved_below)
        if spec.solved_like is not None:
            logged = logged_rows(frame, measure.metric, measure.split)
            like = np.flatnonzero(of_runs[_ROW] == spec.solved_like)
            observed = judged(observed, logged, like)
        bases = references(frame, measure.relative_to, measure.split)
        for row in down:
            for column in across:
                which = np.asarray(members.get((row.key, column.key), nobody))
                parts = None if pooled is None else pooled[which]
                cell = measured(measure, observed.take(which), bases, parts)
                label = "" if spec.pooled else labels.get(cell.setting_id or "", "")
                cells[row.key, column.key, key] = replace(cell, setting=label)
    return cells


def _with_differences(
    spec: TableSpec, rows: pd.DataFrame, cells: Mapping[Place, TableCell]
) -> dict[Place, TableCell]:
    """Fills each cell's difference to the model ``spec.paired_with``.

    Cells whose settings differ in more than the model, or share no seed, are left out.
    """
    filled_cells = dict(cells)
    runs, settings = runs_of(rows, spec.selection), rows.drop_duplicates("setting_id")
    axis = spec.rows if spec.columns is None or spec.compared == "rows" else spec.columns
    baseline = spec.paired_with or ""
    for key, measure in spec.measures.items():
        if measure.statistic in SUCCESS or measure.relative_to is not None:
            continue
        observed = observe(rows, runs, measure, None)
        for (row, column, _), cell in [item for item in cells.items() if item[0][2] == key]:
            beside = (baseline, column) if axis is spec.rows else (row, baseline)
            base = cells.get((*beside, key))
            if base is None or not comparable(settings, cell.setting_id, base.setting_id, axis):
                continue
            ours, theirs = (
                observed.take(observed.setting_id == sid)
                for sid in (cell.setting_id, base.setting_id)
            )
            if np.intersect1d(ours.seed, theirs.seed).size:
                interval = between(ours, theirs, measure).interval
                filled_cells[row, column, key] = replace(cell, difference=interval)
    return filled_cells


def _spent(
    spec: TableSpec,
    settings: pd.DataFrame,
    cells: Mapping[Place, TableCell],
    axes: tuple[Iterable[Heading], Iterable[Heading]],
    fields: Iterable[str],
) -> list[tuple[Budget, int]]:
    """Returns the values of fields, and the number of seeds, of each cell that was run."""
    known = budgets(settings, fields)
    down, across = axes
    spent = []
    for row in down:
        for column in across:
            model, problem = row.label, column.label
            if spec.compared == "columns":
                model, problem = problem, model
            for key in spec.measures:
                cell = cells[row.key, column.key, key]
                if cell.setting_id is not None:
                    spent.append((Budget(model, problem, known[cell.setting_id]), cell.n))
    return spent


def _with_seeds(item: Budget, seeds: int) -> Budget:
    return replace(item, values={**item.values, "seeds": f"{seeds:,}"})


def _problem(spec: TableSpec, row: str, column: str) -> str:
    return row if spec.compared == "columns" else column


def printed_place(spec: TableSpec, row: str, column: str, key: str) -> Place:
    """Returns row, column and split under which the paper's table prints a cell."""
    row, column, measure = base_key(row), base_key(column), spec.measures[key]
    named = spec.rows.published.get(row, row)
    if spec.columns is not None:
        return named, spec.columns.published.get(column, column), key
    return named, *(measure.published or (key, measure.split))


def publication_place(spec: TableSpec, row: str, column: str, key: str) -> Place:
    """Returns row, column and measure under which a file of published values has a cell."""
    named, beside, _ = printed_place(spec, row, column, key)
    return named, beside if spec.columns else base_key(column), key


def _published(spec: TableSpec, row: str, column: str, key: str) -> Published | None:
    named, beside, split = printed_place(spec, row, column, key)
    printed = None
    if spec.publication is not None:
        printed = spec.publication.lookup(*publication_place(spec, row, column, key))
    elif spec.number is not None:
        printed = published.lookup(spec.number, named, beside, split)
    if printed is None:
        return None
    text, measure = printed.text, spec.measures[key]
    if measure.published_scale != 1:
        text += f"; {number(printed.value * measure.published_scale, measure.format)}"
    place = (base_key(row), base_key(column) or key)
    doubted = place in spec.doubtful or (*place, key) in spec.doubtful
    return replace(printed, text=text + DOUBTED * doubted)


def _with_bold(spec: TableSpec, cells: Mapping[Place, TableCell]) -> dict[Place, TableCell]:
    """Marks the best of each comparison; what prints the same is bold too, as in the paper."""
    groups: dict[tuple[str, str], list[Place]] = {}
    for place, cell in cells.items():
        row, column, key = place
        if cell.value is not None and not REFERENCES & {row, column}:
            groups.setdefault((_problem(spec, row, column), key), []).append(place)
    marked = dict(cells)
    for (_, key), places in groups.items():
        choose = max if spec.measures[key].highest else min
        best = cells[choose(places, key=lambda place: cells[place].value or 0.0)]
        share = spec.measures[key].statistic == "rate" or spec.measures[key].worst == 0
        nothing = share and not best.value
        # a single cell is not bold, nor one beyond the cap, nor a rate of 0
        sound = math.isfinite(best.value or 0.0) and best.text[0] != ">"
        if len(places) > 1 and sound and not nothing:
            for place in places:
                marked[place] = replace(
                    cells[place], bold=_estimate(cells[place]) == _estimate(best)
                )
    return marked


def _estimate(cell: TableCell) -> str:
    """Returns a cell's text without its interval."""
    return cell.text.partition(" [")[0]
