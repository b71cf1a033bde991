"""Models without training in a table, as further rows or columns: the random and the constant one.

The random model's error is the metric that the table's specification names. Metric ``constant_mse``
is the error, in the measure ``mse``, of the best constant answer to a whole evaluation set. A model
that is no better has not read its input.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from nalu_ray.results.analysis.axes import Heading, stored_column
from nalu_ray.results.analysis.cells import TableCell, reference
from nalu_ray.results.analysis.selection import references
from nalu_ray.results.analysis.statistics import Floats
from nalu_ray.results.specs import Measure, TableSpec

RANDOM, CONSTANT = "random", "constant"
REFERENCES = {RANDOM, CONSTANT}  # keys of rows or columns that are no trained models

Cells = dict[tuple[str, str], TableCell]
"""Cells of a model, by the key of the problem's row or column and the key of the measure."""


def metric_of(measure: Measure) -> str:
    """Returns the metric that holds the best constant's score in a measure."""
    return f"{CONSTANT}_{measure.metric}"


def reference_models(
    spec: TableSpec,
    frame: pd.DataFrame,
    settings: pd.DataFrame,
    problem: str,
    asked: Sequence[Heading],
) -> tuple[dict[Heading, Cells], str]:
    """Fills the cells of the random model and of the best constant, if the table has them.

    Args:
        spec: the table.
        frame: the rows.
        settings: one row per setting.
        problem: column of ``settings`` with the key of the problem's row or column.
        asked: the rows or columns of the problems.

    Returns:
        The models in printed order with their cells, and the random model's label, ``hidden=2``.
    """
    models: dict[Heading, Cells] = {}
    label = ""
    if spec.reference is not None:
        models[Heading(RANDOM, "Random")], label = _random(spec, frame, settings, problem, asked)
    problems = settings.set_index("setting_id")[problem]
    if cells := _best_constant(spec, frame, problems, asked):
        models[Heading(CONSTANT, "Best constant")] = cells
    return models, label


def _random(
    spec: TableSpec,
    frame: pd.DataFrame,
    settings: pd.DataFrame,
    problem: str,
    asked: Sequence[Heading],
) -> tuple[Cells, str]:
    cells: Cells = {}
    labels: set[str] = set()
    for key, measure in spec.measures.items():
        values, label = _by_problem(spec, frame, settings, problem, measure.split)
        labels |= {label} if values else set()
        for heading in asked:
            cells[heading.key, key] = reference(measure, values.get(heading.key, np.empty(0)))
    return cells, ", ".join(sorted(labels - {""}))


def _by_problem(
    spec: TableSpec, frame: pd.DataFrame, settings: pd.DataFrame, problem: str, split: str
) -> tuple[dict[str, Floats], str]:
    """Returns the random model's errors, (seeds,) by problem, and its label.

    Of several that differ in ``spec.reference_by``, such as the model's size, it is the one that
    most runs logged; of the settings that logged it, the one with most seeds.
    """
    values = references(frame, spec.reference, split)
    known = settings[settings["setting_id"].isin(values)].sort_values("setting_id")
    seeds = known["setting_id"].map(lambda sid: values[sid].size).astype(int)
    labels = pd.Series("", index=known.index, dtype=object)
    for name in [name for name in spec.reference_by if name in known]:
        labels = labels + f" {name}=" + stored_column(known, name).fillna("none").astype(str)
    runs = seeds.groupby(labels).sum().sort_index()
    label = "" if runs.empty else str(runs.idxmax())
    known = known[labels == label].assign(_seeds=seeds).dropna(subset=[problem])
    most = known.sort_values("_seeds", ascending=False, kind="stable").drop_duplicates(problem)
    pairs = zip(most[problem], most["setting_id"], strict=True)
    return {str(key): values[str(sid)] for key, sid in pairs}, label.strip()


def _best_constant(
    spec: TableSpec, frame: pd.DataFrame, problems: pd.Series[str], asked: Sequence[Heading]
) -> Cells:
    """Returns the median over the seeds of the setting with most; nothing if none logged it."""
    cells: Cells = {}
    for key, measure in spec.measures.items():
        values = references(frame, metric_of(measure), measure.split)
        bases = references(frame, measure.relative_to, measure.split)
        for heading in asked:
            ids = [sid for sid in problems.index[problems == heading.key] if sid in values]
            if measure.relative_to is not None:
                ids = [sid for sid in ids if sid in bases and np.median(bases[sid])]
            if not ids:
                cells[heading.key, key] = TableCell()
                continue
            # of settings with as many seeds, the first in order
            sid = min(ids, key=lambda sid: (-values[sid].size, sid))
            scale = 100 / float(np.median(bases[sid])) if sid in bases else 1.0
            cells[heading.key, key] = reference(measure, values[sid] * scale)
    return cells if any(cell.value is not None for cell in cells.values()) else {}
