"""Trains a recurrent PPO of Stable-Baselines3 in the gridworld.

pip install stable-baselines3 sb3-contrib     # tried with 2.9.2 of both
python examples/gridworld_sb3.py              # some minutes
python examples/gridworld_sb3.py --steps 256  # only shows that it runs

The agent sees pictures of 56 x 56 pixels and the time T at which it should arrive.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium
from sb3_contrib import RecurrentPPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

import envs  # registers the environment


def main() -> None:
    """Trains, then prints the mean return of 50 episodes: 1 is an arrival at T in every one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=100_000, help="steps of training")
    parser.add_argument("--episodes", type=int, default=50, help="episodes of the evaluation")
    options = parser.parse_args()

    def make() -> gymnasium.Env[dict[str, Any], int]:
        return gymnasium.make(envs.ID, size=3)

    worlds = make_vec_env(make, n_envs=8, seed=0)
    agent = RecurrentPPO("MultiInputLstmPolicy", worlds, n_steps=32, batch_size=128, seed=0)
    agent.learn(options.steps)
    mean, spread = evaluate_policy(agent, make_vec_env(make), options.episodes)
    print(f"mean return: {mean:.2f}, standard deviation {spread:.2f}")


if __name__ == "__main__":
    main()
