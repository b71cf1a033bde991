"""The output of ``tune`` before and after a run: tasks, fields, sweeps, plans and failures."""

from __future__ import annotations

import os
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nalu_ray.command.words import Changes
from nalu_ray.errors import ConfigError
from nalu_ray.input import invocation
from nalu_ray.results.store.store import Store
from nalu_ray.sweep.machine import GIB, Capacity
from nalu_ray.sweep.plan import Job, Plan, Stored, describe_seeds, make_plan
from nalu_ray.sweep.presets import Point, Preset, expand, sweep_of
from nalu_ray.sweep.progress import describe_time, kind_of
from nalu_ray.sweep.resources import Resources
from nalu_ray.sweep.speeds import Speeds
from nalu_ray.task import Task

_LISTED = 20
_WIDEST = 60  # characters of an error in a table


def task_help(task: Task[Any]) -> str:
    """Returns a task's help: name, type, default and description of each field."""
    fields = task.setting_type.model_fields
    rows = [
        (name, type_name(field.annotation), _plain(field.get_default(call_default_factory=True)))
        for name, field in fields.items()
    ]
    rows.append(("seeds", "count or list", "preset's"))
    about = [field.description or "" for field in fields.values()]
    about.append("100 means seeds 0 to 99; 3,7 and 0-9,20-29 mean those seeds")
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = [
        "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True))
        for row in rows
    ]
    text = [f"{line}  {help_line}".rstrip() for line, help_line in zip(lines, about, strict=True)]
    head = f"{task.name}: {task.title}{task.where()}"
    return "\n".join([head, "", "fields (name, type, default):", *text])


def type_name(kind: Any) -> str:
    """Returns a type in the notation of the command line: ``add|mul``, ``float or none``."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return type_name(parts[0])
    if origin is Literal:
        return "|".join(map(str, parts))
    if origin is tuple:
        return ":".join("..." if part is Ellipsis else type_name(part) for part in parts)
    if origin is dict:
        return "name:value;..."
    if origin in (Union, types.UnionType):
        return " or ".join(type_name(part) for part in parts)
    plain = kind.__name__ if isinstance(kind, type) and not parts else str(kind)
    return "none" if kind is type(None) else plain


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return ":".join(map(_plain, value))
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def resolved(
    preset: Preset,
    changes: Mapping[str, Sequence[Any]],
    seeds: tuple[int, ...] | None,
    resources: Resources,
) -> Preset:
    """Returns a sweep that includes the command line's changes and expands to the same points."""
    folded: dict[str, Any] = {
        "changes": {**preset.changes, **{name: list(values) for name, values in changes.items()}},
        "resources": resources,
    }
    if seeds is not None:
        for name in ("recipes", "overrides"):
            items = getattr(preset, name)
            without = [item.model_copy(update={"seeds": None}) for item in items]
            folded[name] = [item for item in without if item.set or item.axes]
        folded["seeds"] = len(seeds) if seeds == tuple(range(len(seeds))) else list(seeds)
    return preset.model_copy(update=folded)


# -- tables of tasks and presets -------------------------------------------------------------------


def list_tasks(
    tasks: Sequence[Task[Any]], preset: str, capacity: Capacity, speeds: Speeds
) -> Table:
    """Returns a table of the tasks with the size of one preset."""
    table = _table("task", "section", "title")
    for task in tasks:
        try:
            size = _size(task, preset, capacity, speeds)
        except Exception as error:  # a broken package must not hide the others
            size = [f"{type(error).__name__}: {' '.join(str(error).split())}"[:_WIDEST]]
        table.add_row(task.name, task.section, task.title, *map(Text, size))
    return table


def list_presets(task: Task[Any], capacity: Capacity, speeds: Speeds) -> Table:
    """Returns a table of a task's presets."""
    table = _table("preset", "about")
    for name, preset in sweep_of(task).presets.items():
        table.add_row(name, preset.about, *_size(task, name, capacity, speeds))
    return table


def _table(*columns: str) -> Table:
    table = Table(*columns, box=SIMPLE)
    for column in ("settings", "seeds", "trials", "time"):
        table.add_column(column, justify="right", no_wrap=True)
    table.caption = (
        "time includes the start of Ray; ~ marks the preset's guess, all other times were measured "
        "on this machine"
    )
    table.caption_justify = "left"
    return table


def _size(task: Task[Any], preset: str, capacity: Capacity, speeds: Speeds) -> list[str]:
    try:
        sweep = sweep_of(task).presets[preset]
    except (ConfigError, KeyError):
        return ["no such sweep"]
    points = expand(sweep, task.setting_type, {})
    job = Job("", sweep.resources, sweep.seed_step_microseconds, speeds=speeds)
    seeds = f"{sum(len(point.seeds) for point in points):,}"
    try:
        plan = make_plan(task, points, {}, job, capacity)
    except ConfigError:
        return [f"{len(points):,}", seeds, "-", "too large for this machine"]
    guess = "" if plan.measured else "~"
    time = guess + describe_time(plan.seconds)
    return [f"{len(points):,}", seeds, f"{len(plan.trials):,}", time]


# -- a plan --------------------------------------------------------------------------------------


def describe_plan(plan: Plan, preset: str, words: Sequence[str] | None = None) -> list[str]:
    """Returns the summary of a plan: requested, stored and planned seeds, and the time.

    Args:
        plan: the plan.
        preset: name of the preset.
        words: the command line's ``field=value`` words, for the line on the full protocol of a
            laptop preset; None leaves it out, as all of the protocol is planned for it.
    """
    seed_count = sum(len(point.seeds) for point in plan.points)
    failed = f", {plan.failed:,} failed before (--rerun-failed runs them)" if plan.failed else ""
    lines = [
        f"{plan.task.name}{plan.task.where()}, {preset}: "
        f"{_count(len(plan.points), 'setting')}, {_count(seed_count, 'seed')}; "
        f"{plan.done:,} done before{failed}; "
        f"{plan.seeds:,} to do",
        *plan.describe_code(),
    ]
    if plan.trials:
        first = plan.trials[0]
        gpus = f" {_count(first.gpus, 'GPU')}," if first.gpus else ""
        needs = f"{_count(first.cpus, 'CPU')},{gpus} {first.memory / GIB:.1f} GiB"
        lines += [
            f"{_count(len(plan.trials), 'trial')}, {plan.slots:,} at a time; each takes {needs} "
            f"of {plan.capacity.describe()}",
            describe_duration(plan),
        ]
    lines += [] if words is None else _full_protocol(plan, preset, words)
    remarks = (remark for trial in plan.trials for remark in trial.setting.remarks())
    return [*lines, *(f"note: {remark}" for remark in dict.fromkeys(remarks))]


def _full_protocol(plan: Plan, preset: str, words: Sequence[str]) -> list[str]:
    """Returns a line on the protocol that a laptop preset reduces, if any: its time and command.

    Words that choose cells (``layer=nac``) are kept; others, such as ``steps=``, would change it.
    """
    task = plan.task
    try:
        presets = sweep_of(task).presets
    except ConfigError:  # the task has no shipped sweep and is run from a file
        return []
    usual = "paper" if preset == "laptop" else preset.removesuffix("-laptop")
    full, *cells = (presets[preset].full if preset in presets else []) or [usual]
    if full == preset or full not in presets:
        return []
    chosen = {word.partition("=")[0]: word for word in words}
    cells = [word for word in cells if word.partition("=")[0] not in chosen]
    task_words = [*cells, *(word for name, word in chosen.items() if name in task.axes)]
    changes = Changes.read(task_words, task.setting_type)
    sweep = presets[full].model_copy(update={"every": changes.every or presets[full].every})
    job = Job("", sweep.resources, sweep.seed_step_microseconds, speeds=plan.speeds)
    command = invocation.command("tune", [task.name, f"preset={full}", *task_words])
    try:
        points = expand(sweep, task.setting_type, changes.values)
    except ConfigError:  # the protocol has no such cell
        return []
    try:
        full_plan = make_plan(task, points, {}, job, plan.capacity)
    except ConfigError:
        return [f"the full protocol is too large for this machine: {command}"]
    source = (
        "measured on this machine" if full_plan.measured == len(full_plan.trials) else "a guess"
    )
    gpu = "" if full_plan.trials[0].gpus else "; not measured on a GPU"
    time = f"about {describe_time(full_plan.seconds)} ({source}{gpu})"
    return [f"the full protocol takes {time}: {command}"]


def describe_duration(plan: Plan) -> str:
    """Returns a line: how long the plan takes, and where the estimate comes from."""
    start = f", of which {describe_time(plan.startup)} to start Ray" if plan.startup else ""
    if plan.measured == len(plan.trials):
        source = "measured on this machine"
    elif plan.measured:
        source = (
            f"{plan.measured:,} of {_count(len(plan.trials), 'trial')} measured on this machine"
        )
    else:
        source = "the preset's guess, not measured on this machine"
    return f"about {describe_time(plan.seconds)}{start} ({source})"


def _count(number: float, noun: str) -> str:
    plain = f"{int(number):,}" if number == int(number) else f"{number:,g}"
    return f"{plain} {noun}{'' if number == 1 else 's'}"


def list_trials(plan: Plan, all_of_them: bool) -> Iterator[str]:
    """Yields a line per trial: of the first ones, or of all."""
    shown = plan.trials if all_of_them else plan.trials[:_LISTED]
    for trial in shown:
        yield f"  {trial.label}, {trial.steps:,} steps"
    if len(shown) < len(plan.trials):
        yield f"  ... and {len(plan.trials) - len(shown):,} more (-v lists them)"


# -- the end -------------------------------------------------------------------------------------


def describe_smoke(plan: Plan, stored: Stored, store: Store) -> list[str]:
    """Returns the lines after a smoke run: how many seeds ran, and where their rows are."""
    runs = [(point.setting.id, seed) for point in plan.points for seed in point.seeds]
    ran = sum(key in stored and stored[key].ok for key in runs)
    name = plan.task.name
    out_words = [] if store.out == os.path.abspath("results") else ["--out", store.out]
    report = invocation.command("report", [name, *out_words])
    return [
        f"{ran:,} of {_count(len(runs), 'seed')} ran",
        f"rows: {store.out.rstrip('/')}/{name}; "
        f"a report marks them as smoke runs, not results: {report}",
    ]


def failures(plan: Plan, stored: Stored) -> list[str]:
    """Returns lines per cause of failure with settings and seeds; none if all seeds completed."""
    causes: dict[str, tuple[list[str], list[tuple[str, list[int]]]]] = {}
    for point in plan.points:
        for cause, (reasons, seeds) in _failed_of(plan, point, stored).items():
            every, settings = causes.setdefault(cause, ([], []))
            every += reasons
            settings.append((plan.labels[point.setting.id], seeds))
    lines = []
    for reasons, settings in causes.values():
        reason = reasons[0] + " (the first; the others differ in a number)" * (len({*reasons}) > 1)
        count = sum(len(seeds) for _, seeds in settings)
        lines.append(f"failed: {_count(count, 'seed')}: {reason}")
        lines += [f"    {label} {describe_seeds(seeds)}" for label, seeds in settings[:_LISTED]]
        if len(settings) > _LISTED:
            lines.append(f"    ... and {len(settings) - _LISTED:,} more settings")
    return lines


def _failed_of(plan: Plan, point: Point, stored: Stored) -> dict[str, tuple[list[str], list[int]]]:
    """Returns, by kind of reason, the reasons and seeds of a setting that did not complete."""
    kinds: dict[str, tuple[list[str], list[int]]] = {}
    for seed in point.seeds:
        outcome = stored.get((point.setting.id, seed))
        if outcome is not None and plan.still_old(outcome):
            reason = "not rerun: its rows still come from another version of the code"
        elif outcome is None or not outcome.ok:
            reason = "not done" if outcome is None else outcome.reason or "no reason given"
        else:
            continue
        reasons, seeds = kinds.setdefault(kind_of(reason), ([], []))
        reasons.append(reason)
        seeds.append(seed)
    return kinds


def console(stderr: bool = False) -> Console:
    """Returns a console as wide as the terminal, or as COLUMNS says; 120 columns elsewhere."""
    screen = Console(stderr=stderr, highlight=False)
    has_width = screen.is_terminal or "COLUMNS" in os.environ
    return screen if has_width else Console(stderr=stderr, highlight=False, width=120)
