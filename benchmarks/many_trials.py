"""What a trial costs where there are many: the driver's time and memory, and the store's.

    python benchmarks/many_trials.py [--trials 1000] [--every 100]

Trials of one step each, so that all there is to see is what surrounds them. For every hundred it
prints the seconds that one took, the driver's memory and how many rows the store gained a second;
then how long a Store takes to read what lies there, which the next command does first.
"""

from __future__ import annotations

import argparse
import tempfile
import time

import psutil
from rich.console import Console

from nalu_ray import registry, runner
from nalu_ray.config import Point, Resources
from nalu_ray.machine import this_machine
from nalu_ray.plan import Job, Plan, make_plan
from nalu_ray.progress import Board
from nalu_ray.results.store import Store
from nalu_ray.trial import Report, TrialSpec

ROWS_A_TRIAL = 8  # the figures of two splits before and after the step, and the seed's last row
MIB = 1024**2


class Curve(Board):
    """A board that prints a line for every so many trials."""

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


def plan_of(trials: int, out: str) -> Plan:
    """Returns a plan of so many trials, a setting and a seed each."""
    task = registry.task("static")
    points = [
        Point(setting=task.setting_type(lr=(i + 1) / trials, steps=1, evaluations=1), seeds=(0,))
        for i in range(trials)
    ]
    return make_plan(task, points, {}, Job(out, Resources(), 1.0), this_machine(gpus=False))


def main() -> None:
    """Prints the curve."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--every", type=int, default=100)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as out, runner.start(this_machine(gpus=False)):
        store, plan = Store(out), plan_of(arguments.trials, out)
        print(f"{plan.slots} at a time\n trials   seconds  driver MiB    rows/s")
        with Curve(Console(), plan, arguments.every) as board:
            runner.run(plan, board, store)
        start = time.monotonic()
        frame = store.load("static")
        assert len(frame) == ROWS_A_TRIAL * board.trials_done
        print(f"{len(frame):,} rows of {board.trials_done:,} files read in", end=" ")
        print(f"{time.monotonic() - start:.1f} s; failed: {board.seeds_failed}")


if __name__ == "__main__":
    main()
