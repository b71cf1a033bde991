"""Metrics of a training result, and evaluation within RLlib."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.utils.metrics import (
    ALL_MODULES,
    ENV_RUNNER_RESULTS,
    EPISODE_LEN_MEAN,
    EPISODE_RETURN_MEAN,
    EVALUATION_RESULTS,
    LEARNER_RESULTS,
    NUM_ENV_STEPS_TRAINED_LIFETIME,
    NUM_EPISODES,
    NUM_EPISODES_LIFETIME,
)
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

from nalu_ray.rl.evaluation import episodes, shares
from nalu_ray.rl.rllib.checkpoint import network_of
from nalu_ray.rl.rllib.env_runner import EXACT_MEAN, NEVER_MEAN
from nalu_ray.rl.rllib.learner import DROPPED, LR, STALENESS, UPDATES

LOSSES = ("policy_loss", "value_loss", "entropy", "total_loss", "gradient_norm", "fractions")


def figures(result: dict[str, Any]) -> dict[str, float]:
    """Returns the metrics of one ``train()`` under short names.

    Counts are over the whole training: ``steps`` trained, ``updates``, ``dropped`` updates and
    ``episodes``. Means are over this iteration, and missing if it had no such data: ``return``,
    ``length``, ``exact`` (share of the episodes in which arriving at T was possible), ``never``,
    ``staleness`` (updates between the weights that acted and the update), ``lr``, and the parts of
    the loss.
    """
    runners: dict[str, Any] = result.get(ENV_RUNNER_RESULTS, {})
    learners: dict[str, Any] = result.get(LEARNER_RESULTS, {})
    learner: dict[str, Any] = learners.get(DEFAULT_MODULE_ID, {})
    counts = {
        "steps": learners.get(ALL_MODULES, {}).get(NUM_ENV_STEPS_TRAINED_LIFETIME, 0),
        "updates": learner.get(UPDATES, 0),
        "dropped": learner.get(DROPPED, 0),
        "episodes": runners.get(NUM_EPISODES_LIFETIME, 0),
    }
    means = {
        "return": runners.get(EPISODE_RETURN_MEAN),
        "length": runners.get(EPISODE_LEN_MEAN),
        "exact": runners.get(EXACT_MEAN),
        "never": runners.get(NEVER_MEAN),
        "staleness": learner.get(STALENESS),
        "lr": learner.get(LR),
        **{name: learner.get(name) for name in LOSSES},
    }
    # RLlib keeps a name once logged, as NaN where an iteration logs nothing.
    logged = {name: float(value) for name, value in means.items() if value is not None}
    return {
        **{name: float(value) for name, value in counts.items()},
        **{name: value for name, value in logged.items() if not math.isnan(value)},
    }


def evaluate(algorithm: Any, _: Any) -> tuple[dict[str, Any], int, int]:
    """RLlib's ``custom_evaluation_function``: ``evaluation_duration`` episodes.

    They are spread evenly over the T's of training. ``evaluation/env_runners`` gets the values of
    :func:`nalu_ray.rl.evaluation.shares`, ``num_episodes``, and the means of return and length
    under RLlib's names.
    """
    config, world = algorithm.config, algorithm.config.world()
    low, high = world.instruction_range
    played = episodes(
        network_of(algorithm),
        world,
        np.resize(np.arange(low, high + 1), config.evaluation_duration).tolist(),
        1,
        world.time_limit,
        greedy=not (config.evaluation_config or {}).get("explore", False),
    )
    lengths = played["arrival"].fillna(world.time_limit)
    values = {
        **shares(played, world.time_limit),
        EPISODE_RETURN_MEAN: float(played["reward"].mean()),
        EPISODE_LEN_MEAN: float(lengths.mean()),
    }
    logger = MetricsLogger(root=False)
    for name, value in values.items():
        logger.log_value(name, value, reduce="mean")
    logger.log_value(NUM_EPISODES, len(played), reduce="sum")
    algorithm.metrics.aggregate([logger.reduce()], key=(EVALUATION_RESULTS, ENV_RUNNER_RESULTS))
    steps = int(lengths.sum())
    return {}, steps, steps
