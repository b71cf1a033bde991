"""The choice among stored agents: the one that scored best in training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from nalu_ray.results.store import networks
from nalu_ray.rl.agent.stored import Agent, AgentError, about
from nalu_ray.rl.rollout import TASK

ENDING = ".agent.pt"


def best(
    out: str, wanted: Mapping[str, str], runs: networks.Runs | None = None
) -> tuple[str, Agent]:
    """Returns the agent with the highest ``exact``, its share of exact arrivals at trained T.

    Files without an agent, or with one that cannot be used, are reported and skipped.

    Args:
        out: folder or URI of the results.
        wanted: values that the agent's ``about`` must have, as text.
        runs: the runs that may have trained it; None for all.

    Returns:
        The agent's path, and the agent. Among equals, the first path.

    Raises:
        ConfigError: if no agent matches, or no agent has a key of ``wanted``.
        StoreError: if the storage cannot be reached.
    """
    return networks.best(out, TASK, _AGENTS, wanted, _used, runs=runs)


def _used(file: networks.Found) -> tuple[str, Agent]:
    return file.path, Agent.from_bytes(file.data, file.path)


def _score(known: Mapping[str, Any]) -> float:
    score = known.get("exact")
    return float(score) if isinstance(score, int | float) else math.nan


_AGENTS = networks.Kind(
    noun="agent",
    ending=ENDING,
    read=lambda data, name: [about(data, name)],
    error=AgentError,
    score=_score,
)
