"""``~`` in every option that takes a path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from nalu_ray import predict, report, watch
from nalu_ray.cluster.__main__ import _parser as cluster_parser
from nalu_ray.cluster.__main__ import main as check_cluster
from nalu_ray.command import flags
from nalu_ray.results.store.paths import CACHE_VARIABLE, cache_folder, expanded
from nalu_ray.results.store.store import Store

PARSERS = {
    "tune": flags.parser,
    "report": report._parser,
    "watch": watch._parser,
    "predict": predict._parser,
}
PATHS = {"--out", "--config", "--to", "--checkpoint", "--save", "--figure", "--published"}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_path_of_somebodys_home(home: Path) -> None:
    assert expanded("~/results") == f"{home}/results"
    assert expanded("~") == str(home)
    for text in ("results", "./~", "a/~", "s3://bucket/~", "file:///~", ""):
        assert expanded(text) == text
    with pytest.raises(FileNotFoundError, match=r"write \./~nobody-here/x"):
        expanded("~nobody-here/x")


def test_the_cache_of_somebodys_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, "~/cache")
    assert cache_folder() == home / "cache"


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (command, option)
        for command, made in PARSERS.items()
        for option in sorted(PATHS & {*made()._option_string_actions})
    ],
)
def test_every_option_that_is_a_path_is_expanded(home: Path, command: str, option: str) -> None:
    parser = PARSERS[command]()
    for words in ([f"{option}=~/x.png"], [option, "~/x.png"]):
        options, unknown = parser.parse_known_args(["task", *words])
        assert unknown == []
        assert str(getattr(options, option[2:])) == f"{home}/x.png"


def test_no_option_that_is_a_path_was_forgotten() -> None:
    for made in PARSERS.values():
        for name, action in made()._option_string_actions.items():
            if action.metavar == "FILE" or "folder or URI" in (action.help or ""):
                assert name in PATHS


def test_a_cluster_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = cluster_parser().parse_args(["check", "~/cluster.yaml"])
    assert options.files == [home / "cluster.yaml"]
    assert check_cluster(["check", "~/cluster.yaml"]) == 2
    assert str(home / "cluster.yaml") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("main", "words"),
    [
        (report.main, ["--out", "~nobody-here/x"]),
        (watch.main, ["gridworld", "--t", "5", "--save=~nobody-here/x.gif"]),
    ],
)
def test_a_home_that_nobody_has(
    main: Callable[[list[str]], int], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "no home folder is known" in line


def test_a_store_of_ones_home(home: Path) -> None:
    assert Store("~/results").root == f"{home}/results"
