"""The Python interface: the command's plan, rows, numbers and messages."""

from __future__ import annotations

import ast
import csv
import io
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import nn

import nalu_ray as nr
from nalu_ray import api, layers, registry, report, tune
from nalu_ray.command import execution
from nalu_ray.command.flags import parser
from nalu_ray.command.request import read
from nalu_ray.errors import ConfigError
from nalu_ray.results.output.notebook import FailedSeed, Results
from nalu_ray.results.output.save import Stored
from nalu_ray.results.store.store import Store
from nalu_ray.seeding import Streams
from nalu_ray.training import custom
from tests.results.samples import fill, full_static

ROWS = Path(__file__).parent / "data" / "tutorial"
SMOKE: dict[str, Any] = {"op": "mul", "preset": "smoke", "seeds": 2}


def nalus() -> nn.Module:
    return nn.Sequential(nr.NALU(100, 2), nr.NALU(2, 1))


# -- the package's names ---------------------------------------------------------------------------


def test_the_import_is_light() -> None:
    program = (
        "import sys, nalu_ray; heavy = {'torch', 'ray', 'pandas', 'pydantic'} & {*sys.modules};"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_names_are_typed_and_resolve() -> None:
    tree = ast.parse(Path(nr.__file__).read_text(encoding="utf-8"))
    (typed,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    assert {alias.name for node in imports for alias in node.names} == {*nr.__all__}
    assert {*nr.__all__} <= {*dir(nr)}
    assert nr.NALU is layers.NALU
    assert nr.run is api.run
    assert all(callable(getattr(nr, name)) for name in nr.__all__)
    with pytest.raises(AttributeError, match="no attribute 'NULA'"):
        _ = nr.NULA  # type: ignore[attr-defined]


# -- run -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("fake")
def test_run_stores_the_rows_of_the_command() -> None:
    line = "fake layer=a,b lr=0.5 seeds=3 --seeds-per-trial 2 --local --quiet --out command"
    assert tune.main(shlex.split(line)) == 0
    ran = nr.run(
        "fake", layer=["a", "b"], lr=0.5, seeds=3, out="api", quiet=True,
        resources={"seeds_per_trial": 2},
    )  # fmt: skip
    order = ["setting_id", "seed", "metric"]
    theirs = Store("command").load("fake").sort_values(order, ignore_index=True)
    ours = Store("api").load("fake").sort_values(order, ignore_index=True)
    pd.testing.assert_frame_equal(ours, theirs, check_exact=True)
    pd.testing.assert_frame_equal(ran.rows().sort_values(order, ignore_index=True), ours)
    assert len(list(Path("api/fake").glob("*.parquet"))) == 4
    assert not ran.failed


@pytest.mark.usefixtures("fake")
def test_run_resumes_and_returns_what_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    nr.run("fake", layer=["a", "b"], lr=1, seeds=3, quiet=True)
    assert capsys.readouterr().out == ""
    ran = nr.run("fake", layer="b", lr=1, seeds=[2, 5])
    assert "1 done before; 1 to do" in capsys.readouterr().out
    runs = ran.rows()[["layer", "seed"]].drop_duplicates()
    assert runs.to_numpy().tolist() == [["b", 2], ["b", 5]]
    words = "fake layer=b lr=1 seeds=2,5 --out=results --local"
    assert ran.command == f"python -m nalu_ray.tune {words}"
    assert tune.main([*words.split(), "--dry-run"]) == 0
    assert "2 done before; 0 to do" in capsys.readouterr().out
    every = nr.load_results("fake").rows()
    assert len(every[["layer", "seed"]].drop_duplicates()) == 7


@pytest.mark.parametrize("seeds", [2, 5])
def test_the_end_table_of_the_command_is_that_of_run(
    seeds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of five stored seeds, both show those that were asked for; so does the printed command."""
    shutil.copytree(ROWS, tmp_path / "results")
    Store(str(tmp_path / "results")).write_specs(registry.task("static").specs())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(execution, "run_local", lambda *_: pytest.fail("these rows are stored"))
    monkeypatch.setattr(Stored, "save_figures", lambda *_: [])  # slow to draw
    printed: list[Results] = []
    original = Stored.print_briefly

    def note(stored: Stored, *arguments: Any) -> None:
        printed.append(Results(stored))
        original(stored, *arguments)

    monkeypatch.setattr(Stored, "print_briefly", note)
    line = f"static layer=nalu,nac op=mul seeds={seeds} --local"
    assert tune.main(line.split()) == 0
    text = capsys.readouterr().out
    assert f"{seeds} seeds per cell" in text
    ran = nr.run("static", layer=["nalu", "nac"], op="mul", seeds=seeds, quiet=True)
    (ended,) = printed
    assert {*ran.table()["of"]} == {seeds}
    for name in ran.tables:
        pd.testing.assert_frame_equal(ended.table(name), ran.table(name), check_exact=True)
    command = text.split("Table 6: ")[1].splitlines()[0]
    capsys.readouterr()
    assert report.main([*shlex.split(command)[3:], "--format", "csv"]) == 0
    lines = csv.DictReader(io.StringIO(capsys.readouterr().out.split("\n\n")[0]))
    assert {each["n"] for each in lines} == {str(seeds)}


@pytest.mark.usefixtures("fake")
def test_failed_seeds_are_listed() -> None:
    ran = nr.run("fake", layer="a", lr=1, seeds=2, wrong="diverge", quiet=True)
    assert ran.failed == [FailedSeed("a", 1, "diverged at step 1")]
    assert nr.load_results("fake").failed == ran.failed
    stopped = nr.run(
        "fake", layer=["a", "b"], lr=1, seeds=1, wrong="raise", quiet=True, fail_fast=True
    )  # fmt: skip
    assert [each.reason for each in stopped.failed][1] == "not done"
    assert "cannot go on at seed 0" in stopped.failed[0].reason


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"layer": ["nac", "nalu"], "op": "mul"}, "layer=nac,nalu op=mul"),
        ({"lr": [0.1, 1e-5], "layer": "nac"}, "lr=0.1,0.00001 layer=nac"),
        ({"train_range": (1, 2), "test_range": [(2, 6), (2.5, 6)]},
         "train_range=1:2 test_range=2:6,2.5:6"),
        ({"clip": [None, 1], "shared_inputs": True}, "clip=none,1 shared_inputs=true"),
        ({"options": {"epsilon": 1e-6}, "layer": "nalu"}, "options=epsilon:1e-6 layer=nalu"),
        ({"gate_init": (0.1, "glorot"), "layer": "nalu"}, "gate_init=0.1:glorot layer=nalu"),
        ({"steps": torch.tensor(7), "layer": "relu6,nac"}, "steps=7 layer=relu6,nac"),
        ({"hidden": [3], "layer": "nac", "options": {}}, "hidden=3 layer=nac options={}"),
    ],
)  # fmt: skip
def test_values_are_those_of_the_words(fields: dict[str, Any], words: str) -> None:
    ours = api._request("static", {"preset": "smoke"}, {"dry_run": True}, [7], fields)
    line = ["static", *words.split(), "seeds=7,", "--preset", "smoke", "--dry-run"]
    options, unknown = parser().parse_known_intermixed_args(line)
    theirs = read(options, unknown, line)
    assert ours.points == theirs.points
    assert {point.seeds for point in ours.points} == {(7,)}
    assert ours.sweep == theirs.sweep


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: nr.run("statik"), "statik --local"),
        (lambda: nr.run("fake", layr="a", lr=-1), "fake layr=a lr=-1 --local"),
        (lambda: nr.run("fake", preset="lapdog"), "fake --preset lapdog --local"),
        (lambda: nr.run("fake", seeds=0), "fake seeds=0 --local"),
        (lambda: nr.run("fake", layer=[]), "fake layer= --local"),
        (lambda: nr.run("fake", resources={"gpus": 1}), "fake --gpus=1 --local"),
        (lambda: nr.run("fake", resources={"seeds_per_trial": 0}),
         "fake --seeds-per-trial 0 --local"),
        (lambda: nr.run("fake", address="ray://x"), "fake --address ray://x"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("fake")
def test_mistakes_are_those_of_the_command(
    call: Any, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tune.main(line.split()) == 2
    printed = capsys.readouterr().err.splitlines()
    with pytest.raises(ConfigError) as caught:
        call()
    assert [f"error: {message}" for message in caught.value.messages] == printed


# -- stored results --------------------------------------------------------------------------------


def filled(folder: Path, figures: bool) -> str:
    """Rows of two layers and two operations."""
    rows = full_static(3, 2)
    rows = rows[rows["layer"].isin(["nac", "nalu"]) & rows["op"].isin(["add", "mul"])]
    fill(Store(str(folder)), "static", rows, ["layer", "op", "lr"], figures)
    return str(folder)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> str:
    return filled(tmp_path_factory.mktemp("stored") / "results", figures=True)


def test_the_table_has_the_numbers_of_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = filled(tmp_path / "stored", figures=False)
    results = nr.load_results("static", out=stored)
    where = ["static", "--out", stored, "--to", str(tmp_path / "to"), "--format"]
    assert report.main([*where, "csv"]) == 0
    text = capsys.readouterr().out
    lines = list(csv.DictReader(io.StringIO(text[: text.find("\n\n") + 1 or None])))
    theirs = {
        (line["row"], line["column"], line["measure"]): line
        for line in lines
        if line["table"] == results.tables[0] and line["n"] not in ("0", "")
    }
    table = results.table()
    assert len(table) == len(theirs) > 0
    assert report.main([*where, "md"]) == 0
    markdown = capsys.readouterr().out
    for cell in table.to_dict("records"):
        line = theirs[cell["op"], cell["layer"], cell["measure"]]
        assert (cell["printed"], cell["of"]) == (line["text"], int(line["n"]))
        for ours, name in [
            ("ours", "value"), ("published", "published_value"), ("median", "median"),
            ("solved", "solved"), ("low", "rate_low"), ("high", "rate_high"),
        ]:  # fmt: skip
            same = pd.isna(cell[ours]) if line[name] == "" else cell[ours] == float(line[name])
            assert same, (cell, name)
        solved = "" if pd.isna(cell["solved"]) else f"| {cell['solved']}/{cell['of']} "
        assert solved in markdown


def test_results_are_filtered_by_value(stored: str) -> None:
    results = nr.load_results("static", out=stored, layer="nac", op=["add", "mul"], seeds=[0, 2])
    rows = results.rows()
    assert {*rows["layer"]} == {"nac"}
    assert {*rows["op"]} == {"add", "mul"}
    assert {*rows["seed"]} == {0, 2}
    assert {*results.table()["layer"]} == {"nac"}
    one_rate = nr.load_results("static", out=stored, lr=rows["lr"].iloc[0])
    assert {*one_rate.rows()["lr"]} == {rows["lr"].iloc[0]}
    # the same filter as that of reports: texts with commas, and numbers however they are written
    as_words = nr.load_results("static", out=stored, layer="nac,nalu", lr=f"{rows['lr'].iloc[0]:e}")
    assert {*as_words.rows()["layer"]} == {"nac", "nalu"}
    rows["value"] = 0.0  # a copy
    assert results.rows()["value"].any()


def test_seeds_of_any_iterable_are_read_once(stored: str) -> None:
    listed = nr.load_results("static", out=stored, seeds=[1]).rows()
    assert {*listed["seed"]} == {1}
    made = nr.load_results("static", out=stored, seeds=(seed for seed in [1])).rows()
    pd.testing.assert_frame_equal(made, listed)


@pytest.mark.parametrize(
    ("seeds", "word"),
    [(3, "3"), ("0-4", "0-4"), ([7], "7,"), ((0, 1), "0,1"), (range(2), "0,1"), ((7,), "7,"),
     (torch.tensor(3), "3"), (torch.tensor([2, 4]), "2,4"), ({5}, "5,")],
)  # fmt: skip
def test_seeds_are_a_count_or_a_list(seeds: Any, word: str) -> None:
    assert api._seeds_word(seeds) == word


def test_results_say_which_stored_rows_they_leave_out(stored: str) -> None:
    some = nr.load_results("static", out=stored, layer="nac", seeds=[0, 1])
    assert "Of the stored rows only these: layer=nac seeds=0,1." in some._repr_markdown_()
    assert "only these" not in nr.load_results("static", out=stored)._repr_markdown_()


@pytest.mark.usefixtures("fake")
def test_a_run_leaves_torchs_threads_as_they_were() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        nr.run("fake", layer="a", lr=1, seeds=1, quiet=True)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "statik"}, "unknown task 'statik'. Did you mean 'static'?"),
        ({"task": "static", "layr": "nac"}, "unknown field 'layr'. Did you mean 'layer'?"),
        (
            {"task": "static", "layer": "nak"},
            "layer='nak': unknown value 'nak'. Did you",
        ),
        ({"task": "static", "seeds": [99]}, "seeds: none of them is stored"),
        ({"task": "static", "seeds": 0}, "seeds='0': a count of 1 or more"),
    ],
)
def test_wrong_filters_are_refused(stored: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        nr.load_results(**arguments, out=stored)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no rows stored in"):
        nr.load_results("static", out=str(tmp_path))


def test_notebooks_show_the_table(stored: str) -> None:
    results = nr.load_results("static", out=stored)
    assert results._repr_html_().count("<figure>") == 1
    assert "| NAC | NALU |" in results._repr_markdown_()
    assert "2 settings" not in repr(results)
    assert f"tables: {', '.join(results.tables)}" in repr(results)
    figures = results.plot()
    assert figures
    assert all(figure.axes for figure in figures.values())
    with pytest.raises(ConfigError, match="unknown table 'statik'"):
        results.table("statik")


def test_published_tables_and_tasks() -> None:
    table = nr.published(7)
    nalu = table[(table["row"] == "mul") & (table["column"] == "nalu")]
    assert nalu.set_index("split")["text"].to_dict() == {
        "interpolation": "0.0", "extrapolation": "0.0",
    }  # fmt: skip
    with pytest.raises(ConfigError, match=r"the paper's tables are 1\.\.11"):
        nr.published(12)
    known = nr.list_tasks()
    assert [*known.index] == [*registry.tasks()]
    assert known.loc["static", "section"] == "4.1"
    assert "madsen" in known.loc["static", "presets"]


# -- train -----------------------------------------------------------------------------------------


def test_training_is_the_loop_of_the_sweeps(tmp_path: Path) -> None:
    trained = nr.train(nalus(), "static", **SMOKE)
    assert trained.setting.layer == "nalu"
    swept = nr.run("static", layer="nalu", out=str(tmp_path), quiet=True, **SMOKE).rows()
    columns = ["seed", "step", "split", "metric", "value", "setting_id"]
    logged = swept[swept["split"] != "trial"][columns].reset_index(drop=True)
    pd.testing.assert_frame_equal(trained.rows[columns], logged, check_exact=True)
    best = nr.load_results("static", out=str(tmp_path)).table("static_raw")
    assert trained.errors == best[best["layer"] == "nalu"].set_index("measure")["ours"].to_dict()


def test_the_model_has_the_weights_of_its_errors() -> None:
    model = nalus()
    trained = nr.train(model, "static", **SMOKE)
    assert trained.model is model
    task = registry.task("static")
    for split, error in trained.errors.items():
        batch = task.sample(trained.setting, split, Streams("static", [trained.seed], split))
        with torch.no_grad():
            answer = model(batch.inputs[0][0])
        assert float((answer - batch.targets[0]).square().mean()) == pytest.approx(error, rel=1e-4)
    assert trained.interpolation == trained.errors["interpolation"]
    assert f"{trained.extrapolation:.3g}" in repr(trained)


def test_a_function_builds_each_seeds_network() -> None:
    built = []

    def build() -> nn.Module:
        built.append(nn.Sequential(nr.NAC(100, 3), nn.Tanh(), nn.Linear(3, 1)))
        return built[-1]

    trained = nr.train(build, "static", layer="nac", steps=10, evaluations=1, **SMOKE)
    assert trained.model is built[-1]
    first = trained.rows[(trained.rows["step"] == 0) & (trained.rows["metric"] == "mse")]
    assert first["value"].nunique() == len(first)  # no two seeds start alike


class Own(nn.Module):
    """A parameter without ``reset_parameters``, constant or not."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


def test_a_start_that_all_seeds_would_share_is_refused() -> None:
    with pytest.raises(ConfigError, match="parameter weight would start alike in every seed"):
        nr.train(Own(torch.rand(100, 1)), "static", layer="nac", **SMOKE)
    trained = nr.train(Own(torch.zeros(100, 1)), "static", layer="nac", **SMOKE)
    assert trained.of > 1


def test_a_module_starts_as_it_says_whatever_its_parts_do() -> None:
    class Zeros(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(100, 1)
            self.reset_parameters()

        def reset_parameters(self) -> None:
            nn.init.zeros_(self.inner.weight)
            nn.init.zeros_(self.inner.bias)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.inner(x)
            return y

    task: Any = registry.task("static")
    started = custom._start(task, task.setting_type(), Zeros())
    assert not any(bool(value.any()) for value in started.parameters())


@pytest.mark.parametrize(
    ("model", "fields", "message"),
    [
        (nalus, {}, "not 24 settings; give one value for op"),
        (lambda: nn.Linear(100, 1), {"op": "mul"}, "like none of these networks; .*: relu6, nac"),
        (lambda: nn.Linear(7, 1), {"op": "mul", "layer": "nac"}, "cannot be trained"),
        (lambda: nn.Linear(100, 2), {"op": "mul", "layer": "nac"},
         r"answers with shape \(\d+, 2\), where targets have \(\d+, 1\)"),
        (nalus, {"op": "mul", "penalty": "spareness:1"}, "spareness"),
        (nalus, {"task": "gridworld"}, "task=gridworld: not a supervised task"),
        (nalus, {"op": "mull"}, "op='mull'"),
    ],
)  # fmt: skip
def test_what_cannot_be_trained_is_refused(
    model: Any, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        nr.train(model(), preset="smoke", **fields)
