"""Trials that wait for resources: after a while, reports what they need and who holds it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ray
from ray.util import state

from nalu_ray.sweep.dispatch import TrialSpec
from nalu_ray.sweep.machine import GIB

WAIT_SECONDS = 30.0
_SHOWN = ("CPU", "GPU", "memory")
_ANSWER_SECONDS = 10
_MOST = 1000


class Waiting:
    """Reports, when no trial has run for some time, what the next one waits for.

    Args:
        tell: gets the line.
        clock: returns seconds since any fixed time.
    """

    def __init__(
        self, tell: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.tell, self.clock = tell, clock
        self.since = clock()

    def look(self, running: bool, spec: TrialSpec | None) -> None:
        """Checks how long no trial has run.

        Args:
            running: whether a trial is running.
            spec: a waiting trial; None if there is none.
        """
        now = self.clock()
        if running or spec is None:
            self.since = now
        elif now - self.since >= WAIT_SECONDS:
            self.since = now
            self.tell(describe(spec))


def describe(spec: TrialSpec) -> str:
    """Returns a line: what a trial needs, what is free, and which jobs hold the rest."""
    asked = {"CPU": spec.share * (1 + spec.processes), "GPU": spec.gpus, "memory": spec.memory}
    there, free = ray.cluster_resources(), ray.available_resources()
    return (
        f"waiting for resources: a trial needs {amounts(asked)}; free: {amounts(free, there)}, "
        f"of {amounts(there)}; held by jobs: {', '.join(holders()) or 'nothing'}"
    )


def amounts(resources: Mapping[str, float], of: Mapping[str, float] | None = None) -> str:
    """Returns ``2 CPU, 1.5 GiB memory``.

    Args:
        resources: the amounts.
        of: the resources to list; default: those above 0.
    """
    listed = [name for name in _SHOWN if (resources if of is None else of).get(name)]
    parts = []
    for name in listed:
        amount = resources.get(name, 0.0)
        number = f"{amount / GIB:.2f} GiB" if name == "memory" else f"{amount:g}"
        parts.append(f"{number} {name}")
    return ", ".join(parts) or "nothing"


def holders() -> list[str]:
    """Returns a text per job that holds CPUs or GPUs, with its command."""
    try:
        here = ray.get_runtime_context().gcs_address  # a machine may run several clusters
        held = _held(here)
        jobs = state.list_jobs(address=here, timeout=_ANSWER_SECONDS)
        names = {job.job_id: job.entrypoint for job in jobs}
    except Exception as error:  # the dashboard answers, and may be off
        return [f"unknown ({type(error).__name__})"]
    names[ray.get_runtime_context().get_job_id()] = "this process"
    return [
        f"{amounts(taken)} by {job} ({names.get(job) or 'a driver'})"
        for job, taken in sorted(held.items())
        if amounts(taken) != "nothing"
    ]


def _held(address: str) -> dict[str, dict[str, float]]:
    options: dict[str, Any] = {
        "address": address,
        "detail": True,
        "limit": _MOST,
        "timeout": _ANSWER_SECONDS,
        "raise_on_missing_output": False,
    }
    parts = [
        *_groups(state.list_placement_groups(filters=[("state", "=", "CREATED")], **options)),
        *_processes(state.list_actors(filters=[("state", "=", "ALIVE")], **options)),
        *_processes(state.list_tasks(filters=[("state", "=", "RUNNING")], **options)),
    ]
    held: dict[str, dict[str, float]] = {}
    for job, resources in parts:
        taken = held.setdefault(job, {})
        for name, amount in resources.items():
            taken[name] = taken.get(name, 0.0) + amount
    return held


def _groups(groups: Any) -> Iterator[tuple[str, Mapping[str, float]]]:
    for group in groups:
        for bundle in group.bundles or []:
            yield group.creator_job_id, bundle["unit_resources"]


def _processes(processes: Any) -> Iterator[tuple[str, Mapping[str, float]]]:
    """Yields the resources of actors or tasks outside of placement groups."""
    for process in processes:
        if not getattr(process, "placement_group_id", None):
            yield process.job_id, process.required_resources or {}
