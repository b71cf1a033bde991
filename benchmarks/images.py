"""Images per second of the MNIST tasks, each compared with the obvious implementation.

    python benchmarks/images.py [--layers nac ...] [--threads 1 2] [--seconds 3] [--device cuda]

* training: series per second in steps of 64 series of 10, with separate images per series and from
  a pool of 64 images as in the presets; compared with a ``DataLoader`` over a ``Dataset`` that
  makes one series at a time;
* evaluation: 200 and 2000 series of 1000 digits, read from embeddings of the 10,000 test images
  (the time includes the embedding); compared with the network on every image of every series,
  measured on two series and scaled up;
* stacking: seed-steps per second of blocks of 1, 2 and 4 seeds of the laptop presets' NAC, counting
  and parity; with a ``--device`` other than the CPU, only this part runs, on the device;
* layout: steps per second of the laptop presets' NAC, counting, addition and parity, with and
  without the channels-last memory layout; ``--layouts`` measures nothing else;
* denormals: milliseconds per step of static_mnist's NMU and of the presets' NAC, if denormal
  numbers count as 0 and if not; only with ``--denormals``, which measures nothing else;
* parity: images per second, compared with a loop over images.

Every figure is the median of repeated measurements.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import cycle
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from timing import median_seconds
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nalu_ray.data import mnist
from nalu_ray.layers.convnet import Conv2d
from nalu_ray.seeding import Streams
from nalu_ray.sweep.presets import expand, load_sweep
from nalu_ray.task import Batch
from nalu_ray.tasks import mnist_addition, parity, sequential_mnist, static_mnist
from nalu_ray.tasks._mnist_series import evaluate
from nalu_ray.tasks._mnist_series.network import SeriesNetwork, SeriesSetting
from nalu_ray.tasks.mnist_counting import TASK
from nalu_ray.tasks.parity import data as scenes
from nalu_ray.training.fields import SupervisedSetting
from nalu_ray.training.replicas import Replicas
from nalu_ray.training.supervised import SupervisedRun, SupervisedTask

CPU = torch.device("cpu")
LAYERS = ["lstm", "gru", "rnn_tanh", "rnn_relu", "nac", "nalu"]
EVALUATED = (200, 2000)  # series of 1000 digits
WHOLE = 2  # of them, which the plain way reads
STACKED = (1, 2, 4)  # seeds in a block
WARM = 40  # steps until the recorded ones


def setting(layer: str, pool: int | None = None) -> SeriesSetting:
    """Returns a setting close to the laptop preset's."""
    return SeriesSetting(
        layer=layer, features="hidden", pool=pool, clip=1.0, memory_init=110.0, gate_init=1.0
    )


class Series(Dataset[tuple[Tensor, Tensor]]):
    """The data set of a plain script: one series per index, its images scaled one by one."""

    def __init__(self, length: int) -> None:
        self.digits, self.length = mnist.load(train=True), length
        self.rng = np.random.default_rng(0)

    def __len__(self) -> int:
        return 6_000

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        chosen = self.rng.integers(0, mnist.TRAINING_IMAGES, self.length)
        images = torch.stack([self.digits.images[int(place)] for place in chosen])
        return images, TASK.target(self.digits.labels[chosen])


def trained(layer: str, seconds: float, pool: int | None = None) -> float:
    """Returns the steps per second of the task's training loop."""
    return pace(SupervisedRun(TASK, setting(layer, pool), [0], CPU), seconds)


def pace(run: SupervisedRun, seconds: float) -> float:
    """Returns the seed-steps per second of a run, synchronised after each step."""

    def step() -> None:
        run._train(run.step + 1)

    return len(run.seeds) / median_seconds(step, seconds, least=3)


def preset_run(
    task: SupervisedTask[Any], seeds: Sequence[int], device: torch.device, model: str = "nac"
) -> SupervisedRun:
    """Returns a run of a laptop preset; its evaluation, which is not measured, is small."""
    preset = load_sweep(task.name).presets["laptop"]
    few = {"test_images": [100], "test_size": [2]}
    changes = {name: few[name] for name in few if name in task.setting_type.model_fields}
    point, *_ = expand(preset, task.setting_type, {task.axes[0]: [model], **changes})
    assert isinstance(point.setting, SupervisedSetting)
    return SupervisedRun(task, point.setting, seeds, device)


def in_turns(
    runs: Sequence[SupervisedRun], ways: Sequence[AbstractContextManager[Any]], seconds: float
) -> list[float]:
    """Returns the median processor seconds of a step of each run, measured in turns of one step."""
    used: list[list[float]] = [[] for _ in runs]
    while len(used[0]) < 2 * WARM or sum(map(sum, used)) < 2 * seconds:
        for run, way, times in zip(runs, ways, used, strict=True):
            with way:
                before = time.process_time()
                run._train(run.step + 1)
                times.append(time.process_time() - before)
    return [median(times[WARM:]) for times in used]


class Flushed:
    """Lets denormal numbers count as 0, as ``SupervisedTask.flush_denormals`` does."""

    def __enter__(self) -> None:
        torch.set_flush_denormal(True)

    def __exit__(self, *_: object) -> None:
        torch.set_flush_denormal(False)


def print_denormals(seconds: float) -> None:
    """Prints what denormal numbers cost, at the start of training."""
    tasks: dict[SupervisedTask[Any], str] = dict.fromkeys((TASK, mnist_addition.TASK), "nac")
    tasks |= {parity.TASK: "nac", sequential_mnist.TASK: "nau", static_mnist.TASK: "nmu"}
    for task, model in tasks.items():
        runs = [preset_run(task, [0], CPU, model) for _ in range(2)]
        exact, flushed = in_turns(runs, [nullcontext(), Flushed()], seconds)
        print(
            f"{task.name} {model}, ms per step: {1e3 * exact:.1f}, with denormals as 0 "
            f"{1e3 * flushed:.1f}, factor {exact / flushed:.2f}",
            flush=True,
        )


def print_layouts(seconds: float) -> None:
    """Prints the gain of the channels-last layout, both measured in turns of one step."""
    for task in (TASK, mnist_addition.TASK, parity.TASK):
        runs = [preset_run(task, [0], CPU) for _ in range(2)]
        layouts: list[AbstractContextManager[Any]] = [
            nullcontext(),
            patch.object(Conv2d, "forward", nn.Conv2d.forward),
        ]
        last, first = (1 / each for each in in_turns(runs, layouts, seconds))
        print(
            f"{task.name}, steps per second of a core: channels last {last:.1f}, first "
            f"{first:.1f}, factor {last / first:.2f}",
            flush=True,
        )


def print_stacked(seconds: float, device: torch.device) -> None:
    """Prints the seed-steps per second of blocks of seeds of the laptop presets' NAC."""
    for task in (TASK, parity.TASK):
        rates = []
        for seeds in STACKED:
            run = preset_run(task, range(seeds), device)
            rates.append(f"{seeds} seeds {pace(run, seconds):.1f}")
        print(f"{task.name} stacked on {device}, seed-steps/s:", ", ".join(rates), flush=True)


def trained_plainly(layer: str, seconds: float) -> float:
    """Returns the steps per second of a plain loop over a ``DataLoader``."""
    chosen = setting(layer)
    network = SeriesNetwork(chosen, TASK.outputs)
    optimiser = torch.optim.Adam(network.parameters(), lr=chosen.lr)
    batches = cycle(DataLoader(Series(chosen.length), batch_size=chosen.batch, shuffle=True))

    def step() -> None:
        images, targets = next(batches)
        optimiser.zero_grad()
        (network(images) - targets).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()

    return 1 / median_seconds(step, seconds, least=3)


@torch.no_grad()
def evaluated(layer: str, seconds: float) -> tuple[list[float], float]:
    """Returns series of 1000 digits per second: for each number of :data:`EVALUATED`, and plainly.

    Images are embedded once, and in the plain way every time.
    """
    chosen = setting(layer)
    replicas = Replicas(lambda: TASK.build(chosen), [0])
    network, digits = TASK.build(chosen), mnist.load(train=False)
    rates = []
    for count in EVALUATED:
        index = torch.randint(len(digits.labels), (1, count, 1000))
        long = Batch((index,), TASK.target(digits.labels[index]))
        once = median_seconds(
            lambda long=long: evaluate(replicas, chosen, "test", long),  # type: ignore[misc]
            seconds,
            least=3,
        )
        rates.append(count / once)
    few = index[0, :WHOLE]
    every = median_seconds(
        lambda: [network(digits.images[row][None]) for row in few], seconds, least=3
    )
    return rates, WHOLE / every


def one_by_one(rng: np.random.Generator, digits: mnist.Digits, distance: int) -> tuple[Tensor, int]:
    """Makes one parity image as a script would; starts over if a digit does not fit."""
    canvas, even = np.zeros((100, 100), np.int32), 0
    many = int(rng.integers(0, scenes.MOST + 1))
    centres: list[np.ndarray] = []
    while len(centres) < many:
        for _ in range(scenes.TRIES):
            centre = rng.integers(scenes.FIRST, scenes.LAST, 2)
            if all(np.linalg.norm(centre - other) >= distance for other in centres):
                centres.append(centre)
                break
        else:
            centres = []
    for row, column in centres:
        chosen = int(rng.integers(len(digits.labels)))
        top, left = row - scenes.FIRST, column - scenes.FIRST
        canvas[top : top + 28, left : left + 28] += digits.images[chosen].numpy()
        even += int(digits.labels[chosen] % 2 == 0)
    return torch.from_numpy(canvas.clip(max=255).astype(np.uint8)), even


def composed(distance: int, seconds: float, count: int = 320) -> tuple[float, float]:
    """Returns the parity images per second, in one batch and one by one."""
    digits, streams = mnist.load(train=True), Streams("parity", (0,), "train")
    rng = np.random.default_rng(0)
    at_once = median_seconds(
        lambda: scenes.draw(streams, count, digits, distance), seconds, least=3
    )
    alone = median_seconds(
        lambda: [one_by_one(rng, digits, distance) for _ in range(count)], seconds, least=3
    )
    return count / at_once, count / alone


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layers", nargs="+", choices=LAYERS, default=LAYERS)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=3.0, help="measuring time per figure")
    parser.add_argument(
        "--device", type=torch.device, default=CPU, help="device of the stacking part"
    )
    parser.add_argument("--layouts", action="store_true", help="the layouts only")
    parser.add_argument("--denormals", action="store_true", help="the denormals only")
    arguments = parser.parse_args()
    seconds = arguments.seconds
    print(f"Python {platform.python_version()}, torch {torch.__version__}")
    if arguments.device != CPU:
        print_stacked(seconds, arguments.device)
        return
    if arguments.layouts or arguments.denormals:
        torch.set_num_threads(1)
        (print_layouts if arguments.layouts else print_denormals)(seconds)
        return
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        print(f"\n{threads} thread(s); series/s, and times the plain way")
        names = ["training", "from a pool", "plain", *(f"{n} of 1000" for n in EVALUATED), "plain"]
        print(f"{'layer':10}", *(f"{name:>16}" for name in names))
        for layer in arguments.layers:
            series = setting(layer).batch
            made, pooled = (series * trained(layer, seconds, pool=pool) for pool in (None, series))
            plain = series * trained_plainly(layer, seconds)
            read, image_by_image = evaluated(layer, seconds)
            cells = [f"{rate:,.0f} ({rate / plain:.1f})" for rate in (made, pooled)] + [
                f"{plain:,.0f}"
            ]
            cells += [f"{rate:,.0f} ({rate / image_by_image:.0f})" for rate in read]
            cells += [f"{image_by_image:,.1f}"]
            print(f"{layer:10}", *(f"{cell:>16}" for cell in cells), flush=True)
        print_stacked(seconds, CPU)
        print_layouts(seconds)
    torch.set_num_threads(1)
    for distance in (14, 28):
        at_once, plain = composed(distance, seconds)
        print(
            f"parity, centres {distance} apart: {at_once:,.0f} images/s, one by one {plain:,.0f}, "
            f"factor {at_once / plain:.1f}"
        )


if __name__ == "__main__":
    main()
