"""Ranges of the command line, sampled points in a sweep, and rounds of Optuna."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from pydantic import Field

from nalu_ray import tune
from nalu_ray.command import flags, request, rounds, screen
from nalu_ray.command.words import Changes
from nalu_ray.errors import ConfigError
from nalu_ray.sweep.presets import Preset, expand, with_samples
from nalu_ray.sweep.ray.search import Study, draw
from nalu_ray.sweep.search import Range, Search, read_range
from nalu_ray.task import Setting


def _read(words: list[str]) -> request.TuneRequest:
    options, unknown = flags.parser().parse_known_intermixed_args(words)
    return request.read(options, unknown, words)


RATE = Annotated[float | None, Field(gt=0)]


class Net(Setting):
    lr: float = Field(0.1, gt=0)
    hidden: int = Field(2, ge=1)
    clip: float | None = Field(None, gt=0)
    layer: str = "nac"

    def unread(self) -> dict[str, str]:
        return {"clip": "tanh has no clip"} if self.layer == "tanh" else {}


def test_ranges_are_read_for_fields_of_numbers() -> None:
    assert read_range("lr", "log:1e-4:1", RATE) == Range(1e-4, 1, log=True, whole=False)
    assert read_range("n", "uniform:2:5", int) == Range(2, 5, log=False, whole=True)
    assert read_range("lr", "0.1", RATE) is None
    assert read_range("penalty", "log:1:2", str | None) is None
    assert read_range("sizes", "log:1:2", tuple[int, int]) is None


@pytest.mark.parametrize(
    "text", ["log:1:0.1", "log:-1:1", "uniform:1:1", "log:a:b", "log:none:1", "log:1:inf"]
)
def test_impossible_ranges(text: str) -> None:
    with pytest.raises(ConfigError, match=f"lr='{text}'"):
        read_range("lr", text, RATE)


def test_values_have_few_digits_and_stay_within() -> None:
    log, uniform = Range(1e-4, 1, True, False), Range(0.1, 0.3, False, False)
    assert [log.rounded(value) for value in (0.00012345, 0.98765, 0.99999)] == [1.23e-4, 0.988, 1.0]
    assert [uniform.rounded(value) for value in (0.123456, 0.29999)] == [0.123, 0.3]
    assert Range(0.12345, 1, True, False).rounded(0.12345) == 0.12345
    assert Range(2, 9, False, True).rounded(7) == 7


def test_points_are_the_same_everywhere_and_continue() -> None:
    ranges = {"lr": Range(1e-4, 1, True, False), "hidden": Range(2, 4, False, True)}
    few, many = (draw(Search(ranges, count), "static") for count in (3, 200))
    assert few == many[:3]
    assert draw(Search({"lr": ranges["lr"]}, 3), "static") == [{"lr": p["lr"]} for p in few]
    assert draw(Search(ranges, 3, seed=1), "static") != few
    assert {point["hidden"] for point in many} == {2, 3, 4}
    below = sum(point["lr"] < 0.01 for point in many) / len(many)
    assert abs(below - 0.5) < 4 * math.sqrt(0.25 / len(many))
    assert all(1e-4 <= point["lr"] <= 1 for point in many)


def test_samples_vary_their_fields_together() -> None:
    sweep = Preset.model_validate({
        "axes": {"layer": ["nac", "tanh"], "lr": [1, 2]},
        "set": {"clip": 5},
        "overrides": [{"when": {"layer": ["nac"]}, "set": {"lr": 7, "hidden": 3}}],
        "changes": {"clip": [8]},
        "seeds": 2,
    })  # fmt: skip
    samples = [{"lr": 0.1, "clip": 1.0}, {"lr": 0.2, "clip": 2.0}]
    points = [point.setting for point in expand(sweep, Net, {}, None, samples)]
    assert [(p.layer, p.lr, p.clip, p.hidden) for p in points] == [  # type: ignore[attr-defined]
        ("nac", 0.1, 1.0, 3), ("nac", 0.2, 2.0, 3), ("tanh", 0.1, 5.0, 2), ("tanh", 0.2, 5.0, 2),
    ]  # fmt: skip
    # printed and read again, and then changed
    printed = Preset.model_validate(with_samples(sweep, {}, samples).model_dump(mode="json"))
    assert [p.setting for p in expand(printed, Net, {})] == points
    assert {p.setting.lr for p in expand(printed, Net, {"lr": [0.5]})} == {0.5}  # type: ignore[attr-defined]


def test_words_of_a_search(fake: Any) -> None:
    read = Changes.read(["lr=log:1e-3:1", "samples=4", "search_seed=2"], fake.setting_type)
    assert (read.values, read.mistakes, read.samples, read.search_seed) == ({}, [], 4, 2)
    assert read.ranges == {"lr": Range(1e-3, 1, True, False)}
    wrong = ["samples=0", "search_seed=x", "lr=log:1:0"]
    assert len(Changes.read(wrong, fake.setting_type).mistakes) == 3


@pytest.mark.parametrize(
    ("line", "mistake"),
    [
        ("lr=log:1e-3:1", "lr=log:0.001:1: how many values? Add their number, such as samples=20"),
        ("samples=3", "samples=3: no field has a range to search, such as lr=log:1e-4:1"),
        ("lr=1 --search random", "--search random: no field has a range to search"),
        ("lr=log:1:2 samples=2 --search optuna", "needs the package optuna: "),
        ("lr=log:1:2 samples=2 --search optun", "unknown value 'optun'. Did you mean 'optuna'?"),
    ],
)
def test_mistakes_of_a_search(
    fake: Any, line: str, mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = request.importlib.util.find_spec
    gone = SimpleNamespace(find_spec=lambda name: None if name == "optuna" else find(name))
    monkeypatch.setattr(request.importlib, "util", gone)
    with pytest.raises(ConfigError) as caught:
        _read(["fake", *line.split()])
    assert mistake in str(caught.value)
    assert len(caught.value.messages) == 1


def test_optuna_is_told_scores_and_resumes(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("optuna")
    words = f"fake layer=a,b lr=log:1e-3:1 samples=12 --search optuna --out {tmp_path}".split()
    asked = _read(words)
    scores = lambda _, __, chosen: {  # noqa: E731
        sid: math.inf if p.setting.lr > 0.5 else abs(math.log(p.setting.lr / 0.03))
        for sid, p in chosen.items()
    }
    monkeypatch.setattr(rounds, "_scores", scores)
    first, again = ([*rounds.rounds(asked)] for _ in range(2))
    assert [len(part.points) for part in first] == [10, 20, 24]
    assert [part.points for part in first] == [part.points for part in again]
    rates = {
        layer: [p.setting.lr for p in first[-1].points if p.setting.layer == layer]
        for layer in ("a", "b")
    }
    assert rates["a"] != rates["b"]


def test_optuna_learns_from_scores() -> None:
    pytest.importorskip("optuna")
    study = Study(Search({"lr": Range(1e-4, 1, True, False)}, 60, 0, "optuna"), "static", "cell")
    misses = []
    for _ in range(12):
        points = [point["lr"] for point in study.suggest(5)]
        misses += [abs(math.log10(rate / 0.01)) for rate in points]
        study.tell([math.inf if rate > 0.5 else abs(math.log(rate / 0.01)) for rate in points])
    assert sum(misses[-20:]) < 0.75 * sum(misses[:20])


def test_failed_seeds_are_rerun_once_per_command_not_per_round(
    fake: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("optuna")
    planned = []
    monkeypatch.setattr(screen, "_full_protocol", lambda *given: planned.append(given) or ["full"])
    marks = tmp_path / "marks"
    line = "fake layer=a lr=log:1e-3:1 samples=7 --search optuna seeds=2 steps=1 --local"
    words = [*line.split(), "wrong=diverge", f"folder={tmp_path}", "--out", str(tmp_path / "out")]
    assert tune.main(words) == 1
    marks.unlink()
    capsys.readouterr()
    planned.clear()
    assert tune.main([*words, "--rerun-failed"]) == 1
    starts = [text.split()[2] for text in marks.read_text().splitlines() if "start" in text]
    assert starts == ["1"] * 7  # the failed seed of each sample
    # what holds for the whole search is said once
    shown = capsys.readouterr().out
    assert shown.count("search: 7 samples of lr=log:0.001:1; optuna, seed 0") == 1
    assert shown.count(" to do\n") == 2
    assert shown.count("full\n") == len(planned) == 1
