"""An agent's episodes moment by moment, for those who watch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nalu_ray.envs import ACTIONS, TimeGridworldEnv
from nalu_ray.rl.agent.stored import Agent


@dataclass(frozen=True)
class Moment:
    """What there is to see at one time of an episode.

    Attributes:
        episode: 1, 2, ...
        frame: number of the world's picture.
        t: time in the episode.
        instruction: T.
        distance: fewest actions from the episode's start to the target.
        action: what the agent does now; none at the end.
        probabilities: of the actions, in the order of ``ACTIONS``; none at the end.
        arrived: at the end, whether the agent is on the target; none before.
    """

    episode: int
    frame: int
    t: int
    instruction: int
    distance: int
    action: str | None = None
    probabilities: tuple[float, ...] = ()
    arrived: bool | None = None

    @property
    def remaining(self) -> int:
        """Time left until T; negative after it."""
        return self.instruction - self.t

    @property
    def outcome(self) -> str | None:
        """How the episode ended: ``exact``, ``early by 2``, ``late by 2``, ``never``; else none."""
        if self.arrived is None:
            return None
        if not self.arrived:
            return "never"
        if self.remaining == 0:
            return "exact"
        return f"early by {self.remaining}" if self.remaining > 0 else f"late by {-self.remaining}"

    @property
    def feasible(self) -> bool:
        """Whether T leaves the time to reach the target at all."""
        return self.distance <= self.instruction


def play(
    agent: Agent,
    instruction: int,
    *,
    episodes: int,
    time_limit: int,
    greedy: bool = True,
    seed: int = 0,
) -> Iterator[Moment]:
    """Plays episodes one after another and yields their moments, the ends included.

    Args:
        agent: who plays, on the CPU, in its own world but for T and the time limit.
        instruction: T.
        episodes: how many.
        time_limit: L, at least T.
        greedy: take the likeliest action, else draw one.
        seed: of starts and draws.
    """
    rules = dataclasses.replace(agent.world, instructions=instruction, time_limit=time_limit)
    env = TimeGridworldEnv(observation="frame", **dataclasses.asdict(rules))
    for episode in range(episodes):
        seen, info = env.reset(seed=seed if episode == 0 else None)
        player = agent.player(1, greedy=greedy, seed=seed + episode)
        ended = False
        while not ended:
            (action,) = player.act(np.array([seen["frame"]]), seen["instruction"])
            now = Moment(episode + 1, env.frame, info["t"], instruction, info["distance"])
            chances = tuple(player.probabilities[0].tolist())
            yield dataclasses.replace(now, action=ACTIONS[action], probabilities=chances)
            seen, _, ended, _, info = env.step(action)
        yield Moment(
            episode + 1, env.frame, info["t"], instruction, info["distance"],
            arrived=info["arrived"],
        )  # fmt: skip
