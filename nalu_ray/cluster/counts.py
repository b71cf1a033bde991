"""How many nodes a cluster file asks for, and whether the numbers agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nalu_ray.errors import did_you_mean, shown

_ADDRESSES = ("head_ip", "worker_ips")


def mistakes(config: dict[str, Any]) -> Iterator[str]:
    """Yields a line for each number or name that does not agree with another."""
    yield from (_machines if config["provider"]["type"] == "local" else _types)(config)


def describe(config: dict[str, Any]) -> str:
    """Returns a line such as ``aws, one head and 0 to 8 workers``."""
    provider = config["provider"]
    if provider["type"] == "local":
        addresses = len(provider.get("worker_ips", []))
        low, high = config.get("min_workers", addresses), config.get("max_workers", addresses)
    else:
        low = sum(kind.get("min_workers", 0) for kind in _kinds(config).values())
        high = config.get("max_workers", 2)  # as in Ray's defaults
    workers = f"{high}" if low == high else f"{low} to {high}"
    return f"{provider['type']}, one head and {workers} workers"


def _kinds(config: dict[str, Any]) -> dict[str, Any]:
    return dict(config.get("available_node_types", {}))


def _machines(config: dict[str, Any]) -> Iterator[str]:
    provider = config["provider"]
    for name in ("available_node_types", "head_node_type"):
        if name in config:
            yield f"{name}: not for provider local; list machines in provider.worker_ips"
    if "coordinator_address" not in provider:
        yield from (f"provider.{name}: missing" for name in _ADDRESSES if not provider.get(name))
        yield from _addresses(config)


def _addresses(config: dict[str, Any]) -> Iterator[str]:
    provider = config["provider"]
    workers = provider.get("worker_ips") or []
    machines = [provider.get("head_ip"), *workers]
    for address in dict.fromkeys(machines):
        if machines.count(address) > 1:
            yield f"provider.worker_ips: {address} is named twice; each machine runs one node"
    for name in ("min_workers", "max_workers"):
        if config.get(name, 0) > len(workers):
            yield f"{name}={config[name]}: provider.worker_ips has {len(workers)}"
    low, high = (config.get(name, len(workers)) for name in ("min_workers", "max_workers"))
    if low > high:
        yield f"min_workers={low}: more than max_workers={high}"


def _types(config: dict[str, Any]) -> Iterator[str]:
    kinds = _kinds(config)
    for name in ("max_workers", "available_node_types", "head_node_type"):
        if name not in config:
            yield f"{name}: missing; Ray would take an example's"
    head = config.get("head_node_type")
    if kinds and head is not None and head not in kinds:
        yield f"head_node_type={shown(head)}: {did_you_mean('node type', head, kinds)}"
    most = config.get("max_workers", 0)
    for name, kind in kinds.items():
        low, high = kind.get("min_workers", 0), kind.get("max_workers", most)
        if name != head and not 0 <= low <= high:
            where = f"available_node_types.{name}.min_workers={low}"
            yield f"{where}: not between 0 and its max_workers={high}"
    least = sum(kind.get("min_workers", 0) for kind in kinds.values())
    if "max_workers" in config and least > most:
        yield f"max_workers={most}: less than the {least} of all min_workers together"
