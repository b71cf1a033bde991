"""Stored rows to the cells of a table, the published value beside each: pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from nalu_ray.results import published
from nalu_ray.results.analysis import budgets, references, selection
from nalu_ray.results.analysis.groups import Members, Sweep, sweeps
from nalu_ray.results.analysis.paired import Place, with_differences
from nalu_ray.results.analysis.problems import problems
from nalu_ray.results.analysis.table_cell import Cell, measured, reference
from nalu_ray.results.analysis.text import number, stored_column
from nalu_ray.results.analysis.wording import filled
from nalu_ray.results.published import Published
from nalu_ray.results.specs import Axis, TableSpec
from nalu_ray.results.store.rows import COMPLETED, RUN, setting_fields

__all__ = [
    "DOUBTED",
    "RANDOM",
    "Cell",
    "Heading",
    "Table",
    "build",
    "build_each",
    "build_problems",
    "headings",
    "setting_labels",
]

RANDOM = "random"
DOUBTED = "‡"  # after a published value
_ROW, _COLUMN = "_row", "_column"


@dataclass(frozen=True)
class Heading:
    """A row or column: its key in :attr:`Table.cells` and its printed label."""

    key: str
    label: str


@dataclass(frozen=True)
class Table:
    """A table as numbers: ``cells`` by (row key, column key, measure key).

    Attributes:
        problem: of which data it is, where others are stored too.
        sweep: which preset its rows are of, where they were told apart by it.
        budgets: a sentence on fields of the budget in which its cells differ; empty if in none.
        reference: which random model it is, ``hidden=2``; empty if the table has none.
    """

    spec: TableSpec
    rows: tuple[Heading, ...]
    columns: tuple[Heading, ...]
    cells: Mapping[Place, Cell]
    problem: str = ""
    sweep: Sweep | None = None
    budgets: str = ""
    reference: str = ""

    @property
    def name(self) -> str:
        """The table's name among those of the same specification: preset and problem too."""
        return f"{self.spec.name} {self.label}".rstrip()

    @property
    def label(self) -> str:
        """What tells it from those: its preset, if known, and its problem, if there are others."""
        preset = self.sweep.label if self.sweep else ""
        return f"{preset} {self.problem}".strip()


def build_each(spec: TableSpec, rows: pd.DataFrame, members: Members | None = None) -> list[Table]:
    """Fills a table for each preset and each problem of stored rows, which are never mixed.

    See :func:`build`, and for ``members`` :func:`nalu_ray.results.analysis.groups.sweeps`.
    """
    return [
        replace(table, sweep=sweep)
        for sweep, part in sweeps(spec, rows, members)
        for table in build_problems(spec, part)
    ]


def build_problems(spec: TableSpec, rows: pd.DataFrame) -> list[Table]:
    """Fills a table for each problem of rows of one preset."""
    return [replace(build(spec, part), problem=label) for label, part in problems(spec, rows)]


def build(spec: TableSpec, rows: pd.DataFrame) -> Table:
    """Fills a table from stored rows of one problem and one preset.

    Args:
        spec: what is wanted. Its selection may read the interpolation, validation or training
            split only.
        rows: (rows, columns) as :meth:`Store.load` gives them.

    Returns:
        A cell for every row, column and measure; those that were not run have no value. Without a
        column axis the one column has the key ``""``.

    Raises:
        ValueError: the table selects by an extrapolation split.
    """
    selection.check(spec.selection)
    spec = filled(spec, rows)
    frame, settings = _wanted(spec, rows), _settings(spec, rows)
    down = headings(spec.rows, settings[_ROW])
    across: tuple[Heading, ...] = (Heading("", ""),)
    if spec.columns is not None:
        across = headings(spec.columns, settings[_COLUMN])
    cells = with_differences(spec, rows, _measured_cells(spec, frame, settings, down, across))
    spent = budgets.describe(_spent(spec, settings, cells, down, across))
    label = ""
    if spec.reference is not None:
        random = (Heading(RANDOM, "Random"),)
        places = (down, random) if spec.compared == "columns" else (random, across)
        beside, label = _reference_cells(spec, frame, settings, *places)
        cells |= beside
        if spec.compared == "columns":
            across = (*random, *across)
        else:
            down = (*random, *down)
    cells = {place: replace(c, published=_published(spec, *place)) for place, c in cells.items()}
    return Table(spec, down, across, _with_bold(spec, cells), budgets=spent, reference=label)


def headings(axis: Axis, values: Iterable[object]) -> tuple[Heading, ...]:
    """The labelled values in printed order, then the stored ones that nobody labelled."""
    listed = [Heading(key, label) for key, label in axis.labels.items()]
    if axis.others:
        found = {value for value in values if isinstance(value, str)} - set(axis.labels)
        ordered = sorted(found, key=_natural)
        listed += [Heading(key, axis.more.get(key, key)) for key in ordered]
    return tuple(listed)


def setting_labels(settings: pd.DataFrame, axes: Iterable[str]) -> dict[str, str]:
    """What tells settings apart beside the axes: setting id to such as ``lr=0.1, hidden=2``.

    Args:
        settings: a row a setting.
        axes: fields that need no telling.
    """
    fields = [name for name in setting_fields(settings) if name not in {*axes}]
    texts = {name: stored_column(settings, name).tolist() for name in fields}
    varying = [name for name in fields if len({*map(str, texts[name])}) > 1]
    return {
        str(sid): ", ".join(f"{f}={texts[f][i]}" for f in varying if isinstance(texts[f][i], str))
        for i, sid in enumerate(settings["setting_id"])
    }


def _natural(key: str) -> tuple[float, str]:
    try:
        return float(key), key
    except ValueError:
        return math.inf, key


def _wanted(spec: TableSpec, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the metrics that matter, without the settings' columns."""
    metrics = {COMPLETED, spec.selection.metric, spec.reference, spec.solved_below}
    for measure in spec.measures.values():
        metrics |= {measure.metric, measure.relative_to}
    here = rows["metric"].isin([metric for metric in metrics if metric])
    return rows.loc[here, [*RUN, "step", "split", "metric", "value", "reason"]]


def _settings(spec: TableSpec, rows: pd.DataFrame) -> pd.DataFrame:
    """A row a setting, with the keys of its row and column."""
    settings = rows.drop_duplicates("setting_id").reset_index(drop=True)
    settings[_ROW] = stored_column(settings, spec.rows.field)
    settings[_COLUMN] = ""
    if spec.columns is not None:
        settings[_COLUMN] = stored_column(settings, spec.columns.field)
    return settings


def _measured_cells(
    spec: TableSpec,
    frame: pd.DataFrame,
    settings: pd.DataFrame,
    down: Iterable[Heading],
    across: Iterable[Heading],
) -> dict[Place, Cell]:
    runs = selection.runs_of(frame, spec.selection)
    places = settings.set_index("setting_id")[[_ROW, _COLUMN]]
    found = places.loc[runs["setting_id"]].reset_index(drop=True)
    members = found.groupby([_ROW, _COLUMN], sort=False).indices
    fields = [spec.rows.field, _ROW, _COLUMN, *([spec.columns.field] if spec.columns else [])]
    labels = setting_labels(settings, fields)
    nobody = np.empty(0, dtype=np.intp)
    cells = {}
    for key, measure in spec.measures.items():
        observed = selection.observe(frame, runs, measure, spec.solved_below)
        bases = references.of_settings(frame, measure.relative_to, measure.split)
        for row in down:
            for column in across:
                which = np.asarray(members.get((row.key, column.key), nobody))
                cell = measured(measure, observed.take(which), bases)
                label = labels.get(cell.setting_id or "", "")
                cells[row.key, column.key, key] = replace(cell, setting=label)
    return cells


def _reference_cells(
    spec: TableSpec,
    frame: pd.DataFrame,
    settings: pd.DataFrame,
    down: Iterable[Heading],
    across: Iterable[Heading],
) -> tuple[dict[Place, Cell], str]:
    """The cells of the random row or column, and which random model it is."""
    cells, labels = {}, set()
    axis = _ROW if spec.compared == "columns" else _COLUMN
    for key, measure in spec.measures.items():
        known = references.declared(spec, frame, settings, axis, measure.split)
        labels |= {known.label} if known.by_problem else set()
        for row in down:
            for column in across:
                values = known.by_problem.get(_problem(spec, row.key, column.key), np.empty(0))
                cells[row.key, column.key, key] = reference(measure, values)
    return cells, ", ".join(sorted(labels - {""}))


def _spent(
    spec: TableSpec,
    settings: pd.DataFrame,
    cells: Mapping[Place, Cell],
    down: Iterable[Heading],
    across: Iterable[Heading],
) -> list[budgets.Spent]:
    """What each cell that was run had of seeds, and of the budget's fields."""
    known = budgets.values_of(settings, spec.budget)
    spent = []
    for row in down:
        for column in across:
            model, problem = row.label, column.label
            if spec.compared == "columns":
                model, problem = problem, model
            for key in spec.measures:
                cell = cells[row.key, column.key, key]
                if cell.setting_id is not None:
                    values = {**known[cell.setting_id], "seeds": f"{cell.n:,}"}
                    spent.append(budgets.Spent(model, problem, values))
    return spent


def _problem(spec: TableSpec, row: str, column: str) -> str:
    return row if spec.compared == "columns" else column


def _published(spec: TableSpec, row: str, column: str, key: str) -> Published | None:
    if spec.number is None:
        return None
    named, measure = spec.rows.published.get(row, row), spec.measures[key]
    if spec.columns is None:
        place = measure.published or (key, measure.split)
    else:
        place = spec.columns.published.get(column, column), key
    found = published.lookup(spec.number, named, *place)
    if found is None:
        return None
    text = found.text
    if measure.published_scale != 1:
        text += f"; {number(found.value * measure.published_scale, measure.format)}"
    doubted = (row, column or key) in spec.doubtful
    return replace(found, text=text + DOUBTED * doubted)


def _with_bold(spec: TableSpec, cells: Mapping[Place, Cell]) -> dict[Place, Cell]:
    """Marks the best of each comparison; what prints the same is bold too, as in the paper."""
    groups: dict[tuple[str, str], list[Place]] = {}
    for place, cell in cells.items():
        row, column, key = place
        is_reference = spec.reference is not None and RANDOM in (row, column)
        if cell.value is not None and not is_reference:
            groups.setdefault((_problem(spec, row, column), key), []).append(place)
    marked = dict(cells)
    for (_, key), places in groups.items():
        choose = min if spec.measures[key].better == "lower" else max
        best = cells[choose(places, key=lambda place: cells[place].value or 0.0)]
        # one alone is not the best of anything; beyond the cap all are equally bad
        if len(places) > 1 and math.isfinite(best.value or 0.0) and best.text[0] != ">":
            for place in places:
                marked[place] = replace(cells[place], bold=cells[place].text == best.text)
    return marked
