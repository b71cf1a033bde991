"""What there is to run on: the nodes of a cluster, or this machine with its container's limits."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

GIB = 1024**3
# of what is free; the rest is for Ray's own processes and the system
FOR_TRIALS = 0.8


@dataclass(frozen=True)
class Node:
    """One machine: CPUs, GPUs and bytes of memory that trials may use."""

    cpus: float
    gpus: float = 0.0
    memory: int = 0


@dataclass(frozen=True)
class Capacity:
    """Every node that trials can be placed on. ``known`` is false for a cluster not yet asked."""

    name: str
    nodes: tuple[Node, ...] = ()
    known: bool = True

    def describe(self) -> str:
        """Returns a line such as ``this machine: 2 CPUs, 0 GPUs, 22.1 GiB``."""
        if not self.known:
            return f"{self.name}: asked when it runs"
        cpus, gpus = (sum(getattr(node, kind) for node in self.nodes) for kind in ("cpus", "gpus"))
        memory = sum(node.memory for node in self.nodes) / GIB
        return f"{self.name}: {cpus:g} CPUs, {gpus:g} GPUs, {memory:.1f} GiB"


def this_machine(gpus: bool) -> Capacity:
    """Returns the CPUs, free memory and, where asked for, GPUs that this process may use."""
    node = Node(cpus=_cpus(), gpus=_gpus() if gpus else 0, memory=_memory())
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
    """Returns the numbers in a file of this container's limits; words mean no limit."""
    try:
        words = Path("/sys/fs/cgroup", name).read_text(encoding="ascii").split()
    except OSError:
        return []
    return [int(word) for word in words if word.isdigit()]


def _gpus() -> int:
    import torch  # noqa: PLC0415 (slow to load, and most plans need no GPU)

    return torch.cuda.device_count()
