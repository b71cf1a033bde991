"""Prints the tables of stored rows, and writes tables and figures to a folder."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from nalu_ray.command.exits import Exit, guarded
from nalu_ray.command.replay import replays
from nalu_ray.command.words import Parser, assignments, take_values, task_and_words
from nalu_ray.errors import ConfigError, did_you_mean
from nalu_ray.input import invocation
from nalu_ray.input.values import split
from nalu_ray.results.analysis.table import publication_place
from nalu_ray.results.filters import EVERYTHING
from nalu_ray.results.output import leaderboard, reproduction, runs
from nalu_ray.results.output.formats import FORMATS, together
from nalu_ray.results.output.page import page
from nalu_ray.results.output.save import SAVED, Stored, count, file_name, present
from nalu_ray.results.publication import Place, Publication, read
from nalu_ray.results.store import paths
from nalu_ray.results.store.atomic_files import write_text
from nalu_ray.results.store.store import Store
from nalu_ray.sweep.presets import parse_seeds
from nalu_ray.sweep.warnings import WarningRelay

__all__ = ["main", "present"]

log = logging.getLogger(__name__)

_WIDTH = 120
_LISTED = 5
_WORDS = ("layer", "op", "lr", "hidden", "preset", "seeds")  # fields that many tasks have

_EXAMPLES = """\
examples:
  python -m nalu_ray.report
      every stored task in the terminal; tables and figures under results/report
  python -m nalu_ray.report static --format latex
      one task's tables for a paper
  python -m nalu_ray.report static layer=nac,nalu op=mul preset=laptop
      only these settings, in the terminal and under results/report
  python -m nalu_ray.report static --runs
      which file holds which setting and seeds
  python -m nalu_ray.report --published mine.csv
      print your own published values beside ours: docs/leaderboard.md
  python -m nalu_ray.report --html --to site
      one self-contained page, site/report.html
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code; see :class:`nalu_ray.command.exits.Exit`."""
    return guarded(lambda: _main(argv))


def _main(argv: Sequence[str] | None) -> int:
    line = list(sys.argv[1:] if argv is None else argv)
    arguments, unknown = _parser().parse_known_intermixed_args(line)
    if arguments.help:
        print(_parser().format_help())
        return Exit.DONE
    strange = [word for word in unknown if word[:1] == "-"]
    arguments.words += [word for word in unknown if word not in strange]
    values = take_values(strange, line, arguments.words)
    if strange:
        raise ConfigError([_parser().unknown(w, _WORDS, values.get(w, "")) for w in strange])
    try:
        with WarningRelay(lambda text: print(f"warning: {text}", file=sys.stderr)):
            return _report(arguments)
    except OSError as error:
        where = error.filename or arguments.to
        raise ConfigError([f"cannot write {where}: {error.strerror or error}"]) from error


def _parser() -> Parser:
    parser = Parser("python -m nalu_ray.report", __doc__ or "", _EXAMPLES)
    add = parser.add_argument
    add(
        "words",
        nargs="*",
        metavar="task [key=value]",
        help="task to report (default: every stored task), then field=value filters: "
        "layer=nac,nalu op=mul preset=laptop seeds=0-9",
    )
    add("-h", "--help", action="store_true", help="print this help")
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
        help="CSV file of published values to print beside ours; docs/leaderboard.md describes its "
        "columns",
    )
    add(
        "--html", action="store_true", help="write one page, report.html, instead of separate files"
    )
    add(
        "--reproduction",
        action="store_true",
        help="write one page, reproduction.md, instead of separate files: every number of the "
        "paper, and whether the stored rows reproduce it",
    )
    add(
        "--runs",
        action="store_true",
        help="print a CSV list of the stored files instead of tables: setting, preset, seeds, "
        "outcomes, name",
    )
    return parser


def _filtered(tasks: list[Stored], words: Sequence[str]) -> list[Stored]:
    """Returns the only task with the filter of ``key=value`` words.

    Raises:
        ConfigError: there are several tasks, or a word is wrong.
    """
    given, mistakes = assignments(words)
    if len(tasks) > 1:
        mistakes.append(f"'{words[0]}': name the task before it, such as {tasks[0].specs.task}")
    if mistakes:
        raise ConfigError(mistakes)
    seeds = parse_seeds(given.pop("seeds")) if "seeds" in given else ()
    wanted = {name: split(text) for name, text in given.items()}
    return [tasks[0].filtered(wanted, seeds, words)]


def _report(arguments: argparse.Namespace) -> int:
    store = Store(arguments.out)
    name, words = task_and_words(arguments.words)
    if others := [word for word in words if "=" not in word]:
        raise ConfigError([f"'{word}': one task at a time" for word in others])
    names = _names(store, name)
    if arguments.runs and not words:
        print("".join(runs.listing(store, task) for task in names), end="")
        return Exit.DONE
    tasks = _load(store, names)
    if words:
        tasks = _filtered(tasks, words)
    if arguments.runs:
        print(runs.listing(store, names[0], tasks[0].only), end="")
        return Exit.DONE
    if arguments.published:
        values = _published(store, arguments.published)
        tasks = [stored.with_published(values) for stored in tasks]
        for line in [] if words else _without_cell(tasks, values):
            log.warning("%s: %s", arguments.published, line)
    uri = "://" in arguments.out
    target = Path(arguments.to or ("report" if uri else os.path.join(arguments.out, "report")))
    if arguments.reproduction:
        shown = [table for stored in tasks for table in stored.tables]
        name = f"{file_name('reproduction', ' '.join(words))}.md"
        written = [write_text(target / name, reproduction.page(shown))]
    elif arguments.html:
        written = [_page(store, tasks, target / f"{file_name('report', ' '.join(words))}.html")]
        if arguments.format:
            written += _separate(tasks, target, arguments.format, words)
    else:
        written = _separate(tasks, target, arguments.format, words)
    # what another program reads stays free of anything else
    form = arguments.format and not arguments.reproduction
    print(count(written, target), file=sys.stderr if form else sys.stdout)
    return Exit.DONE


def _separate(
    tasks: Sequence[Stored], target: Path, form: str | None, words: Sequence[str]
) -> list[Path]:
    """Prints the tables, and writes them and the figures to files."""
    written: list[Path] = []
    if form:
        print(together((table for stored in tasks for table in stored.tables), form), end="")
    for stored in tasks:
        if not form:
            stored.print(_console())
        written += stored.save_tables(target, (form,) if form else SAVED)
        written += stored.save_figures(target)
    board = leaderboard.tables(tasks)
    if board:
        name = f"{file_name('leaderboard', ' '.join(words))}.md"
        written.append(write_text(target / name, leaderboard.page(board)))
    return written


def _page(store: Store, tasks: Sequence[Stored], path: Path) -> Path:
    board = leaderboard.tables(tasks)
    chapters = [leaderboard.chapter(board)] if board else []
    networks = replays(
        store,
        {
            stored.specs.task: None if stored.only == EVERYTHING else stored.shown_runs
            for stored in tasks
        },
    )
    chapters += [stored.chapter(store, networks.get(stored.specs.task)) for stored in tasks]
    return write_text(path, page(chapters))


def _names(store: Store, task: str | None) -> list[str]:
    names = store.tasks()
    if not names:
        first = invocation.command("tune", ["static"])
        raise ConfigError([f"no rows stored in {store.out}; run a task first: {first}"])
    if task is not None and task not in names:
        text = f"{did_you_mean('stored task', task, names)} (stored in {store.out})"
        raise ConfigError([f"{text}; all tasks: {invocation.command('tune', ['--list'])}"])
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


def _without_cell(tasks: Sequence[Stored], values: Mapping[str, Publication]) -> Iterator[str]:
    """Yields a line per table with published values that none of its cells shows."""
    shown: dict[str, set[Place]] = {}
    for table in (table for stored in tasks for table in stored.tables):
        places = {publication_place(table.spec, *place) for place in table.cells}
        shown.setdefault(table.spec.name, set()).update(places)
    for name, places in shown.items():
        given = values[name].values if name in values else ()
        left = [value.place for value in given if value.place not in places]
        if left:
            listed = "; ".join(", ".join(filter(None, place)) for place in left[:_LISTED])
            more = f"; and {len(left) - _LISTED} more" * (len(left) > _LISTED)
            yield f"{name} has no cell for {listed}{more}"


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
