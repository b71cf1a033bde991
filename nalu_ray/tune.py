"""``python -m nalu_ray.tune <task>``: runs a task's sweep and prints its tables."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from nalu_ray import registry
from nalu_ray.command import screen
from nalu_ray.command import words as cli
from nalu_ray.command.request import TuneRequest, parser, read, task_and_words, unknown_preset
from nalu_ray.command.words import Exit
from nalu_ray.errors import ConfigError, printable
from nalu_ray.results.store import states
from nalu_ray.results.store.store import StoreError
from nalu_ray.sweep.code_digest import numbers_digest
from nalu_ray.sweep.deviations import changes, members
from nalu_ray.sweep.dispatch import TrialSpec, state_key
from nalu_ray.sweep.local import run_local
from nalu_ray.sweep.machine import Capacity, crowded, shared, size, this_machine
from nalu_ray.sweep.plan import Job, Plan, make_plan
from nalu_ray.sweep.presets import Resources, sweep_yaml
from nalu_ray.sweep.progress import Board
from nalu_ray.sweep.provenance import commit
from nalu_ray.sweep.warnings import WarningRelay

if TYPE_CHECKING:
    from nalu_ray.sweep.ray import Session


_PRINTS = {"-h", "--help", "--list", "--print-config", "--dry-run"}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit code; see :class:`nalu_ray.command.words.Exit`."""
    words = list(sys.argv[1:] if argv is None else argv)
    # a sweep's exit code tells of its seeds, whatever becomes of what it prints
    return cli.guarded(lambda: _main(words), printed=not _PRINTS.isdisjoint(words))


def _main(argv: list[str]) -> int:
    # from the start, so that warnings of another package's units are passed on as they load
    with WarningRelay(lambda text: print(f"warning: {text}", file=sys.stderr)):
        return _command(argv)


def _command(argv: list[str]) -> int:
    options, unknown = parser().parse_known_intermixed_args(argv)
    name, _ = task_and_words(options.words)
    if options.help:
        print(parser().format_help() if name is None else screen.task_help(registry.task(name)))
        return Exit.DONE
    if options.list:
        return _list(name, options.preset or "laptop")
    request = read(options, unknown, argv)
    if options.print_config:
        print(sweep_yaml(request.task.name, request.preset, request.sweep), end="")
        return Exit.DONE
    console = screen.console()
    if options.dry_run:
        plan = _Planner(request).plan(_expected(request))
        _print(console, screen.describe_plan(plan, request.preset))
        _print(console, list(screen.list_trials(plan, options.verbose)))
        return Exit.DONE
    return _run(request, console)


def _list(name: str | None, preset: str) -> int:
    if mistakes := unknown_preset(preset):
        raise ConfigError(mistakes)
    capacity = this_machine(gpus=False)
    if name is None:
        table = screen.list_tasks(list(registry.tasks().values()), preset, capacity)
        for line in registry.everything().left_out:
            print(f"warning: {line}", file=sys.stderr)
    else:
        table = screen.list_presets(registry.task(name), capacity)
    screen.console().print(table)
    return Exit.DONE


def _print(console: Console, lines: Sequence[str]) -> None:
    for line in lines:
        console.print(Text(printable(line, keep="\n")), soft_wrap=True)


# -- planning and running --------------------------------------------------------------------------


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

    def __init__(self, request: TuneRequest) -> None:
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
            command=f"python -m nalu_ray.tune {request.command}",
            commit=commit(),
            kept=states.blocks(request.store, request.task.name),
            preset=request.preset,
            changes=changes(request.task, request.preset, request.points),
            codes=self._codes(),
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

    def share_gpus(self, capacity: Capacity) -> Plan:
        """Plans as many trials per GPU as fit, by the measured memory of the largest trial."""
        from nalu_ray.sweep import ray  # noqa: PLC0415 (Ray is slow to load, and --local needs none)

        task, resources = self.request.task, crowded(self.job.resources, capacity)

        def bytes_of(trial: TrialSpec) -> int:
            return size(task, trial.setting, len(trial.seeds))

        largest = max(self.plan(capacity, resources).trials, key=bytes_of)
        return self.plan(capacity, shared(resources, *ray.measure_gpu(largest)))


def _run(request: TuneRequest, console: Console) -> int:
    """Plans, runs the missing trials, and reports how they ended."""
    specs = request.task.specs()
    request.store.write_specs(specs.model_copy(update={"presets": members(request.task)}))
    with contextlib.ExitStack() as stack:
        capacity, session = _expected(request), None
        if not capacity.known:
            session = _session(request, capacity, stack)
            capacity = session.capacity
        planner = _Planner(request)
        planner.tidy()
        plan = planner.plan(capacity)
        if plan.trials and not request.options.local and session is None:
            session = _session(request, capacity, stack)
        if plan.trials and session and request.sweep.resources.gpus_per_trial == "auto":
            if not request.options.quiet:
                _print(console, ["measuring the GPU memory of the largest trial"])
            plan = planner.share_gpus(capacity)
        if not request.options.quiet:
            _print(console, [session.describe()] if session else [])
            _print(console, screen.describe_plan(plan, request.preset))
        if plan.trials and _address(request) is None:
            _prepare(request)
        kept = _work(request, plan, session, console) if plan.trials else None
    return _end(request, plan, session, kept, console)


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
        ray.check_nodes(request.store, request.task.name)
    return session


def _work(
    request: TuneRequest, plan: Plan, session: Session | None, console: Console
) -> str | None:
    options = request.options
    kept = None
    # after Ray has started, as Ray's handler would exit without tidying up
    with cli.terminable(), Board(console, plan, options.quiet) as board:
        if session is None:
            run_local(plan, board, request.store, options.fail_fast)
        else:
            from nalu_ray.sweep import ray  # noqa: PLC0415 (as above)

            kept = ray.run(
                plan,
                board,
                request.store,
                fail_fast=options.fail_fast,
                max_concurrent=request.sweep.resources.max_concurrent,
                loggers=request.loggers,
            )
    if options.verbose:
        _print(console, [board.costs.describe()])
    return kept


def _end(
    request: TuneRequest, plan: Plan, session: Session | None, kept: str | None, console: Console
) -> int:
    """Prints the tables, the folders of all files, and the failures."""
    from nalu_ray.results.output.save import present  # noqa: PLC0415 (not needed to refuse a command)

    store, name = request.store, request.task.name
    lines = [f"rows: {store.out.rstrip('/')}/{name}"]
    if not request.options.quiet:
        folder, written = str(Path(store.folder or ".", "report")), []
        try:
            written = present(store, name, console, folder, {p.setting.id for p in plan.points})
        except (OSError, StoreError) as error:  # the rows are stored: report the rest
            print(f"warning: cannot write tables and figures: {error}", file=sys.stderr)
        if written:
            lines.append(f"tables and figures: {Path(written[0]).parent} ({len(written)} files)")
    if kept:
        lines.append(f"tensorboard --logdir {kept}")
    if session is not None:
        lines.append(session.describe_end())
    failed = screen.failures(plan, store.outcomes(name))
    if not request.options.quiet or failed:
        _print(console, lines)
    _print(console, failed)
    return Exit.FAILED_SEEDS if failed else Exit.DONE


if __name__ == "__main__":
    sys.exit(main())
