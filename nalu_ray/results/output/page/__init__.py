"""One HTML page of every table and figure: self-contained, light and dark, for print and phones."""

from __future__ import annotations

import base64
import hashlib
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from typing import Any

from nalu_ray.results import published
from nalu_ray.results.analysis.curves import Panel
from nalu_ray.results.analysis.table import Table, printed_place
from nalu_ray.results.output.page import charts, replays, seeds, tables
from nalu_ray.results.output.page.facts import Fact, facts
from nalu_ray.results.output.page.summary import summary
from nalu_ray.results.specs import FigureSpec

__all__ = ["Chapter", "Picture", "facts", "page"]

LARGEST = 5_000_000
_SECTION = re.compile(r"(\d+)(?:\.(\d+))?")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Picture:
    """A figure's specification with its caption filled, its curves, and what they are."""

    spec: FigureSpec
    panels: Sequence[Panel]
    about: str


@dataclass(frozen=True)
class Chapter:
    """One task on the page.

    Attributes:
        task: its name, also its anchor.
        title, section, question: from its specifications; any but the title may be empty.
        about: further paragraphs.
        facts: how the rows were made.
        tables, pictures: its tables and figures.
        shown: what :mod:`nalu_ray.command.replay` says of its stored networks.
        last: whether it comes after all tasks.
    """

    task: str
    title: str
    section: str = ""
    question: str = ""
    about: Sequence[str] = ()
    facts: Sequence[Fact] = ()
    tables: Sequence[Table] = ()
    pictures: Sequence[Picture] = ()
    shown: Mapping[str, Any] = field(default_factory=dict)
    last: bool = False

    @property
    def anchor(self) -> str:
        """Returns the id of its section."""
        return re.sub(r"[^\w-]+", "-", self.task)

    @property
    def order(self) -> tuple[object, ...]:
        """Returns its place on the page: by the paper's sections, then those outside of it.

        Within a section, the place of its first number in the paper's tables counts.
        """
        match = _SECTION.match(self.section)
        numbers = (int(match[1]), int(match[2] or 0)) if match else (0, 0)
        return (self.last, match is None, *numbers, self._place_in_tables, self.title)

    @property
    def _place_in_tables(self) -> tuple[int, int]:
        for table in self.tables:
            if table.spec.number is not None and table.cells:
                _, column, _ = printed_place(table.spec, *next(iter(table.cells)))
                columns = published.load(table.spec.number)["column"].tolist()
                return table.spec.number, columns.index(column) if column in columns else 0
        return (0, 0)


def page(chapters: Iterable[Chapter]) -> str:
    """Renders the page; everything from the store is escaped, and only the page's script runs.

    Seeds and profiles are left out if the page would be larger than ``LARGEST`` bytes.
    """
    ordered = sorted(chapters, key=lambda chapter: chapter.order)
    for with_seeds in (True, False):
        text = _page(ordered, with_seeds=with_seeds)
        if len(text.encode()) <= LARGEST:
            return text
        if with_seeds:
            log.warning("the page leaves out every seed and all profiles: it would exceed 5 MB")
    log.warning("the page is larger than 5 MB: %s bytes", f"{len(text.encode()):,}")
    return text


def _page(chapters: Sequence[Chapter], *, with_seeds: bool) -> str:
    script, style = _asset("page.js"), _asset("page.css")
    links = "".join(f'<a href="#{escape(c.anchor)}">{escape(c.title)}</a>' for c in chapters)
    of_table = {
        table.spec.number: chapter.anchor
        for chapter in reversed(chapters)
        for table in chapter.tables
        if table.spec.number is not None
    }
    shown = [table for chapter in chapters for table in chapter.tables]
    body = "".join(_chapter(chapter, with_seeds=with_seeds) for chapter in chapters)
    values = {
        "hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "style": style,
        "script": script,
        "nav": f'<a href="#reproduction">What reproduces</a>{links}',
        "legend": tables.legend(),
        "summary": summary(shown, of_table),
        "chapters": body,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], _asset("page.html"))


def _asset(name: str) -> str:
    return (files("nalu_ray.results") / "output" / "page" / name).read_text(encoding="utf-8")


def _chapter(chapter: Chapter, *, with_seeds: bool) -> str:
    section = f" <small>section {escape(chapter.section)}</small>" if chapter.section else ""
    anchor = escape(chapter.anchor)
    about = "".join(f"<p>{escape(text)}</p>\n" for text in chapter.about)
    question = f'<p class="question">{escape(chapter.question)}</p>\n' if chapter.question else ""
    seen: set[object] = set()
    parts = []
    for table in chapter.tables:
        # tables of the same runs, relative to a random model and not, have the same seeds
        known = seeds.identity(table) in seen and table.spec.number is not None
        seen.add(seeds.identity(table))
        parts.append(tables.figure(table, with_seeds=with_seeds and not known))
    labels = {h.key: h.label for table in chapter.tables for h in (*table.rows, *table.columns)}
    shown = replays.html(chapter.shown, labels)
    parts += [charts.figure(p.spec, p.panels, p.about) for p in chapter.pictures]
    return (
        f'<section id="{anchor}">\n<h2>{escape(chapter.title)}{section} '
        f'<a class="anchor" href="#{anchor}" aria-label="link to this section">#</a></h2>\n'
        f"{question}{about}{''.join(parts)}{shown}{_facts(chapter.facts)}"
        "</section>\n"
    )


def _facts(known: Sequence[Fact]) -> str:
    if not known:
        return ""
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{'<br>'.join(map(escape, texts))}</dd>\n"
        for name, texts in known
    )
    return f'<details class="facts"><summary>How it was run</summary><dl>\n{rows}</dl></details>\n'
