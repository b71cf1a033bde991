"""The top of the page: how many of the paper's numbers the stored rows reproduce."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from nalu_ray.results import published
from nalu_ray.results.analysis.reproduction import NOT_RUN, RULE, VERDICTS, Judged, entries
from nalu_ray.results.analysis.table import Table
from nalu_ray.results.output.page.tables import MARKS, verdict_class

_HEAD = ("row", "column", "test", "published", "ours", "verdict", "our model", "preset")


def summary(tables: Iterable[Table], links: Mapping[int, str]) -> str:
    """Returns the reproduction table.

    Args:
        tables: the filled tables of every stored task.
        links: number of a table of the paper to the anchor of its task.
    """
    known = list(tables)
    judged = {number: entries(number, known) for number in published.TABLES}
    counts = {number: Counter(entry.verdict for entry in of) for number, of in judged.items()}
    total = sum(counts.values(), Counter[str]())
    run = sum(total.values()) - total[NOT_RUN]
    having = [number for number in judged if len(judged[number]) > counts[number][NOT_RUN]]
    lines = "".join(_line(number, counts[number], judged[number], links) for number in having)
    missing = [str(number) for number in judged if number not in having]
    rest = f"<p>Tables without stored rows: {', '.join(missing)}.</p>\n" if missing else ""
    listing = f'<div class="verdicts">\n{lines}</div>\n' if lines else ""
    return (
        '<section id="reproduction">\n<h2>What reproduces</h2>\n'
        f"<p>The tables of the paper have {_size():,} numbers. Rows are stored for {run:,} "
        f"comparisons with them; smoke runs do not count.</p>\n{_tiles(total)}{listing}{rest}"
        f"<details><summary>The rule</summary><p>{escape(RULE.capitalize())} Ours is the "
        "selected run, as in the tables. Where several of our rows stand for one of the paper's, "
        "each is a comparison of its own.</p></details>\n</section>\n"
    )


def _size() -> int:
    return sum(len(published.load(number)) for number in published.TABLES)


def _tiles(total: Mapping[str, int]) -> str:
    tiles = "".join(
        f'<li class="{verdict_class(name)}"><b>{total.get(name, 0):,}</b> '
        f"{(MARKS[name] + ' ').lstrip()}{name}</li>"
        for name in VERDICTS
    )
    return f'<ul class="tiles">{tiles}</ul>\n'


def _line(
    number: int, counts: Mapping[str, int], judged: Sequence[Judged], links: Mapping[int, str]
) -> str:
    shown = [(name, counts[name]) for name in VERDICTS if counts[name]]
    bar = "".join(
        f'<i class="{verdict_class(name)}" style="flex:{count}" title="{count} {name}"></i>'
        for name, count in shown
    )
    says = ", ".join(f"{count} {name}" for name, count in shown)
    link = links.get(number)
    label = f'<a href="#{escape(link)}">Table {number}</a>' if link else f"Table {number}"
    rows = "".join(_row(entry) for entry in judged if entry.verdict != NOT_RUN)
    head = "".join(f'<th scope="col">{text}</th>' for text in _HEAD)
    return (
        f'<div class="verdict"><h3>{label}</h3><div class="bar" role="img" '
        f'aria-label="{says}">{bar}</div><p>{says}.</p>\n'
        f"<details><summary>Numbers, and why they may differ</summary>\n"
        f"<p>{escape(published.reasons()[number])}</p>\n"
        f'<div class="scroll" tabindex="0"><table class="statistics">\n'
        f"<thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{rows}</tbody></table></div></details></div>\n"
    )


def _row(entry: Judged) -> str:
    texts = (*entry.place, entry.printed, entry.ours, entry.verdict, entry.label, entry.sweep)
    cells = "".join(f"<td>{escape(text)}</td>" for text in texts)
    return f'<tr class="{verdict_class(entry.verdict)}">{cells}</tr>\n'
