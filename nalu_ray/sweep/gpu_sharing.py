"""How many trials share a GPU: the fastest of one, two and four that fit its memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nalu_ray.errors import ConfigError
from nalu_ray.sweep.machine import FOR_BLOCKS, GIB, Capacity
from nalu_ray.sweep.resources import Resources

SHARES = (1, 2, 4)
"""Numbers of trials per GPU that are measured."""

Sample = tuple[float, int]
"""A time in seconds and the steps of a trial at it."""


@dataclass(frozen=True)
class Measured:
    """Trials that ran on one GPU at the same time.

    Attributes:
        rate: seed-steps per second, summed over the trials.
        taken: bytes of the GPU that they took, CUDA's own included.
        room: bytes of the GPU that other processes leave.
    """

    rate: float
    taken: int
    room: int

    @property
    def fits(self) -> bool:
        """Whether there is room for peaks."""
        return self.taken <= FOR_BLOCKS * self.room


def candidates(resources: Resources, capacity: Capacity) -> Iterator[tuple[int, Resources]]:
    """Yields numbers of trials per GPU that its node has CPUs for, with their resources.

    Blocks of seeds are as large as the share, see :func:`nalu_ray.sweep.block_size.widest`: one
    trial of a whole GPU has as many seeds as four trials of a quarter together.
    """
    cpus = [node.cpus / node.gpus for node in capacity.nodes if node.gpus >= 1]
    most = max(1, int(min(cpus, default=0) / resources.cpus_per_trial + 1e-9))
    for trials in SHARES:
        if trials <= most:
            yield trials, resources.model_copy(update={"gpus_per_trial": 1 / trials})


def fastest(measured: Mapping[int, Measured | None]) -> int:
    """Returns the number of trials per GPU with the most seed-steps per second that fits.

    Args:
        measured: by number of trials per GPU; None where memory ran out.

    Raises:
        ConfigError: none fits.
    """
    fitting = {trials: speed for trials, speed in measured.items() if speed and speed.fits}
    if not fitting:
        raise ConfigError(
            [
                "--gpus-per-trial auto: the largest trial does not fit into the GPU memory that "
                "other processes leave free; reduce --seeds-per-gpu"
            ]
        )
    return max(fitting, key=lambda trials: fitting[trials].rate)


def describe(trials: int, seeds: int, speed: Measured | None) -> str:
    """Returns a line about trials that were measured together.

    Args:
        trials: number of trials that shared the GPU.
        seeds: number of seeds per trial.
        speed: their speed and memory; None if memory ran out.
    """
    group = f"{trials} trial{'s' * (trials > 1)} of {seeds:,} seed{'s' * (seeds > 1)} on a GPU: "
    if speed is None:
        return f"{group}out of memory"
    memory = f"{speed.taken / GIB:.1f} of {speed.room / GIB:.1f} GiB"
    return f"{group}{speed.rate:,.0f} seed-steps/s, {memory}{'' if speed.fits else ', too much'}"


def seed_steps_per_second(samples: Sequence[Sequence[Sample]], seeds: int) -> float:
    """Returns the speed of trials over the time in which every trial trained.

    Args:
        samples: of each trial: its start, its first figures, and later times.
        seeds: per trial.
    """
    # up to the first figures a trial starts, and its GPU warms up
    later = [each[1:] if len(each) > 2 else each for each in samples]
    begin, end = max(each[0][0] for each in later), min(each[-1][0] for each in later)
    rate = 0.0
    for each in later:
        times, steps = (np.array(column, float) for column in zip(*each, strict=True))
        # trials that did not overlap count over their own time
        window = (begin, end) if begin < end else (times[0], times[-1])
        low, high = np.interp(window, times, steps)
        rate += seeds * (high - low) / max(window[1] - window[0], 1e-9)
    return float(rate)
