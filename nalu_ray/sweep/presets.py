"""Typed settings and the sweeps of ``tune_configs/``: task defaults < YAML preset < command line.

A *setting* is one point of a task's grid, a frozen pydantic model whose fields carry their help
line. A *sweep file* is plain data: axes, values and seeds for the presets smoke, laptop and paper,
and for others that the task has.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import (
    BaseModel,
    Field,
    StrictInt,
    StringConstraints,
    ValidationError,
)

from nalu_ray.errors import ConfigError, did_you_mean, explain, shown
from nalu_ray.input import strict_yaml
from nalu_ray.input.strict_yaml import YAMLError
from nalu_ray.input.values import LARGEST, StrictModel
from nalu_ray.sweep.grid import Candidate, FieldReaders, Use, candidates, sampled, typed
from nalu_ray.sweep.resources import Resources
from nalu_ray.task import Setting, Task

PresetName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,39}$")]
MOST_SEEDS = 1_000_000
MOST_SETTINGS = 10_000
MOST_RUNS = 1_000_000

_WHOLE = re.compile(r"[0-9]+")
_RANGE = re.compile(r"\s*([0-9]+)-([0-9]+)\s*")


Seeds = StrictInt | str | list[StrictInt | str]
"""A count, a list, or a text as the command line has it, such as ``0-9,20-29``."""


class Override(StrictModel):
    """Values for the points of a grid that match ``when``."""

    when: dict[str, list[Any]]
    set: dict[str, Any] = Field({})
    axes: dict[str, list[Any]] = Field({})
    seeds: Seeds | None = None


class Preset(StrictModel):
    """One sweep: the product of the axes, with values and seeds.

    Attributes:
        searched: whose recipes were chosen among several, in one sentence; captions print it.
        full: preset of the full protocol, with ``key=value`` words for its cells, if it is not the
            preset of the same name without ``-laptop``, or ``paper``.
        recipes: overrides that come before the others and may name values that no point has, such
            as units that the axes leave out and the command line names.
        changes: axes of ``key=value`` words; they take precedence over everything else.
        samples: points of a search, an axis of several fields at once; they take the same
            precedence.
        every: fields of which every value is asked for, as by ``layer=all``; points that cannot be
            are left out, as long as the same point with another value can be.
    """

    about: str = ""
    searched: str = ""
    full: list[str] = Field([])
    axes: dict[str, list[Any]] = Field({})
    set: dict[str, Any] = Field({})
    seeds: Seeds = 1
    recipes: list[Override] = Field([])
    overrides: list[Override] = Field([])
    changes: dict[str, list[Any]] = Field({})
    samples: list[dict[str, Any]] = Field([])
    every: list[str] = Field([])
    resources: Resources = Resources()
    seed_step_microseconds: float = Field(
        50.0, gt=0, description="time per step and seed on one core, in microseconds"
    )


class SweepFile(StrictModel):
    """A whole ``tune_configs/<task>.yaml``.

    Attributes:
        question: what the experiment asks, in one sentence; reports print it.
    """

    task: str
    question: str = ""
    presets: dict[PresetName, Preset]


class Point(BaseModel):
    """One setting of a plan with the requested seeds."""

    model_config = StrictModel.model_config

    setting: Setting
    seeds: tuple[int, ...]

    @functools.cached_property
    def values(self) -> dict[str, Any]:
        """The setting's values as plain values of JSON."""
        return self.setting.model_dump(mode="json")


def configs_folder() -> Path:
    """Returns the folder of the shipped sweeps: inside a wheel, else at the top of the checkout."""
    packaged = Path(str(resources.files("nalu_ray"))) / "tune_configs"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[2] / "tune_configs"


def load_sweep(task: str, path: Path | None = None) -> SweepFile:
    """Reads a sweep file, the shipped one by default.

    Raises:
        ConfigError: the file cannot be read, is not YAML, or has a wrong field.
    """
    source = path or configs_folder() / f"{task}.yaml"
    try:
        sweep = SweepFile.model_validate(strict_yaml.read(source))
    except OSError as error:
        raise ConfigError([f"cannot read sweep {source}: {error.strerror}"]) from error
    except YAMLError as error:
        raise ConfigError([f"sweep {source} is not YAML: {error}"]) from error
    except ValidationError as error:
        raise ConfigError([f"sweep {source}: {line}" for line in explain(error)]) from error
    if sweep.task != task:
        raise ConfigError([f"sweep {source}: task: '{sweep.task}' is not '{task}'"])
    return sweep


def sweep_of(task: Task[Any], file: Path | None = None) -> SweepFile:
    """Reads a task's sweep: a file, the shipped one, or the one beside another package's task."""
    beside = Path(inspect.getfile(type(task))).with_name(f"{task.name}.yaml")
    return load_sweep(task.name, file or (beside if beside.exists() else None))


def sweep_yaml(task: str, preset: str, sweep: Preset) -> str:
    """Returns a sweep as the text of a file for ``--config``.

    Args:
        task: name of the task.
        preset: name that the sweep gets.
        sweep: the sweep.
    """
    data = SweepFile.model_validate({"task": task, "presets": {preset: sweep}})
    values = data.model_dump(mode="json", exclude_defaults=True)
    return yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=100)


def parse_seeds(value: int | str | Sequence[Any]) -> tuple[int, ...]:
    """Reads ``100`` as seeds 0 to 99, and ``3,7``, ``3,``, ``0-9,20-29`` or a list as those seeds.

    Raises:
        ConfigError: the seeds are not whole numbers of 0 or more, there are none, one is listed
            twice or beyond 64 bits, or there are more than ``MOST_SEEDS``.
    """
    parts = value.removesuffix(",").split(",") if isinstance(value, str) else value
    written = f"seeds={shown(value)}"
    if isinstance(parts, int) or (isinstance(value, str) and _WHOLE.fullmatch(value.strip())):
        count = _whole(value)
        if count > MOST_SEEDS:
            raise ConfigError([_too_many_seeds(value, count)])
        seeds = _first(count)
    else:
        spans = [_span(part) for part in parts]
        if max((high for _, high in spans), default=0) > LARGEST:
            raise ConfigError([f"{written}: a seed is at most 2^63 - 1, which is {LARGEST}"])
        if sum(max(0, 1 + high - low) for low, high in spans) > MOST_SEEDS:
            raise ConfigError([f"{written}: at most {MOST_SEEDS:,} seeds"])
        # a range that runs backwards stands for no seed
        spans = [(low, high) if low <= high else (-1, -1) for low, high in spans]
        seeds = tuple(seed for low, high in spans for seed in range(low, high + 1))
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise ConfigError([f"{written}: a count of 1 or more, or a list such as 3,7 or 0-9,20-29"])
    return seeds


def _span(part: Any) -> tuple[int, int]:
    """Returns the first and the last seed of ``3`` or ``0-9``; -1 for anything else."""
    match = _RANGE.fullmatch(part) if isinstance(part, str) else None
    low, high = match.groups() if match else (part, part)
    return _whole(low), _whole(high)


def _whole(part: Any) -> int:
    """Returns a whole number of 0 or more, or -1 for anything else."""
    if isinstance(part, int) and not isinstance(part, bool):
        return max(part, -1)
    if isinstance(part, str) and _WHOLE.fullmatch(part.strip()):
        # more digits than any seed has; Python would not even read thousands of them
        return int(part) if len(part) <= 2 * len(str(LARGEST)) else LARGEST + 1
    return -1


def _too_many_seeds(value: object, count: int) -> str:
    written = f"seeds={count}," if isinstance(value, str) else f"seeds: [{count}]"
    advice = f"; for this one seed write {written}" if count <= LARGEST else ""
    return f"seeds={shown(value)}: a count is at most {MOST_SEEDS:,} seeds{advice}"


@functools.lru_cache(maxsize=16)
def _first(count: int) -> tuple[int, ...]:
    return tuple(range(max(0, count)))


# -- the grid --------------------------------------------------------------------------------------


def expand(
    preset: Preset,
    setting_type: type[Setting],
    changes: Mapping[str, Sequence[Any]],
    seeds: tuple[int, ...] | None = None,
    samples: Sequence[Mapping[str, Any]] | None = None,
) -> list[Point]:
    """Returns every point of a preset with the command line's ``changes``.

    If a point does not read a field (:meth:`Setting.unread`), axes and changes do not vary it.

    Args:
        preset: the sweep.
        setting_type: the task's setting model.
        changes: field to its values; more than one value makes a grid axis.
        seeds: seeds for every point, instead of the preset's.
        samples: points of a search, instead of the preset's; none of their fields is in
            ``changes``.

    Raises:
        ConfigError: all unknown fields and wrong values together; no points or too many; or a
            changed field that no point reads.
    """
    if in_sweep := _unknown_fields(_fields_of(preset), setting_type):
        raise ConfigError([f"sweep: {mistake}" for mistake in in_sweep])
    mistakes = _unknown_fields(changes, setting_type)
    readers = FieldReaders(setting_type)
    changes = {name: values for name, values in changes.items() if name in readers.fields}
    preset = with_samples(preset, changes, samples)
    varied = {**preset.changes, **changes}
    sweep, wrong = typed(preset, varied, readers)
    mistakes += wrong
    points: dict[str, Point] = {}
    use = Use(sweep)
    wrong_points: list[tuple[str, list[str]]] = []
    possible: set[str] = set()
    axes = sorted({*sweep.axes, *sweep.changes, *sampled(sweep)} - {*sweep.every})
    for candidate in _bounded(candidates(sweep, readers.defaults, parse_seeds), sweep, seeds):
        try:
            setting = use.settle(setting_type.model_validate(candidate.values), candidate)
        except ValidationError as error:
            wrong_points.append((_key(candidate, axes), explain(error)))
            continue
        if sweep.every:
            possible.add(_key(candidate, axes))
        before = points[setting.id].seeds if setting.id in points else ()
        union = tuple(dict.fromkeys([*before, *(seeds or candidate.seeds)]))
        points[setting.id] = Point(setting=setting, seeds=union)
    for others, lines in wrong_points:
        mistakes += [] if others in possible else lines
    if mistakes or not points:
        raise ConfigError(mistakes or ["no settings: an axis has no values"])
    if unread := use.mistakes():
        raise ConfigError(unread)
    return list(points.values())


def _key(candidate: Candidate, fields: Sequence[str]) -> str:
    """Returns a point's values of some fields as a key."""
    return repr([candidate.values.get(name) for name in fields])


def with_samples(
    preset: Preset, changes: Mapping[str, Any], samples: Sequence[Mapping[str, Any]] | None
) -> Preset:
    """Returns a preset with other points of a search, and without what ``changes`` replace.

    Args:
        preset: the preset.
        changes: fields that the command line sets; they replace those of the preset's points.
        samples: the points of a new search; None keeps those of the preset.
    """
    if samples is None:
        left = [{k: v for k, v in point.items() if k not in changes} for point in preset.samples]
        return preset.model_copy(update={"samples": [point for point in left if point]})
    sampled = set().union(*samples)
    kept = {name: values for name, values in preset.changes.items() if name not in sampled}
    return preset.model_copy(update={"changes": kept, "samples": [dict(s) for s in samples]})


def _bounded(
    points: Iterator[Candidate], sweep: Preset, seeds: tuple[int, ...] | None
) -> list[Candidate]:
    """Returns the candidates.

    Raises:
        ConfigError: there are too many settings, or too many settings times seeds.
    """
    listed, runs = [], 0
    for candidate in points:
        listed.append(candidate)
        runs += len(seeds or candidate.seeds)
        if len(listed) > MOST_SETTINGS or runs > MOST_RUNS:
            break
    else:
        return listed
    settings = math.prod(len(values) for values in {**sweep.axes, **sweep.changes}.values())
    settings *= max(1, len(sweep.samples))
    what, most = "settings", MOST_SETTINGS
    if len(listed) <= MOST_SETTINGS:
        what, most = "runs, settings times seeds", MOST_RUNS
    raise ConfigError(
        [f"a sweep of {settings:,} settings or more: at most {most:,} {what}; split it"]
    )


def _fields_of(preset: Preset) -> Iterable[str]:
    items = [*preset.recipes, *preset.overrides]
    overrides = [(item.when, item.set, item.axes) for item in items]
    named = (preset.axes, preset.set, preset.changes, preset.every, *preset.samples)
    return itertools.chain(*named, *itertools.chain.from_iterable(overrides))


def _unknown_fields(names: Iterable[str], setting_type: type[Setting]) -> list[str]:
    allowed = setting_type.model_fields
    unknown = [name for name in dict.fromkeys(names) if name not in allowed]
    return [
        did_you_mean("field", name, [*allowed, "seeds", "samples", "search_seed"])
        for name in unknown
    ]
