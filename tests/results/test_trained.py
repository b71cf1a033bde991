"""The choice among what runs left: any kind of file, several networks in each."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path

import pytest

from nalu_ray.errors import ConfigError
from nalu_ray.results.store.networks import Found, Kind, best, describe

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


def test_an_infinite_score_is_no_good_one(out: Path) -> None:
    store(out, "0", {"kind": "v", "score": math.inf})
    assert best(str(out), "task", KIND, {}, as_found).about["kind"] == "y"


def as_found(found: Found) -> Found:
    return found


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
    found = best(str(out), "task", KIND, wanted, as_found)
    assert (found.path, found.about["kind"]) == (str(out / "task" / f"{name}.thing"), kind)
    assert found.data == Path(found.path).read_bytes()


@pytest.mark.parametrize(
    ("value", "text", "same"),
    [
        (0.01, "1e-2", True), (0.01, "0.02", False), (3, "3", True), (3, "x", False),
        ([3, 5], "3:5", True), ([3, 5], "[3, 5]", True), ([3, 5], "3:6", False), ([3], "3", True),
        ([3, 5], "3:5:7", False), ([0.2, "glorot"], "0.20:glorot", True), (10.0, "1_0", False),
        ({"a": 1.0, "b": False}, "b:false;a:1", True), ({"a": 1}, "a:2", False), ({}, "a:1", False),
        (None, "none", True), (True, "true", True), (True, "1", False), ("1e-2", "0.01", False),
    ],
)  # fmt: skip
def test_values_are_wanted_as_on_the_command_line(
    tmp_path: Path, value: object, text: str, same: bool
) -> None:
    store(tmp_path, "a", {"kind": value, "score": 1.0})
    if same:
        assert best(str(tmp_path), "task", KIND, {"kind": text}, as_found).about["kind"] == value
    else:
        with pytest.raises(ConfigError, match=f"no thing with kind={text} in .*; there is kind: "):
            best(str(tmp_path), "task", KIND, {"kind": text}, as_found)


def test_what_there_is_is_told_as_it_is_asked_for(tmp_path: Path) -> None:
    store(tmp_path, "a", {"kind": [3, 5], "score": 1.0}, {"kind": {"a": True}, "score": 1.0})
    with pytest.raises(ConfigError, match=r"kind=3:6 in .*; there is kind: 3:5, a:true$"):
        best(str(tmp_path), "task", KIND, {"kind": "3:6"}, as_found)


def test_what_cannot_be_read_is_named_and_skipped(
    out: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (out / "task" / "aa.thing").write_text("nothing")
    with caplog.at_level(logging.WARNING):
        assert best(str(out), "task", KIND, {}, as_found).path.endswith("b.thing")
    assert [record.getMessage()[:8] for record in caplog.records] == ["skipped "]


def test_none(tmp_path: Path, out: Path) -> None:
    with pytest.raises(ConfigError, match=r"no thing in .*other; python -m nalu_ray\.tune other"):
        best(str(out), "other", KIND, {}, as_found)
    with pytest.raises(ConfigError, match=r"no thing with kind=v in .*; there is kind: w, x, y, z"):
        best(str(out), "task", KIND, {"kind": "v"}, as_found)
    with pytest.raises(ConfigError, match="unknown key 'kinds'"):
        best(str(out), "task", KIND, {"kinds": "v"}, as_found)


def test_description() -> None:
    assert describe({"head": "nac", "step": 20, "value": 0.123456}) == (
        "head=nac step=20 value=0.1235"
    )
