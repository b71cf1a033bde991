"""Checks who can reach a cluster: dashboards, security groups, the token, secrets in the file."""

from __future__ import annotations

import ipaddress
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_START = ("head_start_ray_commands", "worker_start_ray_commands")
_TOKEN_FILE = ".ray/auth_token"
_DASHBOARD = re.compile(r"--dashboard-host[= ]+(\S+)")
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_WIDEST = {4: 8, 6: 16}  # bits of a range's prefix, by version of IP
# With one of these fields the launcher does not create its default group, open to the world.
_NAMES_A_GROUP = {"SecurityGroupIds", "NetworkInterfaces", "LaunchTemplate"}
_SECRETS = {
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "an access key of AWS": re.compile(r"\b(AKIA|ASIA)[A-Z0-9]{16}\b"),
    "a token": re.compile(r"\b([0-9a-f]{64}|gh[pousr]_\w{36}|hf_\w{30,})\b"),
    # a variable's value, unless it is another variable's
    "a secret": re.compile(r"(?i)\w*(secret|passw(or)?d|auth_token|api_?key)\w*\s*=\s*[^\s$]"),
}
_SECRET_FIELD = re.compile(r"(?i)(secret|passw(or)?d|session_token|api_?key|^credentials$)")


def mistakes(config: dict[str, Any], allow_open: bool) -> Iterator[str]:
    """Yields a line for each way into the cluster that is open.

    Args:
        config: the file, which fits Ray's schema.
        allow_open: accept dashboards and security groups that are open to the world.
    """
    for field in _START:
        if field not in config:
            yield f"{field}: missing; Ray's default command starts without a token"
        for command in config.get(field, []):
            if "ray start" in command and "RAY_AUTH_MODE=token" not in command:
                yield f"{field}: 'ray start' without RAY_AUTH_MODE=token lets anybody run code"
            open_hosts = [h for h in _DASHBOARD.findall(command) if h not in _LOOPBACK]
            for host in () if allow_open else open_hosts:
                yield (
                    f"{field}: --dashboard-host={host}: open to anybody who can reach the head; "
                    "write 127.0.0.1 and use `ray dashboard`, or pass --allow-open"
                )
    yield from _token(config.get("file_mounts", {}))
    if not allow_open:
        yield from _groups(config)


def notes(config: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each way into the cluster that the file does not decide."""
    node_types = config["available_node_types"] if config["provider"]["type"] == "gcp" else {}
    nodes = [node_type.get("node_config", {}) for node_type in node_types.values()]
    if any("networkInterfaces" not in node for node in nodes):
        yield (
            "note: no networkInterfaces, so the nodes are in the project's default network, whose "
            "rule default-allow-ssh opens SSH to 0.0.0.0/0 unless it was changed"
        )


def readable_by_others(path: Path) -> bool:
    """Returns whether anybody but its owner may read or write a file."""
    return os.name == "posix" and bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def secrets(config: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each value that looks like a secret, without the value."""
    for where, text in texts(config):
        names = [name for name, pattern in _SECRETS.items() if pattern.search(text)]
        if not names and _SECRET_FIELD.search(where.rpartition(".")[2]):
            names = ["a secret"]
        if names:
            yield f"{where}: looks like {names[0]}; keep it in a file outside the checkout"


def _token(mounts: dict[str, Any]) -> Iterator[str]:
    sources = [src for target, src in mounts.items() if str(target).endswith(_TOKEN_FILE)]
    if not sources:
        yield f"file_mounts: no ~/{_TOKEN_FILE}; the nodes would start without a token"
    for source in sources:
        path = Path(os.path.expanduser(str(source)))
        if path.exists() and readable_by_others(path):
            mode = stat.S_IMODE(path.stat().st_mode)
            yield f"file_mounts: {source} has mode {mode:o}: others may read the token; chmod 600"


def _groups(config: dict[str, Any]) -> Iterator[str]:
    provider = config["provider"]
    for where, text in texts(provider.get("security_group"), "provider.security_group"):
        if _is_world(text):
            yield (
                f"{where}={text}: the whole internet; name a range such as 203.0.113.7/32, or "
                "pass --allow-open"
            )
    node_types = config["available_node_types"] if provider["type"] == "aws" else {}
    for name, node_type in node_types.items():
        if not _NAMES_A_GROUP & node_type.get("node_config", {}).keys():
            yield (
                f"available_node_types.{name}.node_config.SecurityGroupIds: missing; the "
                "launcher's default group opens SSH to 0.0.0.0/0. Name a group, or pass "
                "--allow-open"
            )


def _is_world(text: str) -> bool:
    """Whether a text is a range of addresses with a large part of the internet."""
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return not network.is_private and network.prefixlen < _WIDEST[network.version]


def texts(value: Any, where: str = "") -> Iterator[tuple[str, str]]:
    """Yields the path and the text of every text in nested fields."""
    if isinstance(value, str):
        yield where, value
    items = value.items() if isinstance(value, dict) else ()
    for key, inner in enumerate(value) if isinstance(value, list) else items:
        yield from texts(inner, f"{where}.{key}" if where else str(key))
