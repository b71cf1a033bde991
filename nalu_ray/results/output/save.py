"""Prints the tables of a task's stored rows; writes tables and figures to files."""

from __future__ import annotations

import logging
import os
import re
import shlex
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import Console
from rich.text import Text

from nalu_ray.errors import ConfigError
from nalu_ray.input import invocation
from nalu_ray.input.values import split
from nalu_ray.results import filters
from nalu_ray.results.analysis import costs
from nalu_ray.results.analysis.groups import Sweep, described, problems, shows, sweeps
from nalu_ray.results.analysis.references import REFERENCES
from nalu_ray.results.analysis.table import Table, build_each
from nalu_ray.results.analysis.text import Spec, filled, seeds_word
from nalu_ray.results.filters import EVERYTHING, SEEDS, Filter
from nalu_ray.results.output.captions import title
from nalu_ray.results.output.figures import about, figure_panels
from nalu_ray.results.output.formats import FORMATS, SUFFIXES
from nalu_ray.results.output.page import Chapter, Picture, facts
from nalu_ray.results.output.terminal import show, show_briefly
from nalu_ray.results.publication import Publication
from nalu_ray.results.specs import FigureSpec, TableSpec, TaskSpecs
from nalu_ray.results.store.atomic_files import write_text
from nalu_ray.results.store.rows import Key, run_keys
from nalu_ray.results.store.store import Outcome, Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAVED = ("md", "csv")
_LONGEST = 120

log = logging.getLogger(__name__)


def present(
    store: Store,
    task_name: str,
    console: Console,
    folder: str,
    asked: Collection[Key] = (),
    *,
    words: Sequence[str] = (),
) -> list[str]:
    """Prints the tables of some runs in short; writes all tables and figures below a folder.

    Args:
        store: where the rows are.
        task_name: the task.
        console: where the tables go.
        folder: where the files go, in a folder named after the task.
        asked: settings' ids with a seed each: only their rows are printed, and what else is stored
            is named. By default all rows are printed.
        words: the settings as ``key=value`` words, for the command that shows their other tables.

    Returns:
        The paths written; none if the task has no rows.
    """
    stored = Stored.load(store, task_name)
    if stored is None:
        return []
    only = Filter(runs=frozenset(asked)) if asked else EVERYTHING
    replace(stored, only=only).print_briefly(console, stored.command_for(words, asked))
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
        only: which of the rows are shown.
    """

    specs: TaskSpecs
    rows: pd.DataFrame
    out: str = ""
    only: Filter = EVERYTHING

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
            rows = costs.with_costs(rows, store.manifests(task, run_keys(rows)))
        return cls(specs, rows, store.out)

    def filtered(
        self, given: Mapping[str, Sequence[str]], seeds: Sequence[int], words: Sequence[str]
    ) -> Stored:
        """Returns the task with a filter; see :func:`nalu_ray.results.filters.read`.

        Args:
            given: field to its values, as texts.
            seeds: the seeds to show; none for all.
            words: the filter as the command line has it.

        Raises:
            ConfigError: a field or value is unknown, or nothing is left to show.
        """
        specs: list[TableSpec | FigureSpec] = [*self.specs.tables, *self.specs.figures]
        presets = {sweep.preset for spec in specs for sweep, _ in self._stored(spec)} - {""}
        chosen = replace(self, only=filters.read(given, self.rows, presets, seeds, words))
        if chosen.only.presets and not any(map(chosen._sweeps, specs)):
            raise ConfigError([filters.nothing(words)])
        return chosen

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
        other = self.out not in {"", os.path.abspath("results")}
        return invocation.command("report", [self.specs.task, *["--out", self.out] * other])

    def command_for(self, words: Sequence[str], asked: Collection[Key] = ()) -> str:
        """Returns the command that shows some runs, and as few others as its filters can.

        Args:
            words: ``key=value`` words that name the settings; left out if they hide ``asked``.
            asked: settings' ids with a seed each. Those that are stored must be shown.
        """
        stored = run_keys(self.rows)
        must = stored.intersection(asked)
        try:
            shown = run_keys(self._filtered_by(words).shown)
        except ConfigError:
            words, shown = (), stored
        # a filter leaves out settings that do not read its field
        if not shown >= must:
            words, shown = (), stored
        settings, seeds = {sid for sid, _ in must}, {seed for _, seed in must}
        if any(sid in settings and seed not in seeds for sid, seed in shown):
            words = [*words, f"{SEEDS}={seeds_word(seeds)}"]
        return " ".join([self.command, *map(shlex.quote, words)])

    def _filtered_by(self, words: Sequence[str]) -> Stored:
        given = dict(word.split("=", 1) for word in words)
        return self.filtered({name: split(text) for name, text in given.items()}, (), words)

    @cached_property
    def tables(self) -> list[Table]:
        """The tables that have a cell with results, one per preset and problem."""
        return [
            replace(table, only=self._hiding(spec), searched=self._searched(table))
            for spec in self.specs.tables
            for table in build_each(spec, self._sweeps(spec))
            if _is_shown(table)
        ]

    def _searched(self, table: Table) -> str:
        return self.specs.searched.get(table.sweep.preset, "") if table.sweep else ""

    def _hiding(self, spec: TableSpec) -> str:
        """Returns the filter in words if it hides rows of the presets that are shown."""
        shown = {sweep: len(rows) for sweep, rows in self._sweeps(spec)}
        hides = any(
            len(rows) > shown[sweep] for sweep, rows in self._stored(spec) if sweep in shown
        )
        return (" ".join(self.only.words) or "one command's settings and seeds") if hides else ""

    @property
    def shown(self) -> pd.DataFrame:
        """The rows that are shown."""
        return self.only.rows(self.rows)

    @cached_property
    def shown_runs(self) -> set[Key]:
        """The runs that are shown; of some presets, those in their tables and figures."""
        if not self.only.presets:
            return run_keys(self.shown)
        specs: list[TableSpec | FigureSpec] = [*self.specs.tables, *self.specs.figures]
        return {run for spec in specs for _, rows in self._sweeps(spec) for run in run_keys(rows)}

    def _sweeps(self, spec: TableSpec | FigureSpec) -> list[tuple[Sweep, pd.DataFrame]]:
        presets = self.only.presets
        parts = [
            (sweep, self.only.rows(rows))
            for sweep, rows in self._stored(spec)
            if not presets or sweep.preset in presets
        ]
        return [(sweep, rows) for sweep, rows in parts if len(rows)]

    def _stored(self, spec: TableSpec | FigureSpec) -> list[tuple[Sweep, pd.DataFrame]]:
        if spec.budget not in self._split:
            self._split[spec.budget] = sweeps(spec, self.rows, self.specs.presets)
        return [item for item in self._split[spec.budget] if shows(spec, item[0])]

    @cached_property
    def _split(self) -> dict[tuple[str, ...], list[tuple[Sweep, pd.DataFrame]]]:
        return {}

    @property
    def left_out(self) -> list[str]:
        """Returns the stored presets that are not shown, and those shown in part."""
        others: list[str] = []
        for spec in self.specs.tables:
            shown = {sweep: run_keys(rows) for sweep, rows in self._sweeps(spec)}
            for sweep, rows in self._stored(spec):
                name = sweep.label or "older rows"
                others += _hidden(run_keys(rows), shown[sweep], name) if sweep in shown else [name]
        return list(dict.fromkeys(others))

    @cached_property
    def figures(self) -> list[Drawing]:
        """The figures that have a curve, one per preset and problem."""
        from nalu_ray.results.output import figures  # noqa: PLC0415 (matplotlib; tables print without it)

        drawn = []
        for spec, label, rows in self._figure_rows():
            try:
                figure = figures.draw(spec, rows)
            except LookupError as error:
                log.info("%s", error)
                continue
            drawn.append(Drawing(file_name(spec.name, label), spec.caption, figure))
        return drawn

    def _figure_rows(self) -> Iterator[tuple[FigureSpec, str, pd.DataFrame]]:
        """Yields each figure with its caption, the label of its preset and problem, and rows."""
        for spec in self.specs.figures:
            parts = [(s, *item) for s, rows in self._sweeps(spec) for item in problems(spec, rows)]
            for sweep, problem, rows in parts:
                caption = described(filled(spec, rows).caption, problem, sweep)
                captioned = spec.model_copy(update={"caption": caption})
                yield captioned, f"{sweep.label} {problem}".strip(), rows

    def print(self, console: Console) -> None:
        """Prints the tables to a terminal."""
        self._head(console)
        words = [*map(shlex.quote, self.only.words)]
        for table in self.tables:
            show(table, console, " ".join([self.command, *words, "--format md"]))
        self._print_left_out(console)

    def print_briefly(self, console: Console, more: str) -> None:
        """Prints one table per preset and problem in short, and names the others.

        Args:
            console: the terminal.
            more: command that shows all tables of these settings.
        """
        self._head(console)
        first: dict[tuple[str, ...], Table] = {}
        for table in sorted(self.tables, key=lambda table: table.spec.board):
            where = map("=".join, table.spec.where.items())
            first.setdefault((table.label, *where), table)
        for table in first.values():
            show_briefly(table, console, f"{more} --format md")
        shown = {id(table) for table in first.values()}
        left = [table for table in self.tables if id(table) not in shown]
        names = ", ".join(dict.fromkeys(title(table).rstrip(".") for table in left))
        text = f"Every statistic, and also {names}: " if left else "Every statistic: "
        if first:
            console.print(Text(text + more), soft_wrap=True)
        self._print_left_out(console)

    def _head(self, console: Console) -> None:
        section = f"  section {self.specs.section}" if self.specs.section else ""
        console.print(Text.assemble((self.specs.title, "bold"), (section, "dim")))
        console.print()

    def _print_left_out(self, console: Console) -> None:
        if self.left_out:
            others = ", ".join(self.left_out)
            text = f"Also stored, not shown: {others}. Show all: {self.command}"
            console.print(Text(text), soft_wrap=True)
            console.print()

    def save_tables(self, folder: Path, formats: Sequence[str]) -> list[Path]:
        """Writes each table in each format below ``folder``.

        Args:
            folder: the files go to a folder in it, named after the task and the filter.
            formats: names of :data:`nalu_ray.results.output.formats.FORMATS`.

        Raises:
            OSError: a file cannot be written.
        """
        written = []
        for table in self.tables:
            for name in formats:
                file = f"{file_name(table.spec.name, table.label)}{SUFFIXES[name]}"
                written.append(write_text(self._folder(folder) / file, FORMATS[name](table)))
        return written

    def save_figures(self, folder: Path) -> list[Path]:
        """Writes each figure below ``folder``: PNG, PNG for a dark page, and PDF.

        Args:
            folder: as for :meth:`save_tables`.

        Raises:
            OSError: a file cannot be written.
        """
        from nalu_ray.results.output import figures  # noqa: PLC0415 (matplotlib; tables print without it)

        return [
            path
            for drawing in self.figures
            for path in figures.save(drawing.figure, self._folder(folder) / drawing.name)
        ]

    def chapter(self, store: Store, shown: Mapping[str, Any] | None = None) -> Chapter:
        """Returns the task's chapter of the HTML page.

        Args:
            store: where the rows are.
            shown: what its networks do, see :mod:`nalu_ray.command.replay`.
        """
        specs = self.specs
        return Chapter(
            task=specs.task,
            title=specs.title,
            section=specs.section,
            question=specs.question,
            facts=facts(specs, self._outcomes(store), store.manifests(specs.task, self.shown_runs)),
            tables=[table for table in self.tables if not table.spec.board],
            pictures=list(self._pictures()),
            shown=shown or {},
        )

    def _pictures(self) -> Iterator[Picture]:
        for spec, _, rows in self._figure_rows():
            full = filled(spec, rows)
            if panels := figure_panels(full, rows):
                yield Picture(full, panels, about(full, panels))

    def _outcomes(self, store: Store) -> dict[tuple[str, int], Outcome]:
        """Returns how the shown seeds ended."""
        outcomes = store.outcomes(self.specs.task)
        return {run: outcome for run, outcome in outcomes.items() if run in self.shown_runs}

    def _folder(self, folder: Path) -> Path:
        # a filtered report does not replace the files of a whole one
        return folder / file_name(self.specs.task, " ".join(self.only.words))


def _hidden(stored: set[Key], shown: set[Key], name: str) -> Iterator[str]:
    """Yields how many settings of a preset are hidden, and how many seeds of the others."""
    there, here = ({sid for sid, _ in runs} for runs in (stored, shown))
    if left := len(there - here):
        yield f"{left:,} more setting{'s' * (left > 1)} of {name}"
    if seeds := len({seed for sid, seed in stored - shown if sid in here}):
        yield f"{seeds:,} more seed{'s' * (seeds > 1)} of {name}"


def _is_shown(table: Table) -> bool:
    """Whether a row of a table has results in as many columns as it needs."""
    places = {
        (row, column)
        for (row, column, _), cell in table.cells.items()
        if cell.n and not REFERENCES & {row, column}
    }
    columns = Counter(row for row, _ in places)
    return max(columns.values(), default=0) >= table.spec.least_columns


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
