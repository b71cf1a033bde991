"""Seed-steps per second of stacked training, compared with a plain loop and a lower bound.

    python benchmarks/replicas.py [--seeds 1 10 100 400] [--seconds 5]

* plain: an ordinary ``nn.Module`` training loop of one seed, as in a script;
* floor: the parts that no implementation can avoid, timed with other data in between as in a step:
  drawing random numbers, one logarithm of the input, the matrix products forward and backward;
* stacked: :class:`nalu_ray.training.supervised.SupervisedRun`, with independent data for every
  seed, and with the option ``shared_inputs``.

One thread, one core. Every figure is the median of repeated measurements.
"""

from __future__ import annotations

import argparse
import platform
import resource

import numpy as np
import torch
from timing import median_seconds
from torch import nn

from nalu_ray.tasks import identity, static
from nalu_ray.tasks.identity.network import IdentitySetting
from nalu_ray.tasks.static.network import StaticSetting
from nalu_ray.training.replicas import keep_freed_memory
from nalu_ray.training.supervised import SupervisedRun

BATCH, INPUTS, HIDDEN, SECTION = 128, 100, 2, 10
CPU = torch.device("cpu")


def stacked(task: object, setting: object, seeds: int, seconds: float) -> float:
    """Returns the microseconds per seed-step of stacked training, without evaluations."""
    run = SupervisedRun(task, setting, range(seeds), CPU)  # type: ignore[arg-type]
    chunk = 10

    def work() -> None:
        run._train(run.step + chunk)

    return median_seconds(work, seconds) / chunk / seeds * 1e6


class PlainNALU(nn.Module):
    """The paper's equations as a plain module."""

    W_hat: nn.Parameter
    M_hat: nn.Parameter
    G: nn.Parameter

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        for name in ("W_hat", "M_hat", "G"):
            setattr(self, name, nn.Parameter(torch.empty(outputs, inputs)))
            nn.init.xavier_uniform_(getattr(self, name))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = torch.tanh(self.W_hat) * torch.sigmoid(self.M_hat)
        gate = torch.sigmoid(x @ self.G.T)
        product = torch.exp(torch.log(x.abs() + 1e-7) @ weight.T)
        return gate * (x @ weight.T) + (1 - gate) * product


def plain_static(seconds: float) -> float:
    """Returns the microseconds per step of a plain loop on static ``mul``."""
    model = nn.Sequential(PlainNALU(INPUTS, HIDDEN), PlainNALU(HIDDEN, 1))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)

    def step() -> None:
        x = torch.rand(BATCH, INPUTS)
        y = (x[:, 5:15].sum(1) * x[:, 40:50].sum(1))[:, None]
        optimiser.zero_grad()
        (model(x) - y).square().mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()

    return median_seconds(step, seconds) * 1e6


def plain_identity(seconds: float) -> float:
    """Returns the microseconds per step of a plain loop on the identity task with ReLU."""
    layers = [nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(8, 1))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)

    def step() -> None:
        x = torch.empty(64, 1).uniform_(-5, 5)
        optimiser.zero_grad()
        (model(x) - x).square().mean().backward()
        optimiser.step()

    return median_seconds(step, seconds) * 1e6


def floor_static(seeds: int, seconds: float) -> float:
    """Returns the microseconds per seed-step of the unavoidable parts."""
    keep_freed_memory()
    generators = [np.random.Generator(np.random.SFC64(seed)) for seed in range(seeds)]
    x = torch.empty(seeds, BATCH, INPUTS)
    slots = x.numpy()
    both, weight = torch.randn(seeds, 2 * HIDDEN, INPUTS), torch.randn(seeds, HIDDEN, INPUTS)
    grad_both, grad = torch.randn(seeds, 2 * HIDDEN, BATCH), torch.randn(seeds, HIDDEN, BATCH)

    def step() -> None:
        for slot, rng in zip(slots, generators, strict=True):
            rng.random(out=slot, dtype=np.float32)
        logarithm = torch.log(x)
        torch.bmm(both, x.mT)
        torch.bmm(weight, logarithm.mT)
        torch.bmm(grad_both, x)
        torch.bmm(grad, logarithm)

    return median_seconds(step, seconds) / seeds * 1e6


def row(name: str, micros: float, plain: float, floor: float | None = None) -> None:
    """Prints one line of the table."""
    against_floor = "" if floor is None else f"{micros / floor:8.2f}"
    rate = 1e6 / micros
    print(f"{name:34}{micros:12.1f}{rate:14,.0f}{plain / micros:10.1f}{against_floor}", flush=True)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 10, 100, 400])
    parser.add_argument("--seconds", type=float, default=3.0, help="measuring time per figure")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"Python {platform.python_version()}, torch {torch.__version__}, one thread")
    print(f"{'':34}{'us/seed-step':>12}{'seed-steps/s':>14}{'x plain':>10}{'x floor':>8}")
    plain = plain_static(arguments.seconds)
    row("static mul NALU, plain loop", plain, plain)
    for seeds in arguments.seeds:
        floor = floor_static(seeds, arguments.seconds)
        row(f"  floor, {seeds} seeds", floor, plain, floor)
        for shared in (False, True):
            summed = StaticSetting(
                layer="nalu",
                op="mul",
                batch=BATCH,
                steps=10**9,
                clip=1.0,
                section=SECTION,
                shared_inputs=shared,
            )
            micros = stacked(static.TASK, summed, seeds, arguments.seconds)
            row(
                f"  stacked, {seeds} seeds" + (", shared inputs" if shared else ""),
                micros,
                plain,
                floor,
            )
    plain = plain_identity(arguments.seconds)
    row("identity ReLU, plain loop", plain, plain)
    for seeds in arguments.seeds:
        setting = IdentitySetting(layer="relu", steps=10**9)
        row(
            f"  stacked, {seeds} seeds",
            stacked(identity.TASK, setting, seeds, arguments.seconds),
            plain,
        )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
