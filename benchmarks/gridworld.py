"""Steps per second of the gridworld, compared with Gymnasium's vector loop and Minigrid.

    python benchmarks/gridworld.py [--copies 1 16 64 256] [--seconds 1]

* vector: :class:`envs.TimeGridworldVectorEnv` by observation type and autoreset mode, with copied
  observations (copy) or views of the environment's memory (view);
* sync: Gymnasium's ``SyncVectorEnv`` over single environments;
* single: one :class:`envs.TimeGridworldEnv`, reset at the end of each episode;
* Minigrid's ``MiniGrid-Empty-5x5-v0``, the most similar environment: with an image of the whole
  world (40 x 40 pixels; ours has 56 x 56), and with its default 7 x 7 x 3 view of symbols.

Actions are random and drawn beforehand; the time includes resets of ended episodes. One process,
one thread. Every figure is the median of repeated measurements of processor time, which depends
less on other work on the machine.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from timing import median_seconds

import envs

DRAWN = 128  # actions that are taken in turn
MODES = (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP)
PICTURE_PIXELS = 8  # of a cell of Minigrid, as in ours


def vector_rate(env: VectorEnv[Any, Any, Any], seconds: float) -> float:
    """Returns the steps per second of all copies together."""
    env.reset(seed=0)
    assert isinstance(env.single_action_space, gymnasium.spaces.Discrete)
    high = int(env.single_action_space.n)
    actions = np.random.default_rng(0).integers(0, high, (DRAWN, env.num_envs))

    def work() -> None:
        for taken in actions:
            env.step(taken)

    return DRAWN * env.num_envs / median_seconds(work, seconds, clock=time.process_time)


def single_rate(env: gymnasium.Env[Any, Any], actions: int, seconds: float) -> float:
    """Returns the steps per second of one environment with a number of ``actions``."""
    env.reset(seed=0)
    drawn = np.random.default_rng(0).integers(0, actions, 8 * DRAWN).tolist()

    def work() -> None:
        for action in drawn:
            *_, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    return len(drawn) / median_seconds(work, seconds, clock=time.process_time)


def row(name: str, copies: int, rate: float) -> None:
    """Prints one line of the table."""
    print(f"{name:40}{copies:8}{rate:14,.0f}{1e6 * copies / rate:12.1f}", flush=True)


def vector_rows(copies: list[int], seconds: float) -> None:
    """Prints the vector environment's lines."""
    for observation in ("pixels", "frame"):
        for mode in MODES:
            for copy in (True, False):
                for count in copies:
                    env = envs.TimeGridworldVectorEnv(
                        count, observation=observation, autoreset_mode=mode, copy=copy
                    )
                    kind = "copy" if copy else "view"
                    name = f"vector, {observation}, {mode.value}, {kind}"
                    row(name, count, vector_rate(env, seconds))


def loop_rows(seconds: float) -> None:
    """Prints the lines of Gymnasium's loop and of the bare single environment."""
    for observation in ("pixels", "frame"):
        for count in (16, 256):
            makers = [lambda kind=observation: envs.TimeGridworldEnv(observation=kind)] * count
            row(
                f"sync, {observation}, NextStep", count, vector_rate(SyncVectorEnv(makers), seconds)
            )
    for observation in ("pixels", "frame"):
        env = envs.TimeGridworldEnv(observation=observation)
        row(f"single, {observation}", 1, single_rate(env, 5, seconds))


def minigrid_rows(seconds: float) -> None:
    """Prints Minigrid's lines, or how to install it."""
    try:
        from minigrid.wrappers import RGBImgObsWrapper
    except ImportError:
        print("Minigrid is not installed: pip install minigrid")
        return
    bare = gymnasium.make("MiniGrid-Empty-5x5-v0").unwrapped
    # Turn left, turn right, forward: the actions that do something in an empty room.
    drawn = RGBImgObsWrapper(bare, tile_size=PICTURE_PIXELS)
    row("MiniGrid-Empty-5x5, picture", 1, single_rate(drawn, 3, seconds))
    row("MiniGrid-Empty-5x5, symbols", 1, single_rate(bare, 3, seconds))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--copies", type=int, nargs="+", default=[1, 16, 64, 256])
    parser.add_argument("--seconds", type=float, default=1.0, help="measuring time per figure")
    arguments = parser.parse_args()
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, "
        f"Gymnasium {gymnasium.__version__}, one of {os.cpu_count()} cores"
    )
    print(f"{'':40}{'copies':>8}{'steps/s':>14}{'us a call':>12}")
    vector_rows(arguments.copies, arguments.seconds)
    loop_rows(arguments.seconds)
    minigrid_rows(arguments.seconds)


if __name__ == "__main__":
    main()
