"""Finds stored agents: which there are, and the one that scored best in training."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

from nalu_ray.config import ConfigError, did_you_mean
from nalu_ray.results import files
from nalu_ray.results.store import Store
from nalu_ray.rl.agent import Agent, AgentError, about
from nalu_ray.rl.rollout import TASK

log = logging.getLogger(__name__)

ENDING = ".agent.pt"


def best(out: str, wanted: Mapping[str, str]) -> tuple[str, Agent]:
    """Reads the agent with the highest ``exact``, the share of exact arrivals in training's range.

    Args:
        out: folder or URI of the results.
        wanted: values that the agent's ``about`` must have, as text.

    Returns:
        The agent's path, and the agent. Among equals, the first path.

    Raises:
        ConfigError: there is no such agent, or a key of ``wanted`` that no agent knows.
        StoreError: the place cannot be reached.
    """
    store = Store(out)
    filesystem, folder = store.filesystem, f"{store.root}/{TASK}"
    found: dict[str, dict[str, Any]] = {}
    try:
        infos = files.list_folder(filesystem, folder)
    except OSError as error:
        raise ConfigError([f"cannot list {folder}: {error}"]) from error
    for info in infos:
        if info.base_name.endswith(ENDING):
            try:
                with filesystem.open_input_stream(info.path) as stream:
                    found[info.path] = about(stream.read(), info.path)
            except (AgentError, OSError) as error:
                log.warning("skipped %s", error)
    if not found:
        raise ConfigError(
            [f"no agent in {folder}; python -m nalu_ray.tune {TASK} --preset smoke trains one"]
        )
    path = max(_matching(found, wanted, folder), key=lambda path: _score(found[path]))
    with filesystem.open_input_stream(path) as stream:
        return path, Agent.from_bytes(stream.read(), path)


def describe(known: Mapping[str, Any]) -> str:
    """Returns what is known of an agent as ``key=value`` words."""
    return " ".join(
        f"{key}={value:.4g}" if isinstance(value, float) else f"{key}={value}"
        for key, value in known.items()
    )


def _matching(
    found: Mapping[str, Mapping[str, Any]], wanted: Mapping[str, str], folder: str
) -> list[str]:
    keys = {key for known in found.values() for key in known}
    if unknown := [did_you_mean("key", key, keys) for key in wanted if key not in keys]:
        raise ConfigError(unknown)
    matching = [
        path
        for path, known in sorted(found.items())
        if all(str(known.get(key)) == value for key, value in wanted.items())
    ]
    if not matching:
        asked = " ".join(f"{key}={value}" for key, value in wanted.items())
        there = (
            f"{key}: {', '.join(sorted({str(known.get(key)) for known in found.values()}))}"
            for key in wanted
        )
        raise ConfigError([f"no agent with {asked} in {folder}; there is {'; '.join(there)}"])
    return matching


def _score(known: Mapping[str, Any]) -> float:
    score = known.get("exact")
    usable = isinstance(score, int | float) and not math.isnan(score)
    return float(score) if usable else -1.0  # type: ignore[arg-type]
