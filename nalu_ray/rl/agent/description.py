"""A stored agent in words: what it is, and what its own scores say against it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from nalu_ray.errors import printable
from nalu_ray.rl.agent.stored import Agent
from nalu_ray.rl.evaluation import GOOD

_AT_T = re.compile(r"(greedy|far) exact \d+$")


def description(agent: Agent) -> str:
    """Returns one line about an agent's training, as far as its file describes it."""
    about = agent.about
    if not about:
        return "an agent whose training is unknown"
    words = f"{about.get('variant', 'an agent')}, trained on T = {_trained(agent)}"
    words += f" by {about['algorithm']}" if "algorithm" in about else ""
    words += f" (seed {about['seed']})" if "seed" in about else ""
    exact = _exact(agent)
    words += "" if exact is None else f", {exact:.1%} exact arrivals there in validation"
    return printable(words)


def doubts(agent: Agent, scores: Mapping[str, float], instruction: int) -> Iterator[str]:
    """Yields a line if the agent's scores are bad, on trained T or at the T to be played.

    A test plays some T only: the largest of them up to the T to be played counts.

    Args:
        agent: the agent.
        scores: scores of its test by name, such as ``far exact 60``; empty if unknown.
        instruction: the T to be played.
    """
    exact = _exact(agent)
    if exact is not None and not exact >= GOOD:  # NaN is bad, too
        words = f"on trained T ({_trained(agent)}) in validation"
        yield f"this agent reached {exact:.0%} exact arrivals {words}"
        return
    tested = {int(name.split()[-1]): value for name, value in scores.items() if _AT_T.match(name)}
    nearest = max((t for t in tested if t <= instruction), default=None)
    if nearest is not None and tested[nearest] < GOOD:
        share = f"{tested[nearest]:.0%} exact arrivals"
        yield f"this agent reached {share} at T = {nearest} in its test"


def _exact(agent: Agent) -> float | None:
    score = agent.about.get("exact")
    return float(score) if isinstance(score, int | float) else None


def _trained(agent: Agent) -> str:
    low, high = agent.world.instruction_range
    return f"{low} to {high}"
