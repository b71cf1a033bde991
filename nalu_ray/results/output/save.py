"""A task's stored rows to printed tables and written files."""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from rich.console import Console
from rich.text import Text

from nalu_ray.results.analysis.problems import described, problems
from nalu_ray.results.analysis.table import Table, build_each
from nalu_ray.results.output.formats import FORMATS, SUFFIXES
from nalu_ray.results.output.page import Chapter, Picture, facts
from nalu_ray.results.output.terminal import show
from nalu_ray.results.specs import TaskSpecs
from nalu_ray.results.store.atomic import write_text
from nalu_ray.results.store.store import Store
from nalu_ray.results.wording import filled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAVED = ("md", "csv")
_LONGEST = 120

log = logging.getLogger(__name__)


def present(store: Store, task_name: str, console: Console, folder: str) -> list[str]:
    """Prints a task's tables; writes them and its figures below a folder.

    Args:
        store: where the rows are.
        task_name: the task.
        console: where the tables go.
        folder: where the files go, in a folder named after the task.

    Returns:
        The paths written; none if the task has no rows.
    """
    stored = Stored.load(store, task_name)
    if stored is None:
        return []
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
    """One task's rows, and what its specifications make of them."""

    specs: TaskSpecs
    rows: pd.DataFrame

    @classmethod
    def load(cls, store: Store, task: str) -> Stored | None:
        """Reads a task; None if it has no rows that can be read."""
        rows = store.load(task)
        if rows.empty:
            return None
        specs = store.specs(task)
        if specs is None:
            log.warning("%s: no specs.json that can be read, so no tables and figures", task)
            specs = TaskSpecs(task=task, title=task, section="")
        return cls(specs, rows)

    @cached_property
    def tables(self) -> list[Table]:
        """The tables of which a cell has been run, one a problem."""
        tables = [table for spec in self.specs.tables for table in build_each(spec, self.rows)]
        return [table for table in tables if any(cell.n for cell in table.cells.values())]

    @cached_property
    def figures(self) -> list[Drawing]:
        """The figures of which a curve has been run, one a problem."""
        from nalu_ray.results.output import figures  # noqa: PLC0415 (matplotlib; tables print without it)

        drawn = []
        for spec in self.specs.figures:
            for problem, rows in problems(spec, self.rows):
                caption = described(filled(spec, rows).caption, problem)
                try:
                    figure = figures.draw(spec.model_copy(update={"caption": caption}), rows)
                except LookupError as error:
                    log.info("%s", error)
                    continue
                drawn.append(Drawing(file_name(spec.name, problem), caption, figure))
        return drawn

    def print(self, console: Console) -> None:
        """Prints the tables to a terminal."""
        section = f"  section {self.specs.section}" if self.specs.section else ""
        console.print(Text.assemble((self.specs.title, "bold"), (section, "dim")))
        console.print()
        for table in self.tables:
            show(table, console)

    def save_tables(self, folder: Path, formats: Sequence[str]) -> list[Path]:
        """Writes each table in each format below ``folder``."""
        written = []
        for table in self.tables:
            for kind in formats:
                name = f"{file_name(table.spec.name, table.problem)}{SUFFIXES[kind]}"
                written.append(write_text(self._folder(folder) / name, FORMATS[kind](table)))
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
        """What the page says of the task."""
        from nalu_ray.results.output import figures  # noqa: PLC0415 (matplotlib; tables print without it)

        task = self.specs.task
        return Chapter(
            task=task,
            title=self.specs.title,
            section=self.specs.section,
            facts=facts(store.outcomes(task), store.manifests(task)),
            tables=self.tables,
            pictures=[
                Picture(drawing.caption, figures.encode(drawing.figure, "svg"))
                for drawing in self.figures
            ],
        )

    def _folder(self, folder: Path) -> Path:
        return folder / safe_name(self.specs.task)


def safe_name(name: str) -> str:
    """A name from the store as a file name: it never leads out of the folder."""
    return re.sub(r"[^\w.-]+", "_", name).lstrip(".") or "_"


def file_name(name: str, problem: str) -> str:
    """A table's or figure's file name, without its ending."""
    if not problem:
        return safe_name(name)
    whole = f"{name}_{problem}"
    digest = f"_{zlib.crc32(whole.encode()):08x}" if len(whole) > _LONGEST else ""
    return safe_name(whole[:_LONGEST]) + digest


def count(paths: Iterable[Path], folder: Path) -> str:
    """One line that says where files are."""
    listed = list(paths)
    return (
        f"written: {listed[0]}" if len(listed) == 1 else f"written: {len(listed)} files in {folder}"
    )
