"""Training steps of this version beside those of another checkout, in turns.

    git clone . ../old && git -C ../old checkout 7fc4c55
    python benchmarks/versions.py ../old [--seconds 4] [--turns 2] [--cases 0 3]

Each turn is a process per version, on the same setting: the other version writes all fields, and
both read them. Processor time of a step on one thread, evaluations left out: medians. The settings
are those of version 0.1, so that later changes of presets do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

CELL = {"gate": "state", "gate_init": 5.0, "forget_init": 1.0}
USUAL = {"schedule": "cosine", "warmup": 100, "lr_end": 0.0, "clip": 1.0}
FAST = {**USUAL, "adam_beta2": 0.99}
NALU = {**FAST, "layer": "nalu", "op": "mul"}
STATIC = {**NALU, "batch": 32}
RECURRENT = {**NALU, "batch": 64, "gate_init": [1.0, -0.2], "memory_init": 110.0}
LANGUAGE = {**USUAL, "head": "nalu", "combine": "last", "hidden": 16}
PROGRAM = {
    **FAST, "layer": "nalu_lstm", "batch": 64, "registers": 3, "scale": 1.0, "options": CELL,
}  # fmt: skip
DNC = {**USUAL, "layer": "dnc", "variant": "addition", "batch": 64, "hidden": 64}
RECORDED = 26  # steps until recorded ones are trusted
CASES: list[tuple[str, int, dict[str, Any]]] = [
    *[("static", seeds, STATIC) for seeds in (10, 100, 400)],
    *[("recurrent", seeds, RECURRENT) for seeds in (10, 50)],
    ("language", 10, LANGUAGE),
    *[("program", 10, {**PROGRAM, "variant": variant}) for variant in ("program", "addition")],
    ("program", 10, DNC),
]
SETTING = """
import json, sys
from nalu_ray import registry
name, fields = json.loads(sys.argv[1])
setting = registry.task(name).setting_type(**fields, steps=10**8)
print(setting.model_dump_json())
"""
STEP = """
import json, statistics, sys, time
import torch
from nalu_ray import registry
from nalu_ray.training.replicas import keep_freed_memory
name, seeds, fields, warm, seconds = json.loads(sys.argv[1])
torch.set_num_threads(1)
keep_freed_memory()
task = registry.task(name)
run = task.start(task.setting_type(**fields), range(seeds), torch.device("cpu"))
def timed(steps):
    start = time.thread_time()
    run._train(run.step + steps)
    return (time.thread_time() - start) / steps
timed(warm)
chunk, end, times = max(1, int(0.1 / timed(1))), time.monotonic() + seconds, []
while time.monotonic() < end or len(times) < 5:
    times.append(timed(chunk))
print(statistics.median(times))
"""


def run(checkout: Path, code: str, *given: Any) -> str:
    """Returns what a script prints that imports the package of a checkout."""
    return subprocess.run(
        [sys.executable, "-c", code, json.dumps(given)],
        env={**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"},
        cwd=checkout,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def compared(
    versions: Sequence[Path], case: tuple[str, int, dict[str, Any]], seconds: float, turns: int
) -> list[float]:
    """Returns the milliseconds of a step of each version, the median over the turns."""
    name, seeds, fields = case
    setting = json.loads(run(versions[0], SETTING, name, fields))
    times: list[list[float]] = [[] for _ in versions]
    for _ in range(turns):
        for version, of in zip(versions, times, strict=True):
            of.append(1e3 * float(run(version, STEP, name, seeds, setting, RECORDED, seconds)))
    return [statistics.median(of) for of in times]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("old", type=Path, help="a checkout of the other version")
    parser.add_argument("--seconds", type=float, default=4.0, help="measuring time per process")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--cases", type=int, nargs="+", default=[*range(len(CASES))])
    options = parser.parse_args()
    versions = options.old.resolve(), Path(__file__).resolve().parents[1]
    print(f"{'':34}{'seeds':>6}{'old ms':>9}{'new ms':>9}{'factor':>8}{'seed-steps/s':>14}")
    for name, seeds, fields in (CASES[at] for at in options.cases):
        old, new = compared(versions, (name, seeds, fields), options.seconds, options.turns)
        words = " ".join(
            str(fields[key]) for key in ("layer", "head", "op", "variant") if key in fields
        )
        rate = seeds / new * 1e3
        label = f"{name} {words}"
        print(f"{label:34}{seeds:6}{old:9.2f}{new:9.2f}{old / new:8.2f}{rate:14,.0f}", flush=True)


if __name__ == "__main__":
    main()
