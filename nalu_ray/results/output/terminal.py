"""Prints a table to a terminal, with the published value dim beside or below ours."""

from __future__ import annotations

import itertools
import textwrap
from dataclasses import dataclass, replace
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from nalu_ray.results.analysis.cells import TableCell
from nalu_ray.results.analysis.references import RANDOM
from nalu_ray.results.analysis.table import Table
from nalu_ray.results.output.captions import captions, statistics_note, title
from nalu_ray.results.output.grid import (
    Grid,
    Plain,
    Section,
    arrange,
    counts_only,
    listing,
    spread,
    statistics,
    with_results,
    without_references,
)

STATISTICS_LINES = 40
_GAP = 2  # columns between the texts of a listing
_PADDING = (0, _GAP - 1, 0, 0)


def show(table: Table, console: Console, more: str = "") -> None:
    """Prints a table; one that is too wide is printed a few columns at a time.

    The statistics follow where they are short enough to be read there, else each cell's median and
    solved seeds with their interval.

    Args:
        table: the table.
        console: the terminal.
        more: command that prints all statistics.
    """
    table = with_results(table)
    first, *notes = captions(table)
    console.print(Text.assemble((f"{title(table)} ", "bold"), first))
    _grid(arrange(table), console)
    console.print(Text(" ".join(notes), style="dim"))
    plain = statistics(table)
    if len(plain.lines) > STATISTICS_LINES:
        if not counts_only(table):
            console.print()
            _grid(spread(table), console)
        if more:
            text = (
                f"Medians' intervals, lost seeds and settings of {len(plain.lines)} cells: {more}"
            )
            console.print(Text(text, style="dim"), soft_wrap=True)
    elif plain.lines:
        console.print()
        console.print(Text(statistics_note(table), style="dim"))
        _listing(plain, console)
    console.print()


def show_briefly(table: Table, console: Console, more: str = "") -> None:
    """Prints a line per cell: ours, the published value, solved seeds and the median.

    The best constant has lines of its own, the random model has none. A table of many cells is
    printed as :func:`show` does.
    """
    short = replace(without_references(with_results(table), {RANDOM}), not_run="")
    plain = listing(short)
    if len(plain.lines) > STATISTICS_LINES:
        show(table, console, more)
        return
    first, *notes = captions(short, marks=False)
    console.print(Text.assemble((f"{title(table)} ", "bold"), first))
    console.print()
    _listing(plain, console)
    console.print()
    console.print(Text(" ".join([*notes, statistics_note(short)]), style="dim"))
    console.print()


def _grid(grid: Grid, console: Console) -> None:
    for part in fitting(grid, console.width):
        for section in part.grid.sections:
            console.print(_rich(part, section))
            console.print()


@dataclass(frozen=True)
class Part:
    """Columns that are printed together; ``inline``: ours and theirs share a line."""

    grid: Grid
    inline: bool

    def widths(self) -> list[int]:
        """The widest text of each column over all sections, which so stand under one another."""
        lines = [line for section in self.grid.sections for line in section.lines]
        stubs = [
            [head, *(line.labels[i] for line in lines)] for i, head in enumerate(self.grid.stub)
        ]
        widths = [max(map(cell_len, texts)) for texts in stubs]
        for column, head in enumerate(self.grid.head):
            ours, theirs = self.halves(column)
            beside = ours + (theirs and theirs + 1)
            longest = max(map(cell_len, head.split()), default=0)
            widths.append(max(longest, beside if self.inline else max(ours, theirs)))
        return widths

    def halves(self, column: int) -> tuple[int, int]:
        """The widest text of ours and of theirs in a column."""
        cells = [line.cells[column] for section in self.grid.sections for line in section.lines]
        ours = [cell_len(cell.text) for cell in cells]
        theirs = [cell_len(_theirs(cell)) for cell in cells]
        return max(ours, default=0), max(theirs, default=0)

    def text(self, cell: TableCell, column: int, both: bool) -> Text:
        """A cell's text: two lines, or one in which the numbers stand under one another.

        Args:
            cell: the cell.
            column: its index among the part's columns.
            both: whether to leave room for a published value.
        """
        ours = Text(cell.text, style="bold green" if cell.bold else "")
        if not both:
            return ours
        if not self.inline:
            return Text.assemble(ours, "\n", (_theirs(cell), "dim"))
        width = self.halves(column)[1]
        theirs = _theirs(cell).rjust(width + 1) if width else ""
        return Text.assemble(ours, (theirs, "dim"))


def fitting(grid: Grid, width: int) -> list[Part]:
    """Cuts a grid into as few parts as are no wider than the terminal, if they can be.

    A cell takes one line where all columns then fit beside each other, else two.

    Args:
        grid: the table.
        width: columns of the terminal.
    """
    columns = len(grid.head)
    for count in range(1, max(1, columns) + 1):
        edges = [i * columns // count for i in range(count + 1)]
        pieces = [_columns(grid, slice(*edge)) for edge in itertools.pairwise(edges)]
        for inline in (True, False):
            parts = [Part(piece, inline) for piece in pieces]
            if all(sum(part.widths()) + len(part.widths()) - 1 <= width for part in parts):
                return parts
    return parts


def _columns(grid: Grid, piece: slice) -> Grid:
    sections = tuple(
        replace(s, lines=tuple(replace(x, cells=x.cells[piece]) for x in s.lines))
        for s in grid.sections
    )
    return replace(grid, head=grid.head[piece], sections=sections)


def _theirs(cell: TableCell) -> str:
    return f"({cell.published.text})" if cell.published else ""


def _rich(part: Part, section: Section) -> RichTable:
    table = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    table.title = Text(section.title, style="italic") if section.title else None
    table.title_justify = "left"
    stubs = len(part.grid.stub)
    heads = [*part.grid.stub, *part.grid.head]
    for column, (head, width) in enumerate(zip(heads, part.widths(), strict=True)):
        side: Literal["left", "right"] = "left" if column < stubs else "right"
        # a heading alone does not widen a column: it goes over several lines
        broken = textwrap.fill(head, max(width, 1), break_long_words=False)
        table.add_column(Text(broken), justify=side, no_wrap=True, min_width=width)
    for line in section.lines:
        both = any(cell.published for cell in line.cells)
        cells = [part.text(cell, column, both) for column, cell in enumerate(line.cells)]
        table.add_row(*map(Text, line.labels), *cells)
    return table


def _listing(plain: Plain, console: Console) -> None:
    """Prints texts as columns; those too many for the terminal follow below, with their labels."""
    for at, columns in enumerate(_parts(plain, console.width)):
        if at:
            console.print()
        table = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=_PADDING)
        for column in columns:
            table.add_column(Text(plain.head[column]), overflow="fold")
        for line in plain.lines:
            table.add_row(*(Text(line[column]) for column in columns))
        console.print(table)


def _parts(plain: Plain, width: int) -> list[list[int]]:
    """Returns the columns to print together, each time after the labels."""
    widths = [max(map(cell_len, texts)) for texts in zip(plain.head, *plain.lines, strict=True)]
    labels = list(range(plain.labels))
    parts = [labels]
    for column in range(plain.labels, len(plain.head)):
        together = [*parts[-1], column]
        wide = sum(widths[i] for i in together) + _GAP * (len(together) - 1) > width
        if wide and parts[-1] != labels:
            parts.append([*labels, column])
        else:
            parts[-1] = together
    return parts
