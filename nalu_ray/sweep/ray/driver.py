"""Runs a plan as one Ray Tune experiment."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ray import tune
from ray.tune.experiment import Trial as Trials

from nalu_ray.results.store.store import Store, StoreError
from nalu_ray.sweep import out_of_memory
from nalu_ray.sweep.code_digest import package_digest
from nalu_ray.sweep.dispatch import NodeError
from nalu_ray.sweep.plan import Plan
from nalu_ray.sweep.progress import Board
from nalu_ray.sweep.ray.callbacks import Guarded
from nalu_ray.sweep.ray.failures import describe, failure, watch_failures
from nalu_ray.sweep.ray.gauges import Gauges
from nalu_ray.sweep.ray.journal import journal
from nalu_ray.sweep.ray.liveness import watched
from nalu_ray.sweep.ray.tensorboard import Curves
from nalu_ray.sweep.ray.waiting import Waiting
from nalu_ray.sweep.ray.worker import Slot
from nalu_ray.sweep.scratch import MARK, TUNE, discard, scratch
from nalu_ray.sweep.stdio import lasting
from nalu_ray.sweep.stopping import StoppedError, raise_storage, storage
from nalu_ray.sweep.trial import STATE_SECONDS, Report, Trial, TrialSpec

RETRIES = 3
REPORTS_PER_SECOND = 100  # of all trials together: a fifth of the driver's core
LOGGERS = {
    "wandb": ("ray.air.integrations.wandb", "WandbLoggerCallback"),
    "mlflow": ("ray.air.integrations.mlflow", "MLflowLoggerCallback"),
}


class _OfThisCommand:
    """Keeps the board out of the files that Tune writes to restore an experiment."""

    def __init__(self, board: Board) -> None:
        self.board = board

    def __getstate__(self) -> dict[str, Any]:
        return {}


class Relay(_OfThisCommand, tune.Callback):
    """Passes Tune's reports to the board, and stores failures of lost workers."""

    def __init__(self, board: Board, retries: int, log: Board | None = None) -> None:
        super().__init__(board)
        self.boards = [board] if log is None else [board, log]
        self.retries = retries
        self.unusable: StoreError | NodeError | None = None
        self.waiting = Waiting(self.note)
        self.specs: dict[str, TrialSpec] = {}

    def spec(self, trial: Any) -> TrialSpec:
        """Returns the specification of one of Tune's trials."""
        return self.specs[trial.config["spec"]["key"]]

    def note(self, text: str) -> None:
        """Shows a line on every board."""
        for board in self.boards:
            board.note(text)

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        for board in self.boards:
            board.tick()
        first = next((trial for trial in trials if trial.status == Trials.PENDING), None)
        self.waiting.look(bool(self.board.running), first and self.spec(first))

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        for board in self.boards:
            board.started(trial.trial_id, self.spec(trial))

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        self._report(trial, Report.read(result))

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        for board in self.boards:
            reason, *_ = describe(failure()).split(". ")  # Ray goes on about where its logs are
            board.resumed(trial.trial_id, self.spec(trial), reason)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        spec = self.spec(trial)
        _, step = self.board.running.get(trial.trial_id, (spec, 0))
        gone, error = Trial(spec), failure()
        try:
            if isinstance(error, NodeError):  # not the seeds' fault
                raise error
            if error is not None:
                raise_storage(error)
            reason = out_of_memory.reason(spec, error) or describe(error)
            gone.fail_with(
                f"{reason} (retries: {self.retries})", step, out_of_memory.outcome(error)
            )
        except (StoreError, NodeError) as broken:
            self.unusable = broken
            gone.failed = dict.fromkeys(spec.seeds, str(broken))
        self._report(trial, Report(step, spec.steps, done=True, failed=gone.failed))

    def _report(self, trial: Any, report: Report) -> None:
        for board in self.boards:
            board.report(trial.trial_id, self.spec(trial), report)


class Ending(_OfThisCommand, tune.Stopper):
    """Ends the sweep once a node cannot be used or, with ``fail_fast``, a seed has failed."""

    def __init__(self, relay: Relay, fail_fast: bool) -> None:
        super().__init__(relay.board)
        self.relay, self.fail_fast = relay, fail_fast

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        failed = self.fail_fast and self.board.seeds_failed > 0
        return failed or self.relay.unusable is not None


def run(
    plan: Plan,
    board: Board,
    store: Store,
    *,
    fail_fast: bool = False,
    max_concurrent: int | None = None,
    loggers: Sequence[str] = (),
    retries: int = RETRIES,
    state_seconds: float = STATE_SECONDS,
) -> str | None:
    """Runs every trial of a plan on the Ray that this process is connected to.

    Args:
        plan: the plan.
        board: shows the progress; the dashboard shows it, too.
        store: gets the rows; Tune's own folder lies beside them until the end.
        fail_fast: stop after the first failed seed.
        max_concurrent: maximum number of trials at a time; None for as many as fit.
        loggers: ``tensorboard``, and names of :data:`LOGGERS`.
        retries: how often a trial resumes from its last state after its worker was lost.
        state_seconds: minimum time between two states of a trial, in seconds.

    Returns:
        The folder of TensorBoard's curves; None without them.

    Raises:
        ConfigError: a logger cannot start.
        StoppedError: rows can no longer be written even after retries; a node that joined later has
            other code or does not see the results folder; Ray is lost.
    """
    watch_failures()
    curves = Curves(plan, store) if "tensorboard" in loggers else None
    made = {name: _logger(name, plan) for name in loggers if name in LOGGERS}
    made |= {"tensorboard": curves} if curves else {}
    guarded = [Guarded(flag, inner, board) for flag, inner in made.items()]
    with contextlib.ExitStack() as stack:
        relay = Relay(board, retries, stack.enter_context(journal(plan)))
        callbacks = [relay, Gauges(plan.task, plan.trials), *guarded]
        stack.enter_context(lasting())
        stack.enter_context(_stopping(store, relay))
        name = stack.enter_context(scratch(store))
        run_config = tune.RunConfig(
            name=name,
            storage_path=f"{store.root}/{TUNE}",
            storage_filesystem=store.filesystem,
            failure_config=tune.FailureConfig(max_failures=retries),
            callbacks=callbacks,
            stop=Ending(relay, fail_fast),
            verbose=0,
        )
        checks = {"mark": f"{TUNE}/{name}/{MARK}", "code": package_digest()}
        specs = [
            spec.model_copy(update={**checks, "numbers": spec.numbers_here()})
            for spec in plan.trials
        ]
        relay.specs = {spec.key: spec for spec in specs}
        space = {
            "spec": tune.grid_search([spec.plain() for spec in specs]),
            "state_seconds": state_seconds,
            "report_seconds": report_seconds(plan.slots),
        }
        config = _tune_config(max_concurrent)
        tuner = tune.Tuner(Slot, param_space=space, tune_config=config, run_config=run_config)
        with watched(lambda: discard(store, name)):
            tuner.fit()
    return _finished(curves, board)


def report_seconds(running: int) -> float:
    """Returns the minimum time between two reports of a trial, in seconds."""
    return max(1.0, running / REPORTS_PER_SECOND)


def _finished(curves: Curves | None, board: Board) -> str | None:
    """Completes the curves and returns their folder."""
    try:
        if curves is not None:
            curves.finish()
            return curves.place
    except Exception as error:  # the rows are stored, which matters more
        board.note(f"warning: --tensorboard: {describe(error)}")
    return None


@contextlib.contextmanager
def _stopping(store: Store, relay: Relay) -> Iterator[None]:
    """Raises errors of storage that a trial, or Tune with its own files, met."""
    error: StoreError | None = None
    try:
        yield
    except StoppedError:
        raise
    except Exception as met:  # where trials cannot write, Tune fails, too
        error = storage(met)
        if relay.unusable is None and error is None:
            raise
    if relay.unusable:
        raise StoppedError(_last_line(relay.unusable))
    if error:
        raise StoppedError(f"cannot write {store.root}: {_last_line(error)}")


def _last_line(error: Exception) -> str:
    """Returns an error's text without Ray's tracebacks before it."""
    return re.sub(r"^[\w.]*Error: ", "", str(error).strip().splitlines()[-1])


def _tune_config(max_concurrent: int | None) -> tune.TuneConfig:
    return tune.TuneConfig(
        reuse_actors=True,
        max_concurrent_trials=max_concurrent,
        trial_name_creator=lambda trial: trial.config["spec"]["label"],
        trial_dirname_creator=_folder_name,
    )


def _logger(logger: str, plan: Plan) -> Any:
    module, name = LOGGERS[logger]
    arguments = {
        # else in a trial's scratch folder, which goes away with offline runs
        "wandb": {
            "project": "nalu_ray",
            "group": plan.task.name,
            "dir": os.environ.get("WANDB_DIR", os.getcwd()),
        },
        "mlflow": {"experiment_name": f"nalu_ray {plan.task.name}"},
    }
    return getattr(importlib.import_module(module), name)(**arguments[logger])


def _folder_name(trial: Any) -> str:
    label = re.sub(r"[^A-Za-z0-9=.,+-]+", "_", trial.config["spec"]["label"])
    return f"{label[:120]}_{trial.trial_id}"
