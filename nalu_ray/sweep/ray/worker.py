"""A trial on Ray: Tune's trainable, and the named Ray task that does the work.

A slot serves many trials (``reuse_actors``) and passes each one to a Ray *task* with the trial's
name: the dashboard's task list shows ``static nalu mul lr=0.01 seeds 0-99``, and Ray gives the next
task a process that has loaded torch already. The alternative, a new actor per trial, takes five
seconds of CPU for its imports (measured on two cores).

Tune calls a slot once per report. Ray records none of these calls, so that the job's tasks are its
trials, and the dashboard lists them below their slots.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import ray
from ray import tune
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from nalu_ray.results.store import states
from nalu_ray.results.store.rows import OUT_OF_MEMORY
from nalu_ray.sweep import out_of_memory
from nalu_ray.sweep.dispatch import receive
from nalu_ray.sweep.ray.trial_log import TrialLog
from nalu_ray.sweep.stdio import lasting
from nalu_ray.sweep.trial import Report, Trial, TrialSpec
from nalu_ray.sweep.warnings import WarningRelay


def trial(spec: dict[str, Any], state_seconds: float, report_seconds: float) -> Iterator[Report]:
    """Runs a trial in a worker process; yields its reports with the warnings in between.

    Args:
        spec: from :meth:`nalu_ray.sweep.dispatch.TrialSpec.plain`.
        state_seconds, report_seconds: as for :class:`nalu_ray.sweep.trial.Trial`.

    Raises:
        NodeError: this machine must not run it, see :func:`nalu_ray.sweep.dispatch.receive`.
        StoreError, StoppedError: see :meth:`nalu_ray.sweep.trial.Trial.__iter__`.
    """
    messages: list[str] = []
    with lasting(), WarningRelay(messages.append):
        received = receive(spec)
        log = TrialLog(received)
        log.started()
        running = Trial(received, report_seconds=report_seconds, state_seconds=state_seconds)
        for progress in running:
            report = replace(progress, messages=tuple(messages))
            log.failed(running.traceback)
            log.report(report)
            yield report
            messages.clear()
        if received.gpus and running.traceback:
            # an error of CUDA lasts as long as its process, and would fail every later trial here;
            # Ray delivers the reports first
            sys.exit(0)


run_trial = ray.remote(max_retries=0)(trial)
# a process stays on its first GPU: on a node with several, each trial gets a new process
run_trial_afresh = ray.remote(max_retries=0, max_calls=1)(trial)

RETURN_SECONDS = 30.0  # for a task to return after its last report


def _unrecorded(name: str) -> Any:
    """Returns a method of Tune's trainable whose calls Ray does not record as tasks."""
    inherited = getattr(tune.Trainable, name)

    # Ray looks below functools.wraps, and would not see the option there
    def method(self: tune.Trainable, *arguments: Any, **options: Any) -> Any:
        return inherited(self, *arguments, **options)

    method.__name__ = name
    return ray.method(enable_task_events=False)(method)


class Slot(tune.Trainable):
    """Tune's side of trials: runs one after another, each as a Ray task."""

    # calls on threads: Ray records the actor, not a call, as the parent of the tasks it submits
    actor_options: ClassVar[dict[str, Any]] = {"max_concurrency": 2}

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        spec = config["spec"]
        bundle = {"CPU": spec["share"], "GPU": spec["gpus"], "memory": spec["memory"]}
        needed = {name: amount for name, amount in bundle.items() if amount}
        # the slot only waits; the task uses the first bundle, its processes the others
        return tune.PlacementGroupFactory(
            [{}, needed, *([{"CPU": spec["share"]}] * spec["processes"])]
        )

    def setup(self, config: dict[str, Any]) -> None:
        self.reports: Any = None
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.cleanup()
        self.last_step = 0
        self.spec = new_config["spec"]  # plain values, so that a slot need not load the task
        self.state_seconds = float(new_config["state_seconds"])
        self.report_seconds = float(new_config["report_seconds"])
        return True

    def step(self) -> dict[str, Any]:
        if self.reports is None:
            self.reports = self._start()
        report = self._next()
        self.last_step = report.step
        if report.done:
            # after its last report a task still has to return: if its slot is gone by then, Ray
            # ends the task and calls it FAILED
            ray.wait([self.reports.completed()], timeout=RETURN_SECONDS)
            self.reports = None
        return report.plain()  # with Tune's own key for the end, `done`

    def _next(self) -> Report:
        """Returns the task's next report, or its end if Ray stopped it for its own memory use."""
        try:
            report: Report = ray.get(next(self.reports))
            return report
        except ray.exceptions.OutOfMemoryError as error:
            taken = out_of_memory.taken(str(error), self.spec["label"])
            if taken is None or taken <= self.spec["memory"]:
                raise  # another process used the memory: Tune runs it again
            spec = TrialSpec.model_validate(self.spec)
            reason = str(out_of_memory.reason(spec, error))
        trial = Trial(spec)
        trial.fail_with(reason, self.last_step, OUT_OF_MEMORY)
        states.drop(trial.store, spec.task, spec.key)
        return Report(self.last_step, spec.steps, done=True, failed=trial.failed)

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Does nothing: a trial saves its state beside the results."""

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Does nothing: a trial loads its state itself."""

    def cleanup(self) -> None:
        if self.reports is not None:
            ray.cancel(self.reports, force=True)
        self.reports = None

    def __repr__(self) -> str:
        return f"{self.spec['task']} trials, slot {os.getpid()}"

    # what Tune calls
    train, reset, save, stop, get_auto_filled_metrics = map(
        _unrecorded, ("train", "reset", "save", "stop", "get_auto_filled_metrics")
    )

    def _start(self) -> Any:
        print(f"runs {self.spec['label']}, a task of this job", file=sys.stderr, flush=True)
        group: Any = ray.util.get_current_placement_group()
        return (
            _task_of(self.spec)
            .options(
                name=self.spec["label"],
                num_cpus=self.spec["share"],
                num_gpus=self.spec["gpus"],
                memory=self.spec["memory"] or None,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, 0, True),
            )
            .remote(self.spec, self.state_seconds, self.report_seconds)
        )


def _task_of(spec: Mapping[str, Any]) -> Any:
    """Returns the Ray task of a trial: in a fresh process if its GPU must not have been used."""
    # cuBLAS reads whether to be deterministic once per process
    alone = spec["setting"].get("deterministic") or _gpus_here() > 1
    return run_trial_afresh if spec["gpus"] and alone else run_trial


def _gpus_here() -> float:
    here = ray.get_runtime_context().get_node_id()
    gpus = [node["Resources"].get("GPU", 0) for node in ray.nodes() if node["NodeID"] == here]
    return float(gpus[0]) if gpus else 0.0
