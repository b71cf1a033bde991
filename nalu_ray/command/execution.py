"""Carries out a request: plans, runs the missing trials on Ray or in this process."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from nalu_ray.command import exits, screen
from nalu_ray.command.request import TuneRequest
from nalu_ray.command.rounds import rounds
from nalu_ray.errors import ConfigError, printable
from nalu_ray.results.store import states
from nalu_ray.sweep import gpu_sharing
from nalu_ray.sweep.block_size import size
from nalu_ray.sweep.code_digest import numbers_digest
from nalu_ray.sweep.deviations import changes, members, question, searched
from nalu_ray.sweep.dispatch import TrialSpec, state_key
from nalu_ray.sweep.local import run_local
from nalu_ray.sweep.machine import Capacity, this_machine
from nalu_ray.sweep.plan import Job, Plan, make_plan
from nalu_ray.sweep.progress import Board
from nalu_ray.sweep.provenance import commit
from nalu_ray.sweep.resources import Resources
from nalu_ray.sweep.speeds import Speeds

if TYPE_CHECKING:
    from nalu_ray.sweep.ray import Session


@dataclass(frozen=True)
class Execution:
    """A request that was carried out.

    Attributes:
        plan: what ran.
        session: the connection to Ray, closed if the command opened it; None without Ray.
        curves: the folder of TensorBoard's curves; None without them.
    """

    plan: Plan
    session: Session | None = None
    curves: str | None = None


def dry_run(request: TuneRequest) -> Plan:
    """Returns the plan of a request without connecting to Ray."""
    for part in rounds(request):
        plan = _Planner(part).plan(_expected(part))
        if plan.trials:  # later rounds depend on their results
            break
    return plan


def execute(request: TuneRequest, console: Console) -> Execution:
    """Plans a request and runs the missing trials.

    Args:
        request: the request.
        console: shows the plan and the progress; with ``quiet``, only failures and warnings.

    Raises:
        ConfigError: the data cannot be fetched, Ray does not start, or no trial fits.
        StoppedError, StoreError: rows cannot be written or read, or Ray is lost.
    """
    specs = request.task.specs()
    beside = {
        "presets": members(request.task),
        "question": question(request.task),
        "searched": searched(request.task),
    }
    request.store.write_specs(specs.model_copy(update=beside))
    with contextlib.ExitStack() as stack:
        capacity, session = _expected(request), None
        if not capacity.known:
            session = _session(request, capacity, stack)
            capacity = session.capacity
        curves, about, tried = None, list[str](), set[tuple[str, int]]()
        words: Sequence[str] | None = request.words
        for part in rounds(request):
            planner = _Planner(part, tried, started=session is not None)
            planner.tidy()
            plan = planner.plan(capacity)
            if plan.trials and not request.options.local and session is None:
                began = time.monotonic()
                session = _session(request, capacity, stack)
                plan.speeds.record_start(ray=time.monotonic() - began)
            if plan.trials and session and request.sweep.resources.gpus_per_trial == "auto":
                if not request.options.quiet:
                    print_lines(console, ["measuring one, two and four trials per GPU"])
                plan, lines = planner.share_gpus(capacity)
                if not request.options.quiet:
                    print_lines(console, lines)
            if not request.options.quiet:
                before, about = about, [each.describe() for each in (session, part.search) if each]
                print_lines(console, [line for line in about if line not in before])
                print_lines(console, screen.describe_plan(plan, request.preset, words))
                words = None  # the full protocol's line is for the first round
            tried |= {(trial.setting_id, seed) for trial in plan.trials for seed in trial.seeds}
            if plan.trials and _address(request) is None:
                _prepare(request)
            with _beside(request, plan, session):
                curves = (_work(part, plan, session, console) if plan.trials else None) or curves
            if request.options.fail_fast and screen.failures(
                plan, part.store.outcomes(part.task.name)
            ):
                break
    return Execution(plan, session, curves)


def print_lines(console: Console, lines: Sequence[str]) -> None:
    """Prints lines of any text, unwrapped."""
    for line in lines:
        console.print(Text(printable(line, keep="\n")), soft_wrap=True)


def _address(request: TuneRequest) -> str | None:
    if request.options.local:
        return None
    return request.options.address or os.environ.get("RAY_ADDRESS") or None


def _expected(request: TuneRequest) -> Capacity:
    address = _address(request)
    if address is not None:
        return Capacity(f"the cluster at {address}", known=False)
    return this_machine(gpus=request.sweep.resources.gpus > 0)


class _Planner:
    """Makes plans for a request; reads the stored outcomes only once."""

    def __init__(
        self, request: TuneRequest, tried: Collection[tuple[str, int]] = (), started: bool = False
    ) -> None:
        self.request = request
        self.stored = request.store.outcomes(request.task.name)
        resources = request.sweep.resources
        if request.options.local:
            resources = resources.model_copy(update={"max_concurrent": 1})
        self.job = Job(
            out=request.store.out,
            resources=resources,
            seed_step_microseconds=request.sweep.seed_step_microseconds,
            rerun_failed=request.options.rerun_failed,
            rerun=request.options.rerun,
            tried=frozenset(tried),
            started=started,
            command=f"python -m nalu_ray.tune {request.command}",
            commit=commit(),
            kept=states.blocks(request.store, request.task.name),
            preset=request.preset,
            changes=changes(request.task, request.preset, request.points, request.source),
            codes=self._codes(),
            local=request.options.local,
            speeds=Speeds.of_this_machine() if _address(request) is None else Speeds(),
        )

    def _codes(self) -> dict[str, str]:
        """Returns the digest of the source per setting with rows."""
        with_rows = {sid for sid, _ in self.stored}
        return {
            point.setting.id: numbers_digest(self.request.task, point.setting)
            for point in self.request.points
            if point.setting.id in with_rows
        }

    def tidy(self) -> None:
        """Drops states of stored seeds: their trials were killed after they wrote their rows."""
        store, name = self.request.store, self.request.task.name
        for sid, seeds in self.job.kept:
            ended = [self.stored.get((sid, seed)) for seed in seeds]
            # keeps the state of a run with other code
            if all(end and end.ok and end.code == self.job.codes.get(sid, "") for end in ended):
                states.drop(store, name, state_key(sid, seeds))

    def plan(self, capacity: Capacity, resources: Resources | None = None) -> Plan:
        job = replace(self.job, resources=resources or self.job.resources)
        return make_plan(self.request.task, self.request.points, self.stored, job, capacity)

    def share_gpus(self, capacity: Capacity) -> tuple[Plan, list[str]]:
        """Plans as many trials per GPU as are fastest; also returns what was measured, as lines."""
        from nalu_ray.sweep import ray  # noqa: PLC0415 (Ray is slow to load, and --local needs none)

        task = self.request.task

        def bytes_of(trial: TrialSpec) -> int:
            return size(task, trial.setting, len(trial.seeds))

        plans, measured, lines = {}, {}, []
        for trials, resources in gpu_sharing.candidates(self.job.resources, capacity):
            plan = self.plan(capacity, resources)
            if trials > max(1, len(plan.trials)):
                break
            largest = max(plan.trials, key=bytes_of)
            plans[trials], measured[trials] = plan, ray.measure_gpu(largest, trials)
            lines.append(gpu_sharing.describe(trials, len(largest.seeds), measured[trials]))
        return plans[gpu_sharing.fastest(measured)], lines


def _prepare(request: TuneRequest) -> None:
    """Fetches the task's data for all trials of this machine; on a cluster, each node does it."""
    try:
        request.task.prepare()
    except RuntimeError as error:
        raise ConfigError([str(error)]) from error


def _session(request: TuneRequest, capacity: Capacity, stack: contextlib.ExitStack) -> Session:
    from nalu_ray.sweep import ray  # noqa: PLC0415 (Ray is slow to load, and --local needs none)

    address = _address(request)
    opened = ray.start(capacity) if address is None else ray.connect(address)
    session = stack.enter_context(opened)
    if address is not None:
        gpus = request.sweep.resources.gpus > 0
        ray.check_nodes(request.store, request.task.name, gpus=gpus)
    return session


def _beside(
    request: TuneRequest, plan: Plan, session: Session | None
) -> contextlib.AbstractContextManager[None]:
    """Returns a Ray for trials that use it themselves and run in this process, if there are any."""
    if not plan.trials or session is not None or not request.task.uses_ray:
        return contextlib.nullcontext()
    from nalu_ray.sweep import ray  # noqa: PLC0415 (Ray is slow to load, and few tasks need it)

    return ray.beside(max(trial.processes for trial in plan.trials))


def _work(
    request: TuneRequest, plan: Plan, session: Session | None, console: Console
) -> str | None:
    options = request.options
    curves = None
    # after Ray has started, as Ray's handler would exit without tidying up
    with exits.terminable(), Board(console, plan, options.quiet) as board:
        if session is None and not request.task.uses_ray:
            run_local(plan, board, request.store, options.fail_fast)
        elif session is None:
            from nalu_ray.sweep import ray  # noqa: PLC0415 (as above)

            run_local(plan, board, request.store, options.fail_fast, ray.watched)
        else:
            from nalu_ray.sweep import ray  # noqa: PLC0415 (as above)

            curves = ray.run(
                plan,
                board,
                request.store,
                fail_fast=options.fail_fast,
                max_concurrent=request.sweep.resources.max_concurrent,
                loggers=request.loggers,
            )
    if options.verbose:
        print_lines(console, [board.costs.describe()])
    return curves
