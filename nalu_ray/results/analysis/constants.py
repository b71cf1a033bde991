"""The best constant's score: a row or column of a table of errors, where runs logged it.

Metric ``constant_mse`` is the error, in the measure ``mse``, of the one answer that suits a whole
evaluation set best. A model that is no better has not read its input.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from nalu_ray.results.analysis.axes import Heading
from nalu_ray.results.analysis.cells import Cell, reference
from nalu_ray.results.analysis.selection import references
from nalu_ray.results.specs import Measure, TableSpec

CONSTANT = "constant"
HEADING = Heading(CONSTANT, "Best constant")


def metric_of(measure: Measure) -> str:
    """Returns the metric that holds the best constant's score in a measure."""
    return f"{CONSTANT}_{measure.metric}"


def constant_cells(
    spec: TableSpec, frame: pd.DataFrame, problems: pd.Series[str], across: Sequence[Heading]
) -> dict[tuple[str, str], Cell]:
    """Fills the cells of the best constant.

    Args:
        spec: the table.
        frame: the rows.
        problems: setting id to the key of the row or column that says what is asked.
        across: these rows or columns.

    Returns:
        Cells by key of the problem and of the measure, the median over the seeds of the setting
        with most; nothing if no setting logged it.
    """
    cells: dict[tuple[str, str], Cell] = {}
    for key, measure in spec.measures.items():
        values = references(frame, metric_of(measure), measure.split)
        bases = references(frame, measure.relative_to, measure.split)
        for problem in across:
            ids = [sid for sid in problems.index[problems == problem.key] if sid in values]
            if measure.relative_to is not None:
                ids = [sid for sid in ids if sid in bases and np.median(bases[sid])]
            if not ids:
                continue
            sid = _most(ids, [values[sid].size for sid in ids])
            scale = 100 / float(np.median(bases[sid])) if sid in bases else 1.0
            cells[problem.key, key] = reference(measure, values[sid] * scale)
    for problem in across:
        for key in spec.measures:
            cells.setdefault((problem.key, key), Cell())
    return cells if any(cell.value is not None for cell in cells.values()) else {}


def _most(ids: Sequence[str], seeds: Sequence[int]) -> str:
    """Returns the id with most seeds, of equals the first in order."""
    return min(zip(ids, seeds, strict=True), key=lambda item: (-item[1], item[0]))[0]
