"""Every number of the paper's tables, and whether stored rows reproduce it, by one rule."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from nalu_ray.results import published
from nalu_ray.results.analysis.cells import TableCell
from nalu_ray.results.analysis.groups import SMOKE
from nalu_ray.results.analysis.references import RANDOM
from nalu_ray.results.analysis.table import DOUBTED, Place, Table, printed_place
from nalu_ray.results.specs import Measure

REPRODUCED, BETTER, WORSE = "reproduced", "better", "worse"
MISSING, IMPOSSIBLE, NOT_RUN = "not reproduced", "cannot be", "not run"
VERDICTS = (REPRODUCED, BETTER, WORSE, MISSING, IMPOSSIBLE, NOT_RUN)
FACTOR = 1.1
OURS = ("laptop", "paper")  # presets that were made to reproduce the paper
RULE = (
    f"{REPRODUCED}: prints as the published number does, or is within a factor of {FACTOR} of it "
    f"(for an accuracy, the error rates are within that factor); {BETTER} or {WORSE}: by more "
    f"than that; {MISSING}: all runs were lost, the error is too large for float32, or a random "
    f"model's number is on another scale; "
    f"{IMPOSSIBLE}: the published number contradicts another one; {NOT_RUN}: no row is stored."
)


@dataclass(frozen=True)
class Judged:
    """One published number.

    Attributes:
        place: row, column and split, as :mod:`nalu_ray.results.published` names them.
        printed: the published number; with what it is compared with, where that differs.
        ours: our number as printed; empty if none is stored.
        label: our row and column, where several stand for one of the paper's.
        given: those of our row and column labels that name what is set by hand.
        verdict: one of ``VERDICTS``.
        sweep: the preset of our number.
    """

    place: Place
    printed: str
    ours: str
    label: str
    verdict: str
    sweep: str = ""
    given: str = ""


def entries(number: int, tables: Iterable[Table]) -> list[Judged]:
    """Judges all numbers of a published table, in the order in which it prints them.

    Args:
        number: of the table, 1 to 11.
        tables: filled ones, in order of preference, of which those of the presets ``OURS`` come
            first; those of smoke runs, and those without this number, are left out.
    """
    of_place: dict[Place, list[Judged]] = {}
    for table in sorted(tables, key=lambda table: not (table.sweep and table.sweep.preset in OURS)):
        smoke = table.sweep is not None and table.sweep.preset == SMOKE
        if table.spec.number != number or smoke:
            continue
        here: dict[Place, list[Judged]] = {}
        for (row, column, key), cell in table.cells.items():
            if cell.published is not None:
                other = _of_other_data(table, cell)
                kept = TableCell(published=cell.published) if other else cell
                place = printed_place(table.spec, row, column, key)
                here.setdefault(place, []).append(_judged(table, (row, column, key), place, kept))
        for place, judged in here.items():
            if not any(entry.ours for entry in of_place.get(place, [])):
                of_place[place] = _told_apart([e for e in judged if e.ours] or judged[:1])
    frame = published.load(number)
    columns = zip(frame["row"], frame["column"], frame["split"], frame["text"], strict=True)
    return [
        entry
        for row, column, split, text in columns
        for entry in of_place.get(
            (row, column, split), [Judged((row, column, split), text, "", "", NOT_RUN)]
        )
    ]


def _of_other_data(table: Table, cell: TableCell) -> bool:
    """Returns whether a cell's setting changes what the preset has for the paper's data."""
    tuned = table.sweep.tuned if table.sweep else {}
    return not {*table.spec.problem}.isdisjoint(tuned.get(cell.setting_id or "", {}))


def verdict(measure: Measure, cell: TableCell, *, random: bool = False) -> str:
    """Judges one cell that has a published value, by ``RULE``.

    Args:
        measure: the number, whose ``better`` says which side of the published one is better.
        cell: ours, with the published value.
        random: whether it is a random model's, which is neither better nor worse.
    """
    printed = cell.published
    assert printed is not None
    if cell.value is None:
        return NOT_RUN
    if DOUBTED in printed.text:
        return IMPOSSIBLE
    if not math.isfinite(cell.value):
        return MISSING
    if _agrees(measure, cell, printed):
        return REPRODUCED
    if random:
        return MISSING
    target = printed.value * measure.published_scale
    return BETTER if (cell.value > target) == measure.highest else WORSE


def _agrees(measure: Measure, cell: TableCell, printed: published.Published) -> bool:
    value, target = cell.value or 0.0, printed.value * measure.published_scale
    if printed.qualifier:
        return value <= target if printed.qualifier == "<" else value >= target
    # half a unit of the last digit that is printed
    digits = len(printed.text.partition("%")[0].partition(";")[0].partition(".")[2])
    rounding = 0.5 * 10.0**-digits * measure.published_scale
    close = abs(value - target) <= rounding * (1 + 1e-9)
    # an accuracy, whether or not its table prints the sign: 90 % is far from 99 %
    if measure.highest and (printed.text.endswith("%") or measure.scale == 100):
        value, target = 100 - value, 100 - target
    low, high = sorted((target / FACTOR, target * FACTOR))
    return close or low <= value <= high


def _told_apart(judged: list[Judged]) -> list[Judged]:
    """Removes the label of a single row, except for what it was given by hand."""
    return judged if len(judged) > 1 else [replace(e, label=e.given) for e in judged]


def _judged(table: Table, at: Place, place: Place, cell: TableCell) -> Judged:
    row, column, key = at
    labels = {heading.key: heading.label for heading in (*table.rows, *table.columns)}
    given = [labels[name] for name in (row, column) if "@" in name]
    shown = [labels[name] for name in (row, column) if name]
    stored = cell.value is not None
    return Judged(
        place=place,
        printed=cell.published.text if cell.published else "",
        ours=cell.text if stored else "",
        label=", ".join(shown),
        given=", ".join(given),
        verdict=verdict(table.spec.measures[key], cell, random=RANDOM in (row, column)),
        sweep=table.sweep.label if stored and table.sweep else "",
    )
