"""Recorded training steps beside plain ones, in one run.

    python benchmarks/steps.py [--seeds 1 10 100] [--seconds 5] [--cases "static layer=nalu"]

Both are trained by the product's own loop, in turns of a few steps, so that what else the machine
does falls on both; evaluations are left out. Processor time of one thread, medians. ``recording``
is what the recording takes once per trial, in plain steps.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator

import torch

from nalu_ray import registry
from nalu_ray.command.words import assignments
from nalu_ray.sweep.presets import expand, sweep_of
from nalu_ray.training import step
from nalu_ray.training.supervised import SupervisedRun, SupervisedTask

CASES = (
    "identity layer=relu",
    "static layer=nalu op=mul",
    "static layer=nac op=add",
    "recurrent layer=nalu op=mul",
    "recurrent layer=lstm op=mul",
    "language head=none",
    "language head=nalu",
    "program layer=lstm variant=program",
    "program layer=nalu_lstm variant=addition",
    "program layer=dnc variant=addition",
)
CHUNK_SECONDS = 0.1


def runs(case: str, seeds: int) -> tuple[SupervisedRun, SupervisedRun]:
    """Returns a run with plain steps and one with recorded steps, of a laptop setting."""
    name, *words = case.split()
    task = registry.task(name)
    if not isinstance(task, SupervisedTask):
        raise TypeError(f"{name} is no supervised task")
    task.prepare()
    changes = {key: [value] for key, value in assignments(words)[0].items()}
    points = expand(sweep_of(task).presets["laptop"], task.setting_type, changes)
    setting = points[0].setting.model_copy(update={"steps": 10**9})
    plain, auto = (
        task.start(setting.model_copy(update={"engine": engine}), range(seeds), torch.device("cpu"))
        for engine in ("plain", "auto")
    )
    return plain, auto


def microseconds(run: SupervisedRun, steps: int) -> float:
    """Returns the processor time per step."""
    start = time.thread_time()
    run._train(run.step + steps)
    return (time.thread_time() - start) / steps * 1e6


def measured(case: str, seeds: int, seconds: float) -> tuple[float, float, float, bool]:
    """Returns microseconds per plain and recorded step, of recording; whether that is used."""
    plain, auto = runs(case, seeds)
    warm = step.PLAIN_STEPS + step.TRIED_STEPS + 1
    one = microseconds(plain, warm)
    recording = microseconds(auto, warm) * warm - one * warm
    chunk = max(1, int(CHUNK_SECONDS * 1e6 / one))
    times: dict[str, list[float]] = {"plain": [], "auto": []}
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(times["auto"]) < 5:
        times["plain"].append(microseconds(plain, chunk))
        times["auto"].append(microseconds(auto, chunk))
    trusted = any(repeat is not None for repeat in auto.forward._recorded.values())
    if not torch.equal(plain.replicas.flat, auto.replicas.flat):
        raise AssertionError(f"{case}: recorded steps gave other numbers")
    plain_step, auto_step = (statistics.median(of) for of in times.values())
    return plain_step, auto_step, recording, trusted


def lines(cases: list[str], blocks: list[int], seconds: float) -> Iterator[str]:
    """Yields the rows of the table."""
    yield f"{'':44}{'seeds':>6}{'plain us':>10}{'recorded':>10}{'factor':>8}{'recording':>11}"
    for case in cases:
        for seeds in blocks:
            plain, auto, recording, trusted = measured(case, seeds, seconds)
            figures = f"{seeds:6}{plain:10,.0f}{auto:10,.0f}{plain / auto:8.2f}"
            yield f"{case:44}{figures}{recording / plain:11,.0f}{'' if trusted else '  plain'}"


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--cases", nargs="+", default=list(CASES))
    options = parser.parse_args()
    torch.set_num_threads(1)
    for line in lines(options.cases, options.seeds, options.seconds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
