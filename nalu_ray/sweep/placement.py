"""What fits where: how many trials run at a time, and how many seeds one of them may hold."""

from __future__ import annotations

import math
from typing import Any

from nalu_ray.errors import ConfigError
from nalu_ray.sweep.machine import GIB, Capacity, Node
from nalu_ray.sweep.presets import Point
from nalu_ray.sweep.resources import Resources
from nalu_ray.task import Setting, Task

# a process with torch, measured: 665 MB
WORKER_BYTES = 700 * 1024**2
# a small network's step on a GPU is the time of starting it, however many seeds take it at once
GPU_GROWTH = 10
# of a GPU's memory; the rest is for what blocks take at times only
FOR_BLOCKS = 0.9


def slots(capacity: Capacity, resources: Resources, memory: int) -> int:
    """Returns how many trials of so many bytes run at a time.

    Raises:
        ConfigError: not even one, with the arithmetic.
    """
    most = resources.max_concurrent or math.inf
    if not capacity.known:
        return int(min(most, 1))
    found = sum(_slots_of(node, resources, memory) for node in capacity.nodes)
    if found == 0:
        raise ConfigError([_too_much(capacity, resources, memory)])
    return int(min(found, most))


def widest(resources: Resources) -> int:
    """Returns the most seeds that a trial takes.

    On a GPU ``seeds_per_gpu``, or ``GPU_GROWTH`` times ``seeds_per_trial``; on a share of it that
    share, but no fewer than on a CPU. Where seeds are not stacked (``seeds_per_trial: 1``) only
    ``seeds_per_gpu`` makes them so.
    """
    on_cpu, share = resources.seeds_per_trial, min(1.0, resources.gpus)
    if share and resources.seeds_per_gpu:
        return max(1, int(resources.seeds_per_gpu * share + 1e-9))
    if share and on_cpu > 1:
        return max(on_cpu, int(GPU_GROWTH * on_cpu * share + 1e-9))
    return on_cpu


def crowded(resources: Resources, capacity: Capacity) -> Resources:
    """Returns ``auto`` as the smallest share that the CPUs beside a GPU can make use of."""
    cpus = [node.cpus / node.gpus for node in capacity.nodes if node.gpus >= 1]
    most = max(1, int(min(cpus, default=0) / resources.cpus_per_trial + 1e-9))
    return resources.model_copy(update={"gpus_per_trial": 1 / most})


def shared(resources: Resources, taken: int, total: int) -> Resources:
    """Returns a share that so many bytes fit in, of a GPU of so many; no smaller than it was.

    Blocks stay as large as they were measured.
    """
    fitting = int(FOR_BLOCKS * total / taken)
    most = max(1, min(round(1 / resources.gpus), fitting))
    seeds = widest(resources) * most
    return resources.model_copy(update={"gpus_per_trial": 1 / most, "seeds_per_gpu": seeds})


def memory_of_a_slot(capacity: Capacity, resources: Resources) -> float:
    """Returns the bytes that a trial may take where every node is full of trials."""
    shares = []
    for node in capacity.nodes:
        found = _slots_of(node, resources, 0)
        if found:
            shares.append(node.memory / min(found, resources.max_concurrent or found))
    return min(shares, default=math.inf)


def fitting(task: Task[Any], point: Point, width: int, share: float) -> int:
    """Returns a block's width, halved until its trial takes no more than its share of memory."""
    while width > 1 and need(task, point, width) > share:
        width = math.ceil(width / 2)
    return width


def need(task: Task[Any], point: Point, seeds: int) -> int:
    """Returns the bytes of a trial with so many seeds."""
    return WORKER_BYTES + size(task, point.setting, seeds)


def size(task: Task[Any], setting: Setting, seeds: int) -> int:
    """Returns the bytes that so many seeds of a setting hold at their peak."""
    return task.memory(setting, seeds) + task.trained(setting, seeds)


def _slots_of(node: Node, resources: Resources, memory: int) -> int:
    found = node.cpus / resources.cpus_per_trial
    if resources.gpus:
        found = min(found, node.gpus / resources.gpus)
    if memory:
        found = min(found, node.memory / memory)
    return int(found + 1e-9)


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
    return f"a trial asks for {', '.join(parts)}: it fits nowhere on {capacity.describe()}"
