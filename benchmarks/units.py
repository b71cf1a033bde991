"""A training step with a penalty and bounds beside the same step without, in one run.

    python benchmarks/units.py [--seeds 10 50] [--seconds 5]

The network is a neural addition unit, 100 -> 2 -> 1, on the static task's addition, 128 examples a
step. Both are trained by the product's own loop, in turns, so that what else the machine does falls
on both; evaluations are left out. One thread's processor time; medians.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import torch
from torch import nn

from nalu_ray.layers.nau import NAU
from nalu_ray.layers.stack import Stacked
from nalu_ray.tasks.static import StaticTask
from nalu_ray.tasks.static.network import StaticSetting
from nalu_ray.training.supervised import SupervisedRun

CHUNK = 20
WARM = 160  # steps until a step and its penalties are recorded
VARIANTS: dict[str, dict[str, Any]] = {
    "neither": {},
    "bounds": {},
    "penalty": {"penalty": "sparsity:0.01"},
    "both": {"penalty": "sparsity:0.01"},
    "both, before the ramp": {"penalty": "sparsity:0.01:linear:1000000:2000000"},
    "both and l1": {"penalty": "sparsity:0.01;l1@*:1e-5"},
    "both, of inputs too": {"penalty": "sparsity:0.01;inputs:1"},
    "both and lr_factor": {"penalty": "sparsity:0.01", "lr_factor": "1.*:0.1"},
}


class AddingTask(StaticTask):
    """The static task with two NAUs, with or without their bounds."""

    def __init__(self, *, bounded: bool) -> None:
        self.bounded = bounded

    def build(self, setting: StaticSetting) -> nn.Module:
        network = Stacked(NAU)(setting.inputs, setting.hidden, 1)
        for unit in network:
            assert isinstance(unit, NAU)
            unit.bounds = unit.bounds if self.bounded else {}  # type: ignore[misc]  # of this unit
        return network


def compare(seeds: int, seconds: float) -> dict[str, float]:
    """Returns microseconds a step of each variant."""
    runs: dict[str, SupervisedRun] = {}
    times: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for name, fields in VARIANTS.items():
        task = AddingTask(bounded="both" in name or name == "bounds")
        setting = StaticSetting(layer="none", op="add", steps=10**9, test_size=10, **fields)
        runs[name] = SupervisedRun(task, setting, range(seeds), torch.device("cpu"))
        runs[name]._train(WARM)
    end = time.monotonic() + seconds * len(VARIANTS)
    while time.monotonic() < end:
        for name, run in runs.items():
            start = time.thread_time()
            run._train(run.step + CHUNK)
            times[name].append((time.thread_time() - start) / CHUNK * 1e6)
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 50])
    parser.add_argument("--seconds", type=float, default=5.0, help="per variant")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for seeds in options.seeds:
        times = compare(seeds, options.seconds)
        print(f"{seeds} seeds")
        for name, value in times.items():
            print(f"  {name:24}{value:9.1f} us a step {value / times['neither']:8.2f} times")


if __name__ == "__main__":
    main()
