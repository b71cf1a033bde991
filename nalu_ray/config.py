"""Typed settings and the sweeps of ``tune_configs/``: task defaults < YAML preset < command line.

A *setting* is one point of a task's grid, a frozen pydantic model whose fields carry their help
line. A *sweep file* is plain data: axes, values and seeds for the presets smoke, laptop and paper.
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from nalu_ray.printable import check_text
from nalu_ray.resources import Resources

PRESETS = ("smoke", "laptop", "paper")


class ConfigError(ValueError):
    """Bad usage: every mistake found, one message each."""

    def __init__(self, messages: Sequence[str]) -> None:
        self.messages = list(dict.fromkeys(messages))
        super().__init__("\n".join(self.messages))


def did_you_mean(kind: str, name: str, allowed: Iterable[str]) -> str:
    """Returns an error line that names the value, the nearest allowed one, and all allowed."""
    names = sorted(allowed)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return f"unknown {kind} '{name}'.{hint} Allowed: {', '.join(names)}"


class Setting(BaseModel):
    """One point of a task's grid. Equal values give an equal :attr:`id`, on any machine."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @model_validator(mode="after")
    def _can_be_stored(self) -> Setting:
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise ValueError(f"{name}: a whole number of at most 64 bits is needed")
            if isinstance(value, list | tuple | dict):
                value = json.dumps(value, default=str)
            if isinstance(value, str):
                check_text(name, value)
        return self

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits of the SHA-256 of the canonical JSON."""
        return setting_id(self.model_dump(mode="json"))


def setting_id(values: Mapping[str, Any]) -> str:
    """Returns the stable hash of a setting's values."""
    canonical = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:16]


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Override(_Data):
    """Values for the points of a grid that match ``when``."""

    when: dict[str, list[Any]]
    set: dict[str, Any] = {}
    axes: dict[str, list[Any]] = {}
    seeds: int | list[int] | None = None


class Preset(_Data):
    """One sweep: the product of the axes, with values and seeds."""

    about: str = ""
    axes: dict[str, list[Any]] = {}
    set: dict[str, Any] = {}
    seeds: int | list[int] = 1
    overrides: list[Override] = []
    resources: Resources = Resources()
    seed_step_microseconds: float = Field(50.0, gt=0, description="a seed's step on one core")


class Sweep(_Data):
    """A whole ``tune_configs/<task>.yaml``."""

    task: str
    presets: dict[Literal["smoke", "laptop", "paper"], Preset]


class Point(_Data):
    """One setting of a plan with the seeds asked for."""

    setting: Setting
    seeds: tuple[int, ...]


def configs_folder() -> Path:
    """Returns the folder of the shipped sweeps: inside a wheel, else at the top of the checkout."""
    packaged = Path(str(resources.files("nalu_ray"))) / "tune_configs"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[1] / "tune_configs"


def load_sweep(task: str, path: Path | None = None) -> Sweep:
    """Reads a sweep file, the shipped one by default.

    Raises:
        ConfigError: the file cannot be read, is no YAML, or a field in it is wrong.
    """
    source = path or configs_folder() / f"{task}.yaml"
    try:
        data = yaml.safe_load(source.read_text(encoding="utf-8"))
        sweep = Sweep.model_validate(data)
    except OSError as error:
        raise ConfigError([f"cannot read sweep {source}: {error.strerror}"]) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError([f"sweep {source} is not YAML: {error}"]) from error
    except ValidationError as error:
        raise ConfigError([f"sweep {source}: {line}" for line in explain(error)]) from error
    if sweep.task != task:
        raise ConfigError([f"sweep {source}: task: '{sweep.task}' is not '{task}'"])
    return sweep


def explain(error: ValidationError) -> list[str]:
    """Returns one line a mistake: field, value, what is allowed."""
    return list(map(_explain_one, error.errors()))


def _explain_one(item: ErrorDetails) -> str:
    field = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        return f"{field}: no such field"
    message = item["msg"].removeprefix("Value error, ")
    if item["type"] == "literal_error":
        allowed = re.findall(r"'([^']*)'", item.get("ctx", {}).get("expected", ""))
        message = did_you_mean("value", str(item["input"]), allowed)
    if not field:  # a rule over several fields: its message names them
        return message
    shown = "" if item["type"] == "missing" else f"={item['input']!r}"
    return f"{field}{shown}: {message}"


def parse_seeds(value: int | str | Sequence[Any]) -> tuple[int, ...]:
    """Reads ``100`` as seeds 0 to 99 and ``3,7``, ``3,`` or a list as those seeds.

    Raises:
        ConfigError: not whole numbers of 0 or more, none at all, or one named twice.
    """
    parts = value.removesuffix(",").split(",") if isinstance(value, str) else value
    try:
        numbers = [int(parts)] if isinstance(parts, int) else [int(part) for part in parts]
    except (TypeError, ValueError):
        numbers = [-1]
    alone = isinstance(parts, int) or (isinstance(value, str) and "," not in value)
    seeds = tuple(range(numbers[0])) if alone else tuple(numbers)
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise ConfigError([f"seeds={value!r}: a count of 1 or more, or a list such as 3,7"])
    if max(seeds) >= 2**63:
        raise ConfigError([f"seeds={value!r}: a seed is below 2^63"])
    return seeds


def expand(
    preset: Preset,
    setting_type: type[Setting],
    changes: Mapping[str, Sequence[Any]],
    seeds: tuple[int, ...] | None = None,
) -> list[Point]:
    """Returns every point of a preset, the command line's ``changes`` on top.

    Args:
        preset: the sweep.
        setting_type: the task's setting model.
        changes: field to its values; more than one value makes a grid axis.
        seeds: seeds for every point, instead of the preset's.

    Raises:
        ConfigError: every unknown field and every impossible value, together, or no point at all.
    """
    if in_sweep := _unknown_fields(_fields_of(preset), setting_type):
        raise ConfigError([f"sweep: {mistake}" for mistake in in_sweep])
    mistakes = _unknown_fields(changes, setting_type)
    known = {name: values for name, values in changes.items() if name in setting_type.model_fields}
    points: dict[str, Point] = {}
    for values, wanted in _grid(preset, known, _defaults(setting_type)):
        try:
            setting = setting_type.model_validate(values)
        except ValidationError as error:
            mistakes += explain(error)
            continue
        before = points[setting.id].seeds if setting.id in points else ()
        union = tuple(dict.fromkeys([*before, *(seeds or wanted)]))
        points[setting.id] = Point(setting=setting, seeds=union)
    if mistakes or not points:
        raise ConfigError(mistakes or ["no settings: an axis has no values"])
    return list(points.values())


def _fields_of(preset: Preset) -> Iterable[str]:
    overrides = [(item.when, item.set, item.axes) for item in preset.overrides]
    return itertools.chain(preset.axes, preset.set, *itertools.chain.from_iterable(overrides))


def _unknown_fields(names: Iterable[str], setting_type: type[Setting]) -> list[str]:
    allowed = setting_type.model_fields
    unknown = [name for name in dict.fromkeys(names) if name not in allowed]
    return [did_you_mean("field", name, [*allowed, "seeds"]) for name in unknown]


def _defaults(setting_type: type[Setting]) -> dict[str, Any]:
    fields = setting_type.model_fields.items()
    return {name: field.get_default(call_default_factory=False) for name, field in fields}


def _grid(
    preset: Preset, changes: Mapping[str, Sequence[Any]], defaults: Mapping[str, Any]
) -> Iterable[tuple[dict[str, Any], tuple[int, ...]]]:
    for base in _product({**preset.axes, **changes}):
        values = {**preset.set, **base}
        axes: dict[str, Sequence[Any]] = {}
        wanted = preset.seeds
        for override in preset.overrides:
            here = {**defaults, **values}
            if all(here.get(key) in allowed for key, allowed in override.when.items()):
                fixed = {k: v for k, v in override.set.items() if k not in changes}
                values.update(fixed)
                axes.update({k: v for k, v in override.axes.items() if k not in changes})
                wanted = wanted if override.seeds is None else override.seeds
        for extra in _product(axes):
            yield {**values, **extra}, parse_seeds(wanted)


def _product(axes: Mapping[str, Sequence[Any]]) -> Iterable[dict[str, Any]]:
    for combination in itertools.product(*axes.values()):
        yield dict(zip(axes, combination, strict=True))
