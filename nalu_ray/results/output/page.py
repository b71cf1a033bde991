"""One HTML page of every table and figure: self-contained, light and dark, no scripts."""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from nalu_ray.results.analysis.table import Table
from nalu_ray.results.output.formats import html
from nalu_ray.results.store.store import Outcome

_CSS = """
:root { color-scheme: light dark; --ink: #1a1a1a; --soft: #5c5c5c; --rule: #d0d0d0;
  --paper: #ffffff; --band: #f4f4f2; --link: #0b57a4; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6e6; --soft: #a3a3a3; --rule: #474747;
  --paper: #161616; --band: #212121; --link: #8ab8ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 76rem; background: var(--paper);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; } h2 { margin-top: 3rem; border-bottom: 1px solid var(--rule); }
a { color: var(--link); } nav a { margin-right: 1rem; }
small, .published, .facts { color: var(--soft); }
figcaption { max-width: 60rem; }
.facts { font-size: .875rem; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; margin: .75rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .875rem; }
th, td { padding: .25rem .55rem; text-align: left; white-space: nowrap; font-weight: normal; }
thead th { border-bottom: 1.5px solid var(--ink); font-weight: 600; }
table.cells td, table.cells thead th:not(:first-child) { text-align: right; }
tbody tr:nth-child(even) { background: var(--band); }
tr.section th { padding-top: .9rem; font-style: italic; border-bottom: 1px solid var(--rule); }
figure { margin: 2rem 0; }
/* figures are drawn for white paper, in the dark too */
figure img { max-width: 100%; background: #fff; border-radius: 4px; }
summary { cursor: pointer; color: var(--link); }
"""


@dataclass(frozen=True)
class Picture:
    """A drawn figure: its caption and the SVG."""

    caption: str
    svg: bytes


@dataclass(frozen=True)
class Chapter:
    """One task on the page."""

    task: str
    title: str
    section: str
    facts: Sequence[str]
    tables: Sequence[Table]
    pictures: Sequence[Picture]


def page(chapters: Sequence[Chapter]) -> str:
    """Renders the page; everything from the store is escaped."""
    links = "".join(f'<a href="#{_anchor(c)}">{escape(c.title)}</a>' for c in chapters)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "img-src data:; style-src 'unsafe-inline'\">\n"
        f"<title>Neural arithmetic: results</title>\n<style>{_CSS}</style>\n</head>\n<body>\n"
        f"<h1>Neural arithmetic: results</h1>\n"
        "<p>Our results, with published ones in parentheses. Each table names their source.</p>\n"
        f"<nav>{links}</nav>\n"
        f"<main>\n{''.join(map(_chapter, chapters))}</main>\n</body>\n</html>\n"
    )


def facts(
    outcomes: Mapping[tuple[str, int], Outcome], manifests: Iterable[Mapping[str, Any]]
) -> list[str]:
    """Returns lines on a task's trials: counts, why seeds were lost, commits, commands."""
    settings = len({setting for setting, _ in outcomes})
    lines = [f"Settings: {settings}. Runs (seeds of settings): {len(outcomes)}."]
    reasons = Counter(
        _first_line(item.reason or "no reason given") for item in outcomes.values() if not item.ok
    )
    lines += [
        f"{count} seed{'s' * (count > 1)} lost: {reason}"
        for reason, count in reasons.most_common(5)
    ]
    stored = list(manifests)
    commits = Counter(
        f"{str(m['commit'])[:12]}{' with local changes' if m.get('dirty') else ''}"
        for m in stored
        if m.get("commit")
    )
    if commits:
        lines.append(f"Commit: {', '.join(commits)}.")
    commands = {str(m["spec"]["command"]) for m in stored if _has_command(m)}
    lines += [f"Command: {command}" for command in sorted(commands)[:5]]
    return lines


def _has_command(manifest: Mapping[str, Any]) -> bool:
    spec = manifest.get("spec")
    return isinstance(spec, dict) and bool(spec.get("command"))


def _first_line(text: str) -> str:
    # the step differs from seed to seed, the reason does not
    return re.sub(r" at step \d+", "", text.splitlines()[0])[:200]


def _anchor(chapter: Chapter) -> str:
    return escape(re.sub(r"[^\w-]+", "-", chapter.task))


def _chapter(chapter: Chapter) -> str:
    lines = "<br>\n".join(map(escape, chapter.facts))
    pictures = "".join(
        f'<figure><img alt="{escape(p.caption)}" src="data:image/svg+xml;base64,'
        f'{base64.b64encode(p.svg).decode()}"></figure>\n'
        for p in chapter.pictures
    )
    section = f" <small>section {escape(chapter.section)}</small>" if chapter.section else ""
    return (
        f'<section id="{_anchor(chapter)}">\n'
        f"<h2>{escape(chapter.title)}{section}</h2>\n"
        f'<p class="facts">{lines}</p>\n{"".join(map(html, chapter.tables))}{pictures}</section>\n'
    )
