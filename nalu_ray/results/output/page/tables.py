"""A table of the page: ours, published, median and solved seeds per cell, coloured by verdict."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator, Mapping
from html import escape

from nalu_ray.results.analysis.cells import TableCell
from nalu_ray.results.analysis.groups import SMOKE
from nalu_ray.results.analysis.references import RANDOM, REFERENCES
from nalu_ray.results.analysis.reproduction import (
    BETTER,
    FACTOR,
    IMPOSSIBLE,
    MISSING,
    NOT_RUN,
    REPRODUCED,
    WORSE,
    verdict,
)
from nalu_ray.results.analysis.table import Place, Table
from nalu_ray.results.output.captions import captions, title
from nalu_ray.results.output.formats import html_statistics, latex, tidy
from nalu_ray.results.output.grid import Grid, Line, Section, arrange, spread, with_results
from nalu_ray.results.output.page import charts, seeds

MARKS = {
    REPRODUCED: "✓", BETTER: "↑", WORSE: "↓", MISSING: "✗", IMPOSSIBLE: "?", NOT_RUN: "",
}  # fmt: skip
"""Verdicts and their marks, which tell them apart without colours."""
MEANINGS = {
    REPRODUCED: f"prints as published, or within a factor of {FACTOR}",
    BETTER: "better by more than that",
    WORSE: "worse by more than that",
    MISSING: "all runs were lost, or a random model is on another scale",
    IMPOSSIBLE: "the published number contradicts another one",
    NOT_RUN: "no row is stored",
}
"""Verdicts and what they mean, in the legend."""


def legend() -> str:
    """Returns a list of the colours and marks of cells."""
    items = "".join(
        f'<li><b class="{verdict_class(name)}">{MARKS[name] or "–"} {name}</b> {meaning}</li>'
        for name, meaning in MEANINGS.items()
    )
    return (
        f'<ul class="marks">{items}<li>Without a colour: nothing was published, or a smoke run, '
        "which is no result.</li></ul>\n"
    )


def figure(table: Table, *, with_seeds: bool = True) -> str:
    """Returns a table with its caption, its statistics and, if wanted, all of its seeds."""
    table = with_results(table)
    first, *notes = captions(table)
    caption = (
        f"<b>{escape(title(table))}</b> {escape(first)} <small>{escape(' '.join(notes))}</small>"
    )
    below = html_statistics(table, "Seeds, medians and intervals", is_open=False)
    return (
        f'<figure class="table"><figcaption>{caption}</figcaption>\n{_buttons(table)}'
        f"{_cells(table)}{below}{_behind(table) if with_seeds else ''}</figure>\n"
    )


def verdict_class(name: str) -> str:
    """Returns the class of a verdict's colour."""
    return "v-" + name.replace(" ", "-")


def packed(content: str) -> str:
    """Returns a text compressed for the page's script."""
    return base64.b64encode(gzip.compress(content.encode(), mtime=0)).decode()


def _buttons(table: Table) -> str:
    texts = {"CSV": tidy(table), "LaTeX": latex(table)}
    buttons = (
        f'<button type="button" class="copy" data-copy="{packed(content)}">Copy {name}</button>'
        for name, content in texts.items()
    )
    return f'<p class="tools">{"".join(buttons)}</p>\n'


def _cells(table: Table) -> str:
    grid, below = arrange(table), spread(table)
    places = {id(cell): place for place, cell in table.cells.items()}
    labels = len(grid.stub)
    heads = [_head(text, "") for text in grid.stub]
    heads += [_head(text, _attribute(table, heading)) for text, heading in _columns(table, grid)]
    bodies = [
        _body(table, section, under, places, labels + len(grid.head))
        for section, under in zip(grid.sections, below.sections, strict=True)
    ]
    return (
        '<div class="scroll" tabindex="0"><table class="cells">\n'
        f"<thead><tr>{''.join(heads)}</tr></thead>\n{''.join(bodies)}</table></div>\n"
    )


def _head(label: str, attribute: str) -> str:
    button = f'<button type="button" class="sort">{escape(label)}</button>'
    return f'<th scope="col"{attribute}>{button}</th>'


def _body(
    table: Table, section: Section, below: Section, places: Mapping[int, Place], width: int
) -> str:
    above = ""
    if section.title:
        above = (
            f'<tr class="section"><th colspan="{width}" scope="colgroup">'
            f"{escape(section.title)}</th></tr>\n"
        )
    lines = [
        _line(table, line, under, places)
        for line, under in zip(section.lines, below.lines, strict=True)
    ]
    return f"<tbody>\n{above}{''.join(lines)}</tbody>\n"


def _line(table: Table, line: Line, below: Line, places: Mapping[int, Place]) -> str:
    row = places[id(line.cells[0])][0]
    field = table.spec.rows.field
    shown = row not in REFERENCES and _filters(table, field)
    attribute = f' data-{charts.group(field)}="{escape(row)}"' if shown else ""
    labels = "".join(f'<th scope="row">{escape(label)}</th>' for label in line.labels)
    cells = "".join(
        _cell(table, cell, under, places[id(cell)])
        for cell, under in zip(line.cells, below.cells, strict=True)
    )
    return f"<tr{attribute}>{labels}{cells}</tr>\n"


def _cell(table: Table, cell: TableCell, below: TableCell, place: Place) -> str:
    row, column, key = place
    ours = f"<b>{escape(cell.text)}</b>" if cell.bold else escape(cell.text)
    parts = [f'<span class="ours">{ours}</span>']
    judged = ""
    smoke = table.sweep is not None and table.sweep.preset == SMOKE
    if cell.published is not None:
        is_random = RANDOM in (row, column)
        judged = "" if smoke else verdict(table.spec.measures[key], cell, random=is_random)
        if mark := MARKS.get(judged, ""):
            parts[0] = f"{_mark(judged, mark)}{parts[0]}"
        parts.append(f'<span class="published">({escape(cell.published.text)})</span>')
    if cell.n and not REFERENCES & {row, column}:
        parts.append(f'<span class="spread">{escape(below.text)}</span>')
    attributes = f' class="{verdict_class(judged)}"' if judged else ""
    value = "" if cell.value is None else f"{cell.value!r}"
    heading = column if table.spec.columns else ""
    return f'<td{attributes}{_attribute(table, heading)} data-value="{value}">{"".join(parts)}</td>'


def _mark(name: str, mark: str) -> str:
    return f'<span class="mark" title="{name}" aria-label="{name}" role="img">{mark}</span>'


def _columns(table: Table, grid: Grid) -> Iterator[tuple[str, str]]:
    """Yields text and key of each column of cells; the key is empty for measures."""
    keys = [column.key for column in table.columns] if table.spec.columns else [""] * len(grid.head)
    yield from zip(grid.head, keys, strict=True)


def _attribute(table: Table, column: str) -> str:
    field = table.spec.columns.field if table.spec.columns else ""
    if not column or column in REFERENCES or not _filters(table, field):
        return ""
    return f' data-{charts.group(field)}="{escape(column)}"'


def _filters(table: Table, field: str) -> bool:
    """Whether the page filters by an axis: by what is compared, and by operations."""
    axis = table.spec.rows if table.spec.compared == "rows" else table.spec.columns
    return field == charts.OP or (axis is not None and field == axis.field)


def _behind(table: Table) -> str:
    """Returns the seeds of each cell, and their profiles where successes are counted."""
    listed = seeds.groups(table)
    if not listed:
        return ""
    shown = (
        "<details><summary>Every seed</summary>\n<p>A dot is a seed of the cell's setting, the bar "
        "their median (their mean where the table has means), an arrowhead the published number. "
        f"Seeds at <i>lost</i> diverged or failed.</p>\n{seeds.dots(table, listed)}</details>\n"
    )
    if profiles := seeds.profiles(table, listed):
        shown += (
            "<details><summary>Performance profiles</summary>\n<p>Share of seeds with an error "
            "below τ, with Wilson's 95 % interval; the dashed line is the threshold below which a "
            f"seed has solved the task.</p>\n{profiles}</details>\n"
        )
    return shown
