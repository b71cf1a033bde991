"""One cluster file: read, held against Ray's schema, and against what this project asks of it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import yaml

from nalu_ray import strict_yaml
from nalu_ray.cluster import aws, counts, exposure, pins
from nalu_ray.errors import did_you_mean, short, shown
from nalu_ray.strict_yaml import YAMLError

# The keys that Ray reads for any provider, and for one; its schema lets every key pass.
_ANY = {"type", "disable_launch_config_check", "disable_node_updaters", "foreground_node_launch"}
_CLOUD = {"region", "availability_zone", "cache_stopped_nodes", "use_internal_ips"}
_PROVIDER_FIELDS = {
    "aws": _ANY | _CLOUD | {"aws_credentials", "cloudwatch", "key_pair", "security_group"},
    "gcp": _ANY | _CLOUD | {"gcp_credentials", "project_id"},
    "local": _ANY | {"coordinator_address", "external_head_ip", "head_ip", "worker_ips"},
}
# Without them Ray fails while it talks to the cloud.
_PROVIDER_NEEDS = {
    "aws": ("region",),
    "gcp": ("region", "availability_zone", "project_id"),
}
# Ray reads it for machines of one's own, before it looks at the schema.
_LOCAL_ONLY = "min_workers"


@dataclass(frozen=True)
class Checked:
    """What is wrong with a file, what could not be checked, and what it is."""

    mistakes: list[str]
    notes: list[str]
    summary: str = ""


def check(path: Path, *, allow_open: bool = False) -> Checked:
    """Returns every mistake in a cluster file: field, value, what is allowed.

    Args:
        path: the file.
        allow_open: accept dashboards and security groups that the world can reach.
    """
    try:
        data = strict_yaml.read_bytes(path)
        config = strict_yaml.load(data)
    except OSError as error:
        return Checked([f"cannot be read: {error.strerror}"], [])
    except YAMLError as error:
        return Checked([f"not YAML: {error}"], [])
    if not isinstance(config, dict):
        return Checked(["not a mapping of fields such as cluster_name"], [])
    if wrong := [*_names(config), *_misread(config, _as_ray_reads(data))]:
        return Checked(wrong, [])
    mistakes, secrets = list(_schema(config)), list(exposure.secrets(config))
    shaped = _without(config, [mistake.path for mistake in mistakes if mistake.misshapen])
    lines = [line for mistake in mistakes for line in mistake.lines()]
    if not isinstance(shaped.get("provider"), dict) or "type" not in shaped["provider"]:
        return Checked([*lines, *secrets], [])
    found, notes = _rules(shaped, allow_open)
    named = {".".join(map(str, mistake.path)) for mistake in mistakes}
    lines += [line for line in found if line.partition(":")[0] not in named]
    summary = "" if lines else f"{counts.describe(config)}; {pins.describe(config)}"
    return Checked([*lines, *secrets], notes, summary)


def _names(value: Any, where: str = "") -> Iterator[str]:
    """Yields a line for each name that is no text, which Ray's schema cannot be held against."""
    if isinstance(value, dict):
        for name, inside in value.items():
            if not isinstance(name, str):
                yield f"{where}{shown(name)}: a name must be a text; quote it"
            yield from _names(inside, f"{where}{short(str(name))}.")
    for place, inside in enumerate(value if isinstance(value, list) else ()):
        yield from _names(inside, f"{where}{place}.")


def _as_ray_reads(data: bytes) -> Any:
    """Returns what Ray finds in a file: it reads YAML 1.1, where ``1:30`` is 90."""
    try:
        return yaml.safe_load(data.decode("utf-8-sig"))
    except (ValueError, yaml.YAMLError) as error:
        return error


def _misread(meant: Any, read: Any, where: str = "") -> Iterator[str]:
    """Yields a line for each value that is one thing as written and another to Ray."""
    if isinstance(meant, dict) and isinstance(read, dict) and meant.keys() == read.keys():
        inside = f"{where}." if where else ""
        for name in meant:
            yield from _misread(meant[name], read[name], f"{inside}{name}")
    elif isinstance(meant, list) and isinstance(read, list) and len(meant) == len(read):
        for place, pair in enumerate(zip(meant, read, strict=True)):
            yield from _misread(*pair, f"{where}.{place}")
    elif type(meant) is not type(read) or meant != read:
        how = "quote it, or write numbers and true or false plainly"
        yield f"{where or 'keys'}={shown(meant)}: Ray reads {shown(read)}; {how}"


def _rules(config: dict[str, Any], allow_open: bool) -> tuple[list[str], list[str]]:
    """Returns what this project asks beyond the schema and is not so, and notes."""
    found = [
        *_provider(config),
        *counts.mistakes(config),
        *pins.mistakes(config),
        *exposure.mistakes(config, allow_open),
    ]
    if config["provider"]["type"] != "aws":
        return found, []
    more, notes = aws.node_configs(config)
    return [*found, *more], notes


def _without(config: dict[str, Any], paths: list[tuple[Any, ...]]) -> dict[str, Any]:
    """Returns a copy without what has the wrong shape, so that the rest can be looked at."""
    copied = copy.deepcopy(config)
    for path in sorted(set(paths), key=len, reverse=True):
        holder: Any = copied
        for step in path[:-1]:
            holder = holder[step]
        if isinstance(holder, list):
            holder[path[-1]] = ""
        else:
            del holder[path[-1]]
    return copied


def _ray() -> Path:
    """Returns Ray's folder without the seconds that importing it takes."""
    spec = find_spec("ray")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("ray")
    return Path(spec.submodule_search_locations[0], "autoscaler")


def _schema(config: dict[str, Any]) -> Iterator[_Mistake]:
    schema = json.loads((_ray() / "ray-schema.json").read_text(encoding="utf-8"))
    if isinstance(config.get("provider"), dict) and config["provider"].get("type") == "local":
        schema["properties"][_LOCAL_ONLY] = {"type": "integer", "minimum": 0}
    yield from map(_Mistake, jsonschema.Draft7Validator(schema).iter_errors(config))


@dataclass(frozen=True)
class _Mistake:
    """What Ray's schema says against a file, once."""

    error: Any

    @property
    def path(self) -> tuple[Any, ...]:
        return tuple(self.error.absolute_path)

    @property
    def misshapen(self) -> bool:
        """Whether something is there, but of another type or size."""
        return self.error.validator not in ("additionalProperties", "required", "if", "allOf")

    def lines(self) -> Iterator[str]:
        error, where = self.error, ".".join(map(str, self.path))
        inside = f"{where}." if where else ""
        if error.validator == "additionalProperties":
            allowed = error.schema["properties"]
            for name in sorted(map(str, error.instance.keys() - allowed.keys())):
                yield f"{inside}{name}: {did_you_mean('field', name, allowed)}"
        elif error.validator == "required":
            absent = [name for name in error.validator_value if name not in error.instance]
            yield from (f"{inside}{name}: missing" for name in absent)
        else:
            yield f"{where}={shown(error.instance)}: {short(error.message, 200)}"


def _provider(config: dict[str, Any]) -> Iterator[str]:
    kind = config["provider"]["type"]
    known = {path.parent.name for path in _ray().glob("*/defaults.yaml")}
    if kind not in known:
        yield f"provider.type={kind!r}: {did_you_mean('provider', kind, known)}"
    allowed = _PROVIDER_FIELDS.get(kind, config["provider"])
    for name in config["provider"]:
        if name not in allowed:
            yield f"provider.{name}: {did_you_mean('field', str(name), allowed)}"
    for name in _PROVIDER_NEEDS.get(kind, ()):
        if not config["provider"].get(name):
            yield f"provider.{name}: missing"
