"""How many seeds fit into a trial, and how many trials run at a time."""

from __future__ import annotations

import math
from typing import Any

from nalu_ray.errors import ConfigError
from nalu_ray.sweep.machine import CONTEXT_BYTES, FOR_BLOCKS, GIB, WORKER_BYTES, Capacity, Node
from nalu_ray.sweep.presets import Point
from nalu_ray.sweep.resources import Resources
from nalu_ray.task import Setting, Task

# a step of a small network on a GPU takes the time to launch it, for any number of seeds
GPU_GROWTH = 10


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
    """Returns the peak memory of a trial in bytes, its worker included.

    Args:
        task, point: the trial's task and setting.
        seeds: number of seeds of its block.
    """
    return WORKER_BYTES + size(task, point.setting, seeds)


def size(task: Task[Any], setting: Setting, seeds: int) -> int:
    """Returns the peak memory of a number of seeds in bytes, without the worker.

    Args:
        task, setting: as for :func:`need`.
        seeds: number of seeds that train together.
    """
    made = max(task.memory(setting, seeds), task.activations(setting, seeds))
    return made + task.trained(setting, seeds)


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
