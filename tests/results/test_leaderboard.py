"""The leaderboard from stored rows: rates, costs, the sweep, what is given, a new unit."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from nalu_ray import layers, registry
from nalu_ray.report import main
from nalu_ray.results import leaderboard
from nalu_ray.results.analysis.costs import with_costs
from nalu_ray.results.analysis.groups import Sweep
from nalu_ray.results.analysis.table import build
from nalu_ray.results.output import leaderboard as board
from nalu_ray.results.output.captions import captions
from nalu_ray.results.output.formats import tidy
from nalu_ray.results.output.save import Stored
from nalu_ray.results.publication import Publication, PublishedValue
from nalu_ray.results.specs import TRIAL, Axis, TaskSpecs
from nalu_ray.results.store.rows import COMPLETED
from nalu_ray.results.store.store import Store
from tests.results.samples import frame, run
from tests.results.test_success import logs

UNITS = Axis(
    field="layer",
    labels={"nau": "NAU", "none": "Linear", "relu": "ReLU"},
    more={"mine": "My unit"},
    given={"none": "operation"},
)
TABLES = leaderboard.tables(
    "board",
    "Made up.",
    units=UNITS,
    operations=Axis(field="op", labels={"add": "a + b", "mul": "a × b"}),
    solved_below="threshold",
    presets=("madsen*",),
    publication=Publication(
        source="Somebody (2020)",
        values=(PublishedValue(row="nau", column="add", measure="rate", text="100%"),),
    ),
)
FIELDS = ["layer", "op", "lr"]


def trial(layer: str, op: str, lr: float, ends: list[int | None], inner: float) -> pd.DataFrame:
    setting = {"layer": layer, "op": op, "lr": lr}
    return frame(*(run(setting, s, logs(end, inner=inner)) for s, end in enumerate(ends)))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """NAU at two rates, of which the larger interpolates better; a unit that no table lists."""
    made = Store(str(tmp_path / "results"))
    trials = [
        trial("nau", "add", 0.001, [100, 100], 0.1),
        trial("nau", "add", 0.01, [100, None], 0.01),
        trial("none", "add", 0.001, [None, None], 0.1),
        trial("mine", "mul", 0.001, [100, 200], 0.1),
    ]
    for place, rows in enumerate(trials):
        write(made, rows, place)
    made.write_specs(TaskSpecs(task="static", title="Static", tables=TABLES))
    return made


def write(store: Store, rows: pd.DataFrame, place: int) -> None:
    setting = {name: rows[name].iloc[0] for name in FIELDS}
    sid = str(rows["setting_id"].iloc[0])
    spec = {"setting_id": sid, "seeds": [0, 1]}
    manifest = {"spec": spec, "seconds": 0.003 * (place + 1), "parameters": 200 + place}
    about = {"preset": "madsen", "changes": "{}"}
    store.write(setting, {"task": "static", "setting_id": sid}, rows, manifest, about=about)


def report(store: Store, tmp_path: Path, *words: str) -> Path:
    target = tmp_path / "to"
    assert main([*words, "--out", store.out, "--to", str(target)]) == 0
    return target


def lines_with(text: str, label: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith(f"| {label} |")]
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]


def test_the_report_writes_the_leaderboard(store: Store, tmp_path: Path) -> None:
    text = (report(store, tmp_path, "static") / "leaderboard.md").read_text(encoding="utf-8")
    text = text.replace("\\[", "[").replace("\\]", "]").replace("\\*", "*").replace("**", "")
    rate, solved_at, sparsity, *_ = lines_with(text, "NAU")
    # the larger rate interpolates better, though it solves less
    assert rate == ["NAU", "", "50 [9, 91] (100%)", "–"]
    assert solved_at == ["NAU", "", "100 [100, 100]*", "–"]
    assert sparsity[2] == "2.5e-01"
    assert ["NAU", "", "201", "30.0"] in lines_with(text, "NAU")  # 6000 µs, 2 seeds, 100 steps
    assert ["NAU", "", "100 [34, 100]", "50 [9, 91]"] in lines_with(text, "NAU")  # the sweep
    assert ["NAU", "", "1.0e-01", "1.0e-02"] in lines_with(text, "NAU")  # what selects
    assert lines_with(text, "ReLU") == []  # was not run
    assert lines_with(text, "Linear")[0] == ["Linear", "operation", "0 [0, 66]", "–"]
    assert lines_with(text, "My unit")[0] == ["My unit", "", "–", "100 [34, 100]"]
    assert "| layer | given by hand | a + b | a × b |" in text
    assert "lr=0.01" in text


def test_the_page_has_it_last_and_once(store: Store, tmp_path: Path) -> None:
    text = (report(store, tmp_path, "--html") / "report.html").read_text(encoding="utf-8")
    assert text.index('<section id="static">') < text.index('<section id="leaderboard">')
    assert text.count("<b>Success rates.</b>") == 1
    assert not (tmp_path / "to" / "leaderboard.md").exists()


def test_presets_with_the_same_runs_have_one_table() -> None:
    rows = trial("nau", "add", 0.001, [100, 100], 0.1)
    one = replace(build(TABLES[0], rows), sweep=Sweep("madsen"))
    same = replace(one, sweep=Sweep("madsen-few"))
    of_one_seed = replace(build(TABLES[0], rows[rows["seed"] == 0]), sweep=Sweep("madsen-few"))
    task: Any = SimpleNamespace(specs=SimpleNamespace(task="static"), tables=(one, same))
    assert board.tables([task]) == [one]
    task.tables = (one, of_one_seed)
    assert board.tables([task]) == [one, of_one_seed]


def test_a_task_without_such_tables_has_no_leaderboard(store: Store, tmp_path: Path) -> None:
    plain = TABLES[0].model_copy(update={"board": False})
    store.write_specs(TaskSpecs(task="static", title="Static", tables=(plain,)))
    target = report(store, tmp_path)
    assert not (target / "leaderboard.md").exists()
    assert list(target.rglob("board_madsen.md"))


def test_one_rate_is_no_sweep_and_other_presets_are_not_shown(store: Store, tmp_path: Path) -> None:
    # two units, each at the rate of its recipe
    write(store, trial("nau", "mul", 0.01, [None, None], 0.1), 4)
    target = report(store, tmp_path, "static")
    names = {path.name for path in (target / "static").glob("*.csv")}
    assert names == {"board_madsen.csv", "board_cost_madsen.csv", "board_lr_madsen_op_add.csv"}
    other = TABLES[0].model_copy(update={"presets": ("laptop",)})
    store.write_specs(TaskSpecs(task="static", title="Static", tables=(other,)))
    again = tmp_path / "again"
    assert main(["static", "--out", store.out, "--to", str(again)]) == 0
    assert not list(again.rglob("*.csv"))


def costs(*manifests: Any) -> dict[tuple[str, int], float]:
    rows = trial("nau", "add", 0.001, [100, 100], 0.1)
    added = with_costs(rows, manifests)
    added = added[added["split"] == TRIAL]
    assert added["layer"].eq("nau").all()
    return {(m, s): v for m, s, v in added[["metric", "seed", "value"]].itertuples(index=False)}


NAU = {"setting_id": "nau-add-0.001", "seeds": [0, 1]}


def test_the_latest_trial_of_a_seed_counts() -> None:
    early = {"spec": NAU, "seconds": 1.0, "started": 1.0, "parameters": 7}
    late = {"spec": {**NAU, "seeds": [1]}, "seconds": 0.01, "started": 2.0}
    seen = costs(late, early)
    assert seen["seed_step_microseconds", 0] == pytest.approx(5000)
    assert seen["seed_step_microseconds", 1] == pytest.approx(100)
    assert seen["parameters", 0] == seen["parameters", 1] == 7


def test_a_trial_whose_rows_do_not_count_has_no_cost(tmp_path: Path) -> None:
    """A seed that completed was trained again, and failed at once: the first attempt counts."""
    store = Store(str(tmp_path / "results"))
    rows = trial("nau", "add", 0.001, [100, 100], 0.1)
    key = {"task": "static", "setting_id": NAU["setting_id"]}
    failed = rows[rows["metric"] == COMPLETED].assign(value=0.0, outcome="failed", reason="E: no")
    for started, (some, seconds) in enumerate([(rows, 1.0), (failed, 0.01)]):
        about = {"spec": NAU, "seconds": seconds, "started": started}
        store.write({"layer": "nau", "op": "add", "lr": 0.001}, key, some, about)
    store.write_specs(TaskSpecs(task="static", title="Static", tables=TABLES))
    found = Stored.load(store, "static")
    assert found is not None
    shown = found.rows[found.rows["metric"] == "seed_step_microseconds"]["value"]
    assert shown.tolist() == pytest.approx([5000, 5000])


@pytest.mark.parametrize(
    "manifest",
    [
        {},
        {"spec": "no mapping"},
        {"spec": {"seeds": "0"}},
        {"spec": {"seeds": [None], "setting_id": 3}},
        {"spec": NAU, "seconds": "1", "parameters": True},
        {"spec": NAU, "seconds": float("nan"), "parameters": -1},
        {"spec": {**NAU, "seeds": [5]}, "seconds": 1.0},
    ],
)
def test_a_manifest_of_anything_else_gives_no_cost(manifest: Any) -> None:
    assert costs(manifest) == {}


def test_costs_are_read_whatever_the_selected_step() -> None:
    rows = with_costs(
        trial("nau", "add", 0.001, [100, 100], 0.1), [{"spec": NAU, "parameters": 200}]
    )
    cell = build(TABLES[1], rows).cells["nau", "", "parameters"]
    assert (cell.value, cell.text) == (200, "200")


def test_what_a_unit_is_given_comes_from_its_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = dict(layers.registry._layers.entries)
    monkeypatch.setattr(layers.registry._layers, "entries", entries)
    factory = layers.get("relu").factory
    layers.register("told", label="Told", given="operation")(factory)
    static = registry.task("static").specs()
    (table, *_) = static.tables
    assert table.columns is not None
    assert table.columns.given["told"] == "operation"
    assert table.columns.given["nau_nmu"] == "NAU first"
    assert "nau" not in table.columns.given
    assert table.columns.more["told"] == "Told"


def test_columns_that_are_given_something_are_named_below_the_table() -> None:
    turned = TABLES[0].model_copy(
        update={"rows": TABLES[0].columns, "columns": UNITS, "models": "columns"}
    )
    table = build(turned, trial("none", "add", 0.001, [None, None], 0.1))
    assert "Given by hand: operation (Linear)." in captions(table)
    with_given = [line["given"] for line in csv.DictReader(io.StringIO(tidy(table)))]
    assert with_given.count("operation") == 3  # one per measure


def test_every_protocol_that_compares_units_is_on_the_board() -> None:
    shown = {
        name: {spec.name for spec in registry.task(name).tables if spec.board}
        for name in registry.names()
    }
    ranges = ("single_module", "mixed_signs", "small_divisors", "benford")
    assert {name: tables for name, tables in shown.items() if tables} == {
        "comparison": {"comparison"},
        "npu_small": {"npu_small"},
        "recurrent": {"recurrent_mass"},
        "sequential_mnist": {"sequential_sum", "sequential_product"},
        "single_module": {f"{name}{part}" for name in ranges for part in ("", "_cost", "_lr")},
        "static": {
            *("madsen", "madsen_cost", "madsen_lr", "madsen_gate"),
            *("npu_large", "inalu_uniform", "inalu_normal"),
        },
        "static_mnist": {"static_mnist"},
    }
