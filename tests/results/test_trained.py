"""The choice among what runs left: any kind of file, several networks in each."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path

import pytest

from nalu_ray.config import ConfigError
from nalu_ray.results.store.networks import Kind, best, describe

KIND = Kind(
    noun="thing",
    ending=".thing",
    read=lambda data, name: json.loads(data),
    error=ValueError,
    score=lambda about: about["score"],
)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    store(tmp_path, "b", {"kind": "x", "score": 1.0}, {"kind": "y", "score": 3.0})
    store(tmp_path, "a", {"kind": "y", "score": 2.0}, {"kind": "z", "score": math.nan})
    store(tmp_path, "c", {"kind": "x", "score": 3.0}, {"kind": "w", "score": -math.inf})
    (tmp_path / "task" / "rows.json").write_bytes(b"rows")
    return tmp_path


def store(out: Path, name: str, *abouts: dict[str, object]) -> None:
    path = out / "task" / f"{name}.thing"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(abouts))


@pytest.mark.parametrize(
    ("wanted", "name", "kind"),
    [
        ({}, "b", "y"),  # c is as good and comes later
        ({"kind": "x"}, "c", "x"),
        ({"kind": "y", "score": "2.0"}, "a", "y"),
        ({"kind": "z"}, "a", "z"),
        ({"kind": "w"}, "c", "w"),
    ],
)
def test_the_highest_score_of_those_that_match(
    out: Path, wanted: dict[str, str], name: str, kind: str
) -> None:
    found = best(str(out), "task", KIND, wanted)
    assert (found.path, found.about["kind"]) == (str(out / "task" / f"{name}.thing"), kind)
    assert found.data == Path(found.path).read_bytes()


@pytest.mark.parametrize(
    ("value", "text", "same"),
    [
        (0.01, "1e-2", True), (0.01, "0.02", False), (3, "3", True), (3, "x", False),
        (None, "none", True), (True, "true", True), (True, "1", False), ("1e-2", "0.01", False),
    ],
)  # fmt: skip
def test_values_are_wanted_as_on_the_command_line(
    tmp_path: Path, value: object, text: str, same: bool
) -> None:
    store(tmp_path, "a", {"kind": value, "score": 1.0})
    if same:
        assert best(str(tmp_path), "task", KIND, {"kind": text}).about["kind"] == value
    else:
        with pytest.raises(ConfigError, match=f"no thing with kind={text} in .*; there is kind: "):
            best(str(tmp_path), "task", KIND, {"kind": text})


def test_what_cannot_be_read_is_named_and_skipped(
    out: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (out / "task" / "aa.thing").write_text("nothing")
    with caplog.at_level(logging.WARNING):
        assert best(str(out), "task", KIND, {}).path.endswith("b.thing")
    assert [record.getMessage()[:8] for record in caplog.records] == ["skipped "]


def test_none(tmp_path: Path, out: Path) -> None:
    with pytest.raises(ConfigError, match=r"no thing in .*other; python -m nalu_ray\.tune other"):
        best(str(out), "other", KIND, {})
    with pytest.raises(ConfigError, match=r"no thing with kind=v in .*; there is kind: w, x, y, z"):
        best(str(out), "task", KIND, {"kind": "v"})
    with pytest.raises(ConfigError, match="unknown key 'kinds'"):
        best(str(out), "task", KIND, {"kinds": "v"})


def test_description() -> None:
    assert describe({"head": "nac", "step": 20, "value": 0.123456}) == (
        "head=nac step=20 value=0.1235"
    )
