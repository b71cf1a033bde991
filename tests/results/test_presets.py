"""Rows of several presets in one store, budgets and references: what stands beside what."""

import csv
import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from nalu_ray import registry, report
from nalu_ray.results.analysis.curves import panels
from nalu_ray.results.analysis.groups import sweeps
from nalu_ray.results.analysis.paired import paired
from nalu_ray.results.analysis.reproduction import entries
from nalu_ray.results.analysis.table import Table, build
from nalu_ray.results.analysis.text import Budget, budget_sentence
from nalu_ray.results.output.captions import captions
from nalu_ray.results.output.figures import draw
from nalu_ray.results.output.formats import FORMATS, tidy
from nalu_ray.results.output.grid import spread, statistics
from nalu_ray.results.output.save import Stored, present
from nalu_ray.results.output.terminal import show
from nalu_ray.results.specs import Axis, FigureSpec, Measure, Selection, TableSpec, TaskSpecs
from nalu_ray.results.store.store import Store
from tests.results.samples import TABLE_7, build_each, fill, frame, full_static, mse, run

LAPTOP = {"preset": "laptop", "changes": "{}"}
SMOKE = {"preset": "smoke", "changes": "{}"}
ERROR = Measure(metric="mse", split="extrapolation", label="E", relative_to="random_mse")
SPEC = TableSpec(
    name="small",
    caption="Small.",
    rows=Axis(field="op"),
    columns=Axis(field="layer", labels={"nac": "NAC", "nalu": "NALU", "relu6": "ReLU6"}),
    measures={"extrapolation": ERROR},
    problem=("inputs",),
)
FIGURE = FigureSpec(
    name="learning",
    caption="Learning.",
    metric="mse",
    split="extrapolation",
    x="step",
    lines=Axis(field="layer"),
    relative_to="random_mse",
    x_label="x",
    y_label="y",
    problem=("inputs",),
)


def stored(
    about: dict[str, str],
    layer: str,
    error: float,
    random: float = 10.0,
    seeds: int = 2,
    **setting: Any,
) -> pd.DataFrame:
    """Runs of one setting that ended with an error, beside a random model's."""
    values = {"layer": layer, "op": "add", **setting}
    logs = mse({0: error}, {0: error}, random_mse=random)
    return frame(*(run(values, seed, logs) for seed in range(seeds))).assign(**about)


def changed(**values: Any) -> dict[str, str]:
    return {"preset": "laptop", "changes": json.dumps(values, sort_keys=True)}


def value(table: Table, layer: str) -> float | None:
    cell = table.cells.get(("add", layer, "extrapolation"))
    return cell.value if cell else None


def whole(table: Table) -> str:
    return " ".join(captions(table))


# -- presets -------------------------------------------------------------------------------------


def smoke_then_laptop() -> pd.DataFrame:
    return frame(
        stored(SMOKE, "nalu", 8.64, random=8.0, steps=20, test_size=32),
        stored(SMOKE, "relu6", 2.77, random=8.0, steps=20, test_size=32),
        stored(LAPTOP, "nac", 0.0, steps=10_000, test_size=1000, seeds=4),
        stored(LAPTOP, "relu6", 2.89, steps=5_000, test_size=1000, seeds=4),
    )


def test_smoke_stands_beside_nothing_and_says_that_it_is_no_result() -> None:
    laptop, smoke = build_each(SPEC, smoke_then_laptop())
    assert [heading.key for heading in laptop.columns] == ["nac", "nalu", "relu6"]
    assert value(laptop, "nac") == 0
    assert value(laptop, "nalu") is None
    assert value(laptop, "relu6") == pytest.approx(28.9)
    assert value(smoke, "nalu") == pytest.approx(108.0)
    assert value(smoke, "nac") is None
    assert "Preset: laptop. " in whole(laptop)
    assert "Preset: smoke (shows that everything runs; not a result)." in whole(smoke)
    # smoke comes last even where it has more runs
    more = frame(smoke_then_laptop(), stored(SMOKE, "nac", 1.0, steps=20, seeds=30))
    assert [t.sweep.preset for t in build_each(SPEC, more) if t.sweep] == ["laptop", "smoke"]


def test_storing_a_smoke_run_changes_no_cell_of_another_preset() -> None:
    rows = smoke_then_laptop()
    (alone,) = build_each(SPEC, rows[rows["preset"] == "laptop"])
    beside, _ = build_each(SPEC, rows)
    assert beside.cells == alone.cells
    assert whole(beside) == whole(alone)
    assert beside.name == alone.name == "small laptop"


def test_rows_of_older_versions_are_read_and_stand_apart() -> None:
    older = stored({}, "nalu", 5.0)
    assert "preset" not in older
    (alone,) = build_each(SPEC, older)
    assert value(alone, "nalu") == 50
    assert "Preset: not recorded." in whole(alone)
    assert alone.name == "small"
    tables = build_each(SPEC, frame(older, stored(LAPTOP, "nac", 1.0, seeds=3)))
    assert [t.sweep.preset for t in tables if t.sweep] == ["laptop", ""]
    assert [value(table, "nalu") for table in tables] == [None, 50]


def test_seeds_that_an_older_version_stored_go_with_the_later_ones_of_their_setting() -> None:
    rows = stored({}, "nac", 5.0, seeds=4)
    rows["preset"] = rows["seed"].map({2: "laptop", 3: "laptop"})
    (table,) = build_each(SPEC, rows)
    assert table.cells["add", "nac", "extrapolation"].n == 4
    assert table.sweep is not None
    assert table.sweep.preset == "laptop"


def test_settings_of_a_shipped_preset_are_known_by_their_id() -> None:
    members = {"smoke": ["nalu-add"], "laptop": ["nac-add", "relu6-add"], "paper": ["nac-add"]}
    rows = frame(stored({}, "nac", 1.0), stored({}, "relu6", 2.0), stored({}, "nalu", 3.0))
    laptop, smoke = build_each(SPEC, rows, members)
    assert (laptop.name, smoke.name) == ("small laptop", "small smoke")
    assert (value(laptop, "nac"), value(laptop, "nalu"), value(smoke, "nalu")) == (10, None, 30)
    # a smoke run with all that the laptop preset has
    odd = frame(stored(SMOKE, "nac", 1.0), stored(SMOKE, "nalu", 2.0))
    names = {t.name: value(t, "nac") for t in build_each(SPEC, odd, members)}
    assert names == {"small laptop": 10, "small smoke": 10}
    # stored under one preset, and of another that is stored too: it stands in both
    paper = {"preset": "paper", "changes": "{}"}
    rows = frame(stored(LAPTOP, "nac", 1.0), stored(paper, "relu6", 2.0))
    both = build_each(SPEC, rows, {"paper": ["nac-add", "relu6-add"]})
    shown = {t.name: (value(t, "nac"), value(t, "relu6")) for t in both}
    assert shown == {"small laptop": (10, None), "small paper": (10, 20)}


def test_no_rows_are_a_table_of_dashes_and_any_type_of_column_does() -> None:
    (empty,) = build_each(SPEC, smoke_then_laptop().iloc[:0])
    assert {cell.text for cell in empty.cells.values()} <= {"–"}
    names = ["small laptop", "small smoke"]
    for kind in ("category", "string"):
        odd = smoke_then_laptop().astype(dict.fromkeys(["preset", "changes", "setting_id"], kind))
        odd.index = [0] * len(odd)  # type: ignore[assignment]
        assert [table.name for table in build_each(SPEC, odd)] == names
    without = smoke_then_laptop().drop(columns="changes")
    assert [table.name for table in build_each(SPEC, without)] == names


# -- what was changed ----------------------------------------------------------------------------


def test_a_changed_budget_makes_another_table_with_what_has_it_anyway() -> None:
    rows = frame(
        stored(LAPTOP, "nac", 1.0, steps=10_000, seeds=3),
        stored(LAPTOP, "relu6", 2.0, steps=5_000, seeds=3),
        stored(changed(steps=10_000), "relu6", 3.0, steps=10_000),
        stored(changed(steps=20, batch=4), "nac", 9.0, steps=20, batch=4),
    )
    laptop, longer, quick = build_each(SPEC, rows)
    assert (value(laptop, "nac"), value(laptop, "relu6")) == (10, 20)
    assert (value(longer, "nac"), value(longer, "relu6")) == (10, 30)
    assert (value(quick, "nac"), value(quick, "relu6")) == (90, None)
    assert "Preset: laptop with steps=10000." in whole(longer)
    assert "Preset: laptop with batch=4 steps=20." in whole(quick)
    assert quick.name == "small laptop batch=4 steps=20"


def test_other_changes_are_chosen_among_and_named() -> None:
    rows = frame(
        stored(LAPTOP, "nac", 2.0, lr=0.1),
        stored(changed(lr=0.2), "nac", 1.0, lr=0.2),
        stored(LAPTOP, "relu6", 3.0, lr=0.1),
    )
    (table,) = build_each(SPEC, rows)
    assert value(table, "nac") == 10
    assert table.cells["add", "nac", "extrapolation"].setting == "lr=0.2"
    assert "Changed from the preset in some cells: lr." in whole(table)
    (plain,) = build_each(SPEC, rows[rows["lr"] == 0.1])
    assert "Changed from the preset" not in whole(plain)


@pytest.mark.parametrize("text", ["", "[1]", "no json", "[" * 100_000, "3", None])
def test_an_odd_text_of_changes_changes_nothing(text: Any) -> None:
    rows = frame(
        stored({"preset": "laptop", "changes": text}, "nac", 1.0), stored(LAPTOP, "nalu", 2.0)
    )
    assert [sweep.label for sweep, _ in sweeps(SPEC, rows)] == ["laptop"]


@pytest.mark.parametrize("name", ["", "a\nb", "\x1b[2J", "x" * 101])
def test_an_odd_name_of_a_preset_is_none(name: str) -> None:
    rows = frame(stored({"preset": name, "changes": "{}"}, "nac", 1.0))
    assert [sweep.preset for sweep, _ in sweeps(SPEC, rows)] == [""]
    odd = stored(changed(**{"lr": name, name or "x": 1}), "nac", 1.0, lr=0.1, steps=5)
    (table,) = build_each(SPEC, frame(odd, stored(LAPTOP, "nalu", 1.0, lr=0.1, steps=6)))
    assert "\x1b" not in whole(table)
    assert "\n" not in whole(table)


def test_a_change_of_a_field_that_no_row_has() -> None:
    rows = frame(stored(changed(batch=3), "nac", 1.0), stored(LAPTOP, "nalu", 2.0))
    tables = build_each(SPEC, rows)
    assert [table.name for table in tables] == ["small laptop", "small laptop batch=3"]
    assert [value(table, "nac") for table in tables] == [None, 10]


def test_problems_are_told_apart_within_a_preset() -> None:
    rows = frame(
        stored(LAPTOP, "nac", 1.0, inputs=100, seeds=5),
        stored(LAPTOP, "nac", 1.0, inputs=7),
        stored(SMOKE, "nac", 1.0, inputs=3),
    )
    names = [table.name for table in build_each(SPEC, rows)]
    assert names == ["small laptop inputs=100", "small laptop inputs=7", "small smoke"]


# -- budgets -------------------------------------------------------------------------------------


def test_budgets_that_differ_between_cells_stand_in_the_caption() -> None:
    rows = frame(
        stored(LAPTOP, "nac", 1.0, steps=10_000, batch=32, seeds=3),
        stored(LAPTOP, "nalu", 1.0, steps=10_000, batch=32, seeds=4),
        stored(LAPTOP, "relu6", 1.0, steps=5_000, batch=32, seeds=3),
        stored(LAPTOP, "tanh", 1.0, steps=5_000, batch=32, seeds=3),
        stored(LAPTOP, "elu", 1.0, steps=5_000, batch=32, seeds=3),
    )
    (table,) = build_each(SPEC, rows)
    wanted = (
        "Budgets differ: steps 10,000 (NAC, NALU), 5,000 (all others); "
        "seeds 4 (NALU), 3 (all others)."
    )
    assert wanted in whole(table)
    for kind in ("md", "latex", "html"):
        assert wanted in FORMATS[kind](table)
    console = Console(file=io.StringIO(), width=100)
    show(table, console)
    assert isinstance(console.file, io.StringIO)
    assert wanted in " ".join(console.file.getvalue().split())
    (equal,) = build_each(SPEC, rows[rows["steps"] == 5_000])
    assert "Budgets differ" not in whole(equal)


def test_models_with_a_comma_in_their_names_are_told_apart() -> None:
    spent = [
        Budget("NAC", "a + b", {"steps": "9"}),
        Budget("NAC, memory given", "a + b", {"steps": "9"}),
        Budget("LSTM", "a + b", {"steps": "5"}),
        *(Budget(name, "a + b", {"steps": "7"}) for name in "abc"),
    ]
    assert "9 (NAC; NAC, memory given), 7 (all others)" in budget_sentence(spent)


def test_budgets_by_problem_and_by_cell() -> None:
    parts = [
        stored(LAPTOP, layer, 1.0, steps=steps, op=op)
        for layer, op, steps in (
            ("nac", "add", 5), ("nac", "mul", 9), ("nalu", "add", 5), ("nalu", "mul", 9),
        )
    ]  # fmt: skip
    assert "steps 5 (add), 9 (all others)." in whole(build(SPEC, frame(*parts)))
    mixed = frame(*parts, stored(LAPTOP, "relu6", 1.0, steps=7, op="mul"))
    assert "steps 7 (ReLU6 at mul), 5 (" in whole(build(SPEC, mixed))
    missing = frame(parts[0], stored(LAPTOP, "nalu", 1.0))
    assert "steps 5 (NAC), none (all others)." in whole(build(SPEC, missing))


# -- recipes -------------------------------------------------------------------------------------


def test_how_cells_were_trained_otherwise_stands_in_the_caption() -> None:
    fast = {"lr": 0.2, "optimiser": "adam", "adam_eps": 1e-30, "penalty": "sparsity:10"}
    slow = {"lr": 0.01, "optimiser": "adam", "adam_eps": 1e-8, "penalty": None}
    rows = frame(
        stored(LAPTOP, "nac", 1.0, **fast),
        stored(LAPTOP, "nalu", 1.0, **fast),
        *(stored(LAPTOP, layer, 1.0, **slow) for layer in ("relu6", "tanh", "elu")),
    )
    (table,) = build_each(SPEC, rows)
    units = "(NAC, NALU)"
    wanted = (
        f"Recipes differ: lr 0.2 {units}, 0.01 (all others); adam_eps 1e-30 {units}, 1e-08 (all "
        f"others); penalty sparsity:10 {units}, none (all others)."
    )
    assert wanted in whole(table)
    (alike,) = build_each(SPEC, rows[rows["lr"] == 0.01])
    assert "Recipes differ" not in whole(alike)
    by_rate = SPEC.model_copy(update={"columns": Axis(field="lr")})
    (rates,) = build_each(by_rate, rows)
    assert "lr 0.2 (" not in whole(rates)  # the columns say it


def test_a_preset_says_whose_recipes_were_chosen_among_several() -> None:
    said = "The recipe of the NAC was chosen among several."
    specs = TaskSpecs(task="t", title="T", tables=(SPEC,), searched={"laptop": said})
    rows = frame(stored(LAPTOP, "nac", 1.0), stored(SMOKE, "relu6", 1.0))
    laptop, smoke = Stored(specs, rows).tables
    assert said in captions(laptop)
    assert said not in captions(smoke)
    assert TaskSpecs.read(specs.model_dump_json().encode()) == specs


# -- references ----------------------------------------------------------------------------------


def test_100_is_the_random_model_of_the_cells_own_setting() -> None:
    before = frame(stored(LAPTOP, "relu6", 18.3, hidden=2), stored(LAPTOP, "tanh", 5.0, hidden=2))
    rows = frame(before, stored(LAPTOP, "tanh", 1.0, random=30.0, hidden=64, seeds=9))
    assert value(build(SPEC, before), "relu6") == pytest.approx(183.0)
    table = build(SPEC, rows)
    assert value(table, "relu6") == pytest.approx(183.0)
    assert value(table, "tanh") == pytest.approx(100 / 30)
    cell = table.cells["add", "tanh", "extrapolation"]
    assert (cell.reference, cell.setting) == (30.0, "hidden=64")
    lines = {line["column"]: line for line in csv.DictReader(io.StringIO(tidy(table)))}
    assert (lines["tanh"]["reference"], lines["relu6"]["reference"]) == ("30.0", "10.0")
    assert "an untrained network (median over the seeds of the cell's setting)" in whole(table)


def test_lines_of_a_figure_have_their_own_references_too() -> None:
    rows = frame(
        stored(LAPTOP, "relu6", 20.0, hidden=2, steps=5),
        stored(LAPTOP, "tanh", 20.0, random=40.0, hidden=64, steps=7, seeds=9),
    )
    (panel,) = panels(FIGURE, rows)
    assert {c.heading.key: c.middle.tolist() for c in panel.curves} == {
        "relu6": [200],
        "tanh": [50],
    }
    title = " ".join(draw(FIGURE, rows).get_suptitle().split())
    assert "Budgets differ: steps 5 (relu6), 7 (all others); seeds 2 (relu6), 9" in title


def test_the_random_column_is_of_one_declared_model_and_named() -> None:
    spec = SPEC.model_copy(
        update={
            "measures": {"extrapolation": ERROR.model_copy(update={"relative_to": None})},
            "reference": "random_mse",
            "reference_by": ("hidden",),
        }
    )
    rows = frame(
        stored(LAPTOP, "relu6", 1.0, hidden=2, seeds=3),
        stored(LAPTOP, "nac", 1.0, hidden=2, seeds=3),
        stored(LAPTOP, "tanh", 1.0, random=30.0, hidden=64, seeds=5),
        stored(LAPTOP, "tanh", 1.0, random=50.0, hidden=64, op="mul", seeds=5),
    )
    rows = rows[~((rows["op"] == "mul") & (rows["seed"] > 0))]
    table = build(spec, rows)
    random = table.cells["add", "random", "extrapolation"]
    assert (random.value, random.n) == (10.0, 3)
    assert table.cells["mul", "random", "extrapolation"].value is None
    assert "Random: median error of an untrained network with hidden=2 over" in whole(table)
    # without a declaration it is still never of two models
    loose = build(spec.model_copy(update={"reference_by": ()}), rows)
    assert loose.cells["add", "random", "extrapolation"].value == 30.0
    (one,) = build_each(spec, rows[rows["hidden"] == 64])
    assert "Random: median error of an untrained network with hidden=64 over" in whole(one)


@pytest.mark.parametrize("name", ["static", "recurrent"])
def test_only_the_note_says_which_model_the_random_column_is_of(name: str) -> None:
    """A caption lists the values of all settings, of which the column has one."""
    for spec in registry.task(name).tables:
        assert not any(f"{{{field}}}" in spec.caption for field in spec.reference_by), spec.name


def test_a_cell_that_lost_all_seeds_before_a_reference_was_logged_says_so() -> None:
    lost = frame(*(run({"layer": "nalu", "op": "add"}, s, {}, "killed", end=0) for s in range(3)))
    table = build(SPEC, frame(lost, stored({}, "nac", 1.0)))
    cell = table.cells["add", "nalu", "extrapolation"]
    assert (cell.text, cell.n, cell.failed) == ("lost", 3, 3)


def test_pairs_ignore_which_sweep_stored_a_row() -> None:
    rows = frame(stored(LAPTOP, "nac", 2.0, lr=0.1), stored(SMOKE, "nalu", 1.0, lr=0.1))
    plain = ERROR.model_copy(update={"relative_to": None})
    found = paired(rows, "layer", "nac", "nalu", measure=plain, selection=Selection())
    assert found.values.tolist() == [1.0, 1.0]
    with pytest.raises(ValueError, match="unknown field 'preset'"):
        paired(rows, "preset", "laptop", "smoke", measure=plain, selection=Selection())


# -- median and solved seeds in every format -----------------------------------------------------


@pytest.fixture(scope="module")
def full() -> Table:
    """More cells than the terminal has statistics for."""
    return build(TABLE_7, full_static(3, 2))


def test_median_and_solved_seeds_of_every_cell(full: Table) -> None:
    grid = spread(full)
    titles = [section.title for section in grid.sections]
    assert titles == [
        f"{name}: median over seeds, solved of seeds [95 % interval in %]"
        for name in ("Interpolation", "Extrapolation")
    ]
    texts = [cell.text for s in grid.sections for line in s.lines for cell in line.cells]
    assert len(texts) == len(full.cells)
    place = ("mul", "nac", "extrapolation")
    cell = full.cells[place]
    assert cell.rate is not None
    shown = grid.sections[1].lines[2].cells[[c.key for c in full.columns].index("nac")]
    low, high = (f"{100 * share:.0f}" for share in (cell.rate.low, cell.rate.high))
    assert shown.text == f"{cell.median:.1f}, {cell.rate.successes}/3 [{low}, {high}]"
    plain = spread(build(SPEC, stored(LAPTOP, "nac", 1.0)))
    assert plain.sections[0].title == "E: median over seeds"
    assert [c.text for c in plain.sections[0].lines[0].cells] == ["10.0", "–", "–"]


def test_the_terminal_has_them_and_the_html_has_them_unfolded(full: Table) -> None:
    console = Console(file=io.StringIO(), width=200)
    show(full, console, "python -m nalu_ray.report static --format md")
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert len(statistics(full).lines) > 40
    for section in spread(full).sections:
        assert section.title in text
        for line in section.lines:
            for cell in line.cells:
                assert cell.text in text
    assert "cells: python -m nalu_ray.report static --format md\n" in text
    assert "<details open>" in FORMATS["html"](full)
    assert "cells:" not in text.replace("cells: python", "")


# -- what is printed and written -----------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(str(tmp_path / "results with spaces"))
    rows = smoke_then_laptop()
    for sid, part in rows.groupby("setting_id"):
        about = {name: str(part[name].iloc[0]) for name in ("preset", "changes")}
        setting = {name: part[name].iloc[0] for name in ("layer", "op", "steps", "test_size")}
        key = {"task": "static", "setting_id": sid}
        made.write(setting, key, part.drop(columns=[*about]), {}, about=about)
    made.write_specs(
        TaskSpecs(task="static", title="S", section="", tables=(SPEC,), figures=(FIGURE,))
    )
    return made


def printed(
    store: Store, folder: Path, asked: tuple[tuple[str, int], ...] = ()
) -> tuple[str, set[str]]:
    console = Console(file=io.StringIO(), width=300)
    files = present(store, "static", console, str(folder), asked)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue(), {Path(path).name for path in files}


def test_presets_have_files_of_their_own(store: Store, tmp_path: Path) -> None:
    text, files = printed(store, tmp_path / "to")
    ends = {"small": (".md", ".csv"), "learning": (".png", "-dark.png", ".pdf")}
    assert files == {
        f"{name}_{preset}{kind}"
        for preset in ("laptop", "smoke")
        for name, kinds in ends.items()
        for kind in kinds
    }
    assert text.index("Preset: laptop.") < text.index("Preset: smoke (")
    assert "Also stored" not in text
    lines = csv.DictReader((tmp_path / "to" / "static" / "small_smoke.csv").open())
    assert {(line["preset"], line["preset_changes"]) for line in lines} == {("smoke", "")}
    loaded = Stored.load(store, "static")
    assert loaded is not None
    labels = re.findall(r"\\label{(.*)}", "".join(map(FORMATS["latex"], loaded.tables)))
    assert labels == ["table:small-laptop", "table:small-smoke"]
    assert [d.caption for d in loaded.figures] == [
        "Learning. Preset: laptop.",
        "Learning. Preset: smoke (shows that everything runs; not a result).",
    ]


def test_of_what_was_asked_for_others_are_named(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sid = str(store.load("static").query("preset == 'laptop'")["setting_id"].iloc[0])
    asked = tuple((sid, seed) for seed in range(4))
    text, files = printed(store, tmp_path / "to", asked)
    # files are of all that is stored: the next sweep of a task does not replace another's
    names = {name.replace("-dark", "") for name in files}
    assert {name.split("_")[1].split(".")[0] for name in names} == {"laptop", "smoke"}
    assert "Preset: smoke" not in text
    (command,) = re.findall(r"Also stored, not shown: .*smoke\. Show all: (.*)", text)
    words = shlex.split(command)
    assert words[:3] == ["python", "-m", "nalu_ray.report"]
    # the hint is a command that works
    assert report.main([*words[3:], "--to", str(tmp_path / "there")]) == 0
    assert "Preset: smoke" in capsys.readouterr().out


def test_the_hint_for_long_tables_is_a_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(str(tmp_path / "my results"))
    rows = full_static(1, 1)  # of which few settings are stored fast, and enough
    rows = rows[rows["layer"].isin(["relu6", "none", "nac", "nalu"]) & (rows["lr"] == 0.1)]
    fill(store, "static", rows, ["layer", "op", "lr"], figures=False)
    text, _ = printed(store, tmp_path / "to")
    commands = set(re.findall(r"cells: (python .*)", text))
    assert len(commands) == 1
    words = shlex.split(commands.pop())[3:]
    assert report.main([*words, "--to", str(tmp_path / "there")]) == 0
    assert "solved \\[95 %\\]" in capsys.readouterr().out


# -- what a caption says of changes ----------------------------------------------------------------


def test_a_change_that_all_cells_share_is_named_with_its_value() -> None:
    rows = frame(
        *(stored(changed(overlap=2), layer, 1.0, overlap=2, inputs=5) for layer in ("nac", "nalu"))
    )
    (table,) = build_each(SPEC, rows)
    assert "Changed from the preset: overlap=2." in whole(table)
    more = frame(rows, stored(LAPTOP, "relu6", 1.0, overlap=0, inputs=5))
    (table,) = build_each(SPEC, more)
    assert "Changed from the preset in some cells: overlap." in whole(table)
    assert "overlap=2" not in whole(table)


def test_settings_of_an_earlier_version_of_the_preset_are_named() -> None:
    rows = frame(stored(LAPTOP, "nac", 1.0, lr=0.1), stored(LAPTOP, "nalu", 1.0, lr=0.2))
    (table,) = build_each(SPEC, rows, {"laptop": ["nalu-add-0.2"]})
    assert "From an earlier version of the preset: NAC." in whole(table)
    (table,) = build_each(SPEC, rows, {"laptop": ["nalu-add-0.2", "nac-add-0.1"]})
    assert "earlier version" not in whole(table)


def test_a_number_on_other_data_reproduces_nothing() -> None:
    spec = TABLE_7.model_copy(update={"problem": ("inputs",)})
    logs = mse({0: 0.0}, {0: 0.0}, random_mse=1.0, threshold=1.0)
    values = {"layer": "nac", "op": "add", "inputs": 5}
    runs = frame(*(run(values, seed, logs) for seed in range(2)))
    for about, verdicts in (
        (LAPTOP, {"reproduced", "not run"}),
        (changed(inputs=5), {"not run"}),
    ):
        tables = build_each(spec, runs.assign(**about))
        assert {entry.verdict for entry in entries(7, tables)} == verdicts


def test_the_command_for_other_statistics_shows_every_setting_that_was_asked_for(
    tmp_path: Path,
) -> None:
    # a filter on a field leaves out settings that do not read it
    rows = frame(
        stored(LAPTOP, "nac", 1.0, weight_init="tiny"),
        stored(LAPTOP, "relu6", 1.0, weight_init="uniform"),
    )
    specs = TaskSpecs(task="static", title="Static", section="4.1", tables=(SPEC,))
    mine = Stored(specs, rows, str(tmp_path))
    both = {(sid, seed) for sid in ("nac-add-tiny", "relu6-add-uniform") for seed in (0, 1)}
    assert mine.command_for(["weight_init=tiny"], both) == mine.command
    one = {run for run in both if run[0] == "nac-add-tiny"}
    assert mine.command_for(["weight_init=tiny"], one).endswith(" weight_init=tiny")


def test_the_command_for_other_statistics_shows_the_seeds_that_were_asked_for(
    tmp_path: Path,
) -> None:
    rows = frame(
        stored(LAPTOP, "nac", 1.0, seeds=4, lr=0.1), stored(LAPTOP, "relu6", 1.0, seeds=9, lr=0.1)
    )
    mine = Stored(
        TaskSpecs(task="static", title="Static", section="4.1", tables=(SPEC,)),
        rows,
        str(tmp_path),
    )
    for asked, words in [
        (range(4), " layer=nac"),
        (range(2), " layer=nac seeds=0-1"),
        ((0, 2, 3, 7), " layer=nac seeds=0,2-3"),  # seed 7 is not stored
        ((3,), " layer=nac seeds=3,"),  # 3 alone is a count
    ]:
        runs = {("nac-add-0.1", seed) for seed in asked}
        command = mine.command_for(["layer=nac"], runs)
        assert command == mine.command + words
