"""A laid-out table as Markdown, LaTeX, HTML or CSV: the same cells in each."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from html import escape

from nalu_ray.results.analysis.axes import Heading
from nalu_ray.results.analysis.cells import TableCell
from nalu_ray.results.analysis.table import Table
from nalu_ray.results.output.captions import captions, source, statistics_note, title
from nalu_ray.results.output.grid import (
    Grid,
    Line,
    arrange,
    counts_only,
    spread,
    statistics,
    with_results,
    without_references,
)

_FORMULA = tuple("=+-@\t\r")
_GREEK = {
    "αβγδεζηθικλμ": "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu",
    "νξπρστυφχψω": "nu xi pi rho sigma tau upsilon phi chi psi omega",
    "ΓΔΘΛΞΠΣΥΦΨΩ": "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega",
}
_LATEX = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "[": "{[}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "–": "--",
    "×": r"\ensuremath{\times}", "÷": r"\ensuremath{\div}", "√": r"\ensuremath{\surd}",
    "²": r"\textsuperscript{2}", "∞": r"\ensuremath{\infty}", "±": r"\ensuremath{\pm}",
    "≠": r"\ensuremath{\neq}",
    "≤": r"\ensuremath{\leq}", "≥": r"\ensuremath{\geq}", "−": r"\ensuremath{-}",
    "‡": r"\ensuremath{\ddagger}", "•": r"\textbullet{}", "·": r"\ensuremath{\cdot}",
    "≈": r"\ensuremath{\approx}", "→": r"\ensuremath{\to}", "³": r"\textsuperscript{3}",
    "µ": r"\ensuremath{\mu}", "—": "---", "’": "'", "…": r"\ldots{}",
    **{character: "\\" + character for character in "&%$#_{}"},
    **{
        letter: rf"\ensuremath{{\{name}}}"
        for letters, names in _GREEK.items()
        for letter, name in zip(letters, names.split(), strict=True)
    },
}  # fmt: skip


def markdown(table: Table, brief: bool = False) -> str:
    """Renders for GitHub: one pipe table per section, ``**ours** (published)``, then statistics.

    Args:
        table: the table.
        brief: lay out medians and solved seeds like the table, instead of a line per cell.
    """
    table = with_results(table)
    parts = [
        f"**{_md(title(table))}** {_md(' '.join(captions(table)))}\n",
        *_md_grid(arrange(table)),
    ]
    plain = statistics(table)
    if brief:
        if plain.lines and not counts_only(table):
            parts += _md_grid(spread(without_references(table), intervals=True))
    elif plain.lines:
        rule = _md_line(["---"] * len(plain.head))
        lines = [_md_line(map(_md, line)) for line in (plain.head, *plain.lines)]
        parts += [_md(statistics_note(table)) + "\n", lines[0] + rule + "".join(lines[1:])]
    return "\n".join(parts)


def _md_grid(grid: Grid) -> list[str]:
    """Returns a pipe table per section, each with its title above."""
    head = _md_line([*grid.stub, *grid.head]) + _md_line(
        ["---"] * len(grid.stub) + ["---:"] * len(grid.head)
    )
    parts: list[str] = []
    for section in grid.sections:
        lines = [
            _md_line([*map(_md, line.labels), *map(_md_cell, line.cells)]) for line in section.lines
        ]
        above = [f"*{_md(section.title)}*\n"] if section.title else []
        parts += [*above, head + "".join(lines)]
    return parts


def latex(table: Table) -> str:
    """Renders for booktabs and longtable: each line of ours over the published one, small."""
    table = with_results(table)
    grid = arrange(table)
    width = len(grid.stub) + len(grid.head)
    body: list[str] = []
    for section in grid.sections:
        if section.title:
            above = rf"\multicolumn{{{width}}}{{c}}{{{_tex(section.title)}}} \\"
            body += ([r"\midrule"] if body else []) + [above, r"\midrule"]
        body += [text for line in section.lines for text in _tex_lines(grid, line)]
    # the paper shrinks its wide tables too; a narrow one would be blown up
    wide = len(grid.head) > 8
    lines = [
        r"% \usepackage{booktabs,graphicx,longtable}", r"\begin{table}[htb]", r"\centering",
        *([r"\resizebox{\textwidth}{!}{%"] if wide else []),
        rf"\begin{{tabular}}{{{'l' * len(grid.stub)}{'r' * len(grid.head)}}}", r"\toprule",
        _tex_line([*grid.stub, *grid.head]), r"\midrule", *body, r"\bottomrule",
        r"\end{tabular}" + "}" * wide,
        rf"\caption{{{_tex(' '.join(captions(table)))}}}",
        rf"\label{{table:{_label(table)}}}", r"\end{table}",
    ]  # fmt: skip
    return "\n".join([*lines, *_tex_statistics(table)]) + "\n"


def html(table: Table) -> str:
    """Renders two ``table`` elements, cells and statistics; the page brings the style."""
    table = with_results(table)
    grid = arrange(table)
    first, *notes = captions(table)
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in (*grid.stub, *grid.head))
    body = []
    for section in grid.sections:
        above = ""
        if section.title:
            width = len(grid.stub) + len(grid.head)
            above = f'<tr class="section"><th colspan="{width}">{escape(section.title)}</th></tr>\n'
        body.append("<tbody>\n" + above + "".join(map(_html_line, section.lines)) + "</tbody>\n")
    text = f"<b>{escape(title(table))}</b> {escape(first)} <small>{escape(' '.join(notes))}</small>"
    return (
        f'<figure>\n<figcaption>{text}</figcaption>\n<div class="scroll"><table class="cells">\n'
        f"<thead><tr>{head}</tr></thead>\n{''.join(body)}</table></div>\n"
        + html_statistics(table, "Seeds, medians, success", is_open=True)
        + "</figure>\n"
    )


def tidy(table: Table) -> str:
    """Renders CSV with one line per cell and all its fields; numbers have full precision."""
    table = with_results(table)
    places = itertools.product(table.rows, table.columns, table.spec.measures.items())
    records = []
    for row, column, (key, measure) in places:
        labels = {
            "table": table.spec.name, "row": row.key, "row_label": row.label,
            "given": _given(table, row, column), "column": column.key, "column_label": column.label,
            "measure": key, "measure_label": measure.label,
            "metric": measure.metric, "split": measure.split,
        }  # fmt: skip
        cell = table.cells[row.key, column.key, key]
        published = {"published_source": source(table) if cell.published else None}
        records.append({**labels, **_fields(cell), **published, **_whole(table)})
    records = [{key: inert(value) for key, value in record.items()} for record in records]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(records[0]) if records else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue()


FORMATS: dict[str, Callable[[Table], str]] = {
    "md": markdown, "latex": latex, "html": html, "csv": tidy,
}  # fmt: skip
SUFFIXES = {"md": ".md", "latex": ".tex", "html": ".html", "csv": ".csv"}


def together(tables: Iterable[Table], form: str) -> str:
    """Renders tables below each other; as CSV, which has the same columns in each, with one head.

    Args:
        tables: the tables.
        form: one of :data:`FORMATS`.
    """
    texts = [FORMATS[form](table) for table in tables]
    if form != "csv":
        return "\n".join(texts) + "\n"
    head = len(texts[0].partition("\n")[0]) + 1 if texts else 0
    return "".join(text[head * (index > 0) :] for index, text in enumerate(texts))


def _given(table: Table, row: Heading, column: Heading) -> str:
    """Returns what the row or the column is given by hand."""
    across = table.spec.columns.given if table.spec.columns else {}
    return across.get(column.key) or table.spec.rows.given.get(row.key, "")


def _whole(table: Table) -> dict[str, object]:
    sweep = table.sweep
    return {
        "problem": table.problem, "preset": sweep and sweep.preset,
        "preset_changes": sweep and sweep.changed,
    }  # fmt: skip


def _fields(cell: TableCell) -> dict[str, object]:
    theirs, rate, to = cell.published, cell.rate, cell.difference
    return {
        "value": cell.value, "text": cell.text, "bold": cell.bold,
        "published_text": theirs and theirs.text, "published_value": theirs and theirs.value,
        "published_qualifier": theirs and theirs.qualifier,
        "published_bold": theirs and theirs.bold,
        "n": cell.n, "median": cell.median, "low": cell.low, "high": cell.high,
        "confidence": cell.confidence, "solved": rate and rate.successes,
        "rate": rate and rate.rate, "rate_low": rate and rate.low, "rate_high": rate and rate.high,
        "solved_at": cell.solved_at, "diverged": cell.diverged, "failed": cell.failed,
        "setting_id": cell.setting_id, "setting": cell.setting, "seed": cell.seed,
        "step": cell.step, "difference": to and to.estimate, "difference_low": to and to.low,
        "difference_high": to and to.high, "reference": cell.reference,
    }  # fmt: skip


def inert(value: object) -> object:
    """Returns a CSV cell's value: a text that a spreadsheet would calculate gets an apostrophe."""
    if not isinstance(value, str) or value[:1] not in _FORMULA:
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def _md(text: str) -> str:
    return re.sub(r"([\\|*_<\[\]`])", r"\\\1", text).replace("\n", " ")


def _md_line(texts: Iterable[str]) -> str:
    return "| " + " | ".join(texts) + " |\n"


def _md_cell(cell: TableCell) -> str:
    ours = f"**{_md(cell.text)}**" if cell.bold else _md(cell.text)
    return ours if cell.published is None else f"{ours} ({_md(cell.published.text)})"


def _tex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _label(table: Table) -> str:
    return re.sub("[^A-Za-z0-9-]+", "-", table.name)


def _tex_line(texts: Sequence[str]) -> str:
    return " & ".join(map(_tex, texts)) + r" \\"


def _tex_lines(grid: Grid, line: Line) -> list[str]:
    labels = [_tex(label) for label in line.labels]
    ours = [rf"\textbf{{{_tex(c.text)}}}" if c.bold else _tex(c.text) for c in line.cells]
    lines = [" & ".join([*labels, *ours]) + r" \\"]
    if any(cell.published for cell in line.cells):
        theirs = [
            rf"{{\scriptsize ({_tex(cell.published.text)})}}" if cell.published else ""
            for cell in line.cells
        ]
        lines.append(" & ".join([*[""] * len(grid.stub), *theirs]).strip() + r" \\[2pt]")
    return lines


def _tex_statistics(table: Table) -> list[str]:
    plain = statistics(table)
    if not plain.lines:
        return []
    return [
        "", r"\begingroup\scriptsize\setlength{\tabcolsep}{3pt}",
        rf"\begin{{longtable}}{{{'l' * len(plain.head)}}}",
        rf"\caption{{{_tex(statistics_note(table))}}} \\", r"\toprule", _tex_line(plain.head),
        r"\midrule", r"\endhead", *map(_tex_line, plain.lines), r"\bottomrule",
        r"\end{longtable}", r"\endgroup",
    ]  # fmt: skip


def _html_line(line: Line) -> str:
    labels = "".join(f'<th scope="row">{escape(label)}</th>' for label in line.labels)
    return f"<tr>{labels}{''.join(map(_html_cell, line.cells))}</tr>\n"


def _html_cell(cell: TableCell) -> str:
    ours = f"<b>{escape(cell.text)}</b>" if cell.bold else escape(cell.text)
    if cell.published is None:
        return f"<td>{ours}</td>"
    return f'<td>{ours} <span class="published">({escape(cell.published.text)})</span></td>'


def html_statistics(table: Table, summary: str, *, is_open: bool) -> str:
    """Returns the statistics below a table as a part that opens; empty if there are none.

    Args:
        table: the table.
        summary: the line that opens it.
        is_open: whether it is open at first.
    """
    plain = statistics(table)
    if not plain.lines:
        return ""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in plain.head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in line) + "</tr>\n"
        for line in plain.lines
    )
    return (
        f"<details{' open' * is_open}><summary>{escape(summary)}</summary>\n"
        f"<p>{escape(statistics_note(table))}</p>\n"
        f'<div class="scroll" tabindex="0"><table class="statistics">\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div></details>\n"
    )
