"""Published values from a CSV: what is read, what is refused, and where they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nalu_ray.errors import ConfigError
from nalu_ray.report import main
from nalu_ray.results.publication import Publication, read
from nalu_ray.results.published import Published
from nalu_ray.results.specs import TaskSpecs
from nalu_ray.results.store.store import Store
from tests.results.samples import TABLE_5, fill, identity
from tests.results.test_success import FIGURE

HEADING = "table,row,column,measure,value"


def written(folder: Path, *lines: str) -> Path:
    path = folder / "mine.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_file_of_two_tables(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        f"bold,{HEADING},source",
        'true,rates,nau,add,rate,100%,"Somebody, in 2020"',
        ",rates,nalu,add,rate,<.5,",
        "false,other,nau,,error,-1.8e4,",
    )
    values = read(path)
    assert list(values) == ["rates", "other"]
    rates, other = values["rates"], values["other"]
    assert rates.source == "Somebody, in 2020"
    assert rates.lookup("nau", "add", "rate") == Published("100%", 100.0, "", True)
    assert rates.lookup("nalu", "add", "rate") == Published("<.5", 0.5, "<", False)
    assert rates.lookup("nau", "mul", "rate") is None
    assert other.lookup("nau", "", "error") == Published("-1.8e4", -18000.0, "", False)
    assert other.source == "mine.csv"
    assert read(path, "theirs")["other"].source == "theirs"
    assert Publication.model_validate_json(rates.model_dump_json()) == rates


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["table,row,column,value"], "no column 'measure'; the columns are table, row"),
        ([f"{HEADING},colour"], "column 'colour'; the columns are"),
        ([f"{HEADING},row"], "column 'row' twice; the columns are"),
        ([HEADING, "t,a,b,m"], "line 2: 5 values are needed"),
        ([HEADING, "t,a,b,m,1,2"], "line 2: 5 values are needed"),
        ([HEADING, "t,a,b,m,1", "t,a,b,m,2"], "line 3: t has a value for a, b, m above"),
        ([HEADING, "t,a,b,m,many"], "line 2: value='many': a number is needed, such as 98"),
        ([HEADING, "t,a,b,m,"], "line 2: value='': a number is needed"),
        ([HEADING, "t,a,b,m,inf"], "line 2: value='inf': a number is needed"),
        ([HEADING, "t,a,b,m,1_0"], "line 2: value='1_0': a number is needed"),
        ([HEADING, "t,a,b,m,<<1%"], "line 2: value='<<1%': a number is needed"),
        ([HEADING, 't,a,b,m,"1,2"'], "line 2: value='1,2': a number is needed"),
        ([HEADING, 't,"a', 'b",b,m,1'], "line 3: row='a\\nb': control characters"),
        ([f"{HEADING},bold", "t,a,b,m,1,yes"], "line 2: bold='yes': true or false"),
        ([HEADING, "t,a\x1b[31m,b,m,1"], "control characters"),
        ([HEADING, 't,"a"x,b,m,1'], "line 2: not CSV"),
        ([""], "no column 'table'"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, lines: list[str], message: str) -> None:
    path = written(tmp_path, *lines)
    with pytest.raises(ConfigError) as caught:
        read(path)
    (line,) = caught.value.messages
    assert line.startswith(str(path))
    assert message in line
    assert line.isprintable()


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"bad\.csv: not UTF-8"):
        read(tmp_path / "bad.csv")
    with pytest.raises(ConfigError, match=r"cannot read .*none\.csv: No such file"):
        read(tmp_path / "none.csv")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    store = Store(str(tmp_path / "results"))
    rows = identity(2)
    fill(store, "identity", rows[rows["layer"].isin(["tanh", "relu"])], ["layer"])
    figure = FIGURE.model_copy(update={"publication": None})
    store.write_specs(
        TaskSpecs(task="identity", title="Identity", tables=(TABLE_5,), figures=(figure,))
    )
    return tmp_path / "results"


def test_the_command_line_brings_ones_own(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, HEADING, "table_5,tanh,,error,7.5", "sizes,nau,,4,96")
    words = ["identity", "--out", str(results), "--to", str(tmp_path / "to")]
    assert main([*words, "--published", str(path), "--format", "md"]) == 0
    text = capsys.readouterr().out
    assert "(7.5)" in text
    assert "In parentheses: mine.csv." in text
    # the paper's 83.63 of ReLU is not mixed in
    assert re.findall(r"\(([0-9.]+)\)", text) == ["7.5"]


def test_values_that_no_cell_shows_are_named(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["table_5,tanh,,error,7.5", "table_5,tahn,,error,1", "table_5,relu,,eror,2"]
    path = written(tmp_path, HEADING, *lines)
    words = ["identity", "--out", str(results), "--to", str(tmp_path / "to")]
    assert main([*words, "--published", str(path), "--format", "md"]) == 0
    out, err = capsys.readouterr()
    assert "(7.5)" in out
    expected = f"warning: {path}: table_5 has no cell for tahn, error; relu, eror"
    assert err.splitlines()[0] == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("table_6,tanh,,error,1", "unknown table or figure 'table_6'. Did you mean 'table_5'?"),
        ("table_5,tanh,,error,x", "line 2: value='x': a number is needed"),
    ],
)
def test_a_wrong_file_is_named_and_exits_with_2(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, message: str
) -> None:
    path = written(tmp_path, HEADING, line)
    words = ["identity", "--out", str(results), "--to", str(tmp_path / "to")]
    assert main([*words, "--published", str(path)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {path}")
    assert message in err
    assert err.count("\n") == 1
    assert not (tmp_path / "to").exists()
