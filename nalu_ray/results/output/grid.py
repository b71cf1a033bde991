"""Lays out a table's cells, the same in every format."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from nalu_ray.results.analysis.axes import Heading
from nalu_ray.results.analysis.cells import LOST, MISSING, SURE, TableCell, number, printed
from nalu_ray.results.analysis.references import RANDOM, REFERENCES
from nalu_ray.results.analysis.statistics import Interval
from nalu_ray.results.analysis.table import Table
from nalu_ray.results.output.captions import FEW_SEEDS
from nalu_ray.results.specs import Measure


@dataclass(frozen=True)
class Line:
    """One printed line: its labels, then its cells."""

    labels: tuple[str, ...]
    cells: tuple[TableCell, ...]


@dataclass(frozen=True)
class Section:
    """Lines under a title, which may be empty."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Grid:
    """A laid-out table: ``stub`` are the headings of the labels, ``head`` those of the cells."""

    stub: tuple[str, ...]
    head: tuple[str, ...]
    sections: tuple[Section, ...]


@dataclass(frozen=True)
class Plain:
    """A table of texts: (columns,) headings over (lines, columns); ``labels`` name the line."""

    labels: int
    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]


GIVEN = "given by hand"
_Keyed = tuple[Heading, Heading, str, TableCell]


def with_results(table: Table) -> Table:
    """Returns a table without the rows, columns and measures that have no result of ours."""
    run = [place for place, cell in table.cells.items() if cell.n]
    rows, columns, measures = ({place[i] for place in run} for i in range(3))
    down = tuple(heading for heading in table.rows if heading.key in rows)
    across = tuple(heading for heading in table.columns if heading.key in columns)
    kept = {key: m for key, m in table.spec.measures.items() if key in measures}
    left = {
        "row": len(table.rows) - len(down),
        "column": len(table.columns) - len(across),
        "measure": len(table.spec.measures) - len(kept),
    }
    if not run or not any(left.values()):
        return table
    text = ", ".join(f"{n} {name}{'s' * (n > 1)}" for name, n in left.items() if n)
    spec = table.spec.model_copy(update={"measures": kept})
    cells = {
        (row.key, column.key, key): table.cells[row.key, column.key, key]
        for row, column, key in product(down, across, kept)
    }
    return replace(table, spec=spec, rows=down, columns=across, cells=cells, not_run=text)


def arrange(table: Table) -> Grid:
    """Lays out a table by ``TableSpec.layout``, with a column for parts that are given by hand.

    Measures under each row of a single column would be a long strip: they stand side by side.
    """
    spec, measures, given = table.spec, table.spec.measures, table.spec.rows.given
    is_given = any(given.get(row.key) for row in table.rows)
    stub = (spec.rows.field, GIVEN) if is_given else (spec.rows.field,)
    heads = tuple(column.label for column in table.columns)

    def labels(row: Heading) -> tuple[str, ...]:
        return (row.label, given.get(row.key, ""))[: len(stub)]

    def cells(row: Heading, key: str) -> tuple[TableCell, ...]:
        return tuple(table.cells[row.key, column.key, key] for column in table.columns)

    if spec.layout == "columns" or (spec.layout == "subrows" and len(table.columns) == 1):
        (column,) = table.columns or (Heading("", ""),)
        lines = tuple(
            Line(labels(row), tuple(table.cells[row.key, column.key, key] for key in measures))
            for row in table.rows
        )
        heads = tuple(measure.label for measure in measures.values())
        return Grid(stub, heads, (Section(column.label, lines),))
    if spec.layout == "subrows":
        first, nothing = next(iter(measures)), ("",) * len(stub)
        lines = tuple(
            Line((*(labels(row) if key == first else nothing), measure.label), cells(row, key))
            for row in table.rows
            for key, measure in measures.items()
        )
        return Grid((*stub, "test"), heads, (Section("", lines),))
    sections = tuple(
        Section(measure.label, tuple(Line(labels(row), cells(row, key)) for row in table.rows))
        for key, measure in measures.items()
    )
    return Grid(stub, heads, sections)


def spread(table: Table, intervals: bool = False) -> Grid:
    """Lays out median and solved seeds of each cell like the table itself.

    A cell is ``0.3, 7/10 [40, 89]``, with Wilson's interval of the share of solved seeds in %.

    Args:
        table: the table.
        intervals: in a table without solved seeds, give the median's interval: ``0.3 [0.1, 0.9]``.
    """
    rates = any(cell.rate for cell in table.cells.values())

    def text(cell: TableCell, measure: Measure) -> str:
        solved = _solved(cell, measure).removesuffix(" %")
        if cell.median is None:
            return solved or MISSING
        if intervals and not rates:
            return _median(cell, measure) or MISSING
        capped = measure.relative_to is not None
        middle = LOST if cell.lost else number(cell.median, measure.format, capped=capped)
        return f"{middle}, {solved}" if solved else middle

    measures = table.spec.measures
    cells = {
        place: TableCell(text=text(cell, measures[place[2]])) for place, cell in table.cells.items()
    }
    grid = arrange(replace(table, cells=cells))
    medians = any(cell.median is not None for cell in table.cells.values())
    what = "median over seeds" * (medians or not rates)
    if rates:
        what += ", " * medians + "solved of seeds [95 % interval in %]"
    elif intervals:
        unsure = any(cell.confidence and cell.confidence < SURE for cell in table.cells.values())
        few = f", {FEW_SEEDS}" * unsure
        what += f" [95 % interval between order statistics{few}]"
    sections = tuple(
        replace(part, title=f"{part.title}: {what}" if part.title else what.capitalize())
        for part in grid.sections
    )
    return replace(grid, sections=sections)


def counts_only(table: Table) -> bool:
    """Tells whether :func:`spread` repeats the cells: each is a rate, and of as many seeds."""
    counts = {cell.n for _, _, _, cell in _run(without_references(table), table.spec.measures)}
    rates = all(measure.statistic == "rate" for measure in table.spec.measures.values())
    return rates and len(counts) <= 1


def without_references(table: Table, keys: Collection[str] = REFERENCES) -> Table:
    """Returns a table without its random model and best constant, or without those of ``keys``."""
    return replace(
        table,
        spec=table.spec.model_copy(update={"reference": None} if RANDOM in keys else {}),
        rows=tuple(heading for heading in table.rows if heading.key not in keys),
        columns=tuple(heading for heading in table.columns if heading.key not in keys),
    )


def listing(table: Table) -> Plain:
    """Returns a line per cell that was run: ours with the published value, solved seeds, median.

    A reference, such as the best constant, has a line too, but no statistics. ``setting`` has the
    fields that differ from the preset, which selection chose among.
    """
    cells: list[_Keyed] = []
    for row, column, key, cell in _run(table, table.spec.measures):
        plain = TableCell(text=cell.text) if REFERENCES & {row.key, column.key} else cell
        cells.append((row, column, key, plain))
    keep = ("solved [95 %]", "median [95 %]", "lost")
    writers = {"ours": _beside, **{head: _STATISTICS[head] for head in keep}}
    tuned = table.sweep.tuned if table.sweep else {}

    def chosen(cell: TableCell, _: Measure) -> str:
        fields = tuned.get(cell.setting_id or "", ())
        values = re.split(r", (?=\w+=)", cell.setting)
        return ", ".join(text for text in values if text.partition("=")[0] in fields)

    return _plain(table, cells, {**writers, "setting": chosen})


def statistics(table: Table) -> Plain:
    """Returns the statistics of every cell that was run, without columns that would be empty.

    Columns: row, column and measure; seeds; median with its 95 % interval; difference from another
    model with its 95 % interval; solved seeds with the Wilson interval of their rate; the step at
    which they were first solved; lost seeds; setting. A step of first success whose rate is in the
    table has no line of its own, as the rate's line says the same.
    """
    measures = table.spec.measures
    rates = {(m.metric, m.split) for m in measures.values() if m.statistic == "rate"}
    keys = [
        key
        for key, m in measures.items()
        if m.statistic != "solved_at" or (m.metric, m.split) not in rates
    ]
    return _plain(table, _run(without_references(table), keys), _STATISTICS)


def _run(table: Table, keys: Iterable[str]) -> list[_Keyed]:
    """Returns the cells that have a result, with their row, column and measure."""
    return [
        (row, column, key, table.cells[row.key, column.key, key])
        for row in table.rows
        for column in table.columns
        for key in keys
        if table.cells[row.key, column.key, key].n
    ]


def _plain(
    table: Table,
    keyed: Sequence[_Keyed],
    writers: Mapping[str, Callable[[TableCell, Measure], str]],
) -> Plain:
    """Returns a line per cell, without columns that would be empty."""
    columns: dict[str, list[str]] = {table.spec.rows.field: [row.label for row, *_ in keyed]}
    if table.spec.columns is not None:
        columns[table.spec.columns.field] = [column.label for _, column, *_ in keyed]
    if len({key for _, _, key, _ in keyed}) > 1:
        columns["test"] = [table.spec.measures[key].label for _, _, key, _ in keyed]
    labels = len(columns)
    for head, write in writers.items():
        texts = [write(cell, table.spec.measures[key]) for _, _, key, cell in keyed]
        if any(texts):
            columns[head] = texts
    return Plain(labels, tuple(columns), tuple(zip(*columns.values(), strict=True)))


def _beside(cell: TableCell, _: Measure) -> str:
    return f"{cell.text} ({cell.published.text})" if cell.published else cell.text


def _median(cell: TableCell, measure: Measure) -> str:
    if cell.median is None or cell.low is None or cell.high is None:
        return ""
    if cell.lost:
        return LOST
    return printed(Interval(cell.median, cell.low, cell.high, cell.confidence or 0), measure)


def _difference(cell: TableCell, measure: Measure) -> str:
    return printed(cell.difference, measure) if cell.difference else ""


def _solved(cell: TableCell, _: Measure) -> str:
    if cell.rate is None:
        return ""
    rate = cell.rate
    return f"{rate.successes}/{rate.n} [{100 * rate.low:.0f}, {100 * rate.high:.0f}] %"


def _lost(cell: TableCell, _: Measure) -> str:
    counts = {"diverged": cell.diverged, "failed": cell.failed}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


_STATISTICS: dict[str, Callable[[TableCell, Measure], str]] = {
    "seeds": lambda cell, _: str(cell.n),
    "median [95 %]": _median,
    "difference [95 %]": _difference,
    "solved [95 %]": _solved,
    "solved at step": lambda cell, _: "" if cell.solved_at is None else f"{cell.solved_at:,.0f}",
    "lost": _lost,
    "setting": lambda cell, _: cell.setting,
    "shown": lambda cell, _: "" if cell.seed is None else f"seed {cell.seed}, step {cell.step:,}",
}
