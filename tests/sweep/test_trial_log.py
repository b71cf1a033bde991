"""What a trial's page in the dashboard says, and the gauges of a sweep."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from nalu_ray.sweep.dispatch import Report, TrialSpec
from nalu_ray.sweep.ray import gauges
from nalu_ray.sweep.ray.gauges import Gauges
from nalu_ray.sweep.ray.trial_log import TrialLog
from nalu_ray.sweep.ray.worker import Slot

GRAFANA = Path(__file__).parents[2] / "cluster" / "grafana.json"


@pytest.fixture
def spec(fake: Any) -> TrialSpec:
    return TrialSpec(
        task="fake",
        setting=fake.setting_type(lr=0.5),
        setting_id="0a1b",
        seeds=(0, 1, 2, 3),
        label="fake a lr=0.5 seeds 0-3",
        steps=1000,
        out="results",
    )


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The log without the time of day before each line."""
    return [line[9:] for line in capsys.readouterr().err.splitlines()]


def test_a_log_says_what_runs_how_far_it_is_and_how_it_ends(
    spec: TrialSpec, capsys: pytest.CaptureFixture[str]
) -> None:
    time = SimpleNamespace(now=0.0)
    log = TrialLog(spec, seconds=5, clock=lambda: time.now)
    log.started()
    trial, setting, size, place = lines(capsys)
    assert trial == "trial: fake a lr=0.5 seeds 0-3"
    assert setting.startswith("setting 0a1b: layer=a lr=0.5 ")
    assert size == "4 seeds, 1,000 steps each; rows: results"
    assert place.endswith(", 1 thread, 0 GPU")

    for time.now, step in ((1.0, 100), (3.0, 300), (6.0, 600)):
        log.report(Report(step, 1000, {"mse": 0.25}, resumed=50))
    assert lines(capsys) == [
        "resumed from step 50",
        "step 100 of 1,000: mse 0.25",
        "step 600 of 1,000, 400 seed-steps/s, 4 s left: mse 0.25",
    ]
    failed = {1: "diverged at step 7", 3: "diverged at step 9"}
    log.failed('Traceback\n  File "x"\n')
    log.report(Report(1000, 1000, seconds=9, done=True, failed=failed, messages=("odd",)))
    assert lines(capsys) == [
        "Traceback",
        '  File "x"',
        "warning: odd",
        "done in 9 s: 2 of 4 seeds completed",
        "failed: seeds 1, 3: diverged at step 7",
    ]


@pytest.fixture
def values(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, ...], float]:
    """The last value of each series: name and values of the tags."""
    series: dict[tuple[str, ...], float] = {}

    class Recorded:
        def __init__(self, name: str, text: str, tags: tuple[str, ...]) -> None:
            self.name = name.removeprefix("nalu_ray_")

        def set(self, value: float, tags: dict[str, str]) -> None:
            series[(self.name, *tags.values())] = value

    monkeypatch.setattr(gauges, "Gauge", Recorded)
    return series


def running(spec: TrialSpec) -> Any:
    """A trial as Tune passes it to callbacks."""
    return SimpleNamespace(trial_id=spec.key, config={"spec": spec.plain()})


def test_gauges_count_trials_and_keep_the_best_error_per_cell(
    fake: Any, spec: TrialSpec, values: dict[tuple[str, ...], float]
) -> None:
    def count() -> list[float]:
        return [values["trials", "fake", state] for state in gauges.STATES]

    time = SimpleNamespace(now=0.0)
    more = {"setting_id": "b", "seeds": (4, 5)}
    specs = [spec, spec.model_copy(update=more), spec.model_copy(update={"setting_id": "c"})]
    shown = Gauges(fake, specs, clock=lambda: time.now)
    assert count() == [3, 0, 0, 0]
    first, second, _ = map(running, specs)

    def report(trial: Any, *arguments: Any, **fields: Any) -> None:
        shown.on_trial_result(0, [], trial, Report(*arguments, **fields).plain())

    for trial in (first, second):
        shown.on_trial_start(0, [], trial)
    assert count() == [1, 2, 0, 0]
    for time.now, error in ((1.0, 0.5), (2.0, 0.25), (3.0, 0.75)):
        report(first, int(100 * time.now), 1000, {"interpolation": error, "train": 0.0})
    assert values["best_interpolation_error", "fake", "a"] == 0.25
    assert values["seed_steps_per_second", "fake", "a"] == 400.0
    report(second, 30, 1000, {"interpolation": 0.125})
    assert values["best_interpolation_error", "fake", "a"] == 0.125
    assert values["seed_steps_per_second", "fake", "a"] == 400.0 + 30 * 2 / 3
    report(first, 1000, 1000, done=True)
    assert count() == [1, 1, 1, 0]
    assert values["seed_steps_per_second", "fake", "a"] == 30 * 2 / 3
    shown.on_trial_recover(0, [], second)  # its worker was lost: it waits
    assert count() == [2, 0, 1, 0]
    assert values["seed_steps_per_second", "fake", "a"] == 0.0
    shown.on_trial_start(0, [], second)
    time.now = 4.0
    report(second, 60, 1000, {"interpolation": 0.125}, resumed=30)
    assert values["seed_steps_per_second", "fake", "a"] == 30 * 2
    shown.on_trial_error(0, [], second)
    assert count() == [1, 0, 1, 1]
    assert values["seed_steps_per_second", "fake", "a"] == 0.0


def test_grafana_asks_for_metrics_that_are_exported(
    fake: Any, spec: TrialSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    tags: dict[str, set[str]] = {}

    class Declared:
        def __init__(self, name: str, text: str, keys: tuple[str, ...]) -> None:
            tags[f"ray_{name}"] = {*keys}

        def set(self, value: float, tags: dict[str, str]) -> None: ...

    monkeypatch.setattr(gauges, "Gauge", Declared)
    Gauges(fake, [spec])
    board = json.loads(GRAFANA.read_text(encoding="utf-8"))
    targets = [target for panel in board["panels"] for target in panel["targets"]]
    asked = {name for t in targets for name in re.findall(r"\bray_\w+", t["expr"])}
    assert asked == {*tags}
    for target in targets:
        (name,) = re.findall(r"\bray_\w+", target["expr"])
        text = target["expr"] + target["legendFormat"]
        labels = re.findall(r"(\w+)=~|by \((\w+)\)|\{\{(\w+)\}\}", text)
        assert {label for found in labels for label in found if label} <= tags[name]
    listed = [v["query"]["query"] for v in board["templating"]["list"] if v["type"] == "query"]
    for query in listed:
        ((name, label),) = re.findall(r"^label_values\((\w+), (\w+)\)$", query)
        assert label in tags[name]


def test_series_do_not_grow_with_trials_or_cells(
    fake: Any,
    spec: TrialSpec,
    values: dict[tuple[str, ...], float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gauges, "MOST_CELLS", 2)
    specs = [
        spec.model_copy(
            update={"setting_id": f"{layer}{n}", "setting": fake.setting_type(layer=layer)}
        )
        for n in range(20)
        for layer in ("a", "b", "gamma")
    ]
    shown = Gauges(fake, specs, clock=iter(range(1000)).__next__)
    for trial in map(running, specs):
        shown.on_trial_start(0, [], trial)
        for step in (10, 20):
            result = Report(step, 1000, {"interpolation": 0.5}).plain()
            shown.on_trial_result(0, [], trial, result)
        shown.on_trial_result(0, [], trial, Report(1000, 1000, done=True).plain())
    assert {key[2] for key in values if key[0] != "trials"} == {"a", "b", "others"}
    assert len(values) == len(gauges.STATES) + 2 * 3
    assert not any(value for key, value in values.items() if key[0] == "seed_steps_per_second")


def test_what_tune_calls_for_each_report_and_trial_is_no_task_of_the_dashboard() -> None:
    recorded = ray.remote(Slot).__ray_metadata__.method_meta.enable_task_events
    hidden = {name for name, listed in recorded.items() if not listed}
    assert hidden == {"train", "reset", "save", "stop", "get_auto_filled_metrics"}
