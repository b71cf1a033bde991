"""How exactly an agent arrives at each T: many episodes at once, without Ray."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pandas as pd
from gymnasium.vector import AutoresetMode

from nalu_ray.envs import TimeGridworldVectorEnv, World
from nalu_ray.rl.agent.network import Network
from nalu_ray.rl.agent.stored import Player

GOOD = 0.9
METRICS = ["exact", "reward", "arrival", "time", "never"]


def episodes(
    network: Network,
    world: World,
    instructions: Sequence[int],
    each: int,
    time_limit: int,
    *,
    greedy: bool = True,
    seed: int = 0,
) -> pd.DataFrame:
    """Plays the same number of episodes for every T and returns one row per episode.

    Args:
        network: the agent's network, on the CPU.
        world: the rules, except for the range of T and the time limit.
        instructions: values of T.
        each: episodes per T.
        time_limit: L of these episodes.
        greedy: whether to take the most likely action instead of sampling one.
        seed: seed of starts and sampled actions.

    Returns:
        Columns ``instruction``, ``distance``, ``arrival`` (a time; NaN if the agent never arrives)
        and ``reward`` (the world's).
    """
    chosen = np.repeat(np.asarray(instructions, np.int64), each)
    longest = max(time_limit, int(chosen.max()))
    rules = dataclasses.replace(world, instructions=(1, longest), time_limit=longest)
    env = TimeGridworldVectorEnv(
        len(chosen),
        autoreset_mode=AutoresetMode.SAME_STEP,
        observation="frame",
        **dataclasses.asdict(rules),
    )
    observation, _ = env.reset(seed=seed, options={"instruction": chosen})
    distance = env.distance.copy()
    arrival, reward = np.full(len(chosen), np.nan), np.zeros(len(chosen))
    running = np.ones(len(chosen), bool)
    player = Player(network, len(chosen), greedy, seed)
    for t in range(1, time_limit + 1):
        action = player.act(observation["frame"], observation["instruction"][:, 0])
        observation, rewards, ended, _, infos = env.step(action)
        if "final_info" in infos:  # of ended episodes
            arriving = running & infos["final_info"]["arrived"]
            arrival[arriving], reward[arriving] = t, rewards[arriving]
            running &= ~ended
        if not running.any():
            break
    return pd.DataFrame(
        {"instruction": chosen, "distance": distance, "arrival": arrival, "reward": reward}
    )


def on_trained(network: Network, world: World, each: int, *, seed: int = 0) -> pd.DataFrame:
    """Plays every T of a world's own range under its time limit, greedy; see :func:`episodes`."""
    low, high = world.instruction_range
    return episodes(network, world, range(low, high + 1), each, world.time_limit, seed=seed)


def per_instruction(played: pd.DataFrame, limit: int) -> pd.DataFrame:
    """Returns one row per T from the rows of :func:`episodes`.

    ``exact`` is a share of the episodes whose target can be reached by T. ``reward`` and ``never``
    are means over all episodes, ``arrival`` is a mean over those with an arrival (NaN without any),
    and ``time`` is a mean over all that counts an episode without arrival as ``limit``.
    """
    means: pd.DataFrame = _measured(played, limit).groupby("instruction")[METRICS].mean()
    return means


def shares(played: pd.DataFrame, limit: int) -> dict[str, float]:
    """Returns ``exact``, ``inexact`` (the rest), ``reward``, ``off``, ``late`` and ``never``.

    All are means over all T. ``off`` is the distance of the arrival from T; ``late`` is signed,
    negative for early arrivals. An agent that never arrives counts as ``limit``. ``exact`` is 0 if
    no episode leaves enough time.
    """
    frame = _measured(played, limit)
    possible = frame["exact"].dropna()
    exact = float(possible.mean()) if len(possible) else 0.0
    late = frame["time"] - frame["instruction"]
    return {
        "exact": exact,
        "inexact": 1 - exact,
        "reward": float(frame["reward"].mean()),
        "off": float(late.abs().mean()),
        "late": float(late.mean()),
        "never": float(frame["never"].mean()),
    }


def reach(curves: pd.DataFrame, m: float, first: int) -> dict[str, float]:
    """Returns ``exact_to`` and ``reward_to``: the largest T up to which an agent is good.

    Good means an exact share, or a mean reward over m, of at least 0.9, at every T that was played
    from ``first`` up to it.

    Args:
        curves: the rows of :func:`per_instruction`.
        m: reward of an arrival at T.
        first: smallest T that counts; if the agent is not good there, one less is returned.
    """
    ordered = curves.sort_index().loc[first:]
    reached = {}
    for metric, scale in {"exact": 1.0, "reward": m}.items():
        good = (ordered[metric] / scale >= GOOD).to_numpy()
        count = len(good) if good.all() else int(good.argmin())
        reached[f"{metric}_to"] = float(ordered.index[count - 1] if count else first - 1)
    return reached


def _measured(played: pd.DataFrame, limit: int) -> pd.DataFrame:
    exact = (played["arrival"] == played["instruction"]).astype(float)
    return played.assign(
        exact=exact.where(played["distance"] <= played["instruction"]),
        never=played["arrival"].isna().astype(float),
        time=played["arrival"].fillna(float(limit)),
    )
