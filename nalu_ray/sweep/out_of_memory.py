"""Out of memory: which errors mean it, and the reason that is stored with the seeds."""

from __future__ import annotations

import re

from nalu_ray.results.store.rows import FAILED, OUT_OF_MEMORY
from nalu_ray.sweep.dispatch import TrialSpec
from nalu_ray.sweep.machine import GIB, WORKER_BYTES

# torch raises a RuntimeError if the CPU's memory is exhausted, Ray an error of its own; on a GPU,
# torch's allocator has a class for it, and what CUDA's libraries take themselves has not
_CLASSES = ("MemoryError", "OutOfMemoryError")
_TEXTS = (
    *("can't allocate memory", "not enough memory"),
    *("CUDA out of memory", "CUDA error: out of memory", "cudaErrorMemoryAllocation"),
    *("CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED", "CUSOLVER_STATUS_ALLOC_FAILED"),
)
_NODE = re.compile(r", ID: [0-9a-f]+")  # the address stands beside it
_STOPPED, _TAKEN = "Selected to kill: ", re.compile(r"actual memory used=([\d.]+)GB")


def is_oom(error: BaseException | None) -> bool:
    """Returns whether an error of Python, torch or Ray means that memory ran out."""
    if any(base.__name__ in _CLASSES for base in type(error).__mro__):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _TEXTS)


def outcome(error: BaseException | None) -> str:
    """Returns the outcome of seeds that an error ended: ``out_of_memory`` or ``failed``."""
    return OUT_OF_MEMORY if is_oom(error) else FAILED


def taken(text: str, label: str) -> int | None:
    """Returns the bytes that a task used when Ray stopped it; None if Ray does not report them.

    Args:
        text: Ray's message, one line per task that it stopped.
        label: the task's name.
    """
    lines = [line for line in text.splitlines() if f"task name={label}, " in line]
    amounts = [_TAKEN.search(line) for line in lines if line.startswith(_STOPPED)]
    return max((int(float(amount[1]) * GIB) for amount in amounts if amount), default=None)


def reason(spec: TrialSpec, error: BaseException | None) -> str | None:
    """Returns the reason of a trial that ran out of memory: its size, its use, and advice.

    Args:
        spec: the trial.
        error: the error that ended it; None is returned unless it means :func:`is_oom`.
    """
    if not is_oom(error):
        return None
    seeds = len(spec.seeds)
    count = f"{seeds} seed" + ("s at once" if seeds > 1 else "")
    half = retry_width(seeds)
    advice = f"--rerun-failed runs {half} at a time" if half < seeds else "give it more memory"
    lines = [line for line in str(error).splitlines() if _tells(line)] or [""]
    detail = f"{type(error).__name__}: {_NODE.sub('', lines[0])}".rstrip(": ")
    bytes_taken = taken(str(error), spec.label)
    had = "" if bytes_taken is None else f"took {bytes_taken / GIB:.2f} GiB, "
    return f"oom: {count} did not fit, {had}reserved: {_reserved(spec)}; {advice}; {detail}"


def _tells(line: str) -> bool:
    return "emory" in line or "ALLOC_FAILED" in line


def retry_width(seeds: int) -> int:
    """Returns the number of seeds to try next after this many ran out of memory."""
    return max(1, seeds // 2)


def _reserved(spec: TrialSpec) -> str:
    gpus = [f"{spec.gpus:g} GPU"] if spec.gpus else []
    if not spec.memory:
        return ", ".join(gpus) or "nothing"
    worker, block = min(WORKER_BYTES, spec.memory) / GIB, max(0, spec.memory - WORKER_BYTES) / GIB
    total = f"{spec.memory / GIB:.2f} GiB ({worker:.2f} for a worker, {block:.2f} for seeds)"
    return ", ".join([total, *gpus])
