"""The leaderboard: the tables of all tasks that compare units, on one page."""

from __future__ import annotations

from collections.abc import Iterable

from nalu_ray.results.analysis.table import Table
from nalu_ray.results.output.formats import markdown
from nalu_ray.results.output.page import Chapter
from nalu_ray.results.output.save import Stored

TITLE = "Leaderboard"
ABOUT = (
    "Each cell has ours, and in parentheses what was published.",
    "Settings and steps are selected without the extrapolation set, which alone decides what "
    "counts as solved.",
    "Rates are shares of all seeds, lost ones included, with Wilson's 95 % interval.",
    "Compare two rates by their intervals: where these overlap, the seeds do not tell the units "
    "apart.",
)


def tables(tasks: Iterable[Stored]) -> list[Table]:
    """Returns the stored tasks' tables of the leaderboard that have results.

    Presets may share their settings, as one with fewer seeds does; tables with the same cells come
    once.
    """
    shown: dict[str, Table] = {}
    for task in tasks:
        for table in task.tables:
            if table.spec.board:
                same = task.specs.task, table.spec.name, table.problem, sorted(table.cells.items())
                shown.setdefault(repr(same), table)
    return [*shown.values()]


def page(shown: Iterable[Table]) -> str:
    """Renders the tables as one Markdown page."""
    return "\n".join([f"# {TITLE}\n", " ".join(ABOUT) + "\n", *map(markdown, shown)])


def chapter(shown: Iterable[Table]) -> Chapter:
    """Returns the tables as a chapter of the HTML page."""
    return Chapter(
        task="leaderboard", title=TITLE, about=(" ".join(ABOUT),), tables=tuple(shown), last=True
    )
