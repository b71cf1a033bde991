"""Checks a ``node_config`` against botocore's description of an EC2 instance."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from nalu_ray.errors import did_you_mean

# Ray reads this field to pick a subnet; RunInstances gets all other fields.
_READ_BY_RAY = "SubnetIds"
_SET_BY_RAY = ("MaxCount", "MinCount")
_TYPE = re.compile(r"[a-z][a-z0-9-]*\.(nano|micro|small|medium|\d*x?large|metal(-\d+xl)?)")
_GROUP = re.compile(r"sg-([0-9a-f]{8}|[0-9a-f]{17})")
# Placeholders in the shipped file; AWS refuses them.
_EXAMPLES = {
    "SecurityGroupIds": (["sg-00000000000000000"], "write your own"),
    "ImageId": ("ami-00000000000000000", "write a real one"),
}
_PYTHON_TYPES: dict[str, Any] = {
    "string": str, "integer": int, "long": int, "boolean": bool, "list": list,
    "structure": dict, "map": dict,
}  # fmt: skip
_LONGEST_LIST = 40  # of allowed values in a message


def node_configs(config: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Returns the mistakes in every node type, and notes on what is not checked."""
    shape = _run_instances()
    mistakes: list[str] = []
    notes: list[str] = []
    if shape is None:
        notes.append("note: boto3 is not installed, so the fields of node_config are not checked")
    for name, node_type in config["available_node_types"].items():
        where, node = f"available_node_types.{name}.node_config", node_type.get("node_config", {})
        mistakes += _rules(node, where)
        if shape is not None:
            without = {key: value for key, value in node.items() if key != _READ_BY_RAY}
            mistakes += _compared(shape, without, where)
        elif not _TYPE.fullmatch(str(node.get("InstanceType", "g4dn.xlarge"))):
            instance = node["InstanceType"]
            mistakes.append(
                f"{where}.InstanceType={instance!r}: not FAMILY.SIZE, such as g4dn.xlarge"
            )
        for field, (example, advice) in _EXAMPLES.items():
            if node.get(field) == example:
                notes.append(f"note: {field} {example} is an example; {advice}")
    return mistakes, list(dict.fromkeys(notes))


def _run_instances() -> Any:
    """Returns the shape of RunInstances' input, or None without botocore."""
    if find_spec("botocore") is None:
        return None
    session = import_module("botocore.session").get_session()
    return session.get_service_model("ec2").operation_model("RunInstances").input_shape


def _rules(node: dict[str, Any], where: str) -> Iterator[str]:
    """Yields settings that AWS accepts but that cost money or expose the node."""
    if not {"InstanceType", "LaunchTemplate"} & node.keys():
        yield f"{where}.InstanceType: missing"
    groups = node.get("SecurityGroupIds")
    for group in groups if isinstance(groups, list) else ():
        if not _GROUP.fullmatch(str(group)):
            yield f"{where}.SecurityGroupIds={group!r}: not a group ID, such as sg-0a1b2c3d"
    if "latest" in str(node.get("ImageId")):
        yield f"{where}.ImageId={node['ImageId']!r}: it changes over time; write an image's ID"
    options = node.get("MetadataOptions")
    tokens = options.get("HttpTokens") if isinstance(options, dict) else None
    if tokens != "required" and "LaunchTemplate" not in node:
        yield (
            f"{where}.MetadataOptions.HttpTokens={tokens!r}: must be 'required': otherwise a "
            "forged request from the node can obtain its credentials"
        )
    for name in _SET_BY_RAY:
        if name in node:
            yield f"{where}.{name}: Ray sets it; write min_workers and max_workers"


def _compared(shape: Any, value: Any, where: str) -> Iterator[str]:
    """Yields every field, type and name in ``value`` that does not fit the shape."""
    expected = _PYTHON_TYPES.get(shape.type_name, object)
    is_flag = isinstance(value, bool) and expected is int
    if not isinstance(value, expected) or is_flag:
        yield f"{where}={value!r}: not a {shape.type_name}"
    elif shape.type_name == "structure":
        for name, inner in value.items():
            if name in shape.members:
                yield from _compared(shape.members[name], inner, f"{where}.{name}")
            else:
                yield f"{where}.{name}: {did_you_mean('field', str(name), shape.members)}"
    elif shape.type_name == "list":
        for number, inner in enumerate(value):
            yield from _compared(shape.member, inner, f"{where}.{number}")
    elif (allowed := getattr(shape, "enum", None)) and value not in allowed:
        line = did_you_mean("value", value, allowed)
        line = line if len(allowed) <= _LONGEST_LIST else line.partition(" Allowed: ")[0]
        yield f"{where}={value!r}: {line}"
