"""The report command: what it prints, writes and refuses."""

import csv
import io
import json
import os
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from nalu_ray import tune
from nalu_ray.report import main, present
from nalu_ray.results.output import save
from nalu_ray.results.specs import Axis, Measure, Selection, TableSpec
from nalu_ray.results.store.atomic_files import write_bytes, write_text
from nalu_ray.results.store.store import Store, StoreError
from tests.results.samples import fill, full_static, identity, specs

ROOT = Path(__file__).resolve().parents[1]


def filled(folder: Path, figures: bool) -> Path:
    """Two stored tasks, part of each run."""
    store = Store(str(folder / "results"))
    static = full_static(3, 2)
    static = static[static["layer"].isin(["nac", "nalu"]) & static["op"].isin(["add", "mul"])]
    fill(store, "static", static, ["layer", "op", "lr"], figures)
    curves = identity(3)
    fill(store, "identity", curves[curves["layer"].isin(["tanh", "none"])], ["layer"], figures)
    return folder / "results"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("stored"), figures=True)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without figures, which are slow to draw."""
    return filled(tmp_path_factory.mktemp("plain"), figures=False)


def report(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def written(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


FIGURES = {f"static/learning{x}" for x in (".png", "-dark.png", ".pdf")}


def test_tables_in_the_terminal_and_files(
    results: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert report("static", "--out", results, "--to", tmp_path) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("Static  section 4.1\n\nTable 7. Static arithmetic")
    assert "Table 6." in out
    assert "(33.3)" in out
    assert "1 diverged" in out
    assert max(map(len, out.splitlines()[:-1])) <= 120
    assert out.splitlines()[-1] == f"written: 7 files in {tmp_path}"
    tables = {f"static/table_{n}.{x}" for n in (6, 7) for x in ("md", "csv")}
    assert written(tmp_path) == FIGURES | tables


@pytest.mark.parametrize(
    ("kind", "start"),
    [("md", "**Table 7.**"), ("latex", "% \\use"), ("html", "<figure>"), ("csv", "table,row,")],
)
def test_a_format_leaves_stdout_to_the_tables(
    plain: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, start: str,
) -> None:  # fmt: skip
    assert report("static", "--format", kind, "--out", plain, "--to", tmp_path) == 0
    out, err = capsys.readouterr()
    assert out.startswith(start)
    assert err == f"written: 2 files in {tmp_path}\n"
    suffix = {"latex": "tex"}.get(kind, kind)
    files = [tmp_path / "static" / f"table_{n}.{suffix}" for n in (7, 6)]
    assert written(tmp_path) == {str(f.relative_to(tmp_path)) for f in files}
    texts = [f.read_text(encoding="utf-8") for f in files]
    if kind == "csv":  # one head, for readers of CSV
        texts[1] = texts[1].partition("\n")[2]
        assert out == "".join(texts)
        lines = list(csv.DictReader(io.StringIO(out)))
        assert {line["table"] for line in lines} == {"table_6", "table_7"}
        assert all(None not in line and line["measure"] != "measure" for line in lines)
    else:
        assert out == "\n".join(texts) + "\n"


def test_without_a_task_all_of_them(
    results: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert report("--out", results, "--to", tmp_path) == 0
    out = capsys.readouterr().out
    assert out.index("Identity  section 1.1") < out.index("Static  section 4.1")
    assert {"identity/figure_1.png", "identity/table_5.md"} <= written(tmp_path)


def test_the_examples_of_the_help_run(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").symlink_to(plain)
    (tmp_path / "mine.csv").write_text("table,row,column,measure,value\ntable_5,tanh,,error,7\n")
    assert main(["--help"]) == 0
    help_text = capsys.readouterr().out
    commands = re.findall(r"^ *(python -m nalu_ray\.report.*)$", help_text, re.MULTILINE)
    assert len(commands) >= 3
    for command in commands:
        # the rows of this test belong to no preset
        assert main(shlex.split(command.removesuffix(" preset=laptop"))[3:]) == 0
    assert (tmp_path / "site" / "report.html").is_file()
    assert (plain / "report" / "static" / "table_7.md").is_file()
    # what was written among the rows is no task
    assert Store(str(plain)).tasks() == ["identity", "static"]


def test_a_uri_writes_here_by_default(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert report("identity", "--out", results.as_uri()) == 0
    assert (tmp_path / "report" / "identity" / "table_5.csv").is_file()


# -- what is refused -----------------------------------------------------------------------------


def test_an_unknown_task(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report("statik", "--out", results) == 2
    assert "Did you mean 'static'?" in capsys.readouterr().err


def test_nothing_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report("static", "--out", tmp_path / "nowhere") == 2
    assert "no rows stored in" in capsys.readouterr().err
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("wrong", [["--format", "docx"], ["--formats", "md"], ["a", "b"]])
def test_wrong_usage(results: Path, wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert report(*wrong, "--out", results) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert wrong[0] in err or wrong[-1] in err


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (["--formt", "md"], ["unknown option '--formt'. Did you mean '--format'?"]),
        (["--tow=x"], ["unknown option '--tow'. Did you mean '--to'?"]),
        (["--foo", "-x"], ["unknown option '--foo'.", "unknown option '-x'."]),
        (["static", "identity"], ["'identity': one task at a time"]),
    ],
)
def test_an_unknown_option_names_the_nearest(
    results: Path, words: list[str], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(*words, "--out", results) == 2
    out, err = capsys.readouterr()
    assert out == ""
    found = err.splitlines()
    assert len(found) == len(lines)
    for line, start in zip(found, lines, strict=True):
        assert line.startswith(f"error: {start}")


def test_a_folder_that_cannot_be_written(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("no folder")
    assert report("identity", "--out", results, "--to", tmp_path / "file") == 2
    assert "error: cannot write" in capsys.readouterr().err
    assert report("identity", "--out", tmp_path / "file") == 2
    assert "cannot list" in capsys.readouterr().err
    assert report("identity", "--out", "nowhere://x") == 2


def test_a_file_that_is_skipped_is_named_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(str(tmp_path))
    curves = identity(2)
    fill(store, "identity", curves[curves["layer"] == "tanh"], ["layer"])
    bad = tmp_path / "identity" / "bad.parquet"
    bad.write_bytes(b"PAR1")
    assert report("--html", "--out", tmp_path) == 0
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.startswith(f"warning: skipped {bad}: ")


def test_rows_without_specifications_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(str(tmp_path))
    fill(store, "identity", identity(1), ["layer"])
    (tmp_path / "identity" / "specs.json").unlink()
    assert report("--out", tmp_path) == 0
    assert "no readable specs.json" in capsys.readouterr().err


def test_a_reader_that_has_seen_enough(plain: Path, tmp_path: Path) -> None:
    command = f"{sys.executable} -m nalu_ray.report --out {plain} --to {tmp_path} --format csv"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{command} | head -c 10"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "table,row,"
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


# -- the page ------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Tags with their attributes, checked for balance."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, Any]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "br", "img", "input", "link"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_one_page_with_everything_and_nothing_from_elsewhere(results: Path, tmp_path: Path) -> None:
    assert report("--html", "--out", results, "--to", tmp_path) == 0
    assert written(tmp_path) == {"report.html"}
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    assert page.open == []
    names = [tag for tag, _ in page.tags]
    # the key, three with their statistics, and the judged numbers of tables 5, 6 and 7
    assert names.count("table") == 10
    assert names.count("figure") == 5
    assert names.count("script") == 1
    assert not {"iframe", "object", "embed", "form", "base"} & set(names)
    for tag, values in page.tags:
        for name in ("src", "href", "srcset", "action"):
            assert str(values.get(name, "#")).startswith(("#", "data:")), (tag, values)
    assert not re.search(r"url\(|@import|https?:", text)
    assert "prefers-color-scheme: dark" in text
    targets = {values["id"] for _, values in page.tags if "id" in values}
    links = {values["href"][1:] for tag, values in page.tags if tag == "a"}
    assert links == {"main", "reproduction", "identity", "static"}
    assert links <= targets
    assert "<dt>Command</dt><dd>run static</dd>" in text
    assert "<dt>Commit</dt><dd>0123456789ab</dd>" in text
    # full_static loses seed 1 of nalu, at two rates of two operations
    assert "4 seeds lost: diverged" in text


def test_a_page_and_tables_together(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report("identity", "--html", "--format", "md", "--out", results, "--to", tmp_path) == 0
    assert capsys.readouterr().out.startswith("**Table 5.**")
    figures = {f"identity/figure_1{x}" for x in (".png", "-dark.png", ".pdf")}
    assert written(tmp_path) == {"report.html", "identity/table_5.md", *figures}


HOSTILE = "<script>alert(1)</script>"


def test_a_foreign_store_can_neither_script_nor_leave_the_folder(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "results"))
    curves = identity(1)
    fill(store, "identity", curves[curves["layer"] == "tanh"], ["layer"])
    path = tmp_path / "results" / "identity" / "specs.json"
    data = json.loads(path.read_text(encoding="utf-8"))
    del data["sha256"]  # as in those of earlier versions
    data.update(title=HOSTILE, section=HOSTILE, task="../../escaped")
    for item in (*data["tables"], *data["figures"]):
        item.update(name="../../../escaped", caption=HOSTILE)
        (item.get("rows") or item["lines"])["labels"]["tanh"] = HOSTILE
    path.write_text(json.dumps(data), encoding="utf-8")
    target = tmp_path / "deep" / "below"
    assert report("--out", tmp_path / "results", "--to", target) == 0
    assert report("--html", "--out", tmp_path / "results", "--to", target) == 0
    assert {p.name for p in tmp_path.iterdir()} == {"results", "deep"}
    assert written(tmp_path / "deep") == {f"below/{name}" for name in written(target)}
    assert len(written(target)) == 6
    assert HOSTILE not in (target / "report.html").read_text(encoding="utf-8")


# -- for the tune command ------------------------------------------------------------------------


def test_present_prints_and_says_what_it_wrote(results: Path, tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=100)
    paths = present(Store(str(results)), "identity", console, str(tmp_path))
    assert {str(Path(p).relative_to(tmp_path)) for p in paths} == written(tmp_path)
    assert sorted(Path(p).suffix for p in paths) == [".csv", ".md", ".pdf", ".png", ".png"]
    assert isinstance(console.file, io.StringIO)
    assert "Table 5." in console.file.getvalue()
    assert present(Store(str(results)), "parity", console, str(tmp_path)) == []


def test_nothing_of_which_no_cell_was_run_is_printed(tmp_path: Path) -> None:
    """Static's rows with identity's specifications: none of its tables has a cell."""
    store = Store(str(tmp_path / "results"))
    static = full_static(1, 1)
    fill(store, "static", static[static["layer"] == "nac"], ["layer", "op", "lr"])
    store.write_specs(specs("identity").model_copy(update={"task": "static"}))
    console = Console(file=io.StringIO(), width=100)
    assert present(store, "static", console, str(tmp_path / "to")) == []


# -- files are whole -----------------------------------------------------------------------------


def full(*_: object) -> None:
    """A disk that has no room for what was written."""
    raise OSError(28, "No space left on device")


def test_a_full_disk_leaves_the_file_that_was_there(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert report("identity", "--out", results, "--to", tmp_path) == 0
    before = {name: (tmp_path / name).read_bytes() for name in written(tmp_path)}
    monkeypatch.setattr(os, "fsync", full)
    capsys.readouterr()
    assert report("identity", "--out", results, "--to", tmp_path) == 2
    table = tmp_path / "identity" / "table_5.md"
    assert capsys.readouterr().err == f"error: cannot write {table}: No space left on device\n"
    assert {name: (tmp_path / name).read_bytes() for name in written(tmp_path)} == before
    figure = tmp_path / "identity" / "figure_1.png"
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_bytes(figure, b"png")
    assert caught.value.filename == str(figure)
    assert figure.read_bytes() == before["identity/figure_1.png"]


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.md").mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        write_text(tmp_path / "a.md", "text")
    assert caught.value.filename == str(tmp_path / "a.md")
    assert [path.name for path in tmp_path.iterdir()] == ["a.md"]


RUN = "fake layer=a lr=1 seeds=3 wrong=diverge --local"


@pytest.mark.parametrize("how", ["file", "store", "full"])
def test_a_run_ends_as_ever_where_nothing_can_be_reported(
    fake: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:  # fmt: skip
    measure = Measure(metric="mse", split="train", label="E", statistic="median")
    spec = TableSpec(
        name="t",
        caption="T.",
        rows=Axis(field="layer"),
        measures={"e": measure},
        layout="columns",
        selection=Selection(split="train"),
    )
    monkeypatch.setattr(type(fake), "tables", (spec,))
    if how == "file":
        (tmp_path / "results").mkdir()
        (tmp_path / "results" / "report").write_text("no folder")
    elif how == "full":
        monkeypatch.setattr(save, "write_text", full)
    else:

        def lost(store: Store, task: str) -> None:
            raise StoreError(f"cannot list {task}: Input/output error")

        monkeypatch.setattr(Store, "load", lost)
    for wrong, code in (("diverge", 1), ("no", 0)):
        assert tune.main(RUN.replace("diverge", wrong).split()) == code
        out, err = capsys.readouterr()
        (warning,) = [line for line in err.splitlines() if "speed" not in line]
        assert warning.startswith("warning: cannot write tables and figures: ")
        assert f"rows: {tmp_path}/results/fake" in out.splitlines()
        assert ("diverged" in out) == bool(code)


def test_tables_and_the_page_load_no_drawing_library(results: Path, tmp_path: Path) -> None:
    command = ["--html", "--out", str(results), "--to", str(tmp_path)]
    code = f"import sys, nalu_ray.report; nalu_ray.report.main({command})\n"
    code += "print({'matplotlib', 'torch', 'ray'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "set()"
