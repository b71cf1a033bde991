"""Both algorithms in this process: determinism, counters, resuming, divergence, learning."""

from __future__ import annotations

import dataclasses
import io
import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.callbacks.callbacks import RLlibCallback

from envs import TimeGridworldVectorEnv
from nalu_ray.rl.evaluation import episodes, shares
from nalu_ray.rl.rllib import metrics
from nalu_ray.rl.rllib.checkpoint import load, network_of, save
from nalu_ray.rl.rllib.metrics import figures
from nalu_ray.rl.rllib.module import TimeModule
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
    """Large ones too, also those that are equal in their lower 32 bits."""
    made = [build(config(kind, seed=seed)) for seed in (1, 2, 2**32 + 1, 2**40 + 1, 2**40 + 1)]
    *others, one, two = made
    assert same(weights(one), weights(two))
    assert not any(same(weights(a), weights(b)) for a, b in itertools.combinations(made[:4], 2))
    told = [[figures(algorithm.train()) for _ in range(2)] for algorithm in (one, two)]
    assert told[0] == told[1]
    assert same(weights(one), weights(two))
    first, second = (figures(algorithm.train()) for algorithm in others[:2])
    assert first["episodes"] != second["episodes"]


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
    with pytest.raises(ValueError, match="not the state of"):
        load(algorithm, {})
    with pytest.raises(ValueError, match="state of 9 environments per runner, not 8"):
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
    algorithm = build(config(kind).evaluation(evaluation_duration=7))
    algorithm.train()
    told = algorithm.evaluate()["env_runners"]
    world = config(kind).world()
    played = episodes(network_of(algorithm), world, [3, 4, 5, 3, 4, 5, 3], 1, world.time_limit)
    lengths = played["arrival"].fillna(world.time_limit)
    assert told == pytest.approx(
        {
            **shares(played, world.time_limit),
            "num_episodes": 7,
            "episode_return_mean": played["reward"].mean(),
            "episode_len_mean": lengths.mean(),
        }
    )


@BOTH
@pytest.mark.parametrize("duration", [1, 2, 300])
def test_evaluation_plays_what_is_asked_for(
    kind: str, duration: int, build: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On demand, and along with training."""
    seen = []

    def count(network: Any, world: Any, times: Any, each: int, *a: Any, **b: Any) -> Any:
        seen.append((len(times) * each, b["greedy"]))
        return episodes(network, world, times, each, *a, **b)

    monkeypatch.setattr(metrics, "episodes", count)
    made = config(kind).evaluation(
        evaluation_duration=duration,
        evaluation_interval=1,
        evaluation_config={"explore": duration == 2},
    )
    algorithm = build(made)
    told = [algorithm.train()["evaluation"], algorithm.evaluate()]
    assert [one["env_runners"]["num_episodes"] for one in told] == [duration] * 2
    assert seen == [(duration, duration != 2)] * 2


class Told(RLlibCallback):
    """Keeps which callbacks were called, and with what."""

    seen: ClassVar[list[tuple[str, set[str]]]] = []

    def on_environment_created(self, *, metrics_logger: Any, env: Any, **named: Any) -> None:
        assert isinstance(env, TimeGridworldVectorEnv)
        self.seen.append(("environment", set(named)))

    def on_sample_end(self, *, metrics_logger: Any, samples: Any, **named: Any) -> None:
        metrics_logger.log_value("sampled_steps", samples[0].steps, reduce="sum")
        self.seen.append(("sample", set(named)))

    def on_train_result(self, *, result: Any, **named: Any) -> None:
        result["mine"] = result["training_iteration"] * 10
        self.seen.append(("result", set(named)))

    def on_algorithm_init(self, **named: Any) -> None:
        self.seen.append(("init", set(named)))

    def on_evaluate_start(self, **named: Any) -> None:
        self.seen.append(("start", set(named)))

    def on_evaluate_end(self, **named: Any) -> None:
        self.seen.append(("end", set(named)))


@BOTH
def test_callbacks_are_called(kind: str, build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Told, "seen", [])
    called: list[str] = []
    made = config(kind, updates=2).callbacks(
        Told,
        on_sample_end=lambda **_: called.append("sample"),
        on_environment_created=lambda **_: called.append("environment"),
    )
    algorithm = build(made)
    result = algorithm.train()
    algorithm.evaluate()
    names = [name for name, _ in Told.seen]
    assert names == ["environment", "init", "sample", "sample", "result", "start", "end"]
    assert called == [name for name in names if name in ("environment", "sample")]
    given = dict(Told.seen)
    assert given["environment"] == {"env_runner", "env_context"}
    assert given["sample"] == {"env_runner"}
    assert result["env_runners"]["sampled_steps"] == 2 * STEPS
    assert result["mine"] == 10


class Loaded(RLlibCallback):
    """Keeps the numbers of updates that algorithms had when a checkpoint was loaded."""

    seen: ClassVar[list[int]] = []

    def on_checkpoint_loaded(self, *, algorithm: Any, **named: Any) -> None:
        self.seen.append(algorithm.learner_group._learner.progress["updates"])


@BOTH
def test_a_loaded_checkpoint_is_told(
    kind: str, build: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Loaded, "seen", [])
    called = []
    made = config(kind, updates=2).callbacks(
        Loaded, on_checkpoint_loaded=lambda *, algorithm: called.append(algorithm.iteration)
    )
    algorithm = build(made)
    algorithm.train()
    saved = algorithm.save(str(tmp_path))
    algorithm.train()
    assert Loaded.seen == called == []
    algorithm.restore(saved)
    assert (Loaded.seen, called) == ([2], [1])


@BOTH
def test_the_module_is_the_trained_one(kind: str, build: Any) -> None:
    algorithm = build(config(kind))
    algorithm.train()
    module = algorithm.get_module()
    assert isinstance(module, TimeModule)
    assert same(dict(module.network.state_dict()), weights(algorithm))
    assert algorithm.get_module("another") is None
    told = figures(algorithm.train())
    assert told["staleness"] == 0
    assert same(dict(algorithm.get_module().network.state_dict()), weights(algorithm))


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
    steps, lr = 1_500_000, {"impala": 4e-3, "a3c": 3e-3}[kind]
    made = (
        config(kind, seed=2)
        .environment(env_config={"c": 0.3})
        .rl_module(model_config={**NETWORK, "hidden": 64, "vision": 64, "channels": 8})
        .env_runners(num_envs_per_env_runner=128, rollout_fragment_length=8)
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
