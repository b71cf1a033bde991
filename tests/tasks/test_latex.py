"""The LaTeX of every table of every task, by a strict reader: no LaTeX is needed.

The reader knows only the commands that the tables use. It wants balanced braces and environments, a
line of each table to have as many cells as columns, special characters escaped, and characters that
pdfLaTeX has without further packages.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest

from nalu_ray.registry import tasks
from nalu_ray.results.analysis.groups import Sweep, shows, sweeps
from nalu_ray.results.analysis.table import Table, build_each
from nalu_ray.results.output.formats import _GREEK, _LATEX, _tex, latex
from nalu_ray.results.specs import Measure, TableSpec
from nalu_ray.sweep.presets import expand, sweep_of
from tests.tasks.test_captions import rows_of

ARGUMENTS = {
    "begin": 1, "end": 1, "caption": 1, "label": 1, "multicolumn": 3, "resizebox": 2,
    "setlength": 2, "textbf": 1, "textsuperscript": 1, "ensuremath": 1,
    "centering": 0, "toprule": 0, "midrule": 0, "bottomrule": 0, "endhead": 0, "begingroup": 0,
    "endgroup": 0, "scriptsize": 0, "tabcolsep": 0, "textwidth": 0, "textbackslash": 0,
    "textasciitilde": 0, "textasciicircum": 0, "textless": 0, "textgreater": 0, "textbar": 0,
    "times": 0, "div": 0, "surd": 0, "infty": 0, "pm": 0, "leq": 0, "neq": 0, "geq": 0,
    "ddagger": 0,
    "textbullet": 0, "cdot": 0, "approx": 0, "to": 0, "mu": 0, "ldots": 0,
    **{name: 0 for names in _GREEK.values() for name in names.split()},
}  # fmt: skip
NAMED = {"textless", "textgreater", "textbar", "textbullet", "ldots", "textbackslash"}  # characters
RULES = {r"\toprule", r"\midrule", r"\bottomrule", r"\endhead"}
TOKEN = re.compile(r"\\[A-Za-z]+|\\.|[{}&%$#_^~]|[^\\{}&%$#_^~]+", re.DOTALL)
LATIN = re.compile(r"[\x20-\x7e\n\u00c0-\u017f]*")  # letters with accents are known to pdfLaTeX
BODY = re.compile(r"\\begin\{(tabular|longtable)\}\{([lrc]+)\}\n(.*?)\\end\{\1\}", re.DOTALL)


def read(text: str) -> list[tuple[int, list[list[str]]]]:
    """Returns the number of columns and the lines of cells of each table in a text.

    Raises:
        ValueError: LaTeX would stop at the text, or print something else.
    """
    text = re.sub(r"(?m)(?<!\\)%.*$", "", text)  # comments
    if not LATIN.fullmatch(text):
        strange = sorted({c for c in text if not LATIN.fullmatch(c)})
        raise ValueError(f"pdfLaTeX does not know {strange}")
    _commands(text)
    bodies = [(len(columns), _lines(body)) for _, columns, body in BODY.findall(text)]
    if len(bodies) != text.count(r"\begin{tabular}") + text.count(r"\begin{longtable}"):
        raise ValueError("a table without columns")
    if "&" in BODY.sub("", text).replace(r"\&", ""):
        raise ValueError("& outside of a table")
    for columns, lines in bodies:
        for cells in lines:
            if sum(map(_width, cells)) != columns:
                raise ValueError(f"{columns} columns, but the line {cells}")
    return bodies


def _commands(text: str) -> None:
    tokens, depth = TOKEN.findall(text), 0
    for at, token in enumerate(tokens):
        depth += (token == "{") - (token == "}")
        if depth < 0 or token in "%$#_^~":
            raise ValueError(f"{token!r} at {''.join(tokens[at - 3 : at + 3])!r}")
        if token[0] == "\\" and token[1:].isalpha():
            _command(token[1:], next(iter(tokens[at + 1 : at + 2]), ""))
    if depth:
        raise ValueError(f"{depth} braces are not closed")
    begun: list[str] = []
    for kind, name in re.findall(r"\\(begin|end)\{(\w+)\}", text):
        if kind == "begin":
            begun.append(name)
        elif not begun or begun.pop() != name:
            raise ValueError(f"\\end{{{name}}} without its beginning")
    if begun or text.count(r"\begingroup") != text.count(r"\endgroup"):
        raise ValueError(f"not ended: {begun}")


def _command(name: str, after: str) -> None:
    if name not in ARGUMENTS:
        raise ValueError(f"unknown command {name}")
    if ARGUMENTS[name] and after != "{":
        raise ValueError(f"{name} without its argument")
    if not ARGUMENTS[name] and name in NAMED and after != "{" and not after.startswith(("}", "\\")):
        raise ValueError(f"{name} would take the space after it")


def _lines(body: str) -> list[list[str]]:
    lines = []
    *pieces, rest = re.split(r"(?<!\\)\\\\(?:\[\dpt\])?", body)
    if rest.strip() not in RULES:
        raise ValueError(f"after the last line: {rest!r}")
    for piece in pieces:
        line = piece.strip()
        while rule := next((rule for rule in RULES if line.startswith(rule)), None):
            line = line.removeprefix(rule).strip()
        if re.search(r"\\(top|mid|bottom)rule", line):
            raise ValueError(f"a rule inside the line {line!r}")
        if line[:1] in ("*", "["):
            raise ValueError(f"\\\\ would take {line[0]} as its own, in {line!r}")
        if not line.startswith(r"\caption"):
            lines.append(re.split(r"(?<!\\)&", line))
    return lines


def _width(cell: str) -> int:
    match = re.match(r"\s*\\multicolumn\{(\d+)\}", cell)
    return int(match[1]) if match else 1


def test_the_reader_is_strict() -> None:
    good = (
        "\\begin{table}\n\\begin{tabular}{lr}\n\\toprule\na & 5 \\% \\\\\n\\midrule\n"
        "\\multicolumn{2}{c}{x} \\\\\n\\bottomrule\n\\end{tabular}\n\\end{table}\n"
    )
    assert read(good) == [(2, [["a ", " 5 \\%"], ["\\multicolumn{2}{c}{x}"]])]
    wrong = [
        ("a & 5", "a 5"), ("5 \\%", "5_1"), ("{c}{x}", "{c}{x"), ("a &", "\\unknown &"),
        ("\\toprule\na", "\\toprule\n[a"), ("\\end{tabular}", "\\end{array}"), ("{x}", "{α}"),
        ("\\midrule", "\\midrule &"), ("a &", "\\textless a &"), ("& 5", "& \\textbf 5"),
        ("\\end{table}", "a & b \\end{table}"),
    ]  # fmt: skip
    for part, other in wrong:
        assert part in good
        with pytest.raises(ValueError, match=r"\w"):
            read(good.replace(part, other, 1))


def logged(spec: TableSpec) -> Iterator[tuple[str, str, float]]:
    """A number of every kind that a table may print, per metric and split."""
    values = itertools.cycle((0.0, 1e-7, 0.5, 12.5, 1e9))
    measures: list[Measure] = list(spec.measures.values())
    splits = {measure.split for measure in measures} | {spec.selection.split}
    metrics = {spec.selection.metric, spec.reference, spec.solved_below}
    metrics |= {name for m in measures for name in (m.metric, m.relative_to)}
    for metric, split in itertools.product(sorted(filter(None, metrics)), sorted(splits)):
        yield metric, split, next(values)


def tables_of(name: str) -> Iterator[Table]:
    """Every table of a task, filled with made-up rows of a preset that it shows."""
    task, settings = tasks()[name], dict[str, list[Any]]()
    presets = sweep_of(task).presets
    for spec in task.specs().tables:
        for preset in presets:
            if not shows(spec, Sweep(preset)):
                continue
            if preset not in settings:
                points = expand(presets[preset], task.setting_type, {})
                some = points[:: max(1, len(points) // 12)]  # of every layer and operation, a few
                settings[preset] = [point.setting.model_dump(mode="json") for point in some]
            rows = rows_of(name, *settings[preset], logged=[*logged(spec)])
            rows = rows.assign(preset=preset, changes='{"batch": "1_000"}')
            tables = build_each(spec, sweeps(spec, rows))
            if any(cell.n for table in tables for cell in table.cells.values()):
                break
        # one whose seeds are judged by a model's own stays without numbers
        assert spec.solved_like or any(c.n for table in tables for c in table.cells.values())
        yield from tables


@pytest.mark.parametrize("name", sorted(tasks()))
def test_latex_of_every_table_is_read(name: str) -> None:
    tables = [*tables_of(name)]
    assert {table.spec.name for table in tables} == {spec.name for spec in tasks()[name].tables}
    labels = []
    for table in tables:
        text = latex(table)
        first = read(text)[0]
        assert len(first[1]) > 1
        labels += re.findall(r"\\label\{(.*?)\}", text)
    assert len(set(labels)) == len(labels) == len(tables)


def test_every_character_that_is_replaced_is_read() -> None:
    written = _tex(f"a{'b'.join(_LATEX)}b")
    _commands(written)
    assert LATIN.fullmatch(written)
    assert r"b\ensuremath{\lambda}b\ensuremath{\mu}b" in written
