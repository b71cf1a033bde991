"""How many trials share a GPU, by measurement."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
import torch

from nalu_ray import registry
from nalu_ray.errors import ConfigError
from nalu_ray.sweep import device
from nalu_ray.sweep.block_size import widest
from nalu_ray.sweep.dispatch import TrialSpec
from nalu_ray.sweep.gpu_sharing import (
    Measured,
    candidates,
    describe,
    fastest,
    seed_steps_per_second,
)
from nalu_ray.sweep.machine import CONTEXT_BYTES, GIB, Capacity, Node
from nalu_ray.sweep.ray import gpus
from nalu_ray.sweep.resources import Resources
from nalu_ray.training import supervised


def capacity(*nodes: tuple[float, float]) -> Capacity:
    return Capacity("test", tuple(Node(cpus, count, 64 * GIB) for cpus, count in nodes))


@pytest.mark.parametrize(
    ("machine", "cpus", "counts"),
    [
        (capacity((4, 1)), 1, [1, 2, 4]),
        (capacity((64, 4)), 1, [1, 2, 4]),
        (capacity((4, 1)), 2, [1, 2]),
        (capacity((1, 4)), 1, [1]),
        (capacity((64, 0), (16, 1), (6, 2)), 1, [1, 2]),
        (capacity((2, 0)), 1, [1]),
    ],
)
def test_no_more_trials_are_tried_than_there_are_cpus_for(
    machine: Capacity, cpus: float, counts: list[int]
) -> None:
    asked = Resources(gpus_per_trial="auto", cpus_per_trial=cpus, seeds_per_trial=100)
    tried = dict(candidates(asked, machine))
    assert list(tried) == counts
    # one trial has as many seeds as all that share a GPU
    assert {count * widest(found) for count, found in tried.items()} == {1000}
    assert [found.gpus for found in tried.values()] == [1 / count for count in counts]


def test_the_fastest_that_fits_is_taken() -> None:
    one, two, four = Measured(10, 2, 16), Measured(15, 4, 16), Measured(20, 15, 16)
    assert fastest({1: one, 2: two}) == 2
    assert fastest({1: one, 2: two, 4: four}) == 2  # no room for peaks
    assert fastest({1: Measured(16, 2, 16), 2: two, 4: None}) == 1
    with pytest.raises(ConfigError, match="reduce --seeds-per-gpu"):
        fastest({1: None, 4: four})


def test_what_was_measured_is_told() -> None:
    found = Measured(12345.6, 3 * GIB, 14 * GIB)
    assert describe(1, 1000, found) == (
        "1 trial of 1,000 seeds on a GPU: 12,346 seed-steps/s, 3.0 of 14.0 GiB"
    )
    assert describe(4, 1, None) == "4 trials of 1 seed on a GPU: out of memory"
    assert describe(2, 5, Measured(1, 14, 14)).endswith("GiB, too much")


def test_the_speed_is_that_of_the_time_together() -> None:
    # the second starts 5 s later, and from then on both are half as fast
    first = [(0.0, 0), (10.0, 1000), (15.0, 2000), (25.0, 3000)]
    second = [(5.0, 0), (15.0, 1000), (25.0, 2000)]
    assert seed_steps_per_second([first, second], 3) == pytest.approx(3 * 200)
    assert seed_steps_per_second([[(0.0, 0), (2.0, 10)]], 7) == pytest.approx(35)
    apart = [[(0.0, 0), (2.0, 10)], [(3.0, 0), (5.0, 30)]]
    assert seed_steps_per_second(apart, 1) == pytest.approx(5 + 15)


def spec(task: str, out: Path, **values: Any) -> TrialSpec:
    setting = registry.task(task).setting_type(**values)
    return TrialSpec(
        task=task, setting=setting, setting_id=setting.id, seeds=(0, 1), label="t",
        steps=setting.steps, out=str(out), gpus=0.5,
    )  # fmt: skip


@pytest.fixture
def _a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The CPU in the place of a GPU of 16 GiB, of which 9 are free."""
    monkeypatch.setenv(device.REHEARSE, "1")
    answers = {
        "synchronize": None,
        "mem_get_info": (9 * GIB, 16 * GIB),
        "max_memory_reserved": 2 * GIB,
    }
    for name, value in answers.items():
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    with device.kept_settings():
        yield


@pytest.mark.usefixtures("_a_gpu")
def test_data_come_before_the_first_second(
    fake: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    monkeypatch.setattr(type(fake), "prepare", lambda _: events.append("data"))
    ticks = chain([0.0, 2.0], repeat(3.0))

    def tick() -> float:
        events.append("time")
        return next(ticks)

    # a clock that nobody sets
    monkeypatch.setattr(gpus, "time", SimpleNamespace(monotonic=tick))
    samples, taken, free = gpus._measure(spec("fake", tmp_path, folder=str(tmp_path)).plain())
    assert events[:2] == ["data", "time"]
    assert [step for _, step in samples] == [0, 1, 2, 3, 4]
    assert (taken, free) == (2 * GIB + CONTEXT_BYTES, 9 * GIB)
    assert (tmp_path / "marks").read_text().splitlines()[-1].startswith("closed")
    assert not list(tmp_path.glob("**/*.parquet"))


def test_memory_of_others_is_no_room() -> None:
    # each of two takes 3 GiB, and 4 GiB are left: of 16 GiB, others have 6
    answer = ([(0.0, 0), (1.0, 10)], 3 * GIB, 4 * GIB)
    together = gpus._together([answer, answer], 5)
    assert together == Measured(100.0, 6 * GIB, 10 * GIB)


@pytest.mark.usefixtures("_a_gpu")
def test_a_block_is_measured_from_its_start_to_an_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(gpus, "TRAIN_SECONDS", 0.0)
    values = {"layer": "relu", "steps": 8, "evaluations": 2}
    samples, *_ = gpus._measure(spec("identity", tmp_path, **values).plain())
    assert [step for _, step in samples] == [0, 4]


class Waiting:
    """Ray, whose tasks never answer."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.cancelled: list[Any] = []
        self.removed: list[Any] = []

    def use(self, patch: pytest.MonkeyPatch) -> None:
        answers = iter(range(9))
        task = type("Task", (), {"remote": lambda _, __: next(answers)})()
        remote = type("Remote", (), {"options": lambda _, **__: task})()
        patch.setattr(ray, "remote", lambda **_: lambda _: remote)
        patch.setattr(ray, "get", self.get)
        patch.setattr(ray, "cancel", lambda x, force: self.cancelled.append((x, force)))
        patch.setattr(gpus, "placement_group", lambda bundles: bundles)
        patch.setattr(gpus, "PlacementGroupSchedulingStrategy", lambda *_: None)
        patch.setattr(gpus, "remove_placement_group", self.removed.append)

    def get(self, *_: Any, **__: Any) -> Any:
        raise self.error


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ray.exceptions.GetTimeoutError("x"), "it takes longer than 1800 s; give a number"),
        (ray.exceptions.WorkerCrashedError(), "cannot be measured"),
        (KeyboardInterrupt("stop"), "stop"),
        (ray.exceptions.OutOfMemoryError("x"), None),
    ],
)
@pytest.mark.usefixtures("fake")
def test_a_measurement_that_ends_early_frees_the_gpu(
    error: Any, words: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = Waiting(error)
    there.use(monkeypatch)
    if words is None:
        assert gpus.measure_gpu(spec("fake", tmp_path), 2) is None
    else:
        kind = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else ConfigError
        with pytest.raises(kind, match=words):
            gpus.measure_gpu(spec("fake", tmp_path), 2)
    assert there.cancelled == [(0, True), (1, True)]
    assert there.removed == [[{"GPU": 1.0, "CPU": 2.0}]]
