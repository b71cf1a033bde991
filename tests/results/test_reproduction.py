"""The verdicts on the paper's numbers, from sample rows."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from pathlib import Path

import pandas as pd
import pytest

from nalu_ray import registry
from nalu_ray.results import published
from nalu_ray.results.analysis.cells import TableCell
from nalu_ray.results.analysis.groups import Sweep
from nalu_ray.results.analysis.references import RANDOM
from nalu_ray.results.analysis.reproduction import VERDICTS, entries, verdict
from nalu_ray.results.analysis.table import build, printed_place
from nalu_ray.results.output.reproduction import page
from nalu_ray.results.published import Published
from nalu_ray.results.specs import Measure
from tests.results.samples import TABLE_7, frame, mse, run

ERROR = Measure(metric="mse", split="extrapolation", label="E")
PER_CENT = Measure(metric="accuracy", split="test", label="%", scale=100, better="higher")


@pytest.mark.parametrize(
    ("measure", "value", "text", "wanted"),
    [
        (ERROR, 4.0, "4.2", "reproduced"),
        (ERROR, 4.7, "4.2", "worse"),
        (ERROR, 3.0, "4.2", "better"),
        (ERROR, 0.04, "0.0", "reproduced"),
        (ERROR, 0.06, "0.0", "worse"),
        (ERROR, 9e-5, "<.0001", "reproduced"),
        (ERROR, 2e-4, "<.0001", "worse"),
        (ERROR, 5e4, ">999.9", "reproduced"),
        (ERROR, 50.0, ">999.9", "better"),
        (ERROR, float("inf"), "4.2", "not reproduced"),
        (ERROR, None, "4.2", "not run"),
        (ERROR, None, "4.2‡", "not run"),
        (ERROR, 4.2, "4.2‡", "cannot be"),
        (PER_CENT, 91.5, "93.1", "worse"),  # without the sign, as in Table 4
        (PER_CENT, 97.5, "97.6%", "reproduced"),
        (PER_CENT, 97.0, "97.6%", "worse"),
        (PER_CENT, 99.0, "97.6%", "better"),
        (PER_CENT, 60.0, "97.6%", "worse"),
        (PER_CENT, 97.6, "60.0%", "better"),
    ],
)
def test_the_rule(measure: Measure, value: float | None, text: str, wanted: str) -> None:
    number = Published(text, float(text.strip("<>%‡")), text[0] if text[0] in "<>" else "", False)
    assert verdict(measure, TableCell(value=value, text="", published=number)) == wanted


def test_half_of_a_doubled_error_is_compared() -> None:
    halved = ERROR.model_copy(update={"published_scale": 0.5})
    cell = TableCell(value=2.1, text="2.1", published=Published("4.2; 2.1", 4.2, "", False))
    assert verdict(halved, cell) == "reproduced"
    assert verdict(halved, replace(cell, value=4.2)) == "worse"


def test_a_random_models_error_is_neither_better_nor_worse() -> None:
    cell = TableCell(value=1.0, text="1.0", published=Published("4.2", 4.2, "", False))
    assert verdict(ERROR, cell, random=True) == "not reproduced"


def kept_page() -> str:
    page_of_rows = Path(__file__).parents[2] / "docs" / "reproduction.md"
    return page_of_rows.read_text(encoding="utf-8")


def printed(number: int, row: str, column: str, split: str) -> float:
    found = published.lookup(number, row, column, split)
    assert found is not None
    return found.value


def sample_table(preset: str = "laptop"):  # type: ignore[no-untyped-def]
    logs = mse({9: 1.0}, {9: 30.0}, random_mse=1000.0)
    table = build(TABLE_7, frame(run({"layer": "nac", "op": "add"}, 0, logs)))
    return replace(table, sweep=Sweep(preset))


def test_every_number_of_a_table_has_a_verdict_and_equals_the_rows() -> None:
    judged = entries(7, [sample_table()])
    assert len(judged) == len(published.load(7))
    (ours,) = [entry for entry in judged if entry.ours and entry.place[2] == "extrapolation"]
    assert ours.place == ("add", "nac", "extrapolation")
    # 30 of 1000, where 0.0 was published
    assert (ours.printed, ours.ours, ours.verdict, ours.sweep) == ("0.0", "3.0", "worse", "laptop")
    assert {e.verdict for e in judged if not e.ours} == {"not run"}


def test_smoke_runs_reproduce_nothing() -> None:
    assert {entry.verdict for entry in entries(7, [sample_table("smoke")])} == {"not run"}


@pytest.mark.parametrize("preset", ["laptop", "paper"])
def test_a_preset_that_was_not_made_for_the_paper_stands_behind_one_that_was(preset: str) -> None:
    """Such as the survey of every unit by one recipe, which may have many more runs."""
    for tables in (["units", preset], [preset, "units"], ["", preset]):
        judged = entries(7, map(sample_table, tables))
        assert {entry.sweep for entry in judged if entry.ours} == {preset}
    assert {e.sweep for e in entries(7, [sample_table("units")]) if e.ours} == {"units"}


def test_the_page_counts_every_number_and_says_why() -> None:
    text = page([sample_table()])
    assert set(published.reasons()) == set(published.TABLES)
    for number, reason in published.reasons().items():
        assert f"## Table {number}\n\n{reason}" in text
    lines = [line for line in text.splitlines() if line.startswith("| [")]
    counts = [sum(int(cell) for cell in line.split("|")[2:8]) for line in lines]
    assert counts == [len(published.load(number)) for number in published.TABLES]
    assert all(verdict in text for verdict in VERDICTS)
    # a number of a reason, of those that follow the table
    line = r"\| add \| nac \| extrapolation \| 0.0 \| 3.0 \| worse \| \d+ \|  \| laptop \|"
    assert re.search(line, text)
    assert f"\n1. {published.reason(7, ('add', 'nac', 'extrapolation'), 'worse')}\n" in text


@pytest.mark.parametrize(
    ("judgement", "least"), [("worse", 100), ("not reproduced", 20), ("cannot be", 20)]
)
def test_every_number_that_is_not_reached_has_a_reason(judgement: str, least: int) -> None:
    lines = kept_page().splitlines()
    found = [line.split(" | ") for line in lines if re.search(rf"{judgement} \| \d* \|", line)]
    assert len(found) >= least
    assert [cells for cells in found if not cells[6].isdecimal()] == []


def test_every_reason_is_that_of_a_number() -> None:
    known = kept_page()
    said = pd.read_csv(Path(published.__file__).with_name("reasons.csv"))["reason"]
    assert [reason for reason in said if reason not in known] == []


def test_a_reason_is_that_of_the_first_line_that_names_the_place() -> None:
    assert published.reason(7, ("mul", "tanh", "extrapolation"), "worse").startswith("These units")
    assert published.reason(7, ("mul", "relu", "extrapolation"), "worse").startswith("Beyond")
    assert not published.reason(7, ("mul", "relu", "extrapolation"), "better")
    of_a, of_sum = (
        published.reason(8, ("random", op, "extrapolation"), "not reproduced")
        for op in ("a", "add")
    )
    assert of_a.startswith("The error of an untrained LSTM")
    assert of_sum.startswith("The published")


def test_cells_that_cannot_be_contradict_another_one() -> None:
    """What the reasons of Tables 2, 7 and 10 say of the printed numbers."""
    lstm = ("lstm", "addition_mae_1000")
    absolute = published.load(2)
    for row, column in zip(absolute["row"], absolute["column"], strict=True):
        if "mae" not in column:
            continue
        other = column.replace("mae", "mse")
        why = published.reason(2, (row, column, "test"), "cannot be")
        why_squared = published.reason(10, (row, other, "test"), "cannot be")
        assert why
        assert why_squared
        assert ("one part in a thousand" in why) == ((row, column) == lstm)
        assert ("two parts in a thousand" in why_squared) == ((row, column) == lstm)
        if (row, column) == lstm:
            mse = printed(10, row, other, "test")
            ratio = printed(2, row, column, "test") / 2 / (mse / 2) ** 0.5
            assert 1.0005 < ratio < 1.0015
    for layer, text in ("tanh", "0.8"), ("sigmoid", "0.2"):
        place = ("sqrt", layer, "interpolation")
        raw = printed(6, *place) / printed(6, "sqrt", "random", "interpolation")
        assert f"{text} ({layer})" in published.reason(7, place, "cannot be")
        assert f"{100 * raw:.1f}" == text != f"{printed(7, *place):.1f}"


def test_each_number_of_the_paper_has_a_place_in_a_table() -> None:
    places: dict[int, set[tuple[str, str, str]]] = {number: set() for number in published.TABLES}
    for name in registry.names():
        for spec in registry.task(name).specs().tables:
            down = [*spec.rows.labels, RANDOM]
            across = [*(spec.columns.labels if spec.columns else [""]), RANDOM]
            for row, column, key in product(down, across, spec.measures):
                if spec.number is not None:
                    places[spec.number].add(printed_place(spec, row, column, key))
    for number, known in places.items():
        frame = published.load(number)
        assert set(zip(frame["row"], frame["column"], frame["split"], strict=True)) <= known


def test_a_given_memory_is_named_and_a_row_without_it_has_its_own_line() -> None:
    (spec,) = [table for table in registry.task("recurrent").specs().tables if table.number == 9]
    logs = mse({9: 1.0}, {9: 30.0}, random_mse=1000.0)
    given = run({"layer": "nac", "op": "add", "memory_init": 110.0}, 0, logs)
    learned = run({"layer": "nac", "op": "add", "memory_init": float("nan")}, 0, logs)
    for rows, labels in (
        ([given], ["NAC, memory given"]),
        ([given, learned], ["NAC, a + b", "NAC, memory given, a + b"]),
    ):
        judged = entries(9, [replace(build(spec, frame(*rows)), sweep=Sweep("laptop"))])
        at = [entry for entry in judged if entry.place == ("nac", "add", "extrapolation")]
        assert [entry.label for entry in at] == labels
