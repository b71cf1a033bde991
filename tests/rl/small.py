"""Algorithms of a small world that train in a moment."""

from __future__ import annotations

from typing import Any

from nalu_ray.rl.a3c import A3CConfig
from nalu_ray.rl.impala import IMPALAConfig

WORLD = {"size": 3, "instructions": (3, 5), "time_limit": 8}
NETWORK = {"variant": "lstm_nac", "hidden": 8, "vision": 8, "channels": 4}
CONFIGS = {"impala": IMPALAConfig, "a3c": A3CConfig}
ENVS, LENGTH = 8, 5
STEPS = ENVS * LENGTH  # of a rollout


def config(kind: str, *, runners: int = 0, seed: int | None = 1, updates: int = 4) -> Any:
    """The configuration of ``impala`` or ``a3c``; an iteration is a number of updates."""
    return (
        CONFIGS[kind]()
        .environment(env_config=WORLD)
        .rl_module(model_config=NETWORK)
        .env_runners(
            num_env_runners=runners,
            num_envs_per_env_runner=ENVS,
            rollout_fragment_length=LENGTH,
        )
        .training(lr=[[0, 1e-3], [1000, 1e-4]], nac_lr_factor=3.0, sparsity=0.1)
        .reporting(min_train_timesteps_per_iteration=updates * STEPS)
        .debugging(seed=seed)
    )
