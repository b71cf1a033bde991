"""The machines that trials run on: their CPUs, GPUs and memory."""

from __future__ import annotations

import contextlib
import math
import os
from dataclasses import dataclass
from pathlib import Path

GIB = 1024**3
# share of free memory; the rest is for Ray's processes and the system
FOR_TRIALS = 0.8
# a process with torch, measured: 665 MB
WORKER_BYTES = 700 * 1024**2
# what CUDA takes of a GPU's memory per process, beside tensors: an upper bound of common figures
CONTEXT_BYTES = 600 * 1024**2
# share of a GPU's memory; the rest is for peaks
FOR_BLOCKS = 0.9
# open files: what Ray needs, what a run without Ray needs, and what Ray asks for if it can be had
OPEN_FILES, OPEN_FILES_LOCAL, OPEN_FILES_WANTED = 1024, 64, 65_536


@dataclass(frozen=True)
class Node:
    """The resources of one machine that trials may use.

    Attributes:
        cpus, gpus: number of each.
        memory: bytes.
        gpu_memory: bytes of its smallest GPU; 0 if they are not known.
    """

    cpus: float
    gpus: float = 0.0
    memory: int = 0
    gpu_memory: int = 0


@dataclass(frozen=True)
class Capacity:
    """All nodes that trials can run on.

    Attributes:
        name: for messages, such as ``this machine``.
        nodes: the machines.
        known: false for a cluster that is not connected yet.
    """

    name: str
    nodes: tuple[Node, ...] = ()
    known: bool = True

    def describe(self) -> str:
        """Returns a line such as ``this machine: 2 CPUs, 0 GPUs, 22.1 GiB``."""
        if not self.known:
            return f"{self.name}: size known once connected"
        cpus, gpus = (sum(getattr(node, name) for node in self.nodes) for name in ("cpus", "gpus"))
        memory = sum(node.memory for node in self.nodes) / GIB
        return f"{self.name}: {cpus:g} CPUs, {gpus:g} GPUs, {memory:.1f} GiB"


def this_machine(gpus: bool) -> Capacity:
    """Returns the resources of this process, within the limits of its container.

    Args:
        gpus: count GPUs, too, which loads torch.
    """
    sizes = _gpus() if gpus else []
    node = Node(_cpus(), len(sizes), _memory(), min(sizes, default=0))
    return Capacity("this machine", (node,))


def _cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        usable = len(os.sched_getaffinity(0))
    else:
        usable = os.cpu_count() or 1
    # version 2 of control groups has one file, version 1 two
    for names in (["cpu.max"], ["cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"]):
        numbers = [number for name in names for number in _limits(name)]
        if len(numbers) == 2:
            usable = min(usable, max(1, int(numbers[0] / numbers[1])))
    return usable


def _memory() -> int:
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        free = next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvail"))
    except (OSError, StopIteration):
        pass
    free = min([free, *_limits("memory.max"), *_limits("memory/memory.limit_in_bytes")])
    return int(free * FOR_TRIALS)


def _limits(name: str) -> list[int]:
    """Returns the numbers in a file of the container's limits; a word means no limit."""
    try:
        words = Path("/sys/fs/cgroup", name).read_text(encoding="ascii").split()
    except OSError:
        return []
    return [int(word) for word in words if word.isdigit()]


def _gpus() -> list[int]:
    """Returns the bytes of each GPU that torch finds."""
    import torch  # noqa: PLC0415 (slow to load, and most plans need no GPU)

    count = torch.cuda.device_count()
    return [torch.cuda.get_device_properties(index).total_memory for index in range(count)]


def raise_open_files() -> float:
    """Raises the limit of open files of this process to what Ray asks for, if it may.

    Returns:
        The limit afterwards; infinite without one.
    """
    try:
        import resource  # noqa: PLC0415 (not on Windows)
    except ImportError:
        return math.inf
    soft, hard = (
        math.inf if limit == resource.RLIM_INFINITY else limit
        for limit in resource.getrlimit(resource.RLIMIT_NOFILE)
    )
    wanted = min(hard, OPEN_FILES_WANTED)
    if soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            unlimited = resource.RLIM_INFINITY
            limits = (int(wanted), unlimited if hard == math.inf else int(hard))
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
            return wanted
    return soft
