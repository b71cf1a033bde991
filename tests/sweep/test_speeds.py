"""Measured speeds of the machine, and the estimates made from them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from nalu_ray.command import screen
from nalu_ray.sweep.machine import GIB, Capacity, Node
from nalu_ray.sweep.plan import Job, Plan, make_plan
from nalu_ray.sweep.presets import Point
from nalu_ray.sweep.resources import Resources
from nalu_ray.sweep.speeds import Speeds, file

MACHINE = Capacity("test", (Node(2, 0, 64 * GIB),))


def plan_of(
    task: Any, layers: str, speeds: Speeds, seeds: int = 4, local: bool = True, **fields: Any
) -> Plan:
    fields = {"steps": 1000, **fields}
    settings = [task.setting_type(layer=layer, **fields) for layer in layers]
    wanted = [Point(setting=setting, seeds=tuple(range(seeds))) for setting in settings]
    resources = Resources(seeds_per_trial=seeds, max_concurrent=1)
    return make_plan(
        task, wanted, {}, Job("out", resources, 1000, speeds=speeds, local=local), MACHINE
    )


def measured(task: Any, path: Path | None, layers: str, seconds: float, **fields: Any) -> Speeds:
    speeds = Speeds(path, machine="here")
    for trial in plan_of(task, layers, speeds, **fields).trials:
        speeds.record(task, trial, seconds)
    return speeds


def test_an_estimate_is_the_preset_s_until_trials_are_measured(fake: Any) -> None:
    plan = plan_of(fake, "ab", Speeds())
    assert plan.seconds == pytest.approx(2 * 4.0)  # 1000 steps x 4 seeds x 1 ms each
    assert screen.describe_duration(plan).endswith(
        "8 s (the preset's guess, not measured on this machine)"
    )
    both = plan_of(fake, "ab", measured(fake, None, "ab", 20.0))
    assert both.expected == pytest.approx((20.0, 20.0))
    assert screen.describe_duration(both) == "about 40 s (measured on this machine)"


def test_what_is_not_measured_is_as_far_off_as_what_is(fake: Any) -> None:
    plan = plan_of(fake, "ab", measured(fake, None, "a", 20.0))
    assert plan.expected == pytest.approx((20.0, 20.0))
    assert plan.measured == 1
    assert "1 of 2 trials measured on this machine" in screen.describe_duration(plan)


def test_fields_that_change_no_speed_make_no_difference(fake: Any) -> None:
    speeds = measured(fake, None, "a", 20.0)
    assert plan_of(fake, "a", speeds, lr=0.5, steps=500).seconds == pytest.approx(10.0)
    assert plan_of(fake, "a", speeds, hidden=64).measured == 0
    assert plan_of(fake, "a", speeds, steps=10).measured == 0  # the start is most of it


def test_a_smaller_block_takes_less_but_not_in_proportion(fake: Any) -> None:
    speeds = measured(fake, None, "a", 20.0, seeds=8)
    seconds = plan_of(fake, "a", speeds, seeds=2).seconds
    assert seconds == pytest.approx(20.0 * (2 + 2) / (8 + 2))


def test_the_start_of_ray_is_part_of_an_estimate_on_ray(fake: Any) -> None:
    speeds = measured(fake, None, "ab", 20.0)
    speeds.record_start(ray=5.0, worker=6.0, trial=0.5)
    plan = plan_of(fake, "ab", speeds, local=False)
    assert plan.seconds == pytest.approx(5 + 6 + 2 * 20.5)
    text = screen.describe_duration(plan)
    assert text == "about 52 s, of which 11 s to start Ray (measured on this machine)"


def test_the_file_keeps_speeds_of_each_machine(fake: Any, tmp_path: Path) -> None:
    path = tmp_path / "cache" / "speed.json"
    speeds = measured(fake, path, "a", 20.0)
    speeds.record_start(ray=3.0)
    speeds.save()
    again = Speeds(path, machine="here")
    (trial,) = plan_of(fake, "a", again).trials
    assert again.seconds(fake, trial, 1000) == pytest.approx(20.0)
    assert (again.starts.ray, again.starts.worker) == (3.0, 7.0)
    again.record_start(ray=5.0, worker=9.0)
    assert (again.starts.ray, again.starts.worker) == (4.0, 9.0)  # not half of a mere default
    again.record(fake, trial, 5.0)  # half of the weight is the latest
    assert again.seconds(fake, trial, 1000) == pytest.approx(10.0)
    there = Speeds(path, machine="there")
    assert there.seconds(fake, trial, 1000) is None
    assert there.starts.ray == 8.0
    assert [path.name for path in path.parent.iterdir()] == ["speed.json"]


@pytest.mark.parametrize("text", ["", "{", '{"speeds": [{"machine": 3}]}', '{"speeds": 1}', "\0"])
def test_a_damaged_file_is_ignored_with_a_warning(
    fake: Any, tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "speed.json"
    path.write_text(text)
    with caplog.at_level(logging.WARNING):
        speeds = measured(fake, path, "a", 20.0)
    assert f"measured speeds in {path} are ignored" in caplog.text
    speeds.save()
    assert Speeds(path, machine="here").starts.ray == 8.0
    assert plan_of(fake, "a", Speeds(path, machine="here")).measured == 1


def test_a_file_that_cannot_be_written_is_a_warning(
    fake: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "taken").write_text("")
    with caplog.at_level(logging.WARNING):
        measured(fake, tmp_path / "taken" / "speed.json", "a", 20.0).save()
    assert "cannot keep measured speeds" in caplog.text


def test_where_the_file_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NALU_RAY_CACHE", str(tmp_path))
    assert file() == tmp_path / "speed.json"
    monkeypatch.delenv("NALU_RAY_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert file().name == "speed.json"
    assert file().parent.name == "nalu-ray"
