"""The estimated time left, over simulated sweeps."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from nalu_ray.sweep.pace import Pace, Work


class Clock:
    now = 500.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Simulated:
    """A trial: what is expected of it, and what it takes.

    Attributes:
        work: what the estimate knows.
        step_seconds: time of a step, by the time of the simulation.
        start_seconds: of the trial's first work, such as loading and compiling.
        silent: no report comes between these times.
        resumed: the step from which it resumes.
    """

    work: Work
    step_seconds: Callable[[float], float]
    start_seconds: float = 0.5
    silent: tuple[float, float] = (0.0, 0.0)
    resumed: int = 0

    def reports(self, began: float, every: float) -> Iterator[tuple[float, int, float]]:
        """Yields time, step and seconds of work of each report, the last at the end."""
        now, step, told = began + self.start_seconds, self.resumed, began
        before = 100.0 if self.resumed else 0.0
        while step < self.work.steps:
            now += self.step_seconds(now)
            step += 1
            if self.silent[0] <= now < self.silent[1]:
                now = self.silent[1]
            if now - told >= every or step == self.work.steps:
                told = now
                yield now, step, before + now - began


def simulate(
    trials: list[Simulated], slots: int, every: float = 1.0, ray: float = 0.0
) -> list[tuple[float, float | None, float]]:
    """Runs trials on slots; returns, per report, time since work began, estimate and truth."""
    clock = Clock()
    pace = Pace([trial.work for trial in trials], slots, clock)
    began = clock.now + ray
    seen: list[tuple[float, float | None]] = []
    queue = list(trials)
    going: list[tuple[float, int, int, float, Simulated, Iterator[tuple[float, int, float]]]] = []

    def begin(at: float) -> None:
        trial = queue.pop(0)
        pace.started(trial.work.key)
        reports = trial.reports(max(at, began), every)
        now, step, spent = next(reports)
        heapq.heappush(going, (now, len(queue), step, spent, trial, reports))

    for _ in range(min(slots, len(queue))):
        begin(clock.now)
    while going:
        clock.now, number, step, spent, trial, reports = heapq.heappop(going)
        if step == trial.work.steps:
            pace.ended(trial.work.key, step, spent, trial.resumed)
            if queue:
                begin(clock.now)
        else:
            pace.reported(trial.work.key, step, spent, trial.resumed)
            now, step, spent = next(reports)
            heapq.heappush(going, (now, number, step, spent, trial, reports))
        if not seen or clock.now - seen[-1][0] >= 2.0:
            seen.append((clock.now, pace.left()))
    assert pace.share == pytest.approx(1.0)
    return [(at - began, left, clock.now - at) for at, left in seen]


def trial(
    number: int,
    steps: int,
    expected: float,
    takes: float | Callable[[float], float],
    group: str = "",
    **more: object,
) -> Simulated:
    step = takes if callable(takes) else lambda now: takes / steps
    return Simulated(Work(str(number), steps, expected, group), step, **more)  # type: ignore[arg-type]


def assert_right(
    history: list[tuple[float, float | None, float]], factor: float = 2.0, after: float = 60.0
) -> None:
    """The first estimate within 30 s of work; after a minute within a factor of two."""
    estimates = [(at, left, truth) for at, left, truth in history if left is not None]
    assert estimates[0][0] <= 30
    later = [entry for entry in estimates if entry[0] >= after]
    assert later
    for at, left, truth in later:
        low, high = truth / factor - 5, truth * factor + 5  # seconds do not matter
        assert low <= left <= high, f"after {at:.0f} s: {left:.0f} s, in truth {truth:.0f} s"


def layers(
    speed: dict[str, float], expected: dict[str, float], steps: int = 1000
) -> list[Simulated]:
    """Six trials of each layer, the longest expectation first."""
    made = [
        trial(6 * number + operation, steps, expected[name], speed[name], name)
        for number, name in enumerate(speed)
        for operation in range(6)
    ]
    return sorted(made, key=lambda one: -one.work.seconds)


@pytest.mark.parametrize("wrong", [0.2, 1.0, 20.0])
@pytest.mark.parametrize("slots", [1, 2, 8])
def test_a_wrong_preset_is_corrected_by_what_has_run(wrong: float, slots: int) -> None:
    trials = [trial(n, 100, 40.0, 40.0 * wrong) for n in range(20 * slots)]
    assert_right(simulate(trials, slots, ray=60.0))


def test_the_start_of_ray_is_not_counted() -> None:
    trials = [trial(n, 100, 40.0, 40.0) for n in range(20)]
    quick, slow = (simulate(trials, 2, ray=ray) for ray in (0.0, 300.0))
    assert [left for _, left, _ in quick] == pytest.approx([left for _, left, _ in slow])


def test_layers_whose_relative_cost_is_measured() -> None:
    speed = {"none": 4.0, "relu6": 6.0, "nac": 15.0, "nalu": 60.0, "nac_nalu": 120.0}
    measured = {name: seconds / 3 for name, seconds in speed.items()}  # on a quieter machine
    history = simulate(layers(speed, measured), 2, ray=20.0)
    assert_right(history, factor=1.3)


def test_layers_of_unknown_cost() -> None:
    speed = {"none": 30.0, "relu6": 35.0, "nac": 70.0, "nalu": 110.0, "nac_nalu": 120.0}
    preset = {"none": 4.0, "relu6": 4.0, "nac": 8.0, "nalu": 16.0, "nac_nalu": 16.0}
    assert_right(simulate(layers(speed, preset), 2, ray=20.0))


def test_a_layer_that_has_run_says_how_long_its_other_trials_take() -> None:
    speed, preset = {"a": 10.0, "b": 80.0}, {"a": 10.0, "b": 10.0}
    trials = layers(speed, preset)
    mixed = [one for pair in zip(trials[:6], trials[6:], strict=True) for one in pair]
    history = simulate(mixed, 1)
    assert_right(history, factor=1.25, after=100.0)  # the first b ends at 90


def test_a_slow_start_is_no_measure_of_the_rest() -> None:
    trials = [trial(n, 400, 100.0, 200.0, start_seconds=20.0) for n in range(4)]
    assert_right(simulate(trials, 2))


def test_steps_of_ten_seconds() -> None:
    trials = [trial(n, 60, 100.0, 600.0) for n in range(8)]
    assert_right(simulate(trials, 2, every=10.0))


def test_a_machine_that_becomes_busy() -> None:
    def slower(now: float) -> float:
        return 0.2 if now < 700.0 else 0.8

    trials = [trial(n, 100, 20.0, slower) for n in range(60)]
    history = simulate(trials, 2)
    assert_right(history, after=400.0)


def test_a_resumed_half_is_half_the_work() -> None:
    trials = [trial(n, 1000, 50.0, 400.0, resumed=500) for n in range(2)]
    history = simulate(trials, 2)
    assert_right(history, factor=1.2)
    assert history[-1][0] == pytest.approx(200, abs=2)


def test_a_trial_that_reports_nothing_counts_as_slower() -> None:
    clock = Clock()
    pace = Pace([Work("a", 1000, 100.0)], 1, clock)
    pace.started("a")
    for second in (1, 2, 3, 4, 5):
        clock.now += 1.0
        pace.reported("a", 10 * second, float(second))
    before = pace.left()
    assert before == pytest.approx(95.0)
    clock.now += 15.0
    assert pace.left() == pytest.approx(80.0)  # a report every so often is no delay
    clock.now += 105.0
    after = pace.left()
    assert after is not None
    assert after > 5 * before


def test_a_trial_without_a_worker_waits_and_is_not_slow() -> None:
    """Others run in its slot meanwhile."""
    clock = Clock()
    pace = Pace([Work(key, 1000, 100.0) for key in "abc"], 1, clock)
    pace.started("a")
    for second in range(1, 11):
        clock.now += 1.0
        pace.reported("a", 10 * second, float(second))
    pace.lost("a")
    pace.started("b")
    for second in range(1, 51):
        clock.now += 1.0
        pace.reported("b", 10 * second, float(second))
    assert [*pace.running, *pace.waiting] == ["b", "c", "a"]
    assert pace.left() == pytest.approx(250.0)
    pace.started("a")
    assert [*pace.running, *pace.waiting] == ["b", "a", "c"]


def test_a_pause_after_a_few_steps_does_not_speak_for_the_rest() -> None:
    clock = Clock()
    pace = Pace([Work("a", 1000, 100.0, "dnc"), Work("b", 1000, 100.0, "dnc")], 1, clock)
    pace.started("a")
    clock.now += 100.0
    pace.reported("a", 500, 50.0)
    pace.ended("a", 1000, 100.0)
    pace.started("b")
    for step in (1, 2, 3):
        clock.now += 0.2
        pace.reported("b", step, 0.2 * step)
    clock.now += 40.0  # its step is recorded
    left = pace.left()
    assert left is not None
    assert left < 600.0
    clock.now += 1.0
    pace.reported("b", 4, 41.6)
    again = pace.left()
    assert again is not None
    assert again < 600.0


def test_no_work_is_no_estimate_and_no_failure() -> None:
    clock = Clock()
    pace = Pace([Work("a", 1000, 100.0), Work("b", 0, 0.0)], 2, clock)
    assert pace.left() is None
    pace.started("a")
    pace.reported("a", 0, 0.0)
    clock.now += 100.0
    assert pace.left() is None
    pace.ended("a", 0, 0.0)  # failed before its first step
    pace.started("b")
    pace.ended("b", 0, 5.0)
    pace.reported("unknown", 1, 1.0)
    assert pace.left() is None
    assert pace.share == 1.0


def test_time_between_trials_counts_per_waiting_trial() -> None:
    clock = Clock()
    pace = Pace([Work(name, 10, 10.0) for name in "abcde"], 2, clock)
    pace.started("a")
    clock.now += 10.0
    pace.ended("a", 10, 10.0)
    assert pace.left() == pytest.approx(20.0)
    assert pace.left(gap=3.0) == pytest.approx(26.0)
