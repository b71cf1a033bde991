"""Predicts the time of ``paper`` presets on 1 to 1,000 GPUs, and their bottleneck.

    python benchmarks/scaling.py [--gpus 1 10 100 1000] [--gpu-cores 10] [--tasks static parity]

The default is the tasks of the paper: the protocols of later papers take far longer.
The trials are those of the plan for workers as in cluster.yaml (4 CPUs and a GPU that 4 trials
share). All sweeps are submitted at once, the longest trials first. A trial takes the time per step
and seed on a core, from the preset's file, divided by the speed-up of a GPU. That speed-up is an
assumption and not measured. The overhead of trials was measured by benchmarks/many_trials.py and
tests/cluster on two cores. The gridworld is left out, as it runs on CPUs.
"""

from __future__ import annotations

import argparse
import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from nalu_ray import registry
from nalu_ray.sweep.machine import GIB, Capacity, Node
from nalu_ray.sweep.plan import Job, make_plan
from nalu_ray.sweep.presets import expand, load_sweep
from nalu_ray.sweep.ray.driver import report_seconds
from nalu_ray.sweep.resources import Resources
from nalu_ray.task import Task

WORKER = Node(cpus=4, gpus=1, memory=14 * GIB)
SHARE = 0.25
CORES = 4
# seconds: a worker from a launch to its first trial, and a process with torch, once for each slot
BOOT, START = 300.0, 6.0
# seconds of the driver: for each trial, for each report of a running one
A_TRIAL, A_REPORT = 0.045, 0.0025
# bytes stored for each seed and for each trial; kept networks count with the seed
STORED = {"mnist_addition": (101_000, 1_400), "mnist_counting": (107_000, 1_400)}
STORED_ELSEWHERE = (1_000, 1_400)
CPU_ONLY = ("gridworld",)


@dataclass(frozen=True)
class Load:
    """A task's trials on so many GPUs: how long each lasts and what they store."""

    task: str
    seconds: tuple[float, ...]
    seeds: int

    @property
    def stored(self) -> float:
        seed, trial = STORED.get(self.task, STORED_ELSEWHERE)
        return self.seeds * seed + len(self.seconds) * trial


def load(task: Task[Any], gpus: int, gpu_cores: float) -> Load:
    """Returns what the plan of a task's ``paper`` preset is on so many workers."""
    preset = load_sweep(task.name).presets["paper"]
    resources = Resources(gpus_per_trial=SHARE, seeds_per_trial=preset.resources.seeds_per_trial)
    points = expand(preset, task.setting_type, {})
    job = Job("", resources, preset.seed_step_microseconds)
    plan = make_plan(task, points, {}, job, Capacity("model", (WORKER,) * gpus))
    each = preset.seed_step_microseconds / 1e6 / (gpu_cores * SHARE)
    seconds = tuple(trial.steps * len(trial.seeds) * each for trial in plan.trials)
    return Load(task.name, seconds, plan.seeds)


def makespan(seconds: list[float], slots: int) -> float:
    """Returns when the last trial ends: slots take the next one as soon as the driver gives it."""
    free = [(BOOT, True)] * slots
    driver = BOOT
    for work in sorted(seconds, reverse=True):
        ready, fresh = free[0]
        driver = max(driver, ready) + A_TRIAL
        heapq.heapreplace(free, (driver + START * fresh + work, False))
    return max(free)[0]


def bounds(seconds: list[float], slots: int) -> dict[str, float]:
    """Returns the least time that each part of it needs alone."""
    return {
        "work": BOOT + sum(seconds) / slots,
        "longest trial": BOOT + START + max(seconds),
        "driver": BOOT + A_TRIAL * len(seconds),
    }


def lines(tasks: list[Task[Any]], gpus: int, gpu_cores: float) -> Iterator[str]:
    """Yields a line's cells."""
    loads = [load(task, gpus, gpu_cores) for task in tasks]
    seconds = [second for load in loads for second in load.seconds]
    slots = gpus * int(1 / SHARE)
    whole, limits = makespan(seconds, slots), bounds(seconds, slots)
    running = min(slots, len(seconds))
    ordered = sorted(seconds)
    yield f"{gpus:,}"
    yield f"{len(seconds):,}"
    yield f"{ordered[len(ordered) // 2] / 60:,.1f} / {ordered[-1] / 60:,.1f}"
    yield f"{whole / 3600:,.2f}"
    yield f"{sum(seconds) / (slots * whole):.0%}"
    yield max(limits, key=lambda name: limits[name])
    reports = running / report_seconds(running)
    yield f"{reports * A_REPORT + A_TRIAL * len(seconds) / whole:.0%}"
    yield f"{sum(load.stored for load in loads) / 1e6:,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 3, 10, 30, 100, 300, 1000])
    parser.add_argument("--gpu-cores", type=float, default=10.0, help="cores that a GPU replaces")
    known = {name: task for name, task in registry.tasks().items() if name not in CPU_ONLY}
    of_paper = [name for name, task in known.items() if task.section]
    parser.add_argument("--tasks", nargs="+", choices=known, default=of_paper)
    options = parser.parse_args()
    tasks = [known[name] for name in options.tasks]
    table = Table(title=f"paper presets; a GPU does the work of {options.gpu_cores:g} cores")
    columns = ("GPUs", "trials", "a trial, min (median / longest)", "hours", "GPUs busy")
    for name in (*columns, "held up by", "driver's core", "stored, MB"):
        table.add_column(name, justify="right")
    for gpus in options.gpus:
        table.add_row(*lines(tasks, gpus, options.gpu_cores))
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
