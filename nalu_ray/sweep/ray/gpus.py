"""Measures the GPU memory of a trial before a sweep."""

from __future__ import annotations

import ray

from nalu_ray.errors import ConfigError
from nalu_ray.sweep.trial import Trial, TrialSpec

WAIT_SECONDS = 1800  # a node with a GPU may have to be started first


def measure_gpu(spec: TrialSpec) -> tuple[int, int]:
    """Runs a trial alone on a GPU up to its first figures; stores nothing.

    Returns:
        Bytes used, CUDA's own included, and total bytes of the GPU.

    Raises:
        ConfigError: torch sees no GPU there, or the trial fails on it.
    """
    whole = spec.model_copy(update={"gpus": 1.0})
    run = ray.remote(max_retries=1, max_calls=1)(_measure)
    asked = run.options(
        name=f"memory of {spec.label}", num_cpus=spec.share, num_gpus=1, memory=spec.memory or None
    )
    try:
        measured: tuple[int, int] = ray.get(asked.remote(whole), timeout=WAIT_SECONDS)
    except ray.exceptions.RayError as error:
        last = str(error).strip().splitlines()[-1]
        raise ConfigError(
            [f"--gpus-per-trial auto: {spec.label} cannot be measured: {last}; give a number"]
        ) from error
    return measured


def _measure(spec: TrialSpec) -> tuple[int, int]:
    import torch  # noqa: PLC0415 (there, not here)

    if not torch.cuda.is_available():
        raise RuntimeError("torch sees no GPU here")
    trial = Trial(spec)
    trial.start(resume=False)  # an evaluation may use more memory than training
    while not (progress := trial.advance()).shown and progress.step < progress.steps:
        pass
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return total - free, total
