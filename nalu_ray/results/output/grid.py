"""Lays out a table's cells and writes its captions, for every format alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from nalu_ray.results.analysis.axes import Heading
from nalu_ray.results.analysis.cells import MISSING, NEVER, SURE, TableCell, number, printed
from nalu_ray.results.analysis.groups import described
from nalu_ray.results.analysis.references import CONSTANT, REFERENCES
from nalu_ray.results.analysis.statistics import Interval
from nalu_ray.results.analysis.table import DOUBTED, Table
from nalu_ray.results.specs import Measure, TableSpec

PAPER = "Trask et al. (2018)"
FEW_SEEDS = "marked * where fewer than six seeds give only their range"


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
    return replace(table, spec=spec, rows=down, columns=across, not_run=text)


def arrange(table: Table) -> Grid:
    """Lays out a table by ``TableSpec.layout``, with a column of what rows are given by hand."""
    spec, measures, given = table.spec, table.spec.measures, table.spec.rows.given
    is_given = any(given.get(row.key) for row in table.rows)
    stub = (spec.rows.field, GIVEN) if is_given else (spec.rows.field,)
    heads = tuple(column.label for column in table.columns)

    def labels(row: Heading) -> tuple[str, ...]:
        return (row.label, given.get(row.key, ""))[: len(stub)]

    def cells(row: Heading, key: str) -> tuple[TableCell, ...]:
        return tuple(table.cells[row.key, column.key, key] for column in table.columns)

    if spec.layout == "columns":
        lines = tuple(
            Line(labels(row), tuple(table.cells[row.key, "", key] for key in measures))
            for row in table.rows
        )
        heads = tuple(measure.label for measure in measures.values())
        return Grid(stub, heads, (Section("", lines),))
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


def title(table: Table) -> str:
    """Returns the table's number in the paper, else its title."""
    number, name = table.spec.number, table.spec.name
    named = table.spec.title or name.replace("_", " ").capitalize()
    return f"{named}." if number is None else f"Table {number}."


def captions(table: Table, marks: bool = True) -> tuple[str, ...]:
    """Returns the sentences that explain a table, the caption first.

    Args:
        table: the table.
        marks: whether bold and missing cells are explained.
    """
    spec = table.spec
    sentences = [described(spec.caption, table.problem, table.sweep)]
    sentences.append(f"Ours: {_statistics(spec)}; {_seeds(table)}.")
    relative = {m.relative_to for m in spec.measures.values() if m.relative_to}
    if relative:
        plain = relative == {"random_mse"}
        names = "an untrained network" if plain else ", ".join(sorted(relative))
        sentences.append(
            f"100 = as bad as {names} (median over the seeds of the cell's setting), 0 = perfect."
        )
    if spec.reference:
        of = f" of {table.reference}" if table.reference else ""
        sentences.append(f"Random: median {spec.reference}{of} over the seeds of one setting.")
    if any(heading.key == CONSTANT for heading in (*table.rows, *table.columns)):
        sentences.append(
            "Best constant: the constant answer with the smallest error on the set (the mean "
            "target for squared errors, the median for absolute ones); median over the seeds of "
            "one setting."
        )
    more = (_given(table), table.budgets, _tuned(table), _earlier(table))
    sentences += [text for text in more if text]
    if any(cell.published for cell in table.cells.values()):
        sentences.append(f"In parentheses: {source(table)}.")
    if any(DOUBTED in cell.published.text for cell in table.cells.values() if cell.published):
        sentences.append(f"{DOUBTED}: {spec.doubt}.")
    without = "no result among these" if table.only else "not run"
    if marks:
        sentences.append(f"Bold: best of ours, ties included. –: {without}.")
    if table.only:
        sentences.append(f"Of the stored rows only these: {table.only}.")
    if table.not_run:
        which = "no result among these" if table.only else "no result of ours"
        sentences.append(f"Not shown, because they have {which}: {table.not_run}.")
    return tuple(sentences)


def _statistics(spec: TableSpec) -> str:
    """Returns what the numbers are; by measure, if the measures differ in it."""
    rule = spec.selection.describe()
    shown = {
        "selected": f"the run (seed and setting) {rule}",
        "mean": f"the mean over the seeds of one setting; setting and step {rule}",
        "median": f"the median over the seeds of one setting; setting and step {rule}",
        "rate": "the share of seeds of one setting that solved it, with Wilson's 95 % interval; "
        f"a seed has solved it if its error at the selected step is below {spec.threshold}; "
        f"setting and step are {rule}",
        "solved_at": f"the first logged step at which the error is below {spec.threshold}: the "
        "median over the solved seeds of the setting, with the 95 % interval between order "
        f"statistics; {NEVER}: no seed solved it",
    }
    labels: dict[str, list[str]] = {}
    for measure in spec.measures.values():
        labels.setdefault(measure.statistic, []).append(f'"{measure.label}"')
    if len(labels) == 1:
        return shown[next(iter(labels))]
    return ". ".join(f"{', '.join(of)}: {shown[statistic]}" for statistic, of in labels.items())


def source(table: Table) -> str:
    """Returns where the published values of a table are from."""
    spec = table.spec
    return spec.publication.source if spec.publication else f"table {spec.number} of {PAPER}"


def _given(table: Table) -> str:
    """Names what the columns are given by hand that others learn."""
    given = table.spec.columns.given if table.spec.columns else {}
    texts = [f"{given[c.key]} ({c.label})" for c in table.columns if given.get(c.key)]
    return f"Given by hand: {', '.join(texts)}." if texts else ""


def _tuned(table: Table) -> str:
    """Names the fields, beside the budget, in which shown settings differ from the preset."""
    tuned = table.sweep.tuned if table.sweep else {}
    shown = {cell.setting_id for cell in table.cells.values() if cell.setting_id}
    changes = [set(tuned.get(sid, {}).items()) for sid in sorted(shown)]
    everywhere = set.intersection(*changes) if changes else set()
    somewhere = {name for of in changes for name, _ in of - everywhere}
    texts = []
    if everywhere:
        values = ", ".join(f"{name}={value}" for name, value in sorted(everywhere))
        texts.append(f"Changed from the preset: {values}.")
    if somewhere:
        texts.append(f"Changed from the preset in some cells: {', '.join(sorted(somewhere))}.")
    return " ".join(texts)


def _earlier(table: Table) -> str:
    """Names the models that are shown with a setting of an earlier version of the preset."""
    earlier = table.sweep.earlier if table.sweep else frozenset()
    by_row = table.spec.compared == "rows"
    old = {
        row if by_row else column
        for (row, column, _), cell in table.cells.items()
        if cell.setting_id in earlier
    }
    models = [
        heading.label for heading in (table.rows if by_row else table.columns) if heading.key in old
    ]
    return f"From an earlier version of the preset: {', '.join(models)}." if models else ""


def _seeds(table: Table) -> str:
    counts = [cell.n for place, cell in table.cells.items() if cell.n and not REFERENCES & {*place}]
    if not counts:
        return "nothing stored yet"
    low, high = min(counts), max(counts)
    seeds = f"{low}" if low == high else f"{low} to {high}"
    worst = {measure.worst for measure in table.spec.measures.values()}
    value = "infinite and unsolved" if None in worst else "having nothing right"
    lost = f"; a diverged or failed seed counts as {value}"
    return f"{seeds} seed{'s' * (high > 1)} per cell{lost * _any_lost(table)}"


def _any_lost(table: Table) -> bool:
    return any(cell.diverged or cell.failed for cell in table.cells.values())


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
        middle = number(cell.median, measure.format, capped=measure.relative_to is not None)
        return f"{middle}, {solved}" if solved else middle

    measures = table.spec.measures
    cells = {
        place: TableCell(text=text(cell, measures[place[2]])) for place, cell in table.cells.items()
    }
    grid = arrange(replace(table, cells=cells))
    what = "median over seeds"
    if rates:
        what += ", solved of seeds [95 % interval in %]"
    elif intervals:
        unsure = any(cell.confidence and cell.confidence < SURE for cell in table.cells.values())
        few = f", {FEW_SEEDS}" * unsure
        what += f" [95 % interval between order statistics{few}]"
    sections = tuple(
        replace(part, title=f"{part.title}: {what}" if part.title else what.capitalize())
        for part in grid.sections
    )
    return replace(grid, sections=sections)


def without_references(table: Table) -> Table:
    """Returns a table without its random model and best constant."""
    return replace(
        table,
        spec=table.spec.model_copy(update={"reference": None}),
        rows=tuple(heading for heading in table.rows if heading.key not in REFERENCES),
        columns=tuple(heading for heading in table.columns if heading.key not in REFERENCES),
    )


def listing(table: Table) -> Plain:
    """Returns a line per cell that was run: ours with the published value, solved seeds, median.

    ``setting`` has the fields that differ from the preset, which selection chose among.
    """
    cells = _keyed(table, table.spec.measures)
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
    return _plain(table, _keyed(table, keys), _STATISTICS)


def _keyed(table: Table, keys: Iterable[str]) -> list[tuple[Heading, Heading, str, TableCell]]:
    """Returns the cells that were run, but those of references, with row, column and measure."""
    return [
        (row, column, key, table.cells[row.key, column.key, key])
        for row in table.rows
        for column in table.columns
        for key in keys
        if table.cells[row.key, column.key, key].n and not REFERENCES & {row.key, column.key}
    ]


def _plain(
    table: Table,
    keyed: Sequence[tuple[Heading, Heading, str, TableCell]],
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


def statistics_note(table: Table) -> str:
    """Returns the sentence that explains :func:`statistics`."""
    cells = [cell for cell in table.cells.values() if cell.n]
    medians = any(cell.median is not None for cell in cells)
    note = "Over the seeds of each cell's setting"
    note += ": median [95 % interval between order statistics]" * medians
    intervals = [cell.confidence for cell in cells if cell.median is not None]
    intervals += [cell.difference.confidence for cell in cells if cell.difference]
    if any((confidence or 0) < 0.95 for confidence in intervals):
        note += f", {FEW_SEEDS}"
    limit = table.spec.threshold
    if any(cell.rate for cell in cells):
        note += f"; solved: the seeds whose error at the selected step is below {limit}, with the "
        note += "Wilson 95 % interval"
    if any(cell.difference for cell in cells):
        note += f"; difference: from {_paired_with(table)}, seed by seed"
    return note + "."


def _beside(cell: TableCell, _: Measure) -> str:
    return f"{cell.text} ({cell.published.text})" if cell.published else cell.text


def _median(cell: TableCell, measure: Measure) -> str:
    if cell.median is None or cell.low is None or cell.high is None:
        return ""
    return printed(Interval(cell.median, cell.low, cell.high, cell.confidence or 0), measure)


def _difference(cell: TableCell, measure: Measure) -> str:
    return printed(cell.difference, measure) if cell.difference else ""


def _paired_with(table: Table) -> str:
    names = {heading.key: heading.label for heading in (*table.rows, *table.columns)}
    return names[table.spec.paired_with or ""]


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
