"""A trial on Ray: Tune's trainable, and the named task that does the work.

A slot lives through many trials (``reuse_actors``) and hands each one to a Ray *task* that carries
the trial's name: the dashboard's task list shows ``static nalu mul lr=0.01 seeds 0-99``, and Ray's
pool gives the next task a process that has torch loaded already. A fresh actor for each trial, the
other way to a right name, costs five seconds of CPU for its imports (measured on two cores).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import ray
from ray import tune
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from nalu_ray.results.store import states
from nalu_ray.results.store.rows import OUT_OF_MEMORY
from nalu_ray.sweep import oom
from nalu_ray.sweep.machine import check_node
from nalu_ray.sweep.messages import Messages
from nalu_ray.sweep.stdio import lasting
from nalu_ray.sweep.trial import Report, Trial, TrialSpec


def _run_trial(
    spec: dict[str, Any], state_seconds: float, report_seconds: float
) -> Iterator[Report]:
    """Runs a trial in a worker process, report by report; the warnings go with the reports."""
    messages: list[str] = []
    with lasting(), Messages(messages.append):
        check_node(spec["out"], spec["mark"], spec["code"])  # first: other code has other settings
        asked = TrialSpec.model_validate(spec)
        for report in Trial(asked, report_seconds=report_seconds, state_seconds=state_seconds):
            yield replace(report, messages=tuple(messages))
            messages.clear()


run_trial = ray.remote(max_retries=0)(_run_trial)
# a process stays on the GPU it used first: where a node has several, each trial gets a process
run_trial_afresh = ray.remote(max_retries=0, max_calls=1)(_run_trial)


class Slot(tune.Trainable):
    """A place that trials run at, one after another: Tune's side of a trial's task."""

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        spec = config["spec"]
        bundle = {"CPU": spec["share"], "GPU": spec["gpus"], "memory": spec["memory"]}
        needed = {name: amount for name, amount in bundle.items() if amount}
        # the slot itself only waits; the task takes the first bundle, what it starts the others
        return tune.PlacementGroupFactory(
            [{}, needed, *([{"CPU": spec["share"]}] * spec["processes"])]
        )

    def setup(self, config: dict[str, Any]) -> None:
        self.reports: Any = None
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.cleanup()
        self.last_step = 0
        self.spec = new_config["spec"]  # plain values: a slot need not load the task
        self.state_seconds = float(new_config["state_seconds"])
        self.report_seconds = float(new_config["report_seconds"])
        return True

    def step(self) -> dict[str, Any]:
        if self.reports is None:
            self.reports = self._start()
        report = self._next()
        self.last_step = report.step
        if report.done:
            self.reports = None
        return report.plain()  # with Tune's own key for the end, `done`

    def _next(self) -> Report:
        """Returns the task's next report; its end if it was stopped for what it took itself."""
        try:
            report: Report = ray.get(next(self.reports))
            return report
        except ray.exceptions.OutOfMemoryError as error:
            taken = oom.taken(str(error), self.spec["label"])
            if taken is None or taken <= self.spec["memory"]:
                raise  # another's doing: Tune runs it again
            spec = TrialSpec.model_validate(self.spec)
            reason = str(oom.reason(spec, error))
        trial = Trial(spec)
        trial.fail_with(reason, self.last_step, OUT_OF_MEMORY)
        states.drop(trial.store, spec.task, spec.key)
        return Report(self.last_step, spec.steps, done=True, failed=trial.failed)

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Nothing: a trial keeps its state beside the results."""

    def load_checkpoint(self, checkpoint: Any) -> None:
        """Nothing: a trial finds its state there."""

    def cleanup(self) -> None:
        if self.reports is not None:
            ray.cancel(self.reports, force=True)
        self.reports = None

    def __repr__(self) -> str:
        return f"{self.spec['task']}: worker"

    def _start(self) -> Any:
        group: Any = ray.util.get_current_placement_group()
        task = run_trial_afresh if self.spec["gpus"] and _gpus_here() > 1 else run_trial
        return task.options(
            name=self.spec["label"],
            num_cpus=self.spec["share"],
            num_gpus=self.spec["gpus"],
            memory=self.spec["memory"] or None,
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, 0, True),
        ).remote(self.spec, self.state_seconds, self.report_seconds)


def _gpus_here() -> float:
    here = ray.get_runtime_context().get_node_id()
    gpus = [node["Resources"].get("GPU", 0) for node in ray.nodes() if node["NodeID"] == here]
    return float(gpus[0]) if gpus else 0.0
