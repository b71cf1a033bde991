"""Stored results for Python and notebooks: cells as a data frame, figures, rendered tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from nalu_ray.errors import ConfigError, did_you_mean
from nalu_ray.results.analysis.axes import stored_column
from nalu_ray.results.analysis.table import Table
from nalu_ray.results.output.formats import FORMATS
from nalu_ray.results.output.save import Stored
from nalu_ray.results.store.rows import COMPLETED, OUTCOME, RUN

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WHOLE = ("solved", "of", "seed", "step")


class FailedSeed(NamedTuple):
    """A seed without a result: ``setting`` as a label, ``seed``, and the ``reason``."""

    setting: str
    seed: int
    reason: str


@dataclass(frozen=True)
class Results:
    """Rows of one task, with their tables and figures.

    Attributes:
        stored: the rows, and the task's specifications of tables and figures.
        command: the command that does the same; empty if there is none.
        missing: seeds that were asked for and have no rows.
    """

    stored: Stored
    command: str = ""
    missing: tuple[FailedSeed, ...] = ()

    @property
    def tables(self) -> list[str]:
        """Names of the tables that have a cell with results."""
        return list(dict.fromkeys(table.spec.name for table in self.stored.tables))

    def table(self, name: str | None = None) -> pd.DataFrame:
        """Returns a table's cells, one row per cell that was run.

        The numbers are those that ``report`` prints, in full precision.

        Args:
            name: one of :attr:`tables`; the first by default.

        Returns:
            (cells, columns). First the cell: ``table``, ``preset``, ``problem`` (empty unless rows
            of several are stored), the table's row and column by the names of their fields (such as
            ``op`` and ``layer``), and ``measure``. Then its numbers: ``ours``, the run that the
            table selects; ``published``; ``solved`` of ``of`` seeds with ``low`` and ``high``, the
            Wilson 95 % interval of the rate; ``median`` over seeds. Then ``printed`` and
            ``published_text``, as reports print both; ``seed``, ``step`` and ``setting_id`` of the
            selected run.

        Raises:
            ConfigError: there is no such table.
        """
        return pd.concat([frame(table) for table in self._named(name)], ignore_index=True)

    def rows(self) -> pd.DataFrame:
        """Returns a copy of the rows, one per number; see ``docs/store.md`` for the columns."""
        return self.stored.shown.copy()

    def plot(self) -> dict[str, Figure]:
        """Returns the task's figures that have a curve, by name."""
        return {drawing.name: drawing.figure for drawing in self.stored.figures}

    @cached_property
    def failed(self) -> list[FailedSeed]:
        """The seeds that failed or diverged, or that have no rows; empty if all completed."""
        final = self.stored.shown[self.stored.shown["metric"] == COMPLETED]
        lost = final[final[OUTCOME] != COMPLETED].drop_duplicates(RUN)
        fields = [stored_column(lost, name) for name in self.stored.specs.axes]
        labels = [" ".join(map(str, values)) for values in zip(*fields, strict=True)]
        names = labels or lost["setting_id"]
        failed = zip(names, lost["seed"], lost["reason"].fillna(""), strict=True)
        return [*(FailedSeed(str(n), int(s), str(r)) for n, s, r in failed), *self.missing]

    def _named(self, name: str | None) -> Sequence[Table]:
        names = self.tables
        if not names:
            raise ConfigError([f"{self.stored.specs.task}: no table has results yet"])
        if name is not None and name not in names:
            raise ConfigError([did_you_mean("table", name, names)])
        return [table for table in self.stored.tables if table.spec.name == (name or names[0])]

    def __repr__(self) -> str:
        runs = self.stored.shown[RUN].drop_duplicates()
        settings, failed = runs["setting_id"].nunique(), len(self.failed)
        text = f"{self.stored.specs.task}: {settings:,} settings, {len(runs):,} seeds"
        return f"<Results {text}, {failed:,} failed; tables: {', '.join(self.tables) or 'none'}>"

    def _repr_html_(self) -> str:
        return self._rendered("html")

    def _repr_markdown_(self) -> str:
        return self._rendered("md")

    def _rendered(self, form: str) -> str:
        shown = self._named(None) if self.tables else []
        return "\n".join(FORMATS[form](table) for table in shown)


def frame(table: Table) -> pd.DataFrame:
    """Returns the cells of a table that were run; :meth:`Results.table` has the columns."""
    data = pd.DataFrame(list(_cells(table)))
    whole = {name: "Int64" for name in _WHOLE if name in data}
    return data.astype({**whole, "published": float} if len(data) else {})


def _cells(table: Table) -> Iterator[dict[str, Any]]:
    down, across = table.spec.rows.field, table.spec.columns
    for (row, column, measure), cell in table.cells.items():
        if not cell.n:
            continue
        theirs, rate = cell.published, cell.rate
        labels = {down: row} | ({across.field: column} if across else {})
        yield {
            "table": table.spec.name,
            "preset": table.sweep.label if table.sweep else "",
            "problem": table.problem,
            **labels,
            "measure": measure,
            "ours": cell.value,
            "published": theirs and theirs.value,
            "solved": rate and rate.successes,
            "of": cell.n,
            "low": rate and rate.low,
            "high": rate and rate.high,
            "median": cell.median,
            "printed": cell.text,
            "published_text": theirs.text if theirs else "",
            "seed": cell.seed,
            "step": cell.step,
            "setting_id": cell.setting_id,
        }
