"""Prints the tables of a task's stored rows; writes tables and figures to files."""

from __future__ import annotations

import logging
import os
import re
import shlex
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from rich.console import Console
from rich.text import Text

from nalu_ray.results.analysis import costs
from nalu_ray.results.analysis.groups import Sweep, described, problems, shows, sweeps
from nalu_ray.results.analysis.table import Table, build_each
from nalu_ray.results.analysis.text import Spec, filled
from nalu_ray.results.output.formats import FORMATS, SUFFIXES
from nalu_ray.results.output.page import Chapter, Picture, facts
from nalu_ray.results.output.terminal import show
from nalu_ray.results.publication import Publication
from nalu_ray.results.specs import FigureSpec, TableSpec, TaskSpecs
from nalu_ray.results.store.atomic import write_text
from nalu_ray.results.store.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAVED = ("md", "csv")
_LONGEST = 120

log = logging.getLogger(__name__)


def present(
    store: Store, task_name: str, console: Console, folder: str, asked: Collection[str] = ()
) -> list[str]:
    """Prints a task's tables; writes them and its figures below a folder.

    Args:
        store: where the rows are.
        task_name: the task.
        console: where the tables go.
        folder: where the files go, in a folder named after the task.
        asked: ids of settings: only presets that have one of them are printed, the others named.
            By default all are printed.

    Returns:
        The paths written; none if the task has no rows.
    """
    stored = Stored.load(store, task_name)
    if stored is None:
        return []
    stored = replace(stored, asked=frozenset(asked))
    stored.print(console)
    target = Path(folder)
    return [
        str(path) for path in [*stored.save_tables(target, SAVED), *stored.save_figures(target)]
    ]


@dataclass(frozen=True)
class Drawing:
    """A drawn figure: its file name without ending, and its caption."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True)
class Stored:
    """One task's rows, with the tables and figures that its specifications declare.

    Attributes:
        specs, rows: as stored.
        out: folder or URI that they are from.
        asked: ids of settings: only presets that have one of them are shown. Empty: all presets.
    """

    specs: TaskSpecs
    rows: pd.DataFrame
    out: str = ""
    asked: frozenset[str] = frozenset()

    @classmethod
    def load(cls, store: Store, task: str) -> Stored | None:
        """Reads a task; returns None if it has no readable rows."""
        rows = store.load(task)
        if rows.empty:
            return None
        specs = store.specs(task)
        if specs is None:
            log.warning("%s: no readable specs.json, so no tables and figures", task)
            specs = TaskSpecs(task=task, title=task, section="")
        if costs.needed((*specs.tables, *specs.figures)):
            rows = costs.with_costs(rows, store.manifests(task))
        return cls(specs, rows, store.out)

    def with_published(self, values: Mapping[str, Publication]) -> Stored:
        """Returns the task with other published values for some of its tables and figures."""

        def changed(spec: Spec) -> Spec:
            update: dict[str, object] = {"publication": values.get(spec.name)}
            if isinstance(spec, TableSpec):
                update["number"] = None
            return spec.model_copy(update=update) if spec.name in values else spec

        tables, figures = map(changed, self.specs.tables), map(changed, self.specs.figures)
        specs = self.specs.model_copy(update={"tables": tuple(tables), "figures": tuple(figures)})
        return replace(self, specs=specs)

    @property
    def command(self) -> str:
        """Returns the command that shows all of the task."""
        words = ["python", "-m", "nalu_ray.report", self.specs.task]
        if self.out not in {"", os.path.abspath("results")}:
            words += ["--out", self.out]
        return shlex.join(words)

    @cached_property
    def tables(self) -> list[Table]:
        """The tables that have a cell with results, one per preset and problem."""
        return [
            table
            for spec in self.specs.tables
            for table in build_each(spec, self._sweeps(spec))
            if _is_shown(table)
        ]

    def _sweeps(self, spec: TableSpec | FigureSpec) -> list[tuple[Sweep, pd.DataFrame]]:
        return [item for item in self._stored(spec) if self._is_asked(item[1])]

    def _stored(self, spec: TableSpec | FigureSpec) -> list[tuple[Sweep, pd.DataFrame]]:
        if spec.budget not in self._split:
            self._split[spec.budget] = sweeps(spec, self.rows, self.specs.presets)
        return [item for item in self._split[spec.budget] if shows(spec, item[0])]

    @cached_property
    def _split(self) -> dict[tuple[str, ...], list[tuple[Sweep, pd.DataFrame]]]:
        return {}

    def _is_asked(self, rows: pd.DataFrame) -> bool:
        return not self.asked or not self.asked.isdisjoint(rows["setting_id"])

    @property
    def left_out(self) -> list[str]:
        """Returns the stored presets that are not shown."""
        others = [
            sweep.label or "older rows"
            for spec in self.specs.tables
            for sweep, rows in self._stored(spec)
            if not self._is_asked(rows)
        ]
        return list(dict.fromkeys(others))

    @cached_property
    def figures(self) -> list[Drawing]:
        """The figures that have a curve, one per preset and problem."""
        from nalu_ray.results.output import figures  # noqa: PLC0415 (matplotlib; tables print without it)

        drawn = []
        for spec in self.specs.figures:
            parts = [(s, *item) for s, rows in self._sweeps(spec) for item in problems(spec, rows)]
            for sweep, problem, rows in parts:
                caption = described(filled(spec, rows).caption, problem, sweep)
                try:
                    figure = figures.draw(spec.model_copy(update={"caption": caption}), rows)
                except LookupError as error:
                    log.info("%s", error)
                    continue
                name = file_name(spec.name, f"{sweep.label} {problem}".strip())
                drawn.append(Drawing(name, caption, figure))
        return drawn

    def print(self, console: Console) -> None:
        """Prints the tables to a terminal."""
        section = f"  section {self.specs.section}" if self.specs.section else ""
        console.print(Text.assemble((self.specs.title, "bold"), (section, "dim")))
        console.print()
        for table in self.tables:
            show(table, console, f"{self.command} --format md")
        if self.left_out:
            others = ", ".join(self.left_out)
            text = f"Also stored, not shown: {others}. Show all: {self.command}"
            console.print(Text(text), soft_wrap=True)
            console.print()

    def save_tables(self, folder: Path, formats: Sequence[str]) -> list[Path]:
        """Writes each table in each format below ``folder``."""
        written = []
        for table in self.tables:
            for name in formats:
                file = f"{file_name(table.spec.name, table.label)}{SUFFIXES[name]}"
                written.append(write_text(self._folder(folder) / file, FORMATS[name](table)))
        return written

    def save_figures(self, folder: Path) -> list[Path]:
        """Writes each figure as PNG and PDF below ``folder``."""
        from nalu_ray.results.output import figures  # noqa: PLC0415 (matplotlib; tables print without it)

        return [
            path
            for drawing in self.figures
            for path in figures.save(drawing.figure, self._folder(folder) / drawing.name)
        ]

    def chapter(self, store: Store) -> Chapter:
        """Returns the task's chapter of the HTML page."""
        from nalu_ray.results.output import figures  # noqa: PLC0415 (matplotlib; tables print without it)

        task = self.specs.task
        return Chapter(
            task=task,
            title=self.specs.title,
            section=self.specs.section,
            facts=facts(store.outcomes(task), store.manifests(task)),
            tables=[table for table in self.tables if not table.spec.board],
            pictures=[
                Picture(drawing.caption, figures.encode(drawing.figure, "svg"))
                for drawing in self.figures
            ],
        )

    def _folder(self, folder: Path) -> Path:
        return folder / safe_name(self.specs.task)


def _is_shown(table: Table) -> bool:
    """Whether a table has results, in as many columns as it needs."""
    columns = {column for (_, column, _), cell in table.cells.items() if cell.n}
    return len(columns) >= table.spec.least_columns


def safe_name(name: str) -> str:
    """Returns a stored name as a file name that cannot lead out of the folder."""
    return re.sub(r"[^\w.-]+", "_", name).lstrip(".") or "_"


def file_name(name: str, label: str) -> str:
    """Returns the file name of a table or figure without suffix; ``label``: preset and problem."""
    if not label:
        return safe_name(name)
    whole = f"{name}_{label}"
    digest = f"_{zlib.crc32(whole.encode()):08x}" if len(whole) > _LONGEST else ""
    return safe_name(whole[:_LONGEST]) + digest


def count(paths: Iterable[Path], folder: Path) -> str:
    """Returns a line on where files were written."""
    listed = list(paths)
    return (
        f"written: {listed[0]}" if len(listed) == 1 else f"written: {len(listed)} files in {folder}"
    )
