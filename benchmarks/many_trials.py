"""The cost per trial in a sweep of many: time and memory of the driver, and of the store.

    python benchmarks/many_trials.py [--trials 1000] [--every 100] [--running 16] [--seconds 60]

Each trial has a single step, so that only the overhead remains. For every hundred trials it prints
the seconds per trial, the driver's memory and the stored rows per second; then the time in which a
Store reads all rows, as the next command does first. At the end, it prints the driver's CPU time
per report, measured on trials that run at the same time for a minute.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import tempfile
import time

import psutil
from rich.console import Console

from nalu_ray import registry
from nalu_ray.results.store.store import Store
from nalu_ray.sweep import ray
from nalu_ray.sweep.machine import this_machine
from nalu_ray.sweep.plan import Job, Plan, make_plan
from nalu_ray.sweep.presets import Point
from nalu_ray.sweep.progress import Board
from nalu_ray.sweep.resources import Resources
from nalu_ray.sweep.trial import Report, TrialSpec

ROWS_A_TRIAL = 8  # the figures of two splits before and after the step, and the seed's last row
MIB = 1024**2


class Curve(Board):
    """A board that prints a line after a number of trials."""

    def __init__(self, console: Console, plan: Plan, every: int) -> None:
        super().__init__(console, plan, quiet=True)
        self.every, self.since = every, time.monotonic()
        self.driver = psutil.Process()

    def report(self, key: str, spec: TrialSpec, report: Report) -> None:
        super().report(key, spec, report)
        if report.done and self.trials_done % self.every == 0:
            now = time.monotonic()
            seconds, self.since = (now - self.since) / self.every, now
            memory = self.driver.memory_info().rss / MIB
            print(
                f"{self.trials_done:7,}{seconds:10.3f}{memory:12.0f}{ROWS_A_TRIAL / seconds:10.0f}",
                flush=True,
            )


class Reports(Board):
    """A board that counts reports, and ends the sweep some seconds after all trials started."""

    def __init__(self, console: Console, plan: Plan, seconds: float) -> None:
        super().__init__(console, plan, quiet=True)
        self.seconds, self.end, self.count = seconds, math.inf, 0
        self.driver = psutil.Process()

    def report(self, key: str, spec: TrialSpec, report: Report) -> None:
        super().report(key, spec, report)
        self.count += 1
        if self.end == math.inf and len(self.running) == self.plan.slots:
            self.end = time.monotonic() + self.seconds
            self.count, self.before = 0, self.driver.cpu_times()

    def tick(self) -> None:
        super().tick()
        if time.monotonic() > self.end:
            now = self.driver.cpu_times()
            used = now.user + now.system - self.before.user - self.before.system
            rate = self.count / self.seconds
            print(f"{self.plan.slots} at once: {rate:.1f} reports/s", end=", ")
            print(f"{1e3 * used / self.count:.2f} ms of the driver's CPU each")
            raise KeyboardInterrupt


def plan_of(trials: int, out: str, steps: int = 1, at_once: int = 0) -> Plan:
    """Returns a plan of a number of trials, with one setting and one seed each."""
    task = registry.task("static")
    often = max(1, steps // 20)  # it reports where it is evaluated
    points = [
        Point(
            setting=task.setting_type(lr=(i + 1) / trials, steps=steps, evaluations=often),
            seeds=(0,),
        )
        for i in range(trials)
    ]
    machine = this_machine(gpus=False)
    resources = Resources(cpus_per_trial=machine.nodes[0].cpus / at_once if at_once else 1)
    return make_plan(task, points, {}, Job(out, resources, 1.0), machine)


def read(store: Store, board: Board) -> None:
    """Prints the time to read the rows."""
    start = time.monotonic()
    frame = store.load("static")
    assert len(frame) == ROWS_A_TRIAL * board.trials_done
    print(f"{len(frame):,} rows of {board.trials_done:,} files read in", end=" ")
    print(f"{time.monotonic() - start:.1f} s; failed: {board.seeds_failed}")


def main() -> None:
    """Prints the curve."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--every", type=int, default=100)
    parser.add_argument("--running", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as out, ray.start(this_machine(gpus=False)):
        store = Store(out)
        if arguments.trials:
            plan = plan_of(arguments.trials, out)
            print(f"{plan.slots} at a time\n trials   seconds  driver MiB    rows/s")
            with Curve(Console(), plan, arguments.every) as board:
                ray.run(plan, board, store)
            read(store, board)
        running = plan_of(arguments.running, out, 10**8, arguments.running)
        with (
            contextlib.suppress(KeyboardInterrupt),
            Reports(Console(), running, arguments.seconds) as reports,
        ):
            ray.run(running, reports, store)


if __name__ == "__main__":
    main()
