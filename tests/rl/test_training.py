"""Both algorithms in this process: determinism, counters, resuming, divergence, learning."""

from __future__ import annotations

import dataclasses
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from ray.rllib.algorithms.algorithm import Algorithm

from nalu_ray.rl.evaluation import episodes, shares
from nalu_ray.rl.rllib.checkpoint import load, network_of, save
from nalu_ray.rl.rllib.metrics import figures
from nalu_ray.rl.rollout import Collector, Ended, Rollout
from tests.rl.small import CONFIGS, NETWORK, STEPS, config

BOTH = pytest.mark.parametrize("kind", list(CONFIGS))
pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture
def build() -> Iterator[Any]:
    """Builds algorithms, and stops them."""
    made = []

    def build_one(of: Any) -> Any:
        made.append(of.build_algo())
        return made[-1]

    yield build_one
    for algorithm in made:
        algorithm.stop()


def weights(algorithm: Any) -> dict[str, torch.Tensor]:
    return dict(network_of(algorithm).state_dict())


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


@BOTH
def test_a_seed_is_a_run(kind: str, build: Any) -> None:
    one, two, other = (build(config(kind, seed=seed)) for seed in (1, 1, 2))
    assert same(weights(one), weights(two))
    assert not same(weights(one), weights(other))
    told = [[figures(algorithm.train()) for _ in range(2)] for algorithm in (one, two, other)]
    assert told[0] == told[1]
    assert same(weights(one), weights(two))
    assert told[0][0]["episodes"] != told[2][0]["episodes"]


@BOTH
def test_the_weights_change_only_by_updates(kind: str, build: Any) -> None:
    """What acts are the weights of the update before."""
    algorithm = build(config(kind))
    algorithm.train()
    acting = algorithm.env_runner.module.network.state_dict()
    if kind == "impala":
        assert same(dict(acting), weights(algorithm))
    assert (
        algorithm.train()["learners"]["default_policy"]["diff_num_grad_updates_vs_sampler_policy"]
        == 0
    )


@BOTH
def test_counters_and_names(kind: str, build: Any) -> None:
    algorithm = build(config(kind, updates=3))
    for iteration in (1, 2):
        result = algorithm.train()
        told = figures(result)
        assert told["steps"] == iteration * 3 * STEPS
        assert told["updates"] == iteration * 3
        assert result["env_runners"]["num_env_steps_sampled_lifetime"] == told["steps"]
        assert result["num_env_steps_sampled_lifetime"] == told["steps"]
    assert told["dropped"] == 0
    assert told["staleness"] == 0
    assert told["episodes"] > 10
    assert 0 <= told["exact"] <= 1
    assert 0 <= told["never"] <= 1
    assert 1 <= told["length"] <= 8
    assert -1 < told["return"] < 1
    losses = {"policy_loss", "value_loss", "entropy", "total_loss", "gradient_norm", "fractions"}
    assert losses <= told.keys()
    assert told["lr"] == pytest.approx(1e-3 + (1e-4 - 1e-3) * (4 * STEPS) / 1000)
    assert all(isinstance(value, float) and math.isfinite(value) for value in told.values())


def test_figures_of_an_empty_result() -> None:
    assert figures({}) == {"steps": 0, "updates": 0, "dropped": 0, "episodes": 0}


@BOTH
def test_reported_returns_are_not_scaled(kind: str, build: Any) -> None:
    first = [
        figures(build(config(kind).training(reward_scale=scale, lr=0.0)).train())
        for scale in (1.0, 100.0)
    ]
    assert first[0]["return"] == first[1]["return"]
    assert first[0]["value_loss"] < first[1]["value_loss"]


@BOTH
def test_resumed_is_uninterrupted(kind: str, build: Any) -> None:
    one = build(config(kind))
    one.train()
    buffer = io.BytesIO()
    torch.save(save(one), buffer)
    expected = [figures(one.train()) for _ in range(2)]
    buffer.seek(0)
    other = build(config(kind))
    load(other, torch.load(buffer, weights_only=True))
    assert [figures(other.train()) for _ in range(2)] == expected
    assert same(weights(one), weights(other))
    assert one.training_iteration == other.training_iteration


@BOTH
def test_going_back_to_a_saved_state(kind: str, build: Any) -> None:
    """An algorithm that has trained on is put back as well."""
    algorithm = build(config(kind))
    algorithm.train()
    saved = save(algorithm)
    expected = figures(algorithm.train())
    load(algorithm, saved)
    assert figures(algorithm.train()) == expected


@BOTH
def test_states_that_do_not_fit(kind: str, build: Any) -> None:
    algorithm = build(config(kind))
    saved = save(algorithm)
    with pytest.raises(ValueError, match="no state"):
        load(algorithm, {})
    with pytest.raises(ValueError, match="state of 9 environments a runner, not 8"):
        load(algorithm, {**saved, "envs": 9})
    wide = build(config(kind).rl_module(model_config={**NETWORK, "hidden": 4}))
    with pytest.raises(RuntimeError, match="size mismatch"):
        load(wide, saved)


@BOTH
def test_rllibs_own_checkpoint(kind: str, build: Any, tmp_path: Path) -> None:
    one = build(config(kind))
    one.train()
    one.save_to_path(tmp_path)
    saved = save(one)
    other = Algorithm.from_checkpoint(tmp_path)
    try:
        again = save(other)
        assert same(saved["learner"]["weights"], again["learner"]["weights"])
        assert saved["learner"]["progress"] == again["learner"]["progress"]
        assert saved["learner"]["version"] == again["learner"]["version"]
        old, new = (made["learner"]["optimiser"]["state"] for made in (saved, again))
        assert all(torch.equal(old[i][name], new[i][name]) for i in old for name in old[i])
        assert one.evaluate() == other.evaluate()
        told, expected = figures(other.train()), figures(one.train())
        assert told == expected
    finally:
        other.stop()


@BOTH
def test_evaluation_is_greedy_over_the_range_of_training(kind: str, build: Any) -> None:
    algorithm = build(config(kind))
    algorithm.train()
    told = algorithm.evaluate()["env_runners"]
    world = config(kind).world()
    played = episodes(network_of(algorithm), world, [3, 4, 5], 100, world.time_limit)
    expected = shares(played, world.time_limit)
    assert told == pytest.approx(expected)


def poison(monkeypatch: pytest.MonkeyPatch, times: set[int]) -> None:
    """Makes the rewards of the n-th rollouts NaN."""
    plain, calls = Collector.collect, iter(range(10**6))

    def collect(self: Collector, *arguments: Any) -> tuple[Rollout, Ended]:
        made, ended = plain(self, *arguments)
        if next(calls) in times:
            made = dataclasses.replace(made, rewards=made.rewards * math.nan)
        return made, ended

    monkeypatch.setattr(Collector, "collect", collect)


@BOTH
def test_dropped_updates_are_told(kind: str, build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch, {1, 2})
    algorithm = build(config(kind))
    told = figures(algorithm.train())
    assert told["dropped"] == 2
    assert told["updates"] == 4
    assert told["steps"] == 4 * STEPS
    assert algorithm.env_runner.num_env_steps_sampled_lifetime >= 6 * STEPS
    assert figures(algorithm.train())["dropped"] == 2


@BOTH
def test_divergence_fails(kind: str, build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    poison(monkeypatch, set(range(1, 99)))
    algorithm = build(config(kind).training(max_bad_updates=3))
    with pytest.raises(RuntimeError, match="training diverged: 3 updates in a row"):
        algorithm.train()


@pytest.mark.slow
@BOTH
def test_learns(kind: str, build: Any) -> None:
    """Arrives at T in nine of ten episodes on a three by three grid."""
    steps, lr = 1_500_000, {"impala": 2e-3, "a3c": 1e-3}[kind]
    made = (
        config(kind, seed=2)
        .environment(env_config={"c": 0.3})
        .rl_module(model_config={**NETWORK, "hidden": 64, "vision": 64, "channels": 8})
        .env_runners(num_envs_per_env_runner=32, rollout_fragment_length=16)
        .training(
            lr=[[0, lr], [steps, lr / 20]],
            entropy_coeff=[[0, 0.02], [steps, 0.001]],
            reward_scale=5.0,
            lambda_=0.95,
            sparsity=0.0,
        )
        .reporting(min_train_timesteps_per_iteration=50_000)
    )
    algorithm, world = build(made), made.world()
    exact = 0.0
    for _ in range(steps // 50_000):
        algorithm.train()
        played = episodes(network_of(algorithm), world, [3, 4, 5], 200, world.time_limit)
        exact = shares(played, world.time_limit)["exact"]
        if exact >= 0.9:
            break
    assert exact >= 0.9
