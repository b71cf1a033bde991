"""Checks one cluster file: Ray's own validation first, then what Ray does not check."""

from __future__ import annotations

import contextlib
import io
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import yaml

from nalu_ray.cluster import aws, exposure, pins
from nalu_ray.errors import SHOWN, did_you_mean, printable, shown
from nalu_ray.input import strict_yaml
from nalu_ray.input.strict_yaml import YAMLError

# The fields that Ray reads for any provider, and per provider; its schema accepts every field.
_ANY = {"type", "disable_launch_config_check", "disable_node_updaters", "foreground_node_launch"}
_CLOUD = _ANY | {"region", "availability_zone", "cache_stopped_nodes", "use_internal_ips"}
_PROVIDER_FIELDS = {
    "aws": _CLOUD | {"aws_credentials", "cloudwatch", "key_pair", "security_group"},
    "gcp": _CLOUD | {"gcp_credentials", "project_id"},
    "local": _ANY | {"coordinator_address", "external_head_ip", "head_ip", "worker_ips"},
}
# Without them Ray fails while it talks to the cloud.
_PROVIDER_NEEDS = {"aws": ["region"], "gcp": ["region", "availability_zone", "project_id"]}
# Where they are missing, Ray uses an example's.
_CLOUD_NEEDS = ("max_workers", "available_node_types", "head_node_type")


@dataclass(frozen=True)
class Checked:
    """The mistakes in a file, notes on what is left to check, and a summary of the cluster."""

    mistakes: list[str]
    notes: list[str]
    summary: str = ""

    def lines(self) -> list[str]:
        """Returns the notes and, of a file without mistakes, the summary."""
        verdict = "no mistakes, but see the notes" if self.notes else "ok"
        return [*self.notes, *([] if self.mistakes else [f"{verdict}: {self.summary}"])]


def check(path: Path, *, allow_open: bool = False) -> Checked:
    """Returns the mistakes in a cluster file: field, value and what is allowed.

    The rules beyond Ray's schema are read only once a file fits the schema.

    Args:
        path: the file.
        allow_open: accept dashboards and security groups that are open to the world.
    """
    try:
        config = _read(path)
    except ValueError as error:
        return Checked(str(error).splitlines(), [])
    secrets = list(exposure.secrets(config))
    if mistakes := [*_schema(config)] or [*_provider(config)]:
        return Checked([*mistakes, *secrets], [])
    prepared, refusal = _as_ray_prepares(config)
    if prepared is None:
        return Checked([refusal, *secrets], [])
    mistakes = [*_workers(config, prepared), *pins.mistakes(config)]
    mistakes += exposure.mistakes(config, allow_open)
    notes = [*([] if allow_open else exposure.notes(config)), *pins.notes(config)]
    if config["provider"]["type"] == "aws":
        in_nodes, about_nodes = aws.node_configs(config)
        mistakes += in_nodes
        notes += about_nodes
    summary = f"{_described(prepared)}; {pins.describe(config)}"
    return Checked([*mistakes, *secrets], notes, summary)


def _read(path: Path) -> dict[str, Any]:
    """Reads a cluster file.

    Raises:
        ValueError: it cannot be read, or Ray would read it differently; one line per mistake.
    """
    try:
        data = strict_yaml.read_bytes(path)
        config = strict_yaml.load(data)
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    except YAMLError as error:
        if b"AWSTemplateFormatVersion" in data:
            raise ValueError("a template of AWS CloudFormation, not a cluster file") from error
        raise ValueError(f"not YAML: {error}") from error
    if not isinstance(config, dict):
        raise ValueError("not a mapping of fields such as cluster_name")
    if wrong := [*_names(config), *_misread(config, _as_ray_reads(data))]:
        raise ValueError("\n".join(wrong))
    return config


def _names(value: Any, where: str = "") -> Iterator[str]:
    """Yields a line for each name that is not a text; Ray's schema cannot check those."""
    if isinstance(value, dict):
        for name, inside in value.items():
            if not isinstance(name, str):
                yield f"{where}{shown(name)}: a name must be text; quote it"
            yield from _names(inside, f"{where}{printable(name, most=SHOWN)}.")
    for index, inside in enumerate(value if isinstance(value, list) else ()):
        yield from _names(inside, f"{where}{index}.")


def _as_ray_reads(data: bytes) -> Any:
    """Reads a file as Ray does, by YAML 1.1, where ``1:30`` is 90."""
    try:
        return yaml.safe_load(data.decode("utf-8-sig"))
    except (ValueError, yaml.YAMLError) as error:
        return error


def _misread(written: Any, read: Any, where: str = "") -> Iterator[str]:
    """Yields a line for each value that Ray reads differently than it is written."""
    if isinstance(written, dict) and isinstance(read, dict) and written.keys() == read.keys():
        for name in written:
            yield from _misread(written[name], read[name], f"{where}.{name}".lstrip("."))
    elif isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        for number, pair in enumerate(zip(written, read, strict=True)):
            yield from _misread(*pair, f"{where}.{number}")
    elif type(written) is not type(read) or written != read:
        advice = "quote it, or write numbers and true or false plainly"
        yield f"{where or 'keys'}={shown(written)}: Ray reads {shown(read)}; {advice}"


def _schema(config: dict[str, Any]) -> Iterator[str]:
    """Yields every violation of Ray's schema, where Ray stops at the first."""
    schema = json.loads((files("ray.autoscaler") / "ray-schema.json").read_text(encoding="utf-8"))
    provider = config.get("provider")
    if isinstance(provider, dict) and provider.get("type") == "local":
        # Ray reads it before it looks at the schema
        schema["properties"]["min_workers"] = {"type": "integer", "minimum": 0}
    for error in jsonschema.Draft7Validator(schema).iter_errors(config):
        where = ".".join(map(str, error.absolute_path))
        inside = f"{where}." if where else ""
        if error.validator == "additionalProperties":
            allowed = error.schema["properties"]
            for name in sorted(map(str, error.instance.keys() - allowed.keys())):
                yield f"{inside}{name}: {did_you_mean('field', name, allowed)}"
        elif error.validator == "required":
            absent = [name for name in error.validator_value if name not in error.instance]
            yield from (f"{inside}{name}: missing" for name in absent)
        else:
            yield f"{where}={shown(error.instance)}: {printable(error.message, most=200)}"


def _provider(config: dict[str, Any]) -> Iterator[str]:
    provider = config["provider"]
    provider_type = provider["type"]
    allowed = _PROVIDER_FIELDS.get(provider_type, provider)
    for name in provider:
        if name not in allowed:
            yield f"provider.{name}: {did_you_mean('field', str(name), allowed)}"
    absent = [name for name in _PROVIDER_NEEDS.get(provider_type, ()) if not provider.get(name)]
    yield from (f"provider.{name}: missing" for name in absent)
    for name in () if provider_type == "local" else _CLOUD_NEEDS:
        if name not in config:
            yield f"{name}: missing; Ray would use an example's"


def _as_ray_prepares(config: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    """Returns the file with Ray's defaults, or None and why Ray refuses it."""
    from ray.autoscaler._private.util import (  # noqa: PLC0415 (a second)
        prepare_config,
        validate_config,
    )

    said = io.StringIO()
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            prepared: dict[str, Any] = prepare_config(config)
            validate_config(prepared)
    except Exception as error:
        return None, f"Ray refuses it: {printable(str(error) or type(error).__name__, most=200)}"
    finally:
        logging.disable(disabled)
    return prepared, ""


def _workers(config: dict[str, Any], prepared: dict[str, Any]) -> Iterator[str]:
    """Yields numbers of workers that Ray would change silently."""
    for name, node in prepared["available_node_types"].items():
        low, high = node.get("min_workers", 0), node["max_workers"]
        if name != prepared["head_node_type"] and low > high:
            where = f"available_node_types.{name}.min_workers={low}"
            yield f"{where}: more than its max_workers={high}"
    machines = config["provider"].get("worker_ips")
    if machines is None:
        return
    for name in ("min_workers", "max_workers"):
        if config.get(name, 0) > len(machines):
            yield f"{name}={config[name]}: provider.worker_ips has {len(machines)}"
    every = [config["provider"].get("head_ip"), *machines]
    for address in dict.fromkeys(every):
        if every.count(address) > 1:
            yield f"provider.worker_ips: {address} is listed twice; each machine runs one node"


def _described(prepared: dict[str, Any]) -> str:
    """Returns a line such as ``aws, one head and 0 to 8 workers``."""
    types = prepared["available_node_types"].values()
    low, high = sum(node.get("min_workers", 0) for node in types), prepared["max_workers"]
    workers = f"{high}" if low == high else f"{low} to {high}"
    return f"{prepared['provider']['type']}, one head and {workers} workers"
