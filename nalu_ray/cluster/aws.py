"""What AWS would refuse in a ``node_config``: botocore has the service's own description."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from nalu_ray.errors import did_you_mean

# Read by Ray, which picks one of them; the rest goes to RunInstances as it is.
_RAYS_OWN = {"SubnetIds"}
# Set by Ray, whatever the file says.
_OVERWRITTEN = {"MinCount", "MaxCount"}
_TYPE = re.compile(r"[a-z][a-z0-9-]*\.(nano|micro|small|medium|\d*x?large|metal(-\d+xl)?)")
_GROUP = re.compile(r"sg-([0-9a-f]{8}|[0-9a-f]{17})")
# In the shipped file, where AWS refuses it.
_EXAMPLE = "sg-00000000000000000"
_EXAMPLE_IMAGE = "ami-00000000000000000"
_SHAPES = {
    "string": str,
    "integer": int,
    "long": int,
    "boolean": bool,
    "list": list,
    "structure": dict,
    "map": dict,
}
# Longer lists of what is allowed are not printed.
_LISTED = 40


def node_configs(config: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Returns the mistakes in every node type, and notes on what was not or cannot be checked."""
    shape = _run_instances()
    found: list[str] = []
    notes: list[str] = []
    if shape is None:
        notes.append("note: boto3 is not installed, so the keys of node_config are not checked")
    for name, kind in config.get("available_node_types", {}).items():
        where, node = f"available_node_types.{name}.node_config", kind.get("node_config", {})
        found += _plain(node, where)
        found += _types(node, where) if shape is None else _walk(shape, node, where, _RAYS_OWN)
        if _EXAMPLE in _listed(node, "SecurityGroupIds"):
            notes.append(f"note: SecurityGroupIds [{_EXAMPLE}] is an example; write your own")
        if node.get("ImageId") == _EXAMPLE_IMAGE:
            notes.append(f"note: ImageId {_EXAMPLE_IMAGE} is an example; write a real one")
    return found, list(dict.fromkeys(notes))


def _run_instances() -> Any:
    """Returns the shape of what RunInstances takes, or none without botocore."""
    if find_spec("botocore") is None:
        return None
    session = import_module("botocore.session").get_session()
    return session.get_service_model("ec2").operation_model("RunInstances").input_shape


def _plain(node: dict[str, Any], where: str) -> Iterator[str]:
    """Yields what is wrong by form alone."""
    if not {"InstanceType", "LaunchTemplate"} & node.keys():
        yield f"{where}.InstanceType: missing"
    for group in _listed(node, "SecurityGroupIds"):
        if not _GROUP.fullmatch(str(group)):
            yield f"{where}.SecurityGroupIds={group!r}: not the ID of a group, such as sg-0a1b2c3d"
    if "latest" in str(node.get("ImageId")):
        yield f"{where}.ImageId={node['ImageId']!r}: another image from day to day; write its ID"
    options = node.get("MetadataOptions")
    tokens = options.get("HttpTokens") if isinstance(options, dict) else None
    if tokens != "required" and "LaunchTemplate" not in node:
        yield (
            f"{where}.MetadataOptions.HttpTokens={tokens!r}: 'required' is needed, or a request "
            "that the node is made to send gets its rights"
        )
    for name in sorted(_OVERWRITTEN & node.keys()):
        yield f"{where}.{name}: Ray sets it; write min_workers and max_workers"


def _types(node: dict[str, Any], where: str) -> Iterator[str]:
    """Yields an instance type that cannot be one, for want of AWS's own list."""
    instance = node.get("InstanceType", "g4dn.xlarge")
    if not _TYPE.fullmatch(str(instance)):
        yield f"{where}.InstanceType={instance!r}: not FAMILY.SIZE, such as g4dn.xlarge"


def _listed(node: dict[str, Any], field: str) -> list[Any]:
    value = node.get(field)
    return value if isinstance(value, list) else []


def _walk(shape: Any, value: Any, where: str, extra: Collection[str] = ()) -> Iterator[str]:
    """Yields every key, type and name in ``value`` that the shape does not have."""
    kind = _SHAPES.get(shape.type_name)
    if kind is not None and (
        not isinstance(value, kind) or (kind is int and isinstance(value, bool))
    ):
        yield f"{where}={value!r}: not a {shape.type_name}"
    elif shape.type_name == "structure":
        for key, inner in value.items():
            if key in shape.members:
                yield from _walk(shape.members[key], inner, f"{where}.{key}")
            elif key not in extra:
                yield f"{where}.{key}: {_unknown('field', str(key), {*shape.members, *extra})}"
    elif shape.type_name == "list":
        for number, inner in enumerate(value):
            yield from _walk(shape.member, inner, f"{where}.{number}")
    elif getattr(shape, "enum", None) and value not in shape.enum:
        yield f"{where}={value!r}: {_unknown('value', value, shape.enum)}"


def _unknown(kind: str, name: str, allowed: Collection[str]) -> str:
    line = did_you_mean(kind, name, allowed)
    return line if len(allowed) <= _LISTED else line.split(" Allowed: ")[0]
