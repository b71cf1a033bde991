"""The command line of ``tune``: its flags, and the request that they describe, fully checked."""

from __future__ import annotations

import contextlib
import importlib.util
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from nalu_ray import registry
from nalu_ray.command import words as cli
from nalu_ray.command.flags import EXTRAS, flag, parser
from nalu_ray.command.screen import resolved
from nalu_ray.errors import SHOWN, ConfigError, did_you_mean, explain, first_line, printable, shown
from nalu_ray.input import invocation
from nalu_ray.results.store.store import Store, StoreError
from nalu_ray.sweep.machine import OPEN_FILES, OPEN_FILES_LOCAL, raise_open_files
from nalu_ray.sweep.presets import Point, Preset, expand, sweep_of, with_samples
from nalu_ray.sweep.resources import PRESETS, Resources
from nalu_ray.sweep.search import ALGORITHMS, Search
from nalu_ray.task import Task

PRESET_WORD = "preset="
# flag -> the package that it needs, and the name in the help
LOGGERS = {"tensorboard": "tensorboardX", "wandb": "wandb", "mlflow": "mlflow"}


@dataclass(frozen=True)
class TuneRequest:
    """A valid command line.

    Attributes:
        options: the flags.
        task: the task.
        preset: name of the preset.
        source: the preset as its file has it.
        sweep: the preset with all changes applied.
        points: the settings and seeds of the sweep.
        words: the ``field=value`` words but ``preset=``, as given.
        search: the search that the points come from; None for a grid. If its points depend on
            results, ``points`` has each setting of the grid once, with the ranges' lower limits.
        store: the store of the rows.
        command: the command line as text.
    """

    options: Any
    task: Task[Any]
    preset: str
    source: Preset
    sweep: Preset
    points: tuple[Point, ...]
    store: Store
    command: str
    words: tuple[str, ...] = ()
    search: Search | None = None

    @property
    def loggers(self) -> list[str]:
        """The requested loggers."""
        return [name for name in LOGGERS if getattr(self.options, name)]


def read(options: Any, unknown: list[str], argv: list[str]) -> TuneRequest:
    """Checks the whole command line before anything runs.

    Raises:
        ConfigError: all mistakes together.
    """
    mistakes = _Mistakes()
    strange = [word for word in unknown if word[:1] == "-"]
    words = [*options.words, *(word for word in unknown if word[:1] != "-")]
    after = cli.take_values(strange, argv, words, registry.names())
    name, words = cli.task_and_words(words)
    mistakes += _take_preset(options, words)
    mistakes += _contradictions(options)
    task = sweep = store = flags = search = None
    with mistakes.collecting():
        task = registry.task(name) if name else _no_task()
    fields = [] if task is None else [*task.setting_type.model_fields, *cli.WORDS]
    mistakes += [_unknown(word, fields, after.get(word, ""), task) for word in strange]
    with mistakes.collecting():
        flags = _resources(options)
    if task is None and options.config is None:
        mistakes += unknown_preset(options.preset)
    if task is not None:
        with mistakes.collecting():
            store = _store(options, task.name)
        with mistakes.collecting():
            preset, sweep = _sweep(task, options)
        with mistakes.collecting():
            changes = cli.Changes.read(words, task.setting_type)
            mistakes += changes.mistakes
            # without a sweep, the words are still checked
            sweep = sweep and sweep.model_copy(update={"every": changes.every or sweep.every})
            sweep_or_default = sweep or Preset()
            with mistakes.collecting():
                search = None if changes.mistakes else _search(options, changes)
            samples = None if search is None else _samples(search, task)
            points = expand(
                sweep_or_default, task.setting_type, changes.values, changes.seeds, samples
            )
            mistakes += _unbuildable(task, points)
    if mistakes or task is None or sweep is None or store is None or flags is None:
        raise ConfigError(mistakes)
    resources = sweep.resources.model_copy(update=flags)
    folded = resolved(
        with_samples(sweep, changes.values, samples), changes.values, changes.seeds, resources
    )
    command = shlex.join(argv)
    of = preset, sweep, folded
    return TuneRequest(options, task, *of, tuple(points), store, command, tuple(words), search)


def _unknown(word: str, fields: Sequence[str], value: str, task: Task[Any] | None) -> str:
    """Returns the mistake in an unknown flag; it proposes no word that would be refused."""
    if word.partition("=")[0] in {"--scheduler", "--schedulers"}:
        return (
            f"unknown option '{printable(word, most=SHOWN)}': trials are not stopped early, as a "
            "stopped seed has no final value (docs/search.md)"
        )

    def is_accepted(change: str) -> bool:
        if task is None:
            return False
        changes = cli.Changes.read([change], task.setting_type)
        try:
            expand(Preset(), task.setting_type, changes.values, changes.seeds)
        except ConfigError:
            return False
        return not changes.mistakes

    return parser().unknown(word, fields, value, is_accepted)


def _search(options: Any, changes: cli.Changes) -> Search | None:
    """Returns the search that the words describe; None for a grid.

    Raises:
        ConfigError: a word is missing.
    """
    search_words = [f"{cli.SAMPLES}={changes.samples}"] * (changes.samples is not None)
    search_words += [f"--search {options.search}"] * (options.search is not None)
    if not changes.ranges:
        if search_words:
            line = (
                f"{' '.join(search_words)}: no field has a range to search, such as lr=log:1e-4:1"
            )
            raise ConfigError([line])
        return None
    if changes.samples is None:
        name, limits = next(iter(changes.ranges.items()))
        line = f"{name}={limits}: how many values? Add their number, such as {cli.SAMPLES}=20"
        raise ConfigError([line])
    algorithm = options.search or ALGORITHMS[0]
    return Search(changes.ranges, changes.samples, changes.search_seed, algorithm)


def _samples(search: Search, task: Task[Any]) -> list[dict[str, Any]]:
    """Returns the points of a search; for one whose points depend on results, a first one."""
    if search.adaptive:
        return [{name: limits.low for name, limits in search.ranges.items()}]
    from nalu_ray.sweep.ray.search import draw  # noqa: PLC0415 (Ray is slow to load)

    return draw(search, task.name)


def _take_preset(options: Any, words: list[str]) -> list[str]:
    """Moves the word ``preset=NAME`` to the flag; returns the mistake if both name presets."""
    preset_words = [word for word in words if word.startswith(PRESET_WORD)]
    for word in preset_words:
        words.remove(word)
        name = word.removeprefix(PRESET_WORD)
        if options.preset not in (None, name):
            return [f"preset={shown(name)}: the preset is already {shown(options.preset)}"]
        options.preset = name
    return []


def unknown_preset(name: str | None) -> list[str]:
    """Returns the mistake in the name of a preset that no task has, if any."""
    if name in (None, *PRESETS):
        return []
    shipped: set[str] = set(PRESETS)
    for task in registry.tasks().values():
        with contextlib.suppress(ConfigError):  # the task's own command reports it
            shipped |= sweep_of(task).presets.keys()
    return [] if name in shipped else [did_you_mean("preset", str(name), sorted(shipped))]


def _unbuildable(task: Task[Any], points: Sequence[Point]) -> list[str]:
    """Returns what is wrong with settings; names the first one unless it is wrong with all."""
    wrong: dict[str, list[str]] = {}
    for point in points:
        label = task.label(point.setting)
        try:
            task.check(point.setting)
        except (TypeError, ValueError) as error:
            wrong.setdefault(printable(error, most=400), []).append(label)
        except (MemoryError, OverflowError, RuntimeError) as error:  # impossible size
            reason = printable(first_line(error), most=200)
            wrong[f"{label}: cannot be built: {reason}"] = []
    return [
        f"{line} (for {labels[0]})" if 0 < len(labels) < len(points) else line
        for line, labels in wrong.items()
    ]


class _Mistakes(list[str]):
    """All mistakes so far."""

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        try:
            yield
        except ConfigError as error:
            self.extend(error.messages)


def _flagged(line: str) -> str:
    """Returns an error line about a field as one about its flag."""
    field, sign, message = line.partition("=")
    return f"{flag(field)}{sign}{message}"


def _no_task() -> Task[Any]:
    raise ConfigError(
        [f"no task given; choose from: {', '.join(registry.names())} (--list describes them)"]
    )


def _contradictions(options: Any) -> list[str]:
    mistakes = []
    for name, package in LOGGERS.items():
        if getattr(options, name) and importlib.util.find_spec(package) is None:
            advice = invocation.install(package)
            mistakes.append(f"--{name} needs the package {package}: {advice}")
        if getattr(options, name) and options.local:
            mistakes.append(f"--{name} needs Ray: it cannot be combined with --local")
    if options.search == "optuna":
        if importlib.util.find_spec("optuna") is None:
            advice = invocation.install(EXTRAS["search"])
            mistakes.append(f"--search optuna needs the package optuna: {advice}")
        if options.print_config:
            mistakes.append("--search optuna has no sweep to print: its points depend on results")
    if options.local and options.address:
        mistakes.append("--local and --address cannot be combined")
    if not (options.local or options.dry_run or options.print_config):
        mistakes += _too_few_open_files()
    return mistakes


def _too_few_open_files() -> list[str]:
    """Returns a mistake if the limit of open files is too low for Ray."""
    limit = raise_open_files()
    if limit >= OPEN_FILES:
        return []
    advice = "--local needs few" if limit >= OPEN_FILES_LOCAL else "raise it"
    return [f"ulimit -n is {limit:g}: Ray opens up to {OPEN_FILES:,} files; {advice}"]


def _resources(options: Any) -> dict[str, Any]:
    limits = {name: getattr(options, name) for name in Resources.model_fields}
    limits = {name: value for name, value in limits.items() if value is not None}
    try:
        return Resources.model_validate(limits).model_dump(include=set(limits))
    except ValidationError as error:
        raise ConfigError([_flagged(line) for line in explain(error)]) from error


def _store(options: Any, task: str) -> Store:
    try:
        store = Store(options.out)
        if not (options.dry_run or options.print_config):
            store.check_writable(task)
    except StoreError as error:
        raise ConfigError([str(error)]) from error
    return store


def _sweep(task: Task[Any], options: Any) -> tuple[str, Preset]:
    file = None if options.config is None else options.config.absolute()
    presets = sweep_of(task, file).presets
    # a file with a single preset needs no --preset
    only = next(iter(presets)) if len(presets) == 1 else "laptop"
    name = only if options.preset is None else options.preset
    if name not in presets:
        raise ConfigError([did_you_mean("preset", name, presets)])
    return name, presets[name]
