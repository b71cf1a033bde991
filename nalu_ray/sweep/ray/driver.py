"""A plan as one Tune experiment: what is reported, what is stored, what is kept."""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Iterator, Sequence
from typing import Any

from ray import tune
from ray.tune.experiment import Trial as Trials

from nalu_ray.results.store.store import Store, StoreError
from nalu_ray.sweep import oom
from nalu_ray.sweep.machine import NodeError
from nalu_ray.sweep.plan import Plan
from nalu_ray.sweep.progress import Board
from nalu_ray.sweep.provenance import code_digest
from nalu_ray.sweep.ray.callbacks import Guarded
from nalu_ray.sweep.ray.failures import describe, failure, watch_failures
from nalu_ray.sweep.ray.liveness import watched
from nalu_ray.sweep.ray.tensorboard import Curves
from nalu_ray.sweep.ray.waiting import Waiting
from nalu_ray.sweep.ray.worker import Slot
from nalu_ray.sweep.scratch import MARK, TUNE, discard, scratch
from nalu_ray.sweep.stdio import lasting
from nalu_ray.sweep.stopping import StoppedError, raise_storage, storage
from nalu_ray.sweep.trial import STATE_SECONDS, Report, Trial, TrialSpec

RETRIES = 3
REPORTS_A_SECOND = 100  # of all trials together: a fifth of the driver's core
LOGGERS = {
    "wandb": ("ray.air.integrations.wandb", "WandbLoggerCallback"),
    "mlflow": ("ray.air.integrations.mlflow", "MLflowLoggerCallback"),
}


class _OfThisCommand:
    """Tune writes what it is given to its folder, to restore it from; our board stays out of it."""

    def __init__(self, board: Board) -> None:
        self.board = board

    def __getstate__(self) -> dict[str, Any]:
        return {}


class Relay(_OfThisCommand, tune.Callback):
    """Tells the board what Tune reports, and stores what a lost worker could not."""

    def __init__(self, board: Board, retries: int) -> None:
        super().__init__(board)
        self.retries = retries
        self.unusable: StoreError | NodeError | None = None
        self.waiting = Waiting(board.note)
        self.specs: dict[str, TrialSpec] = {}

    def spec(self, trial: Any) -> TrialSpec:
        """Returns what a trial of Tune's was made from."""
        return self.specs[trial.config["spec"]["key"]]

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        self.board.tick()
        first = next((trial for trial in trials if trial.status == Trials.PENDING), None)
        self.waiting.look(bool(self.board.running), first and self.spec(first))

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.board.started(trial.trial_id, self.spec(trial))

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        self.board.report(trial.trial_id, self.spec(trial), Report.read(result))

    def on_trial_recover(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        self.board.resumed(trial.trial_id, self.spec(trial), describe(failure()))

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        spec = self.spec(trial)
        _, step = self.board.running.get(trial.trial_id, (spec, 0))
        gone, error = Trial(spec), failure()
        try:
            if isinstance(error, NodeError):  # the seeds are well
                raise error
            if error is not None:
                raise_storage(error)
            reason = oom.reason(spec, error) or describe(error)
            gone.fail_with(f"{reason} (retries: {self.retries})", step, oom.outcome(error))
        except (StoreError, NodeError) as broken:
            self.unusable = broken
            gone.failed = dict.fromkeys(spec.seeds, str(broken))
        report = Report(step, spec.steps, done=True, failed=gone.failed)
        self.board.report(trial.trial_id, spec, report)


class Ending(_OfThisCommand, tune.Stopper):
    """Ends the sweep once a node cannot be used or, if asked for, a seed has failed."""

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
        plan: what to run.
        board: shows the progress.
        store: where the rows go; Tune's own folder lies beside them until the end.
        fail_fast: stop after the first failed seed.
        max_concurrent: maximum number of trials at a time; None for as many as fit.
        loggers: ``tensorboard``, and names of :data:`LOGGERS`.
        retries: number of times that a trial whose worker is lost resumes from its last state.
        state_seconds: least number of seconds between two states of a trial.

    Returns:
        Where the curves for TensorBoard are; none if they were not asked for.

    Raises:
        ConfigError: a logger cannot begin.
        StoppedError: rows can no longer be written, and a trial was tried again in vain; a node
            that came later runs other code, or does not see the results folder; Ray is lost.
    """
    watch_failures()
    relay = Relay(board, retries)
    curves = Curves(plan, store) if "tensorboard" in loggers else None
    made = {kind: _logger(kind, plan) for kind in loggers if kind in LOGGERS}
    made |= {"tensorboard": curves} if curves else {}
    callbacks = [relay, *(Guarded(kind, inner, board) for kind, inner in made.items())]
    with lasting(), _stopping(store, relay), scratch(store) as name:
        run_config = tune.RunConfig(
            name=name,
            storage_path=f"{store.root}/{TUNE}",
            storage_filesystem=store.filesystem,
            failure_config=tune.FailureConfig(max_failures=retries),
            callbacks=callbacks,
            stop=Ending(relay, fail_fast),
            verbose=0,
        )
        place = {"mark": f"{TUNE}/{name}/{MARK}", "code": code_digest()}
        specs = [spec.model_copy(update=place) for spec in plan.trials]
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
    """Returns the least time between two reports of a trial, where so many run at a time."""
    return max(1.0, running / REPORTS_A_SECOND)


def _finished(curves: Curves | None, board: Board) -> str | None:
    """Returns where the curves are, once they are complete."""
    try:
        if curves is not None:
            curves.finish()
            return curves.place
    except Exception as error:  # the rows are stored, and more than their picture
        board.note(f"warning: --tensorboard: {describe(error)}")
    return None


@contextlib.contextmanager
def _stopping(store: Store, relay: Relay) -> Iterator[None]:
    """Raises what a trial, or Tune for its own files, met where nothing can be written."""
    error: StoreError | None = None
    try:
        yield
    except StoppedError:
        raise
    except Exception as met:  # where trials cannot write, Tune cannot end well either
        error = storage(met)
        if relay.unusable is None and error is None:
            raise
    if relay.unusable:
        raise StoppedError(_last_line(relay.unusable))
    if error:
        raise StoppedError(f"cannot write {store.root}: {_last_line(error)}")


def _last_line(error: Exception) -> str:
    """Returns an error's text without the tracebacks that Ray puts before it."""
    return re.sub(r"^[\w.]*Error: ", "", str(error).strip().splitlines()[-1])


def _tune_config(max_concurrent: int | None) -> tune.TuneConfig:
    return tune.TuneConfig(
        reuse_actors=True,
        max_concurrent_trials=max_concurrent,
        trial_name_creator=lambda trial: trial.config["spec"]["label"],
        trial_dirname_creator=_folder_name,
    )


def _logger(kind: str, plan: Plan) -> Any:
    module, name = LOGGERS[kind]
    arguments = {
        "wandb": {"project": "nalu_ray", "group": plan.task.name},
        "mlflow": {"experiment_name": f"nalu_ray {plan.task.name}"},
    }
    return getattr(importlib.import_module(module), name)(**arguments[kind])


def _folder_name(trial: Any) -> str:
    label = re.sub(r"[^A-Za-z0-9=.,+-]+", "_", trial.config["spec"]["label"])
    return f"{label[:120]}_{trial.trial_id}"
