"""The reproduction page: every number of the paper, and whether stored rows reproduce it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from nalu_ray.results import published
from nalu_ray.results.analysis.reproduction import RULE, VERDICTS, Judged, entries
from nalu_ray.results.analysis.table import Table

_HEAD = ("row", "column", "test", "published", "ours", "verdict", "why", "our model", "preset")


def page(tables: Iterable[Table]) -> str:
    """Renders all eleven tables as Markdown.

    Args:
        tables: the filled tables of every stored task; those of the paper have a number.
    """
    known = list(tables)
    judged = {number: entries(number, known) for number in published.TABLES}
    counts = {number: Counter(entry.verdict for entry in of) for number, of in judged.items()}
    summary = [
        (f"[{number}](#table-{number})", *(str(counts[number][verdict]) for verdict in VERDICTS))
        for number in judged
    ]
    parts = [
        "# Reproduction\n",
        "Every number of the paper's tables beside ours. Made from stored rows by "
        "`python -m nalu_ray.report --reproduction`; no number in a table is written by hand. "
        "Ours is the selected run, as in the tables, of the preset laptop or paper, whichever has "
        "more runs; of another preset where neither was run. Smoke runs do not count. Where "
        "several of our rows stand for one of the paper's, each has its line.\n",
        f"The rule: {RULE} A number in the column *why* is that of a reason below the table.\n",
        _lines(("table", *VERDICTS), summary),
        *(_section(number, of) for number, of in judged.items()),
    ]
    return "\n".join(parts)


def _section(number: int, of: Sequence[Judged]) -> str:
    why = [published.reason(number, entry.place, entry.verdict) for entry in of]
    numbers = {reason: str(n) for n, reason in enumerate(dict.fromkeys(filter(None, why)), 1)}
    lines = [
        (*e.place, e.printed, e.ours, e.verdict, numbers.get(reason, ""), e.label, e.sweep)
        for e, reason in zip(of, why, strict=True)
    ]
    notes = "".join(f"\n{n}. {reason}" for reason, n in numbers.items())
    text = f"## Table {number}\n\n{published.reasons()[number]}\n\n{_lines(_HEAD, lines)}"
    return f"{text}{notes}\n" if notes else text


def _lines(head: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(map(_cell, row)) + " |" for row in rows) + "\n"


def _cell(text: str) -> str:
    return text.replace("<", r"\<").replace("|", r"\|")
