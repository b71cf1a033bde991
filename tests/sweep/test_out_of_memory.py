"""Errors that mean memory ran out, and the reason that is stored."""

from __future__ import annotations

import pytest
import torch

from nalu_ray.sweep import out_of_memory
from nalu_ray.sweep.dispatch import TrialSpec
from nalu_ray.task import Setting


class OutOfMemoryError(Exception):
    """Named as Ray's."""


RAYS = OutOfMemoryError(
    "Task failed.\n"
    "1 worker(s) were killed due to the node running low on memory. Memory on the node "
    "(IP: 10.0.0.2, ID: 5c6d70d324d9) was 2.83GB used / 23.54GB limit (0.120262)\n"
    "Selected to kill: (Task: job ID=01, task name=another, actual memory used=0.11GB, worker=7)\n"
    "Selected to kill: (Task: job ID=01, task name=t, pid=2, actual memory used=3.50GB, worker=8)\n"
    "(Task: job ID=01, task name=left alone, actual memory used=7.00GB, worker ID=9)"
)


def spec(seeds: int, memory: int = 0, gpus: float = 0) -> TrialSpec:
    return TrialSpec(
        task="t", setting=Setting(), setting_id="a", seeds=tuple(range(seeds)), label="t", steps=1,
        out="o", memory=memory, gpus=gpus,
    )  # fmt: skip


def test_what_torch_raises_on_a_cpu() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**15)
    assert out_of_memory.is_oom(caught.value)


@pytest.mark.parametrize(
    ("error", "meant"),
    [
        (MemoryError(), True),
        (torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), True),
        (RAYS, True),
        (torch.AcceleratorError("CUDA error: out of memory\nCUDA kernel errors might be"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), True),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), True),
        (RuntimeError("CUDA error: device-side assert triggered"), False),
        (RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED"), False),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("can't allocate memory"), False),
        (None, False),
    ],
)
def test_is_oom(error: BaseException | None, meant: bool) -> None:
    assert out_of_memory.is_oom(error) == meant
    assert (out_of_memory.reason(spec(3), error) is not None) == meant
    assert out_of_memory.outcome(error) == ("out_of_memory" if meant else "failed")


def test_the_reason_says_how_much_for_how_many_and_what_to_do() -> None:
    assert out_of_memory.reason(spec(9, 3 * 2**30, 0.5), RAYS) == (
        "oom: 9 seeds at once did not fit, took 3.50 GiB, reserved: 3.00 GiB (0.68 for a worker, "
        "2.32 for seeds), 0.5 GPU; --rerun-failed runs 4 at a time; OutOfMemoryError: 1 worker(s) "
        "were killed due to the node running low on memory. Memory on the node (IP: 10.0.0.2) was "
        "2.83GB used / 23.54GB limit (0.120262)"
    )
    alone = out_of_memory.reason(spec(1), MemoryError())
    assert alone == ("oom: 1 seed did not fit, reserved: nothing; give it more memory; MemoryError")


def test_what_a_stopped_task_had() -> None:
    found = [
        out_of_memory.taken(str(RAYS), label) for label in ("t", "another", "left alone", "unknown")
    ]
    assert found == [int(3.5 * 2**30), int(0.11 * 2**30), None, None]


@pytest.mark.parametrize(("seeds", "next_width"), [(1, 1), (2, 1), (9, 4), (1000, 500)])
def test_the_next_block_is_half_as_large(seeds: int, next_width: int) -> None:
    assert out_of_memory.retry_width(seeds) == next_width
