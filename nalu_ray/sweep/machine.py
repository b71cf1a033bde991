"""The machines that trials run on: their CPUs, GPUs and memory, and how many trials fit."""

from __future__ import annotations

import contextlib
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nalu_ray.errors import ConfigError
from nalu_ray.sweep.presets import Point, Resources
from nalu_ray.task import Setting, Task

GIB = 1024**3
# share of free memory; the rest is for Ray's processes and the system
FOR_TRIALS = 0.8
# a process with torch, measured: 665 MB
WORKER_BYTES = 700 * 1024**2
# a step of a small network on a GPU takes the time to launch it, for any number of seeds
GPU_GROWTH = 10
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
    """Raises the number of files that this process may open as far as Ray asks for it.

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


# -- how many trials fit --------------------------------------------------------------------------


def slots(capacity: Capacity, resources: Resources, memory: int) -> int:
    """Returns the number of trials that run at a time.

    Args:
        capacity: the nodes; an unknown cluster counts as one slot.
        resources: what a trial reserves beside memory.
        memory: bytes that a trial reserves; 0 to ignore memory.

    Raises:
        ConfigError: no trial fits; the message has the numbers.
    """
    most = resources.max_concurrent or math.inf
    if not capacity.known:
        return int(min(most, 1))
    trials = sum(_slots_of(node, resources, memory) for node in capacity.nodes)
    if trials == 0:
        raise ConfigError([_too_much(capacity, resources, memory)])
    return int(min(trials, most))


def widest(resources: Resources) -> int:
    """Returns the largest number of seeds per trial.

    On a GPU it is ``seeds_per_gpu``, or ``GPU_GROWTH`` times ``seeds_per_trial``. A trial on a
    share of a GPU gets that share of the seeds; without ``seeds_per_gpu``, at least as many as on a
    CPU. If seeds are not stacked (``seeds_per_trial: 1``), only ``seeds_per_gpu`` stacks them.
    """
    on_cpu, share = resources.seeds_per_trial, min(1.0, resources.gpus)
    if share and resources.seeds_per_gpu:
        return max(1, int(resources.seeds_per_gpu * share + 1e-9))
    if share and on_cpu > 1:
        return max(on_cpu, int(GPU_GROWTH * on_cpu * share + 1e-9))
    return on_cpu


def memory_of_a_slot(capacity: Capacity, resources: Resources) -> float:
    """Returns the bytes per trial on a node full of trials; infinite without nodes."""
    shares = []
    for node in capacity.nodes:
        trials = _slots_of(node, resources, 0)
        if trials:
            shares.append(node.memory / min(trials, resources.max_concurrent or trials))
    return min(shares, default=math.inf)


def memory_on_a_gpu(capacity: Capacity, resources: Resources) -> float:
    """Returns the bytes of a GPU for a trial's tensors; infinite where GPUs are not known."""
    known = [node.gpu_memory for node in capacity.nodes if node.gpus and node.gpu_memory]
    if not resources.gpus or not known:
        return math.inf
    return FOR_BLOCKS * resources.gpus * min(known) - CONTEXT_BYTES


def fitting(
    task: Task[Any], point: Point, width: int, share: float, on_gpu: float = math.inf
) -> int:
    """Returns the number of seeds per trial, halved until the trial fits its shares of memory.

    Args:
        task, point: the trial's task and setting.
        width: wanted number of seeds per trial.
        share: bytes that the trial may use.
        on_gpu: bytes of a GPU that its tensors may use.
    """
    while width > 1 and (
        need(task, point, width) > share or task.device_memory(point.setting, width) > on_gpu
    ):
        width = math.ceil(width / 2)
    return width


def need(task: Task[Any], point: Point, seeds: int) -> int:
    """Returns the peak memory of a trial in bytes, its worker included."""
    return WORKER_BYTES + size(task, point.setting, seeds)


def size(task: Task[Any], setting: Setting, seeds: int) -> int:
    """Returns the peak memory of a number of seeds in bytes, without the worker."""
    return task.memory(setting, seeds) + task.trained(setting, seeds)


def _slots_of(node: Node, resources: Resources, memory: int) -> int:
    trials = node.cpus / resources.cpus_per_trial
    if resources.gpus:
        trials = min(trials, node.gpus / resources.gpus)
    if memory:
        trials = min(trials, node.memory / memory)
    return int(trials + 1e-9)


def _too_much(capacity: Capacity, resources: Resources, memory: int) -> str:
    asked = [
        (resources.cpus_per_trial, "CPUs", [node.cpus for node in capacity.nodes]),
        (resources.gpus, "GPUs", [node.gpus for node in capacity.nodes]),
        (memory / GIB, "GiB", [node.memory / GIB for node in capacity.nodes]),
    ]
    parts = [
        f"{amount:.3g} {unit} (the largest node has {max(offered, default=0):.3g})"
        for amount, unit, offered in asked
        if amount
    ]
    return f"a trial asks for {', '.join(parts)}: it fits on no node of {capacity.describe()}"
