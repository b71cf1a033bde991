"""A learner in an actor, and an algorithm in one of Tune's trials."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from ray import tune

from nalu_ray.rl.rllib.checkpoint import load, network_of, save
from nalu_ray.rl.rllib.metrics import figures
from tests.rl.small import CONFIGS, STEPS, config

pytestmark = [pytest.mark.usefixtures("cluster"), pytest.mark.slow]


def weights(algorithm: Any) -> dict[str, torch.Tensor]:
    return dict(network_of(algorithm).state_dict())


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def poison(learner: Any) -> None:
    with torch.no_grad():
        next(learner.network.parameters()).fill_(math.nan)


def test_a_learner_in_an_actor() -> None:
    made = config("impala", runners=1, updates=20).training(max_bad_updates=3)
    algorithm = made.learners(num_learners=1).build_algo()
    try:
        before = weights(algorithm)
        told = figures(algorithm.train())
        assert not same(before, weights(algorithm))
        assert told["steps"] == told["updates"] * STEPS
        saved = save(algorithm)
        progress = saved["learner"]["progress"]
        assert progress["updates"] >= told["updates"]
        algorithm.train()
        load(algorithm, saved)
        assert same(saved["learner"]["weights"], weights(algorithm))
        algorithm.learner_group.foreach_learner(poison)
        with pytest.raises(RuntimeError, match="training diverged: 3 updates in a row"):
            algorithm.train()
    finally:
        algorithm.stop()


@pytest.mark.parametrize("kind", list(CONFIGS))
def test_tune_and_its_checkpoint(kind: str, tmp_path: Path) -> None:
    made = config(kind).evaluation(evaluation_interval=2)
    tuner = tune.Tuner(
        made.algo_class,
        param_space=made,
        run_config=tune.RunConfig(
            storage_path=str(tmp_path),
            stop={"training_iteration": 2},
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),
            verbose=0,
        ),
    )
    (result,) = tuner.fit()
    assert result.error is None
    told = figures(result.metrics)
    assert told["steps"] == 8 * STEPS
    assert 0 <= result.metrics["evaluation"]["env_runners"]["exact"] <= 1
    alone = made.copy().build_algo()
    restored = made.copy().build_algo()
    try:
        for _ in range(2):
            alone.train()
        restored.restore(result.checkpoint.path)
        assert same(weights(alone), weights(restored))
        assert figures(restored.train()) == figures(alone.train())
    finally:
        alone.stop()
        restored.stop()
