"""Fills the cells of a table from stored rows, with the published value beside each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from nalu_ray.results import published
from nalu_ray.results.analysis.axes import Heading, headings, setting_labels, stored_column
from nalu_ray.results.analysis.groups import Sweep, problems
from nalu_ray.results.analysis.likeness import judged
from nalu_ray.results.analysis.paired import between, comparable
from nalu_ray.results.analysis.selection import (
    Runs,
    declared_reference,
    logged_rows,
    observe,
    references,
    runs_of,
)
from nalu_ray.results.analysis.statistics import (
    Floats,
    Interval,
    Rate,
    median_interval,
    success_rate,
)
from nalu_ray.results.analysis.text import (
    MISSING,
    Budget,
    budget_sentence,
    budgets,
    filled,
    number,
)
from nalu_ray.results.published import Published
from nalu_ray.results.specs import Measure, TableSpec
from nalu_ray.results.store.rows import COMPLETED, DIVERGED, FAILED, OUTCOME, RUN

RANDOM = "random"
DOUBTED = "‡"  # after a published value
_ROW, _COLUMN = "_row", "_column"

Place = tuple[str, str, str]
"""Keys of row, column and measure."""


@dataclass(frozen=True)
class Cell:
    """One number of ours, what the paper prints there, and how far to trust ours.

    Attributes:
        value: scaled as printed; infinite if the chosen run is lost; None if nothing was run.
        text: ``value`` as printed.
        published: the paper's value; None where its table has no such cell.
        bold: whether it is the best of the cells that it is compared with.
        n: stored seeds of the chosen setting; a diverged or failed one counts as infinite.
        median, low, high: over those seeds, with the interval of the median.
        confidence: of that interval; fewer than six seeds cannot reach 95 %.
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


@dataclass(frozen=True)
class Table:
    """A table as numbers: ``cells`` by (row key, column key, measure key).

    Attributes:
        problem: its data, if rows of several problems are stored.
        sweep: the preset of its rows, if they were split by preset.
        budgets: a sentence on fields of the budget in which its cells differ; empty if none does.
        reference: label of its random model, ``hidden=2``; empty if the table has none.
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
    sentence = budget_sentence(_budgets(spec, settings, cells, down, across))
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
    return Table(spec, down, across, _with_bold(spec, cells), budgets=sentence, reference=label)


def _kept(spec: TableSpec, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the settings that belong in the table."""
    for field, value in spec.where.items():
        rows = rows[stored_column(rows, field) == value]
    return rows


def _wanted(spec: TableSpec, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the metrics that matter, without the settings' columns."""
    metrics = {COMPLETED, spec.selection.metric, spec.reference, spec.solved_below}
    for measure in spec.measures.values():
        metrics |= {measure.metric, measure.relative_to}
    here = rows["metric"].isin([metric for metric in metrics if metric])
    return rows.loc[here, [*RUN, "step", "split", "metric", "value", OUTCOME]]


def _settings(spec: TableSpec, rows: pd.DataFrame) -> pd.DataFrame:
    """Returns one row per setting, with the keys of its row and column."""
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
    runs = runs_of(frame, spec.selection)
    places = settings.set_index("setting_id")[[_ROW, _COLUMN]]
    of_runs = places.loc[runs["setting_id"]].reset_index(drop=True)
    members = of_runs.groupby([_ROW, _COLUMN], sort=False).indices
    fields = [spec.rows.field, _ROW, _COLUMN, *([spec.columns.field] if spec.columns else [])]
    labels = setting_labels(settings, fields)
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
                cell = _measured(measure, observed.take(which), bases)
                label = labels.get(cell.setting_id or "", "")
                cells[row.key, column.key, key] = replace(cell, setting=label)
    return cells


def _measured(measure: Measure, runs: Runs, bases: Mapping[str, Floats]) -> Cell:
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
    rate, solved_at = _success(chosen)
    return replace(
        _spread(measure, values[here], value),
        rate=rate,
        solved_at=solved_at,
        setting_id=sid,
        seed=None if best is None else int(runs.seed[best]),
        step=None if best is None else int(runs.step[best]),
        diverged=int((chosen.outcome == DIVERGED).sum()),
        failed=int((chosen.outcome == FAILED).sum()),
        reference=base if base is not None and math.isfinite(base) else None,
    )


def _reference(measure: Measure, values: Floats) -> Cell:
    """Fills a cell with the median of a reference, (seeds,), such as a random model's error."""
    if not values.size:
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


def _success(runs: Runs) -> tuple[Rate | None, float | None]:
    """Returns the success rate of one setting's runs, and the median step of first success."""
    if np.isnan(runs.limit).all():
        return None, None
    solved = runs.value < runs.limit
    at = runs.below_at[solved]
    return success_rate(solved), float(np.median(at)) if at.size else None


def _with_differences(
    spec: TableSpec, rows: pd.DataFrame, cells: Mapping[Place, Cell]
) -> dict[Place, Cell]:
    """Fills each cell's difference to the model ``spec.paired_with``.

    Cells whose settings differ in more than the model, or share no seed, are left out.
    """
    filled_cells = dict(cells)
    runs, settings = runs_of(rows, spec.selection), rows.drop_duplicates("setting_id")
    axis = spec.rows if spec.columns is None or spec.compared == "rows" else spec.columns
    baseline = spec.paired_with or ""
    for key, measure in spec.measures.items():
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
            if measure.relative_to is None and np.intersect1d(ours.seed, theirs.seed).size:
                interval = between(ours, theirs, measure).interval
                filled_cells[row, column, key] = replace(cell, difference=interval)
    return filled_cells


def _reference_cells(
    spec: TableSpec,
    frame: pd.DataFrame,
    settings: pd.DataFrame,
    down: Iterable[Heading],
    across: Iterable[Heading],
) -> tuple[dict[Place, Cell], str]:
    """Returns the cells of the random row or column, and the random model's label."""
    cells, labels = {}, set()
    axis = _ROW if spec.compared == "columns" else _COLUMN
    for key, measure in spec.measures.items():
        known = declared_reference(spec, frame, settings, axis, measure.split)
        labels |= {known.label} if known.by_problem else set()
        for row in down:
            for column in across:
                values = known.by_problem.get(_problem(spec, row.key, column.key), np.empty(0))
                cells[row.key, column.key, key] = _reference(measure, values)
    return cells, ", ".join(sorted(labels - {""}))


def _budgets(
    spec: TableSpec,
    settings: pd.DataFrame,
    cells: Mapping[Place, Cell],
    down: Iterable[Heading],
    across: Iterable[Heading],
) -> list[Budget]:
    """Returns the seeds and the budget of each cell that was run."""
    known = budgets(settings, spec.budget)
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
                    spent.append(Budget(model, problem, values))
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
    printed = published.lookup(spec.number, named, *place)
    if printed is None:
        return None
    text = printed.text
    if measure.published_scale != 1:
        text += f"; {number(printed.value * measure.published_scale, measure.format)}"
    doubted = (row, column or key) in spec.doubtful
    return replace(printed, text=text + DOUBTED * doubted)


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
        # a single cell is not bold, nor one beyond the cap
        if len(places) > 1 and math.isfinite(best.value or 0.0) and best.text[0] != ">":
            for place in places:
                marked[place] = replace(cells[place], bold=cells[place].text == best.text)
    return marked
