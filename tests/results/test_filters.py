"""Filters of a report, what tables leave out, the listing of files, and merged folders."""

from __future__ import annotations

import csv
import io
import re
import shlex
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from nalu_ray.errors import ConfigError
from nalu_ray.report import main, present
from nalu_ray.results import filters
from nalu_ray.results.output.captions import captions, title
from nalu_ray.results.output.formats import FORMATS
from nalu_ray.results.output.grid import Plain, arrange, with_results
from nalu_ray.results.output.runs import listing
from nalu_ray.results.output.save import Stored
from nalu_ray.results.output.terminal import _listing
from nalu_ray.results.specs import TaskSpecs
from nalu_ray.results.store.store import Store
from tests.results.samples import fill, full_static


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Two layers, two operations, two learning rates and three seeds."""
    made = Store(str(tmp_path_factory.mktemp("stored") / "results"))
    rows = full_static(3, 2)
    rows = rows[rows["layer"].isin(["nac", "nalu"]) & rows["op"].isin(["add", "mul"])]
    fill(made, "static", rows, ["layer", "op", "lr"], figures=False)
    return made


@pytest.fixture(scope="module")
def stored(store: Store) -> Stored:
    found = Stored.load(store, "static")
    assert found is not None
    return found


def test_values_are_compared_as_numbers_and_texts(stored: Stored) -> None:
    rows = stored.rows
    only = filters.read({"layer": ["nac"], "lr": ["1e-2", "0.10"], "op": ["all"]}, rows, ())
    kept = only.rows(rows)
    assert {*kept["layer"]} == {"nac"}
    assert {*kept["lr"]} == {0.01, 0.1}
    assert {*kept["op"]} == {"add", "mul"}
    assert {*filters.read({}, rows, (), (0, 2, 9)).rows(rows)["seed"]} == {0, 2}
    assert filters.read({"layer": ["nac", "nalu"]}, rows, ()).rows(rows) is rows


def test_what_is_not_stored_is_named_with_what_is(stored: Stored) -> None:
    given = {"layer": ["nalo"], "opp": ["1"], "lr": ["7"], "preset": ["laptpo"]}
    with pytest.raises(ConfigError) as caught:
        filters.read(given, stored.rows, {"laptop"}, (77,))
    assert caught.value.messages == [
        "layer='nalo': unknown value 'nalo'. Did you mean 'nalu'? Allowed: nac, nalu",
        "unknown field 'opp'. Did you mean 'op'? Allowed: layer, lr, op, preset, seeds",
        "lr='7': unknown value '7'. Allowed: 0.01, 0.1",
        "unknown preset 'laptpo'. Did you mean 'laptop'? Allowed: laptop",
        "seeds: none of them is stored",
    ]


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_every_format_shows_the_filtered_settings_only(stored: Stored, form: str) -> None:
    words = ["layer=nac", "op=mul"]
    part = stored.filtered({"layer": ["nac"], "op": ["mul"]}, (), words)
    text = "".join(FORMATS[form](table) for table in part.tables)
    assert "NAC" in text
    assert not any(left in text for left in ("NALU", "Relu6", "a + b", "a - b"))
    assert "NALU" in "".join(FORMATS[form](table) for table in stored.tables)


def test_the_command_filters(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["layer=nac", "--out", store.out, "--to", str(tmp_path), "--format", "csv"]
    assert main(["static", *words, "op=add,mul", "seeds=0-1"]) == 0
    lines = [*csv.DictReader(io.StringIO(capsys.readouterr().out.split("\n\n")[0]))]
    assert {(line["column"], line["row"], line["n"]) for line in lines} >= {("nac", "add", "2")}
    assert {line["column"] for line in lines} <= {"nac", "random", "constant"}
    (folder,) = tmp_path.iterdir()
    assert folder.name == "static_layer_nac_op_add_mul_seeds_0-1"
    assert main(["static", "layer=gru", "--out", store.out]) == 2
    assert main(["static", "--layer", "nac", "--out", store.out]) == 2
    assert capsys.readouterr().err.endswith("Fields are set without dashes: layer=nac\n")


def test_a_sweep_presents_its_own_settings(store: Store, stored: Stored, tmp_path: Path) -> None:
    rows = stored.rows
    of_cell = rows.loc[(rows["layer"] == "nac") & (rows["op"] == "add"), "setting_id"]
    asked = {(sid, seed) for sid in of_cell for seed in (0, 1)}
    console = Console(file=io.StringIO(), width=200)
    written = present(store, "static", console, str(tmp_path), asked)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "a + b" in text
    assert not any(other in text for other in ("NALU", "a × b"))
    left = "6 more settings of older rows, 1 more seed of older rows"
    assert f"Also stored, not shown: {left}. Show all: " in text
    assert "2 seeds per cell" in text
    # the files are of all sweeps, so that the next one does not replace another's
    files = "".join(Path(path).read_text() for path in written if path.endswith((".md", ".csv")))
    assert all(each in files for each in ("a + b", "a × b", "NAC", "NALU"))


def test_a_sweep_of_one_cell_ends_with_few_short_lines(
    stored: Stored, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["layer=nac", "op=add"]
    part = stored.filtered({"layer": ["nac"], "op": ["add"]}, (), words)
    (summary,) = [table for table in part.tables if table.spec.number == 7]
    console = Console(file=io.StringIO(), width=80)
    part.print_briefly(console, stored.command_for(words))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for split in ("interpolation", "extrapolation"):
        cell = summary.cells["add", "nac", split]
        assert cell.published is not None
        (line,) = [line for line in text.splitlines() if split.capitalize() in line]
        assert f"{cell.text} ({cell.published.text})" in line
        assert f"{cell.median:.1f} [" in line
        if cell.rate is not None:
            assert f"{cell.rate.successes}/{cell.n} [" in line
    assert "…" not in text
    assert len(text.splitlines()) < 25
    ((others, command),) = re.findall(r"Every statistic, and also (Table .*): (.*)", text)
    given = shlex.split(command)[3:]
    assert given[-2:] == words
    assert main([*given, "--format", "md", "--to", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert all(f"{name}." in shown for name in ("Table 7", *others.split(", ")))


def test_words_that_no_report_takes_are_left_out_of_its_command(stored: Stored) -> None:
    assert stored.command_for(["layer=gru"]) == stored.command
    assert stored.command_for(["op=add,mul"]) == f"{stored.command} op=add,mul"


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_listing_is_cut_into_parts_that_fit(width: int) -> None:
    long = "lr=0.1, penalty=0.sparsity:10:linear:4000:7000, weight_init=tiny"
    plain = Plain(2, ("op", "test", "ours", "median", "setting"), (("a", "I", "1", "2", long),))
    console = Console(file=io.StringIO(), width=width)
    _listing(plain, console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= width
    assert "".join(long.split()) in "".join(text.split()).replace("─", "")
    heads = [line.split() for line in text.splitlines() if line.startswith("op")]
    apart = [["op", "test", "ours", "median"], ["op", "test", "setting"]]
    assert heads == ([["op", "test", "ours", "median", "setting"]] if width == 100 else apart)


def test_rows_and_columns_without_results_are_left_out(stored: Stored) -> None:
    table = next(table for table in stored.tables if table.spec.number == 7)
    grid = arrange(with_results(table))
    assert grid.head == ("NAC", "NALU")
    assert [line.labels for line in grid.sections[0].lines] == [("a + b",), ("a × b",)]
    left = f"{len(table.rows) - 2} rows, {len(table.columns) - 2} columns"
    assert (
        captions(with_results(table))[-1]
        == f"Not shown, because they have no result of ours: {left}."
    )
    assert with_results(with_results(table)).not_run == with_results(table).not_run


def test_a_table_without_a_number_has_a_title(stored: Stored) -> None:
    table = stored.tables[0]
    for given, printed in (("", "Learned words."), ("Exact answers", "Exact answers.")):
        update = {"number": None, "name": "learned_words", "title": given}
        assert (
            title(type(table)(**{**vars(table), "spec": table.spec.model_copy(update=update)}))
            == printed
        )


def test_the_listing_names_setting_seeds_and_file(store: Store, stored: Stored) -> None:
    lines = [*csv.DictReader(io.StringIO(listing(store, "static")))]
    files = {path.name for path in Path(store.out, "static").glob("*.parquet")}
    assert {line["file"] for line in lines} == files
    assert {line["setting"] for line in lines} == {
        f"layer={layer} op={op} lr={lr}"
        for layer in ("nac", "nalu") for lr in (0.01, 0.1) for op in ("add", "mul")
    }  # fmt: skip
    assert {(line["seeds"], line["ended"]) for line in lines} == {
        ("0-2", "3 completed"), ("0-2", "2 completed 1 diverged"),
    }  # fmt: skip


def test_the_listing_has_the_preset_of_each_file(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "results"))
    rows = full_static(4, 1)
    rows = rows[(rows["layer"] == "nac") & (rows["op"] == "add") & (rows["lr"] == 0.1)]
    store.write_specs(TaskSpecs(task="static", title="Static"))
    assert listing(store, "static").count("\n") == 1  # nothing stored
    key, setting = {"task": "static", "setting_id": "a"}, {"layer": "nac", "op": "add"}
    for preset, seeds in (("laptop", [0, 1]), ("paper", [2, 3])):
        some = rows[rows["seed"].isin(seeds)]
        store.write(setting, key, some, {}, about={"preset": preset, "changes": "{}"})
    lines = [*csv.DictReader(io.StringIO(listing(store, "static")))]
    assert [(line["preset"], line["seeds"]) for line in lines] == [
        ("laptop", "0-1"), ("paper", "2-3"),
    ]  # fmt: skip
    paper = listing(store, "static", filters.Filter(presets=frozenset({"paper"})))
    assert [line["seeds"] for line in csv.DictReader(io.StringIO(paper))] == ["2-3"]


def test_the_listing_has_no_formulas(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "results"))
    rows = full_static(1, 1).assign(layer="=HYPERLINK(1)")
    fill(store, "static", rows, ["layer", "op"])
    store.write_specs(TaskSpecs(task="static", title="Static", axes=("layer", "op")))
    settings = [line["setting"] for line in csv.DictReader(io.StringIO(listing(store, "static")))]
    assert settings
    assert all(text.startswith("'=HYPERLINK(1) ") for text in settings)


def test_folders_of_two_machines_can_be_copied_together(tmp_path: Path) -> None:
    rows = full_static(4, 2)
    rows = rows[(rows["layer"] == "nac") & (rows["op"] == "add")]
    for name, seeds in (("here", [0, 1, 2]), ("there", [2, 3])):
        machine = Store(str(tmp_path / name))
        fill(
            machine, "static", rows[rows["seed"].isin(seeds)], ["layer", "op", "lr"], figures=False
        )
    shutil.copytree(tmp_path / "there", tmp_path / "here", dirs_exist_ok=True)
    merged = Store(str(tmp_path / "here"))
    assert len(merged.outcomes("static")) == 2 * 4
    frame = merged.load("static")
    assert len(frame) == len(rows)  # seed 2 counts once
    assert main(["static", "--out", merged.out, "--to", str(tmp_path), "--format", "csv"]) == 0


@pytest.mark.parametrize("form", ["md", "latex", "html"])
def test_a_table_says_which_rows_it_leaves_out(stored: Stored, form: str) -> None:
    some = stored.filtered({"layer": ["nac"]}, (0, 1), ("layer=nac", "seeds=0-1"))
    for table in some.tables:
        text = FORMATS[form](table).replace("\\_", "_")
        assert "Of the stored rows only these: layer=nac seeds=0-1." in text
        assert "not run" not in text
    assert not any("only these" in FORMATS[form](table) for table in stored.tables)


def test_settings_that_lack_the_seeds_are_refused(stored: Stored) -> None:
    rows = stored.rows[(stored.rows["layer"] == "nalu") | (stored.rows["seed"] == 0)]
    with pytest.raises(ConfigError, match="layer=nac seeds=2: no stored rows have all"):
        filters.read({"layer": ["nac"]}, rows, (), (2,), ["layer=nac", "seeds=2"])
    assert not filters.read({"layer": ["nalu"]}, rows, (), (2,), ()).rows(rows).empty


def test_a_preset_without_the_wanted_rows_is_refused(stored: Stored) -> None:
    preset = stored.rows["layer"].map({"nac": "laptop", "nalu": "paper"})
    two = Stored(stored.specs, stored.rows.assign(preset=preset, changes="{}"))
    words = ["preset=paper", "layer=nac"]
    with pytest.raises(ConfigError, match="preset=paper layer=nac: no stored rows have all"):
        two.filtered({"preset": ["paper"], "layer": ["nac"]}, (), words)
    assert two.filtered({"preset": ["paper"], "layer": ["nalu"]}, (), ()).tables


def test_the_list_of_files_is_filtered(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["static", "--runs", "layer=nac", "seeds=1,", "--out", store.out]) == 0
    lines = [*csv.DictReader(io.StringIO(capsys.readouterr().out))]
    assert len(lines) == 4
    assert all("nac" in line["setting"] and line["seeds"] == "1" for line in lines)
    assert main(["static", "--runs", "nonsense=5", "--out", store.out]) == 2
