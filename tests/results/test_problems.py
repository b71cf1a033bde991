"""Rows of several problems in one store: a table and a figure for each, never a mixture."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from nalu_ray import registry
from nalu_ray.report import main
from nalu_ray.results.analysis.groups import problems
from nalu_ray.results.output.formats import FORMATS
from nalu_ray.results.output.save import file_name, present
from nalu_ray.results.output.terminal import show
from nalu_ray.results.specs import Axis, FigureSpec, Measure, TableSpec, TaskSpecs
from nalu_ray.results.store.store import Store
from tests.results.samples import build_each, fill, frame, mse, run

FIELDS = ("inputs", "train_range", "test_range")
WIDE = {"inputs": 100, "train_range": "[0.0, 1.0]", "test_range": "[0.0, 3.0]"}
NARROW = {"inputs": 100, "train_range": "[0.0, 0.01]", "test_range": "[0.0, 0.03]"}
WIDE_LABEL = "train_range=0:1, test_range=0:3"
NARROW_LABEL = "train_range=0:0.01, test_range=0:0.03"


def table(**changes: Any) -> TableSpec:
    measure = Measure(metric="mse", split="extrapolation", label="E", relative_to="random_mse")
    base = TableSpec(
        name="small",
        caption="Small.",
        rows=Axis(field="op"),
        columns=Axis(field="layer"),
        measures={"extrapolation": measure},
        reference="random_mse",
        problem=FIELDS,
    )
    return base.model_copy(update=changes)


FIGURE = FigureSpec(
    name="learning",
    caption="Learning.",
    metric="mse",
    split="extrapolation",
    x="step",
    lines=Axis(field="layer"),
    x_label="x",
    y_label="y",
    problem=FIELDS,
)


def model(data: dict[str, Any], error: float, random: float, seeds: int = 3) -> pd.DataFrame:
    setting = {"layer": "nac", "op": "add", **data}
    logs = mse({0: error}, {0: error}, random_mse=random)
    return frame(*(run(setting, seed, logs) for seed in range(seeds)))


def both() -> pd.DataFrame:
    """A wide problem, half solved, and one whose numbers are ten thousand times smaller."""
    return frame(model(NARROW, 2e-4, 1e-3, seeds=2), model(WIDE, 5.0, 10.0))


def test_neither_references_nor_selection_cross_problems() -> None:
    wide, narrow = build_each(table(), both())
    assert (wide.problem, narrow.problem) == (WIDE_LABEL, NARROW_LABEL)
    place = ("add", "nac", "extrapolation")
    assert (wide.cells[place].value, wide.cells[place].n) == (50.0, 3)
    assert narrow.cells[place].value == pytest.approx(20.0)
    assert narrow.cells[place].n == 2
    random = ("add", "random", "extrapolation")
    assert (wide.cells[random].value, narrow.cells[random].value) == (10.0, 1e-3)


def test_one_problem_changes_nothing() -> None:
    rows = frame(model(WIDE, 5.0, 10.0), model({**WIDE, "lr": 0.1}, 4.0, 10.0))
    ((label, kept),) = problems(table(), rows)
    assert label == ""
    assert kept is rows
    for without in (rows.drop(columns=list(FIELDS)), rows.iloc[:0]):
        assert [label for label, _ in problems(table(), without)] == [""]
    assert len(problems(table(problem=()), both())) == 1


def test_labels_hold_what_differs_and_the_most_runs_come_first() -> None:
    found = problems(table(), both().sample(frac=1.0, random_state=1))
    assert [label for label, _ in found] == [WIDE_LABEL, NARROW_LABEL]
    assert [len(part) for _, part in found] == [15, 10]
    even = frame(model(WIDE, 1.0, 1.0), model({**WIDE, "inputs": 7}, 1.0, 1.0))
    assert [label for label, _ in problems(FIGURE, even)] == ["inputs=100", "inputs=7"]


def test_equal_values_are_one_problem_however_stored() -> None:
    odd = {**WIDE, "inputs": 100.0, "train_range": "[0, 1]"}
    rows = frame(model(WIDE, 1.0, 1.0), model(odd, 2.0, 1.0)).astype({"inputs": object})
    assert len(problems(table(), rows)) == 1
    close = frame(
        *(model({"inputs": 1, "test_range": f"[0.0, {x}]"}, 1.0, 1.0) for x in (1.0000001, 1.0))
    )
    assert len(problems(table(), close)) == 2


def test_rows_without_a_field_that_others_have_are_apart() -> None:
    part = {name: value for name, value in WIDE.items() if name != "inputs"}
    rows = frame(model(WIDE, 1.0, 1.0), model(part, 1.0, 1.0, seeds=1))
    assert [label for label, _ in problems(table(), rows)] == ["inputs=100", "inputs=none"]


def test_an_axis_keeps_its_own_values_apart() -> None:
    rows = frame(model(WIDE, 1.0, 1.0), model({**WIDE, "inputs": 7}, 1.0, 1.0))
    assert len(problems(table(rows=Axis(field="inputs")), rows)) == 1
    assert len(problems(table(rows=Axis(field="inputs"), models="rows"), rows)) == 2
    assert len(problems(FIGURE.model_copy(update={"panels": Axis(field="inputs")}), rows)) == 1


def test_rows_of_any_index_and_type() -> None:
    rows = both().astype({"setting_id": "category", "train_range": "category"})
    rows.index = np.zeros(len(rows), dtype=int)  # type: ignore[assignment]
    assert [len(part) for _, part in problems(table(), rows)] == [15, 10]


# -- what is printed and written -----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["md", "latex", "html"])
def test_each_table_says_which_problem_it_is(kind: str) -> None:
    for made in build_each(table(), both()):
        text = FORMATS[kind](made).replace("\\", "")
        assert f"Data: {made.problem}." in text
    (alone,) = build_each(table(), model(WIDE, 5.0, 10.0))
    assert "Data:" not in FORMATS[kind](alone)


def test_labels_of_latex_and_lines_of_csv_differ() -> None:
    wide, narrow = build_each(table(), both())
    assert r"\label{table:small-train-range-0-1-test-range-0-3}" in FORMATS["latex"](wide)
    lines = list(csv.DictReader(io.StringIO(FORMATS["csv"](narrow))))
    assert {line["problem"] for line in lines} == {NARROW_LABEL}
    (alone,) = build_each(table(), model(WIDE, 5.0, 10.0))
    assert r"\label{table:small}" in FORMATS["latex"](alone)
    assert {x["problem"] for x in csv.DictReader(io.StringIO(FORMATS["csv"](alone)))} == {""}


def test_the_terminal_says_which() -> None:
    console = Console(file=io.StringIO(), width=100)
    for made in build_each(table(), both()):
        show(made, console)
    assert isinstance(console.file, io.StringIO)
    text = " ".join(console.file.getvalue().split())
    assert f"Small. Data: {WIDE_LABEL}." in text
    assert f"Small. Data: {NARROW_LABEL}." in text


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(str(tmp_path / "results"))
    fill(made, "static", both(), ["layer", "op", *FIELDS])
    made.write_specs(
        TaskSpecs(task="static", title="S", section="", tables=(table(),), figures=(FIGURE,))
    )
    return made


def test_a_file_for_each_problem(store: Store, tmp_path: Path) -> None:
    written = present(store, "static", Console(file=io.StringIO()), str(tmp_path / "to"))
    ends = ("train_range_0_1_test_range_0_3", "train_range_0_0.01_test_range_0_0.03")
    assert {Path(path).name for path in written} == {
        *(f"small_{end}.{kind}" for end in ends for kind in ("md", "csv")),
        *(f"learning_{end}{kind}" for end in ends for kind in (".png", "-dark.png", ".pdf")),
    }


def test_the_page_has_each_problem(store: Store, tmp_path: Path) -> None:
    assert main(["--html", "--out", store.out, "--to", str(tmp_path)]) == 0
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    for label in (WIDE_LABEL, NARROW_LABEL):
        assert f"Small. Data: {label}." in text
        assert f"Learning. Data: {label}. Preset: not recorded." in text


def test_file_names_stay_short_and_apart() -> None:
    assert file_name("static", "") == "static"
    names = {file_name("static", "x" * 300 + end) for end in "ab"}
    assert len(names) == 2
    assert max(map(len, names)) < 150


@pytest.mark.parametrize("name", registry.names())
def test_tasks_name_fields_of_their_settings(name: str) -> None:
    task = registry.task(name)
    specs = [*task.tables, *task.figures]
    assert all(spec.problem for spec in specs)
    fields = {field for spec in specs for field in spec.problem}
    fields |= {field for spec in task.tables for field in spec.reference_by}
    assert fields <= set(task.setting_type.model_fields)
    assert json.loads(specs[0].model_dump_json())["problem"] == list(specs[0].problem)


APART = {"madsen_nested": {"section", "overlap"}}  # operands=nested reads neither
SIZES = {"hidden"}  # of the network: one table's condition, not data
FURTHER = {
    "gridworld": {"far_instructions"},
    "identity": {"figure_limit"},
    "single_module": {"train_range", "test_range", "test_signs", "distribution", "weight_error"},
    "static": {"train_range", "test_range", "sets", "threshold"},
}


@pytest.mark.parametrize("name", registry.names())
def test_every_table_is_of_one_problem(name: str) -> None:
    """What parts one table of a task, or must, parts or is shown by each of its others."""
    task = registry.task(name)
    specs = [*task.tables, *task.figures]
    data = {field for spec in specs for field in [*spec.problem, *spec.follows]}
    data |= FURTHER.get(name, set())
    assert data <= set(task.setting_type.model_fields)
    for spec in specs:
        axes = (
            [spec.rows, spec.columns] if isinstance(spec, TableSpec) else [spec.lines, spec.panels]
        )
        shown = {axis.field for axis in axes if axis}
        shown |= {spec.x} if isinstance(spec, FigureSpec) else {*spec.where, spec.pooled or ""}
        if spec.name.endswith("_cost"):  # time and parameters, of all problems of a unit
            shown |= {"op", "train_range"}
        left = data - {*spec.problem, *spec.follows} - shown - SIZES
        assert left == APART.get(spec.name, set()), spec.name


def test_a_range_that_follows_another() -> None:
    follows = {"test_range": "train_range"}
    ranges = Axis(field="train_range")
    spec = table(
        rows=Axis(field="layer"), columns=ranges, problem=(), follows=follows, models="rows"
    )
    deviating = {**NARROW, "test_range": "[0.0, 5.0]"}
    usual = pd.concat([model(WIDE, 1.0, 2.0), model(NARROW, 1.0, 2.0)])
    assert [label for label, _ in problems(spec, usual)] == [""]
    rows = pd.concat([usual, model(deviating, 4.0, 2.0, seeds=2)])
    ((main, kept), (other, apart)) = problems(spec, rows)
    assert (main, other) == ("test_range=most frequent", "test_range=0:5")
    assert set(kept["test_range"]) == {WIDE["test_range"], NARROW["test_range"]}
    assert set(apart["test_range"]) == {"[0.0, 5.0]"}
