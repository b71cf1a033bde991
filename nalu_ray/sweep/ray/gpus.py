"""Measures, before a sweep, how many trials share a GPU best."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from nalu_ray import registry
from nalu_ray.errors import ConfigError
from nalu_ray.sweep import out_of_memory
from nalu_ray.sweep.dispatch import receive
from nalu_ray.sweep.gpu_sharing import Measured, Sample, seed_steps_per_second
from nalu_ray.sweep.machine import CONTEXT_BYTES
from nalu_ray.sweep.trial import Trial, TrialSpec

WAIT_SECONDS = 1800  # a node with a GPU may have to be started first
TRAIN_SECONDS = 20.0


def measure_gpu(spec: TrialSpec, trials: int) -> Measured | None:
    """Runs copies of a trial on one GPU at the same time; stores nothing.

    Args:
        spec: the trial.
        trials: number of copies.

    Returns:
        Their speed and memory; None if memory ran out.

    Raises:
        ConfigError: there is no GPU, or a trial fails on it, or does not end in time.
    """
    share = math.floor(1e4 / trials) / 1e4
    whole = {"GPU": 1.0, "CPU": spec.share * trials, "memory": float(spec.memory * trials)}
    beside = [{"CPU": spec.share}] * (spec.processes * trials)
    group = placement_group([{k: v for k, v in whole.items() if v}, *beside])
    run = ray.remote(max_retries=1, max_calls=1)(_measure)
    asked = run.options(
        name=f"speed of {spec.label}, {trials} on a GPU",
        num_cpus=spec.share,
        num_gpus=share,
        memory=spec.memory or None,
        scheduling_strategy=PlacementGroupSchedulingStrategy(group, 0, True),
    )
    values = spec.model_copy(update={"gpus": share}).plain()
    references = [asked.remote(values) for _ in range(trials)]
    try:
        answers = ray.get(references, timeout=WAIT_SECONDS)
    except ray.exceptions.GetTimeoutError as error:
        raise _refused(spec, f"it takes longer than {WAIT_SECONDS} s") from error
    except ray.exceptions.RayError as error:
        if out_of_memory.is_oom(error) or out_of_memory.is_oom(getattr(error, "cause", None)):
            return None
        raise _refused(spec, str(error).strip().splitlines()[-1]) from error
    finally:  # also at a signal: none may keep its GPU
        for reference in references:
            ray.cancel(reference, force=True)
        remove_placement_group(group)
    return _together(answers, len(spec.seeds))


def _refused(spec: TrialSpec, why: str) -> ConfigError:
    return ConfigError(
        [f"--gpus-per-trial auto: {spec.label} cannot be measured: {why}; give a number"]
    )


def _together(answers: Sequence[tuple[list[Sample], int, int]], seeds: int) -> Measured:
    samples, taken, free = zip(*answers, strict=True)
    rate = seed_steps_per_second(samples, seeds)
    # what others hold on this GPU is neither free nor these trials'
    return Measured(rate, sum(taken), min(free) + sum(taken))


def _measure(values: dict[str, Any]) -> tuple[list[Sample], int, int]:
    """Returns times and steps of a trial, and the GPU's bytes that it takes and that are free."""
    import torch  # noqa: PLC0415 (there, not here)

    spec = receive(values)
    registry.task(spec.task).prepare()  # data that is fetched takes no part in the speed
    trial = Trial(spec)
    samples = [(time.monotonic(), 0)]  # one clock for all processes of a machine
    trial.start(resume=False)
    try:
        # an evaluation may use more memory than training
        while not (progress := trial.advance()).shown and progress.step < progress.steps:
            pass
        samples.append((time.monotonic(), progress.step))
        end = time.monotonic() + TRAIN_SECONDS
        while progress.step < progress.steps and time.monotonic() < end:
            progress = trial.advance()
            samples.append((time.monotonic(), progress.step))
        torch.cuda.synchronize()
        free, _ = torch.cuda.mem_get_info()
        return samples, torch.cuda.max_memory_reserved() + CONTEXT_BYTES, free
    finally:
        trial.close()
