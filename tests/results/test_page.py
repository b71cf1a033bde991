"""The HTML page: the same numbers as the other formats, colours that can be read, one file."""

from __future__ import annotations

import base64
import gzip
import io
import json
import math
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from nalu_ray import report, trained
from nalu_ray.command import replay
from nalu_ray.results.analysis.axes import Heading
from nalu_ray.results.analysis.curves import Curve
from nalu_ray.results.analysis.groups import Sweep
from nalu_ray.results.analysis.reproduction import RULE, VERDICTS, verdict
from nalu_ray.results.analysis.table import Table, build
from nalu_ray.results.output import page
from nalu_ray.results.output.formats import latex, markdown, tidy
from nalu_ray.results.output.grid import with_results
from nalu_ray.results.output.page import charts, facts, replays, seeds, svg, tables
from nalu_ray.results.output.save import Stored
from nalu_ray.results.store.store import Store
from nalu_ray.training import best_networks
from tests.results.samples import (
    TABLE_6,
    TABLE_7,
    fill,
    frame,
    identity,
    mse,
    run,
    specs,
)

MARKS = set(tables.MARKS.values())
FOLDER = Path(page.__file__).parent


class Parsed(HTMLParser):
    """The texts of every table's cells by its class, and every element's attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: list[tuple[str, list[list[list[str]]]]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append((tag, values))
        if tag == "table":
            self.tables.append((values.get("class") or "", []))
        elif tag == "tr":
            self.tables[-1][1].append([])
        elif tag in {"td", "th"}:
            self.tables[-1][1][-1].append([])
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        if tag in {"td", "th"}:
            self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside and data.strip():
            self.tables[-1][1][-1][-1].append(data.strip())

    def lines(self, name: str) -> list[list[list[str]]]:
        """The cells of all tables of a class, without titles of sections."""
        return [line for kind, lines in self.tables if kind == name for line in lines if line[1:]]


def small_static() -> pd.DataFrame:
    """Two layers on two operations, at two rates; one seed is lost."""
    rng = np.random.default_rng(3)
    parts = []
    for layer, op, lr in product(("nac", "nalu"), ("add", "mul"), (0.01, 0.1)):
        for seed in range(3):
            inner = {0: 10.0 ** rng.normal(1.5, 1.0), 100: 10.0 ** rng.normal(0.0, 2.0)}
            outer = {step: 4 * value for step, value in inner.items()}
            logs = mse(inner, outer, random_mse=20.0 + seed, threshold=0.05)
            lost = "diverged: at step 7" if (layer, seed) == ("nalu", 1) else None
            parts.append(run({"layer": layer, "op": op, "lr": lr}, seed, logs, lost))
    return frame(*parts)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    stored = Store(str(tmp_path_factory.mktemp("page") / "results"))
    static = small_static().assign(preset="laptop", changes="{}")
    fill(stored, "static", static, ["layer", "op", "lr"])
    curves = identity(3)
    fill(stored, "identity", curves[curves["layer"].isin(["tanh", "none"])], ["layer"])
    return stored


@pytest.fixture(scope="module")
def tasks(store: Store) -> list[Stored]:
    return [stored for name in store.tasks() if (stored := Stored.load(store, name))]


@pytest.fixture(scope="module")
def text(store: Store, tasks: list[Stored]) -> str:
    return page.page([stored.chapter(store) for stored in tasks])


def pipes(text: str) -> list[list[str]]:
    """The cells of a Markdown table's lines, without marks of style."""
    lines = [line for line in text.splitlines() if line.startswith("| ") and "| ---" not in line]
    plain = [re.sub(r"\\(.)", r"\1", line.replace("**", "")) for line in lines]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in plain]


# -- numbers -------------------------------------------------------------------------------------


def test_every_number_is_that_of_the_markdown(tasks: list[Stored], text: str) -> None:
    shown = {
        tuple(" ".join([part for part in parts if part not in MARKS][:2]) for parts in line)
        for kind, lines in Parsed(text).tables
        if lines[0][0] != ["row"]  # the list of what reproduces
        for line in lines
        if line[1:]  # not a section's title
    }
    known = {
        tuple(line)
        for stored in tasks
        for table in stored.tables
        for line in pipes(markdown(table))
    }
    assert len(known) > 30
    assert shown == known


def test_below_each_cell_stand_its_median_and_its_solved_seeds() -> None:
    logs = [mse({9: 1.0}, {9: value}, random_mse=100.0, threshold=5.0) for value in (1.0, 3.0, 9.0)]
    rows = frame(*(run({"layer": "nac", "op": "add"}, k, log) for k, log in enumerate(logs)))
    (line,) = [
        line
        for line in Parsed(tables.figure(build(TABLE_7, rows))).lines("cells")
        if "2/3" in str(line)
    ]
    (cell,) = [parts for parts in line if "2/3" in str(parts)]
    assert cell == ["↓", "1.0", "(0.0)", "3.0, 2/3 [21, 94]"]


def test_cells_are_coloured_by_the_verdict(tasks: list[Stored]) -> None:
    (whole, *_) = [t for stored in tasks for t in stored.tables if t.spec.number == 7]
    table = with_results(whole)
    classes = [
        values.get("class") for tag, values in Parsed(tables.figure(table)).tags if tag == "td"
    ]
    shown = {heading.key for heading in (*table.rows, *table.columns)}
    wanted = [
        tables.verdict_class(verdict(table.spec.measures[key], cell))
        for (row, column, key), cell in table.cells.items()
        if cell.published and {row, column} <= shown
    ]
    assert sorted(name for name in classes if name) == sorted(wanted)
    smoke = Parsed(tables.figure(replace(table, sweep=Sweep("smoke"))))
    assert not any((values.get("class") or "").startswith("v-") for _, values in smoke.tags)


def test_the_legend_has_every_colour_and_mark() -> None:
    text = page.page([])
    (legend,) = re.findall(r'<ul class="marks">(.*?)</ul>', text)
    shown = re.findall(r'<b class="(v-[\w-]+)">(\S) ([\w ]+)</b> \w', legend)
    assert [name for *_, name in shown] == [*VERDICTS] == [*tables.MARKS]
    for kind, mark, name in shown:
        assert kind == tables.verdict_class(name)
        assert mark == (tables.MARKS[name] or "–")
        assert f".{kind} {{ background: var(--{kind[2:]}); }}" in text
    assert text.index(legend) < text.index('id="reproduction"')  # before the first use


def test_csv_and_latex_are_those_of_the_files(tasks: list[Stored]) -> None:
    for table in (table for stored in tasks for table in stored.tables):
        packed = [
            values["data-copy"]
            for tag, values in Parsed(tables.figure(table)).tags
            if tag == "button" and "data-copy" in values
        ]
        texts = [gzip.decompress(base64.b64decode(data or "")).decode() for data in packed]
        assert texts == [tidy(table), latex(table)]


@pytest.mark.skipif(
    not (shutil.which("tectonic") or shutil.which("pdflatex")), reason="needs a LaTeX"
)
def test_latex_compiles(tasks: list[Stored], tmp_path: Path) -> None:
    body = "\n".join(latex(table) for stored in tasks for table in stored.tables)
    source = tmp_path / "tables.tex"
    packages = r"\usepackage[utf8]{inputenc}\usepackage{booktabs,graphicx,longtable}"
    source.write_text(
        rf"\documentclass{{article}}{packages}\begin{{document}}{body}\end{{document}}"
    )
    program = shutil.which("tectonic") or shutil.which("pdflatex") or ""
    quiet = [] if "tectonic" in program else ["-interaction=nonstopmode", "-halt-on-error"]
    done = subprocess.run(
        [program, *quiet, source.name], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:]


# -- seeds and profiles --------------------------------------------------------------------------


def with_seeds(*errors: float) -> Table:
    """One cell with a seed per extrapolation error; infinite: the seed diverged."""
    rows = []
    for seed, error in enumerate(errors):
        lost = "diverged: at step 7" if math.isinf(error) else None
        logs = mse({9: 1.0}, {9: error}, random_mse=100.0, threshold=5.0)
        rows.append(run({"layer": "nac", "op": "add"}, seed, logs, lost))
    return build(TABLE_6, frame(*rows))


def test_a_dot_for_every_seed_and_lost_ones_above() -> None:
    table = with_seeds(1.0, 10.0, 1000.0, math.inf)
    groups = seeds.groups(table)
    (group,) = [g for g in groups if g.key == "extrapolation"]
    ((_, cell),) = group.cells
    assert cell.seeds == (0, 1, 2, 3)
    assert cell.values == (1.0, 10.0, 1000.0, math.inf)
    assert cell.limit == 5.0
    drawn = seeds.dots(table, [group])
    (marks,) = re.findall(r'class="seed[^"]*" d="([^"]*)"', drawn)
    heights = [float(y) for y in re.findall(r"M\S+ (\S+?)h0", marks)]
    assert len(heights) == 4
    # the same distance for each factor of ten, upwards; what is lost above all
    assert (heights[0] - heights[1]) * 2 == pytest.approx(heights[1] - heights[2], abs=0.2)
    assert heights[3] == min(heights) < heights[2]
    assert 'data-values="1 10 1e3 ∞"' in drawn or 'data-values="1 10 1000 ∞"' in drawn
    assert ">lost<" in drawn
    assert "solved 1/4" in drawn


def test_a_profile_is_the_share_of_seeds_below_tau() -> None:
    table = with_seeds(1.0, 10.0, 1000.0, math.inf)
    drawn = seeds.profiles(table, seeds.groups(table))
    plots = [
        json.loads(values["data-plot"] or "")
        for _, values in Parsed(drawn).tags
        if "data-plot" in values
    ]
    (line,) = plots[-1]["lines"]
    shares = [float(value.split()[0]) for value in line["y"]]
    taus = [float(value.replace(",", "")) for value in line["x"]]
    errors = np.array([1.0, 10.0, 1000.0, math.inf])
    for tau, share in zip(taus, shares, strict=True):
        if not np.isclose(errors, tau, rtol=0.01).any():  # the text has three digits
            assert share == 100 * (errors < tau).mean()
    assert drawn.count('class="limit"') == drawn.count("data-plot")


def test_seeds_are_left_out_of_a_page_that_would_be_too_large(
    store: Store, tasks: list[Stored], text: str, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    assert "Every seed" in text
    assert len(text.encode()) < page.LARGEST
    monkeypatch.setattr(page, "LARGEST", len(text.encode()) - 1)
    smaller = page.page([stored.chapter(store) for stored in tasks])
    assert "Every seed" not in smaller
    assert "leaves out every seed" in caplog.text


# -- charts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "log", "wanted"),
    [
        ([0.0, 10.0], False, ["0", "2", "4", "6", "8", "10"]),
        ([1e-9, 1.0], True, ["10⁻⁹", "10⁻⁷", "10⁻⁵", "10⁻³", "10⁻¹"]),
        ([1.0, 100.0], True, ["1", "10", "100"]),
        ([math.nan, math.inf], False, None),
        ([3.0], False, None),
        ([0.0], True, None),
    ],
)
def test_ticks(values: list[float], log: bool, wanted: list[str] | None) -> None:
    made = svg.scale(values, 0, 100, log=log)
    ticks = made.ticks
    assert ticks
    assert all(0 <= made(value) <= 100 for value, _ in ticks)
    assert wanted is None or [label for _, label in ticks] == wanted


def test_a_long_curve_is_thinned_and_keeps_its_ends() -> None:
    x = np.linspace(-20, 20, 2001)
    thin = charts.thinned(Curve(Heading("a", "A"), x, x, x, x, 3, 3))
    assert len(thin.x) <= charts.MOST_POINTS
    assert (thin.x[0], thin.x[-1]) == (-20, 20)
    assert thin.middle.tolist() == thin.x.tolist()


# -- the page ------------------------------------------------------------------------------------


def test_the_summary_counts_each_verdict(tasks: list[Stored], text: str) -> None:
    tiles = re.findall(r'<li class="(v-[a-z-]+)"><b>([\d,]+)</b>', text)
    counts = {name: int(number) for name, number in tiles}
    assert set(counts) == {tables.verdict_class(name) for name in VERDICTS}
    assert sum(counts.values()) == 745
    # table 7: two layers, two operations, two sets; table 6: as many, and the random models
    shown = [t for stored in tasks for t in stored.tables if t.spec.number in (6, 7)]
    run_cells = sum(
        bool(c.published and c.value is not None) for t in shown for c in t.cells.values()
    )
    table_5 = 4
    assert 745 - counts["v-not-run"] == run_cells + table_5
    assert RULE[:20].lower() in text.lower()


def test_chapters_are_in_the_papers_order_and_the_leaderboard_is_last() -> None:
    chapters = [
        page.Chapter(task="board", title="Leaderboard", last=True),
        page.Chapter(task="other", title="Another"),
        page.Chapter(task="b", title="B", section="4.10"),
        page.Chapter(task="c", title="C", section="4.2"),
        page.Chapter(task="a", title="A", section="1.1", question="Is <it> so?"),
    ]
    text = page.page(chapters)
    assert re.findall(r'<section id="(\w+)"', text) == ["reproduction", *"acb", "other", "board"]
    assert '<p class="question">Is &lt;it&gt; so?</p>' in text


def test_what_was_not_recorded_is_said() -> None:
    known = dict(facts(specs("static"), {}, [{"spec": 3, "hardware": [], "started": "x"}]))
    names = ("Command", "Preset", "Budget", "Date", "Duration", "Hardware", "Versions", "Commit")
    assert all(known[name] == ["not recorded"] for name in names)
    manifest = {
        "commit": "0123456789abcdef", "dirty": True, "started": 1796049636.5, "seconds": 200.0,
        "hardware": {"processor": "P", "machine": "m", "cpus": 2, "gpus": []},
        "versions": {"python": "3.11.7", "torch": None},
        "spec": {
            "command": "run", "preset": "laptop", "changes": {"steps": 20},
            "setting": {"steps": 20, "batch": 64},
        },
    }  # fmt: skip
    known = dict(facts(specs("static"), {}, [manifest, manifest]))
    assert known["Preset"] == ["laptop steps=20"]
    assert known["Budget"] == ["steps=20", "batch=64"]
    assert known["Date"] == ["2026-11-30"]
    assert known["Duration"] == ["7 min in 2 trials, the longest 3 min"]
    assert known["Hardware"] == ["P, m, 2 CPUs, no GPU"]
    assert known["Versions"] == ["python 3.11.7"]
    assert known["Commit"] == ["0123456789ab with local changes"]
    assert known["Selection"] == ["selected by lowest interpolation mse, best logged step"]


def with_manifests(out: Path, task: str = "static") -> Store:
    """Two layers, each with a manifest of its own; the NAC's second seed was run again."""
    made = Store(str(out))
    for layer, seed, day, code in [
        ("nac", 0, 1, "a"), ("nac", 1, 2, "a"), ("nac", 1, 3, "b"), ("relu6", 0, 4, "a")
    ]:  # fmt: skip
        logs = mse({9: 1.0}, {9: 1.0}, random_mse=9.0)
        rows = frame(run({"layer": layer, "op": "add"}, seed, logs))
        setting = {"layer": layer, "op": "add", "steps": {"nac": 10, "relu6": 50}[layer]}
        manifest = {
            "commit": f"{day}" * 12, "started": 86_400.0 * day, "seconds": float(day),
            "versions": {"torch": f"2.{day}"},
            "spec": {"command": f"run {layer} {day}", "setting": setting},
        }  # fmt: skip
        key = {"task": task, "setting_id": f"{layer}-add", "code": code}
        about = {"preset": {"nac": "laptop", "relu6": "other"}[layer], "changes": "{}"}
        made.write(setting, key, rows, manifest, about=about)
    made.write_specs(specs(task).model_copy(update={"figures": ()}))
    return made


@pytest.mark.parametrize("words", [{"layer": ["nac"]}, {"preset": ["laptop"]}])
def test_the_facts_are_those_of_what_is_shown(words: dict[str, list[str]], tmp_path: Path) -> None:
    """Neither those of other settings, nor of rows that later ones of other code replaced."""
    store = with_manifests(tmp_path / "results")
    whole = Stored.load(store, "static")
    assert whole is not None
    shown = dict(whole.filtered(words, (), ()).chapter(store).facts)
    assert sorted(shown["Command"]) == ["run nac 1", "run nac 3"]
    assert shown["Budget"] == ["steps=10"]
    assert shown["Seeds"] == ["2 runs: seeds of 1 setting"]
    assert shown["Date"] == ["1970-01-02 to 1970-01-04"]
    assert shown["Duration"] == ["4 s in 2 trials, the longest 3 s"]
    assert sorted(shown["Versions"]) == ["torch 2.1", "torch 2.3"]
    assert sorted(shown["Commit"]) == ["1" * 12, "3" * 12]
    seed = dict(whole.filtered(words, (1,), ()).chapter(store).facts)
    assert seed["Command"] == ["run nac 3"]
    assert dict(whole.chapter(store).facts)["Budget"] == ["steps=10, 50"]


# -- stored networks -----------------------------------------------------------------------------


def put(out: Path, file: str, setting_id: str = "a1") -> None:
    """Stores a network that comes with the package as a run does, with its seed's last row."""
    task, _, name = file.partition("/")
    variant, ending = name.split(".", 1)
    data = (trained.folder() / file).read_bytes()
    seed = 0 if task == "gridworld" else best_networks.from_bytes(data)[0].about["seed"]
    key = {"task": task, "setting_id": setting_id}
    beside = {f"best.{ending}": data}
    Store(str(out)).write({"variant": variant}, key, run({}, seed, {}), {}, beside)


def test_the_lstm_that_comes_with_the_package_plays_beside_a_stored_agent(tmp_path: Path) -> None:
    put(tmp_path, "gridworld/nac_core.agent.pt")
    played = replay._shown(str(tmp_path), "gridworld")["episodes"]
    kinds = [(e["variant"], e["instruction"], e["shipped"]) for e in played]
    assert kinds == [
        ("nac_core", 19, False), ("nac_core", 60, False), ("lstm", 19, True), ("lstm", 60, True)
    ]  # fmt: skip
    ends = [e["outcome"].partition(";")[0] for e in played]
    assert ends[:2] == ["exact", "exact"]
    assert all(end.startswith("early by ") for end in ends[2:])
    for episode, instruction in zip(played, (19, 60), strict=False):
        assert len(episode["moments"]) == instruction + 1
        assert episode["moments"][-1][:2] == episode["target"]
    html = replays.html({"episodes": played}, {"lstm": "LSTM"})
    assert "LSTM a3c (comes with nalu-ray), T = 60" in html
    assert "nac_core impala, T = 60" in html
    # a stored LSTM comes first
    put(tmp_path, "gridworld/lstm.agent.pt", "c3")
    again = replay._shown(str(tmp_path), "gridworld")["episodes"]
    assert {e["variant"] for e in again} == {"nac_core", "lstm"}
    assert not any(e["shipped"] for e in again)


def test_texts_are_read_word_by_word(tmp_path: Path) -> None:
    put(tmp_path, "language/nalu.model.pt")
    shown = replay._shown(str(tmp_path), "language")
    assert "head=nalu combine=recurrent " in shown["about"]
    assert len(shown["traces"]) == replay.TEXTS
    for trace in shown["traces"]:
        assert len(trace["values"]) == len(trace["words"])
        assert trace["values"][-1] == pytest.approx(trace["target"], abs=3)
    assert replays.html(shown).count('<svg class="panel"') == replay.TEXTS


def test_digits_are_counted_image_by_image(tmp_path: Path) -> None:
    put(tmp_path, "mnist_counting/nac.model.pt")
    shown = replay._shown(str(tmp_path), "mnist_counting")
    assert len(shown["series"]) == replay.SERIES
    for series in shown["series"]:
        values, targets = np.array(series["values"]), np.array(series["targets"])
        assert values.shape == targets.shape == (20, 10)
        assert targets.sum(axis=1).tolist() == [*range(1, 21)]
        assert np.abs(values - targets).max() < 0.5
        with Image.open(io.BytesIO(base64.b64decode(series["png"]))) as image:
            assert image.size == (20 * 28, 28)
    strip = '<img class="strip" alt="20 images from left to right"'
    assert replays.html(shown).count(strip) == replay.SERIES


@pytest.mark.slow
def test_networks_of_other_settings_and_seeds_are_not_shown(tmp_path: Path) -> None:
    put(tmp_path, "gridworld/nac_core.agent.pt")
    put(tmp_path, "gridworld/lstm_nac.agent.pt", "c3")
    store = Store(str(tmp_path))

    def variants(*runs: tuple[str, int]) -> list[str]:
        shown = replay.replays(store, {"gridworld": {*runs}})
        return [e["variant"] for e in shown["gridworld"].get("episodes", [])]

    assert variants(("c3", 0), ("zz", 0)) == ["lstm_nac", "lstm_nac", "lstm", "lstm"]
    assert variants(("a1", 1), ("c3", 1)) == []  # the networks are of seed 0
    assert replay.replays(store, {"gridworld": {("zz", 0)}}) == {}


def test_a_filtered_report_replays_the_networks_of_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = with_manifests(tmp_path / "results")
    asked: list[Any] = []
    monkeypatch.setattr(report, "replays", lambda _, tasks: asked.append(tasks) or {})
    for words in ([], ["layer=nac", "seeds=1,"], ["preset=other"]):
        assert report.main(["static", *words, "--html", "--out", store.out]) == 0
    assert asked == [
        {"static": None}, {"static": {("nac-add", 1)}}, {"static": {("relu6-add", 0)}}
    ]  # fmt: skip


@pytest.mark.slow
def test_a_page_with_every_kind_of_replay_is_small(tmp_path: Path, tasks: list[Stored]) -> None:
    for name in ("nac_core", "lstm_nac", "lstm"):
        put(tmp_path, f"gridworld/{name}.agent.pt", name)
    put(tmp_path, "language/nalu.model.pt")
    put(tmp_path, "mnist_counting/nac.model.pt")
    put(tmp_path, "mnist_addition/nac.model.pt")
    names = ("gridworld", "language", "mnist_counting", "mnist_addition")
    shown = replay.replays(Store(str(tmp_path)), dict.fromkeys(names))
    text = page.page([page.Chapter(task=n, title=n, shown=shown[n]) for n in names])
    assert text.count("data-moments=") == 3 * 2
    assert text.count('<img class="strip"') == 2 * replay.SERIES
    assert "cannot be shown" not in text
    assert 50_000 < len(text.encode()) < 1_000_000 < page.LARGEST == 5_000_000


def test_no_process_is_started_without_networks(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", None)
    assert replay.replays(store, dict.fromkeys(store.tasks())) == {}


def test_networks_that_cannot_be_shown_are_a_note(tmp_path: Path) -> None:
    (tmp_path / "language").mkdir()
    (tmp_path / "language" / "x.model.pt").write_bytes(b"none")
    shown = replay._shown(str(tmp_path), "language")
    assert "cannot be shown" in replays.html(shown)


def test_texts_of_networks_are_escaped() -> None:
    bad = "<script>"
    moments = [[1, 1, bad], [1, 2, bad]]
    episode = {
        "variant": bad, "algorithm": bad, "instruction": 19, "outcome": bad,
        "walls": [[1, 0, 0], [0, 0, 0]],
        "target": [0, 1], "moments": moments,
    }  # fmt: skip
    trace = {"words": [bad, "b"], "values": [1.0, 2.0], "target": 3.0}
    series = {"png": bad, "names": [bad], "values": [[1.0], [2.0]], "targets": [[1.0], [2.0]]}
    html = replays.html(
        {"about": bad, "episodes": [episode], "traces": [trace], "series": [series], "note": bad}
    )
    assert bad not in html
    (player,) = [v for _, v in Parsed(html).tags if "data-moments" in v]
    assert json.loads(player["data-moments"] or "") == moments


# -- colours -------------------------------------------------------------------------------------


def themes() -> Iterator[tuple[str, dict[str, str]]]:
    """The style's colours in light, in dark and in print."""
    style = (FOLDER / "page.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{([^}]*)\}", style)
    for name, block in zip(("light", "dark", "print"), blocks, strict=True):
        yield name, dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours by WCAG 2.1."""

    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    for name, colours in themes():
        verdicts = [v.replace(" ", "-") for v in VERDICTS]
        texts = [("ink", ground) for ground in ("paper", "band", "shade", *verdicts)]
        texts += [(text, "paper") for text in ("soft", "link")]
        for text, ground in texts:
            assert contrast(colours[text], colours[ground]) >= 4.5, (name, text, ground)
        for mark in (f"c{i}" for i in range(7)):  # lines and dots
            for ground in ("paper", "shade"):
                assert contrast(colours[mark], colours[ground]) >= 3, (name, mark, ground)
        assert contrast(colours["edge"], colours["paper"]) >= 3
        lines = [colours[f"c{i}"] for i in range(7)]
        assert all(one != other for one, other in combinations(lines, 2))


def test_print_has_a_style_of_its_own() -> None:
    style = (FOLDER / "page.css").read_text(encoding="utf-8")
    (printed,) = re.findall(r"@media print \{ body (.*)\Z", style, re.DOTALL)
    (hidden,) = re.findall(r"([^{}]*)\{ display: none !important; \}", printed)
    assert {"nav", "#filter", ".tools", ".controls"} <= {*hidden.replace(" ", "").split(",")}
    assert {name for name, _ in themes()} == {"light", "dark", "print"}
    colours = dict(themes())
    assert colours["print"] == colours["light"]


# -- in a browser --------------------------------------------------------------------------------


@pytest.mark.browser
def test_in_chromium(text: str, tmp_path: Path) -> None:
    api = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("needs Chromium")
    file = tmp_path / "report.html"
    file.write_text(text, encoding="utf-8")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        shown = context.new_page()
        shown.set_default_timeout(60_000)
        wrong: list[str] = []
        shown.on("console", lambda message: wrong.append(message.text))
        shown.on("pageerror", lambda error: wrong.append(str(error)))
        shown.on("request", lambda request: wrong.append(request.url[:60]))
        shown.goto(file.as_uri())
        wrong.remove(file.as_uri()[:60])
        _sorts(shown)
        _filters(shown)
        _copies(shown)
        _says_values(shown)
        _is_dark(shown)
        _prints(shown)
        _fits_a_phone(shown)
        browser.close()
    assert [item for item in wrong if not item.startswith("data:")] == []


@pytest.mark.browser
def test_an_agent_moves_in_chromium(tmp_path: Path) -> None:
    api = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip("needs Chromium")
    # four moments: the agent goes right and then down
    moments = [[0, 0, "t = 0"], [0, 1, "t = 1"], [0, 2, "t = 2"], [1, 2, "t = 3: exact"]]
    episode = {
        "variant": "nac_core", "algorithm": "impala", "instruction": 3, "outcome": "exact",
        "walls": [[0, 0, 0], [0, 0, 0]], "target": [1, 2], "moments": moments,
    }  # fmt: skip
    chapter = page.Chapter(task="gridworld", title="Gridworld", shown={"episodes": [episode]})
    file = tmp_path / "report.html"
    file.write_text(page.page([chapter]), encoding="utf-8")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        shown = browser.new_context(reduced_motion="reduce").new_page()
        shown.set_default_timeout(60_000)
        shown.goto(file.as_uri())

        def place() -> tuple[str, str, str]:
            agent = shown.locator(".show .agent")
            x, y = (agent.get_attribute(name) or "" for name in "xy")
            return x, y, shown.locator(".show output").inner_text()

        shown.wait_for_timeout(1000)
        assert place() == ("0.15", "0.15", "t = 0")  # nothing moves unasked
        shown.get_by_role("slider", name="time, nac_core impala, T = 3").fill("2")
        assert place() == ("2.15", "0.15", "t = 2")
        shown.get_by_role("button", name="Play").click()
        shown.locator(".show output", has_text="t = 3: exact").wait_for()
        assert place() == ("2.15", "1.15", "t = 3: exact")
        shown.get_by_role("button", name="Play").click()  # from the start, as it was at its end
        shown.locator(".show output", has_text="t = 1").wait_for()
        shown.locator(".show output", has_text="t = 3: exact").wait_for()
        browser.close()


def _sorts(shown: Any) -> None:
    shown.get_by_role("button", name="NAC", exact=True).first.click()
    column = shown.evaluate(
        """() => { const head = document.querySelector('#static [aria-sort]');
        const place = [...head.parentElement.children].indexOf(head);
        return [...head.closest('table').tBodies[0].rows].filter(row => row.className !== 'section')
          .map(row => row.children[place].dataset.value) }"""
    )
    known = [float(value) for value in column if value]
    assert len(known) == 2
    assert known == sorted(known)
    assert column[: len(known)] == [value for value in column if value]  # the others last


def _filters(shown: Any) -> None:
    def visible() -> int:
        return int(shown.locator("#static td[data-layer=nac]:visible").count())

    before = visible()
    assert before
    shown.get_by_text("Layers: all").click()
    shown.get_by_role("checkbox", name="NAC", exact=True).uncheck()
    assert visible() == 0
    assert shown.locator("#static td[data-layer=nalu]:visible").count()
    shown.get_by_role("button", name="Show all").click()
    assert visible() == before


def _copies(shown: Any) -> None:
    shown.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    shown.get_by_role("button", name="Copy CSV").first.click()
    shown.get_by_role("button", name="Copied").wait_for()
    assert str(shown.evaluate("window.copied")).startswith("table,row,")


def _says_values(shown: Any) -> None:
    panel = shown.locator("#identity .panel[data-plot]").first
    panel.scroll_into_view_if_needed()
    box = panel.bounding_box()
    panel.hover(
        position={"x": box["width"] * 327 / 620, "y": box["height"] / 2}
    )  # the axis' middle
    said = shown.locator("#tip").inner_text()
    assert said.startswith("input = 0")
    assert "Tanh: 0.0" in said


def _is_dark(shown: Any) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = shown.evaluate(ground)
    shown.emulate_media(color_scheme="dark")
    assert (light, shown.evaluate(ground)) == ("rgb(255, 255, 255)", "rgb(22, 22, 22)")
    assert shown.locator("img").count() == 0  # figures follow, as no picture is white


def _prints(shown: Any) -> None:
    shown.emulate_media(color_scheme="dark", media="print")
    ground = shown.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(255, 255, 255)"  # paper is white, whatever the screen is
    for tools in ("nav", "#filter", ".tools"):
        assert shown.locator(tools).count()
        assert shown.locator(f"{tools}:visible").count() == 0
    assert shown.locator("#static td[data-layer=nac]:visible").count()
    shown.emulate_media(media="screen")


def _fits_a_phone(shown: Any) -> None:
    shown.set_viewport_size({"width": 375, "height": 700})
    assert shown.evaluate("document.documentElement.scrollWidth") == 375


@pytest.mark.parametrize("log", [False, True])
def test_an_axis_has_room_for_any_float(log: bool) -> None:
    values = [5e-324, 1.0, 10.0, 1.7e308, math.inf, math.nan]
    axis = svg.scale(values, 0.0, 100.0, log=log)
    assert all(math.isfinite(axis(value)) for value in values[:4])
    assert all(math.isfinite(value) for value, _ in axis.ticks)
