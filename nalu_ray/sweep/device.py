"""The device of a trial: chosen, set up so that its numbers are float32's, checked, freed."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from nalu_ray.sweep.dispatch import NodeError, TrialSpec

if TYPE_CHECKING:  # slow to load, and not needed to plan
    import torch

REHEARSE = "NALU_RAY_REHEARSE_GPUS"
"""Environment variable: trials that reserve a GPU run on the CPU, to rehearse a cluster."""
CUBLAS = "CUBLAS_WORKSPACE_CONFIG"


def device_of(spec: TrialSpec) -> torch.device:
    """Returns the device that a trial trains on.

    Ray shows a trial's process only the GPU that it reserved, so torch's first is the right one.

    Raises:
        NodeError: the trial reserved a GPU, and torch has none here.
    """
    import torch  # noqa: PLC0415 (as above)

    if not spec.gpus or os.environ.get(REHEARSE):
        return torch.device("cpu")
    if torch.cuda.is_available():
        return torch.device("cuda")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "not set")
    raise NodeError(
        f"node {platform.node()} declares a GPU to Ray, and {spec.label} reserved {spec.gpus:g} of "
        f"it, but torch {torch.__version__} finds no CUDA device there ({_why()}; "
        f"CUDA_VISIBLE_DEVICES {visible})"
    )


def _why() -> str:
    import torch  # noqa: PLC0415 (as above)

    try:
        torch.cuda.init()
    except Exception as error:  # torch says what is missing: a driver, or CUDA in its build
        return str(error).strip().splitlines()[0].rstrip(".") if str(error) else "no reason given"
    return "torch gives no reason"


def set_numerics(deterministic: bool) -> dict[str, Any]:
    """Sets how torch computes, for this process; returns it for the manifest.

    TensorFloat-32 keeps 10 bits of a product's inputs. It is off, also for convolutions, where
    torch's default is on: numerical extrapolation is judged by errors below that rounding.

    Args:
        deterministic: use only operations that repeat bit for bit on a GPU; torch raises an error
            for those that do not. On a CPU, results are the same either way.
    """
    import torch  # noqa: PLC0415 (as above)

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    if deterministic:  # read when a process first multiplies on its GPU
        os.environ.setdefault(CUBLAS, ":4096:8")
        torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.use_deterministic_algorithms(deterministic)
    return {"tf32": False, "deterministic": deterministic}


def prepare_cublas(specs: Iterable[TrialSpec]) -> None:
    """Sets cuBLAS up for the deterministic trials among those of a process, before the first.

    cuBLAS reads its setting once per process: after another trial it would be too late.
    """
    if any(spec.gpus and getattr(spec.setting, "deterministic", False) for spec in specs):
        os.environ.setdefault(CUBLAS, ":4096:8")


@contextlib.contextmanager
def kept_settings() -> Iterator[None]:
    """Restores torch's number of threads and its numerics, which trials change in this process."""
    import torch  # noqa: PLC0415 (as above)

    threads = torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    backends = torch.backends.cuda.matmul, torch.backends.cudnn
    allowed: list[tuple[Any, bool]] = []
    for backend in backends:
        with contextlib.suppress(RuntimeError):  # set by torch's newer names for it alone
            allowed.append((backend, backend.allow_tf32))
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic)
        for backend, tf32 in allowed:
            backend.allow_tf32 = tf32


def peak_bytes() -> int | None:
    """Returns the most memory that tensors took on the GPU since its peak was last reset."""
    import torch  # noqa: PLC0415 (as above)

    try:
        return int(torch.cuda.max_memory_allocated())
    except RuntimeError:  # the GPU no longer answers this process
        return None


def free(spec: TrialSpec) -> None:
    """Gives cached memory back to the GPU: the next trial there may be in another process."""
    import torch  # noqa: PLC0415 (as above)

    if spec.gpus and torch.cuda.is_initialized():
        with contextlib.suppress(RuntimeError):  # after a lasting error of CUDA, see is_lost
            torch.cuda.empty_cache()


def is_lost() -> bool:
    """Returns whether CUDA no longer works in this process, as after a failed kernel.

    Such an error lasts as long as the process.
    """
    import torch  # noqa: PLC0415 (as above)

    if not torch.cuda.is_initialized():
        return False
    try:
        torch.cuda.synchronize()
        torch.zeros(1, device="cuda").item()
    except torch.cuda.OutOfMemoryError:
        return False
    except RuntimeError:
        return True
    return False
