"""Prints the tables of stored rows; writes them, the figures and one HTML page to a folder."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from nalu_ray.command.words import Exit, Parser, guarded
from nalu_ray.errors import ConfigError, did_you_mean
from nalu_ray.results.output import leaderboard, reproduction
from nalu_ray.results.output.formats import FORMATS
from nalu_ray.results.output.page import page
from nalu_ray.results.output.save import SAVED, Stored, count, present
from nalu_ray.results.publication import Publication, read
from nalu_ray.results.store import paths
from nalu_ray.results.store.atomic import write_text
from nalu_ray.results.store.store import Store
from nalu_ray.sweep.warnings import WarningRelay

__all__ = ["main", "present"]

_WIDTH = 120

_EXAMPLES = """\
examples:
  python -m nalu_ray.report
      every stored task in the terminal; tables and figures under results/report
  python -m nalu_ray.report static --format latex
      one task's tables for a paper
  python -m nalu_ray.report --published mine.csv
      your own published values beside ours: docs/leaderboard.md
  python -m nalu_ray.report --html --to site
      one self-contained page, site/report.html
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code; see :class:`nalu_ray.command.words.Exit`."""
    return guarded(lambda: _main(argv))


def _main(argv: Sequence[str] | None) -> int:
    arguments, unknown = _parser().parse_known_args(argv)
    if unknown:
        raise ConfigError([_unknown(word) for word in unknown])
    try:
        with WarningRelay(lambda text: print(f"warning: {text}", file=sys.stderr)):
            return _report(arguments)
    except OSError as error:
        where = error.filename or arguments.to
        raise ConfigError([f"cannot write {where}: {error.strerror or error}"]) from error


def _parser() -> Parser:
    parser = Parser("python -m nalu_ray.report", __doc__ or "", _EXAMPLES)
    add = parser.add_argument
    add("task", nargs="?", help="task to report (default: every stored task)")
    add("-h", "--help", action="help", help="print this help")
    add(
        "--format",
        choices=sorted(FORMATS),
        help="print tables in this format instead of for the terminal",
    )
    add(
        "--out",
        type=paths.place,
        default="results",
        help="folder or URI of the stored rows (default: %(default)s)",
    )
    add(
        "--to",
        type=paths.place,
        help="folder to write to (default: OUT/report, or ./report if --out is a URI)",
    )
    add(
        "--published",
        metavar="FILE",
        type=paths.file,
        help="CSV of published values to stand beside ours, columns table, row, column, measure, "
        "value: docs/leaderboard.md",
    )
    add(
        "--html", action="store_true", help="write one page, report.html, instead of separate files"
    )
    add(
        "--reproduction",
        action="store_true",
        help="write one page, reproduction.md, instead: every number of the paper, and whether the "
        "stored rows reproduce it",
    )
    return parser


def _unknown(word: str) -> str:
    return _parser().unknown(word) if word[0:1] == "-" else f"'{word}': one task at a time"


def _report(arguments: argparse.Namespace) -> int:
    store = Store(arguments.out)
    tasks = _load(store, _names(store, arguments.task))
    if arguments.published:
        values = _published(store, arguments.published)
        tasks = [stored.with_published(values) for stored in tasks]
    uri = "://" in arguments.out
    target = Path(arguments.to or ("report" if uri else os.path.join(arguments.out, "report")))
    if arguments.reproduction:
        shown = [table for stored in tasks for table in stored.tables]
        print(count([write_text(target / "reproduction.md", reproduction.page(shown))], target))
        return Exit.DONE
    form: str | None = arguments.format
    written: list[Path] = []
    for stored in tasks:
        if form:
            print("\n".join(FORMATS[form](table) for table in stored.tables))
        elif not arguments.html:
            stored.print(_console())
        if form or not arguments.html:
            written += stored.save_tables(target, (form,) if form else SAVED)
            written += stored.save_figures(target)
    board = leaderboard.tables(tasks)
    if board and (form or not arguments.html):
        written.append(write_text(target / "leaderboard.md", leaderboard.page(board)))
    if arguments.html:
        chapters = [leaderboard.chapter(board)] if board else []
        chapters += [stored.chapter(store) for stored in tasks]
        written.append(write_text(target / "report.html", page(chapters)))
    # what another program reads stays free of anything else
    print(count(written, target), file=sys.stderr if form else sys.stdout)
    return Exit.DONE


def _names(store: Store, task: str | None) -> list[str]:
    names = store.tasks()
    if not names:
        raise ConfigError([f"no rows stored in {store.out}; run python -m nalu_ray.tune first"])
    if task is not None and task not in names:
        raise ConfigError([f"{did_you_mean('task', task, names)} (stored in {store.out})"])
    return names if task is None else [task]


def _published(store: Store, file: Path) -> dict[str, Publication]:
    """Reads a file of published values for tables and figures of stored tasks.

    Raises:
        ConfigError: it cannot be read, a line is wrong, or no stored task has the table.
    """
    values = read(file)
    specs = [specs for task in store.tasks() if (specs := store.specs(task)) is not None]
    known = {table.name for each in specs for table in each.tables}
    known |= {figure.name for each in specs for figure in each.figures}
    if unknown := [name for name in values if name not in known]:
        raise ConfigError(
            [f"{file}: {did_you_mean('table or figure', name, known)}" for name in unknown]
        )
    return values


def _load(store: Store, names: Sequence[str]) -> list[Stored]:
    """Reads tasks; one whose files are none of ours, each named, does not keep others back."""
    loaded = [stored for name in names if (stored := Stored.load(store, name)) is not None]
    if not loaded:
        raise ConfigError([f"{', '.join(names)}: no rows in {store.out} that can be read"])
    return loaded


def _console() -> Console:
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if known else _WIDTH)


if __name__ == "__main__":
    sys.exit(main())
