"""Trains RLlib's own PPO with an LSTM in the gridworld, on RLlib's new API stack.

python examples/gridworld_rllib.py                  # some minutes
python examples/gridworld_rllib.py --iterations 1   # only shows that it runs

No part of nalu_ray's own algorithms is used: `envs` is an ordinary Gymnasium environment. The agent
sees the picture's number as a one-hot vector and the time T at which it should arrive; the LSTM has
to count. Written for Ray 2.60.
"""

from __future__ import annotations

import argparse
import logging
from typing import Any

import gymnasium
import numpy as np
import ray
from gymnasium import spaces
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.tune.registry import register_env

from envs import TimeGridworldEnv

LONGEST = 12  # the largest T in training


class OneHot(gymnasium.ObservationWrapper[np.ndarray, np.int64, dict[str, Any]]):
    """The picture's number as a one-hot vector, and T between 0 and 1, as one float32 vector."""

    def __init__(self, env: TimeGridworldEnv) -> None:
        super().__init__(env)
        self.pictures = len(env.world.frames)
        self.observation_space = spaces.Box(0.0, np.inf, (self.pictures + 1,), np.float32)

    def observation(self, observation: dict[str, Any]) -> np.ndarray:
        """Returns the vector, (pictures + 1,)."""
        vector = np.zeros(self.pictures + 1, np.float32)
        vector[observation["frame"]] = 1
        vector[-1] = observation["instruction"][0] / LONGEST
        return vector


def config() -> PPOConfig:
    """Returns PPO with an LSTM of 64 units, all in this process."""
    register_env("time", lambda _: OneHot(TimeGridworldEnv(size=3, observation="frame")))
    return (
        PPOConfig()
        .environment("time")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=16)
        .rl_module(
            model_config=DefaultModelConfig(
                fcnet_hiddens=[64], use_lstm=True, lstm_cell_size=64, max_seq_len=20
            )
        )
        .training(lr=1e-3, gamma=1.0, train_batch_size=2048, minibatch_size=512, num_epochs=4)
        .debugging(seed=0)
    )


def main() -> None:
    """Trains and prints the mean return: 1 is an arrival at T in every episode."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--iterations", type=int, default=40, help="of 2,048 steps each")
    iterations = parser.parse_args().iterations
    ray.init(
        "local", ignore_reinit_error=True, include_dashboard=False, logging_level=logging.ERROR
    )
    algorithm = config().build_algo()
    for iteration in range(iterations):
        result = algorithm.train()
        mean = result["env_runners"].get("episode_return_mean", float("nan"))
        print(f"iteration {iteration + 1}: mean return {mean:.2f}")
    algorithm.stop()


if __name__ == "__main__":
    main()
