"""Metrics of a sweep for Prometheus and Grafana, which Ray exports from every node."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from ray import tune
from ray.util.metrics import Gauge

from nalu_ray.sweep.dispatch import Report, TrialSpec
from nalu_ray.task import Task

MOST_CELLS = 200  # series of a metric; the cells beyond share one
OTHERS = "others"
SELECTING = ("interpolation", "validation")  # the splits that models are selected by
STATES = ("waiting", "running", "done", "failed")


class Gauges(tune.Callback):
    """Sets gauges; Ray puts ``ray_`` before their names.

    ``nalu_ray_trials`` (tags task, state), ``nalu_ray_seed_steps_per_second`` and
    ``nalu_ray_best_interpolation_error`` (tags task, cell).

    A series cannot be removed, so there is none per trial. A cell has the trials of the same values
    of the task's axes, as in its tables: ``nac mul``.

    Args:
        task: the task.
        specs: the trials of the sweep.
        clock: returns seconds since any fixed time.
    """

    def __init__(
        self,
        task: Task[Any],
        specs: Sequence[TrialSpec],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.task, self.trials, self.clock = task.name, len(specs), clock
        self.cells = _cells(task, specs)
        self.speeds: dict[str, tuple[str, float]] = {}  # trial id -> cell and speed
        self.ended: dict[str, bool] = {}  # trial id -> whether every seed completed
        self.running: dict[str, tuple[float, int]] = {}  # trial id -> time and step of its report
        self.best: dict[str, float] = {}  # by cell
        each = ("task", "cell")
        self._trials = Gauge("nalu_ray_trials", "Trials by state.", ("task", "state"))
        self._speed = Gauge("nalu_ray_seed_steps_per_second", "Speed of running trials.", each)
        self._best = Gauge(
            "nalu_ray_best_interpolation_error",
            "Lowest error so far: median over a trial's seeds, interpolation or validation.",
            each,
        )
        self._count()

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune writes its callbacks to its folder; this one belongs to the command

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.running[trial.trial_id] = self.clock(), 0
        self._count()

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        report, spec = Report.read(result), trial.config["spec"]
        cell = self.cells[spec["key"]]
        now, key = self.clock(), trial.trial_id
        before, step = self.running.get(key, (now, report.step))
        steps = (report.step - max(step, report.resumed)) * len(spec["seeds"])
        if now > before and not report.done:
            self._set_speed(key, cell, max(0.0, steps / (now - before)))
        self.running[key] = now, report.step
        errors = [report.shown[split] for split in SELECTING if split in report.shown]
        if errors and errors[0] < self.best.get(cell, math.inf):
            self.best[cell] = errors[0]
            self._best.set(errors[0], {"task": self.task, "cell": cell})
        if report.done:
            self._end(key, not report.failed)

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._stop(trial.trial_id)
        self._count()

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self._end(trial.trial_id, False)

    def _set_speed(self, key: str, cell: str, speed: float) -> None:
        self.speeds[key] = cell, speed
        total = sum(each for at, each in self.speeds.values() if at == cell)
        self._speed.set(total, {"task": self.task, "cell": cell})

    def _stop(self, key: str) -> None:
        if key in self.speeds:
            self._set_speed(key, self.speeds[key][0], 0.0)
            del self.speeds[key]
        self.running.pop(key, None)

    def _end(self, key: str, good: bool) -> None:
        self._stop(key)
        self.ended[key] = good
        self._count()

    def _count(self) -> None:
        done, running = sum(self.ended.values()), len(self.running)
        failed = len(self.ended) - done
        waiting = max(0, self.trials - len(self.ended) - running)
        for state, count in zip(STATES, (waiting, running, done, failed), strict=True):
            self._trials.set(count, {"task": self.task, "state": state})


def _cells(task: Task[Any], specs: Sequence[TrialSpec]) -> dict[str, str]:
    """Returns the cell of each trial, by the trial's key."""
    of_trial = {
        spec.key: " ".join(str(getattr(spec.setting, name)) for name in task.axes) for spec in specs
    }
    kept = list(dict.fromkeys(of_trial.values()))[:MOST_CELLS]
    return {key: cell if cell in kept else OTHERS for key, cell in of_trial.items()}
