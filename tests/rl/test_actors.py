"""Runners in actors: weights that arrive, counters, what is killed comes back."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from nalu_ray.rl.rllib.checkpoint import load, network_of, save
from nalu_ray.rl.rllib.metrics import figures
from tests.rl.small import ENVS, STEPS, config

pytestmark = [
    pytest.mark.usefixtures("cluster"),
    pytest.mark.slow,
    pytest.mark.xdist_group("actors"),  # in one process: what they share takes seconds
]


def created(*, env_runner: Any, env: Any, env_context: Any, **_: Any) -> None:
    env_runner.created = (env_context.worker_index, env_context.num_workers, env.num_envs)


def sampled(*, metrics_logger: Any, samples: Any, **_: Any) -> None:
    metrics_logger.log_value("sampled_steps", samples[0].steps, reduce="sum")


def recreated(*, algorithm: Any, env_runner_indices: Any, is_evaluation: bool, **_: Any) -> None:
    assert not is_evaluation
    algorithm.recreated = list(env_runner_indices)


@pytest.fixture(scope="module", params=[("impala", 2), ("a3c", 2)], ids=["impala", "a3c"])
def trained(request: pytest.FixtureRequest, cluster: str) -> Iterator[tuple[str, Any]]:
    """An algorithm with runners in actors, after two iterations."""
    kind, runners = request.param
    made = config(kind, runners=runners, updates=20)
    made.callbacks(
        on_environment_created=created,
        on_sample_end=sampled,
        on_env_runners_recreated=recreated,
    )
    algorithm = made.build_algo()
    for _ in range(2):
        algorithm.train()
    yield kind, algorithm
    algorithm.stop()


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


def test_counters(trained: tuple[str, Any]) -> None:
    _, algorithm = trained
    result = algorithm.train()
    told = figures(result)
    assert told["steps"] == told["updates"] * STEPS
    assert result["env_runners"]["num_env_steps_sampled_lifetime"] == told["steps"]
    assert algorithm.learner_group._learner.progress["steps"] == told["steps"]
    # A runner acts while the driver updates: its weights are about an update old.
    assert 0 < told["staleness"] < 5


def test_the_module_is_the_learners(trained: tuple[str, Any]) -> None:
    """And not the local runner's, which nobody sends weights to."""
    _, algorithm = trained
    first = config("impala").build_algo()  # of the same seed, and so of the same weights
    try:
        untrained = dict(first.get_module().network.state_dict())
    finally:
        first.stop()
    for _ in range(2):
        algorithm.train()
        now = dict(algorithm.get_module().network.state_dict())
        assert same(now, dict(network_of(algorithm).state_dict()))
        assert not same(now, untrained)


def test_callbacks_of_runners(trained: tuple[str, Any]) -> None:
    _, algorithm = trained
    result = algorithm.train()["env_runners"]
    assert result["sampled_steps"] == result["num_env_steps_sampled"]
    created = algorithm.env_runner_group.foreach_env_runner(
        lambda runner: runner.created, local_env_runner=False
    )
    assert created == [(1, 2, ENVS), (2, 2, ENVS)]


def test_runners_act_with_new_weights(trained: tuple[str, Any]) -> None:
    _, algorithm = trained
    progress = algorithm.learner_group._learner.progress
    group, seen = algorithm.env_runner_group, []
    for _ in range(2):
        for _ in range(3):
            algorithm.train()
        before = progress["updates"]
        seen.append(group.foreach_env_runner(version, local_env_runner=False))
        assert all(one <= before for one in seen[-1])
    assert all(one < two for one, two in zip(*seen, strict=True))


def version(runner: Any) -> int:
    return int(runner._weights_seq_no)


def test_runners_play_episodes_of_their_own(trained: tuple[str, Any]) -> None:
    _, algorithm = trained
    frames = algorithm.env_runner_group.foreach_env_runner(
        lambda runner: runner.collector.env.state_dict()["key"].tolist(), local_env_runner=False
    )
    keys = [key for one in frames for key in one]
    assert len(keys) == len(set(keys)) == 2 * ENVS


def test_goes_on_from_a_saved_state(trained: tuple[str, Any]) -> None:
    _, algorithm = trained
    saved, before = save(algorithm), network_of(algorithm).state_dict()
    algorithm.train()
    assert not same(dict(before), dict(network_of(algorithm).state_dict()))
    load(algorithm, saved)
    assert same(dict(before), dict(network_of(algorithm).state_dict()))
    acting = algorithm.env_runner_group.foreach_env_runner(
        lambda runner: runner.module.network.state_dict(), local_env_runner=False
    )
    assert all(same(dict(before), dict(one)) for one in acting)
    steps = saved["learner"]["progress"]["steps"]
    told = figures(algorithm.train())
    assert 20 <= (told["steps"] - steps) / STEPS <= 22
    assert told["steps"] == told["updates"] * STEPS
    assert 0 <= told["staleness"] < 5


def test_goes_back_to_an_older_checkpoint_of_rllib(
    trained: tuple[str, Any], tmp_path: Path
) -> None:
    kind, algorithm = trained
    algorithm.train()
    algorithm.save_to_path(tmp_path)
    saved = save(algorithm)["learner"]
    for _ in range(3):
        algorithm.train()
    algorithm.restore_from_path(tmp_path)
    assert save(algorithm)["learner"]["version"] == saved["version"]
    assert same(dict(network_of(algorithm).state_dict()), saved["weights"])
    if kind == "impala":  # A3C sends weights with each request
        weights = algorithm.env_runner_group.foreach_env_runner(
            lambda runner: runner.module.network.state_dict(), local_env_runner=False
        )
        assert all(same(dict(one), saved["weights"]) for one in weights)
    told = figures(algorithm.train())
    assert 0 <= told["staleness"] < 5

    def versions() -> list[int]:
        return algorithm.env_runner_group.foreach_env_runner(version, local_env_runner=False)

    for _ in range(20):  # a runner that is slow has no new weights after one step of the learner
        if min(versions()) > saved["version"]:
            break
        algorithm.train()
    now = algorithm.learner_group._learner.progress["updates"]
    assert all(saved["version"] < each <= now for each in versions())


def test_a_killed_runner_is_replaced(trained: tuple[str, Any]) -> None:
    _, algorithm = trained
    group = algorithm.env_runner_group
    alive = group.num_healthy_remote_workers()
    pid = group.foreach_env_runner(lambda _: os.getpid(), local_env_runner=False)[-1]
    os.kill(pid, signal.SIGKILL)
    assert not hasattr(algorithm, "recreated")
    result = wait_until(
        algorithm,
        lambda _: group.num_remote_worker_restarts() == 1 and hasattr(algorithm, "recreated"),
    )
    assert algorithm.recreated == [2]
    assert group.num_healthy_remote_workers() == alive
    result = algorithm.train()
    told = figures(result)
    assert told["steps"] == told["updates"] * STEPS
    # What the dead one sampled and nobody learned from is counted nowhere, or as sampled only.
    lost = result["env_runners"]["num_env_steps_sampled_lifetime"] - told["steps"]
    assert lost in (0, STEPS)
    pids = group.foreach_env_runner(lambda _: os.getpid(), local_env_runner=False)
    assert pid not in pids


def wait_until(algorithm: Any, done: Callable[[Any], bool], seconds: float = 90) -> Any:
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        result = algorithm.train()
        if done(result):
            return result
    raise AssertionError("did not happen")
