"""What ``tune`` does: lists, prints a sweep or its plan, or runs it and prints its tables."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from nalu_ray import registry
from nalu_ray.command import screen
from nalu_ray.command import words as cli
from nalu_ray.command.execution import Execution, dry_run, execute, print_lines
from nalu_ray.command.exits import Exit
from nalu_ray.command.request import TuneRequest, read, unknown_preset
from nalu_ray.errors import ConfigError
from nalu_ray.input import invocation
from nalu_ray.results.analysis.groups import SMOKE
from nalu_ray.results.store.store import StoreError
from nalu_ray.sweep.machine import this_machine
from nalu_ray.sweep.plan import Plan
from nalu_ray.sweep.presets import sweep_yaml
from nalu_ray.sweep.speeds import Speeds


def answer(options: Any, unknown: list[str], argv: list[str]) -> int:
    """Does what a command line asks for; returns the exit code.

    Args:
        options: the flags.
        unknown: the words that are no flags of the command.
        argv: the whole command line.

    Raises:
        ConfigError: all mistakes in the command line together.
    """
    name, _ = cli.task_and_words(options.words)
    if options.help and name is not None:
        print(screen.task_help(registry.task(name)))
        return Exit.DONE
    if options.list:
        return _list(name, options.preset or "laptop")
    request = read(options, unknown, argv)
    if options.print_config:
        print(sweep_yaml(request.task.name, request.preset, request.sweep), end="")
        return Exit.DONE
    console = screen.console()
    if options.dry_run:
        plan = dry_run(request)
        print_lines(console, screen.describe_plan(plan, request.preset, request.words))
        print_lines(console, list(screen.list_trials(plan, options.verbose)))
        return Exit.DONE
    return _end(request, execute(request, console), console)


def _list(name: str | None, preset: str) -> int:
    if mistakes := unknown_preset(preset):
        raise ConfigError(mistakes)
    capacity, speeds = this_machine(gpus=False), Speeds.of_this_machine()
    if name is None:
        table = screen.list_tasks(list(registry.tasks().values()), preset, capacity, speeds)
        for line in registry.everything().left_out:
            print(f"warning: {line}", file=sys.stderr)
    else:
        table = screen.list_presets(registry.task(name), capacity, speeds)
    screen.console().print(table)
    return Exit.DONE


def _end(request: TuneRequest, execution: Execution, console: Console) -> int:
    """Prints the tables in short, the folders of all files, and the failures."""
    store, name, plan = request.store, request.task.name, execution.plan
    outcomes, quiet = store.outcomes(name), request.options.quiet
    failed = screen.failures(plan, outcomes)
    is_smoke = request.preset == SMOKE
    if is_smoke:
        lines = screen.describe_smoke(plan, outcomes, store)
    else:
        lines = [f"rows: {store.out.rstrip('/')}/{name}"]
        lines += [] if quiet else _tables(request, plan, console)
    if execution.curves:
        lines.append(f"{invocation.program('tensorboard')} --logdir {execution.curves}")
    if execution.session is not None:
        lines.append(execution.session.describe_end())
    if not quiet or failed:
        print_lines(console, lines)
    print_lines(console, failed)
    if is_smoke and not failed and not quiet:
        print_lines(console, ["everything works; these are not results"])
    return Exit.FAILED_SEEDS if failed else Exit.DONE


def _tables(request: TuneRequest, plan: Plan, console: Console) -> list[str]:
    """Prints and writes the tables and figures; returns a line on where they are, if written."""
    from nalu_ray.results.output.save import present  # noqa: PLC0415 (not needed to refuse a command)

    store, written = request.store, []
    runs = {(point.setting.id, seed) for point in plan.points for seed in point.seeds}
    folder = str(Path(store.folder or ".", "report"))
    try:
        words = _words(request)
        written = present(store, request.task.name, console, folder, runs, words=words)
    except (OSError, StoreError) as error:  # the rows are stored: report the rest
        print(f"warning: cannot write tables and figures: {error}", file=sys.stderr)
    if not written:
        return []
    return [f"tables and figures: {Path(written[0]).parent} ({len(written)} files)"]


def _words(request: TuneRequest) -> list[str]:
    """Returns the words that name settings, as those of a report do."""
    ranges = request.search.ranges if request.search else {}
    without = {*cli.WORDS, *ranges}
    return [word for word in request.words if word.partition("=")[0] not in without]
