"""RLlib's module: pictures or their numbers, rows or single steps, RLlib's own runner."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from envs import TimeGridworldVectorEnv, World
from nalu_ray.rl.agent.stored import Player
from nalu_ray.rl.rllib.module import TimeModule
from tests.rl.small import NETWORK, WORLD, config

B, T = 3, 6


def module(**fields: Any) -> TimeModule:
    spec = RLModuleSpec(
        module_class=TimeModule,
        observation_space=World(**WORLD).observation_space("frame"),
        action_space=TimeGridworldVectorEnv(**WORLD).single_action_space,
        model_config={**NETWORK, "world": WORLD, "max_seq_len": T, **fields},
    )
    made: TimeModule = spec.build()
    torch.nn.init.normal_(made.network.policy.weight)
    return made


def batch(frames: torch.Tensor, told: torch.Tensor, memory: torch.Tensor, pixels: bool) -> Any:
    pictures = torch.tensor(World(**WORLD).frames)
    seen = {"pixels": pictures[frames]} if pixels else {"frame": frames}
    return {
        Columns.OBS: {**seen, "instruction": told[..., None]},
        Columns.STATE_IN: {"memory": memory},
    }


@pytest.fixture
def data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(0)
    frames = torch.from_numpy(rng.integers(0, 81, (B, T)))
    told = torch.from_numpy(rng.integers(3, 6, (B, T)).astype(np.float32))
    size = module().network.core.state_size
    return frames, told, torch.from_numpy(rng.normal(size=(B, size)).astype(np.float32))


@pytest.mark.parametrize("call", ["forward_inference", "forward_exploration", "forward_train"])
def test_pixels_are_as_good_as_their_number(call: str, data: Any) -> None:
    made = module()
    by_number = getattr(made, call)(batch(*data, pixels=False))
    by_pixel = getattr(made, call)(batch(*data, pixels=True))
    assert by_number[Columns.ACTION_DIST_INPUTS].shape == (B, T, 5)
    assert by_number[Columns.VF_PREDS].shape == (B, T)
    for name in (Columns.ACTION_DIST_INPUTS, Columns.VF_PREDS):
        torch.testing.assert_close(by_number[name], by_pixel[name], atol=1e-6, rtol=0)
    values = made.compute_values(batch(*data, pixels=True))
    torch.testing.assert_close(values, by_number[Columns.VF_PREDS], atol=1e-6, rtol=0)


def test_a_row_is_its_single_steps(data: Any) -> None:
    made, (frames, told, memory) = module(), data
    row = made.forward_inference(batch(frames, told, memory, pixels=False))
    for t in range(T):
        one = slice(t, t + 1)
        step = made.forward_inference(batch(frames[:, one], told[:, one], memory, pixels=False))
        memory = step[Columns.STATE_OUT]["memory"]
        torch.testing.assert_close(
            step[Columns.ACTION_DIST_INPUTS][:, 0], row[Columns.ACTION_DIST_INPUTS][:, t]
        )
    torch.testing.assert_close(memory, row[Columns.STATE_OUT]["memory"])


def test_stateful_from_zeros() -> None:
    made = module()
    state = made.get_initial_state()["memory"]
    assert made.is_stateful()
    assert state.shape == (made.network.core.state_size,)
    assert not state.any()


def test_weights_by_the_seed() -> None:
    def first(seed: int | None) -> torch.Tensor:
        return module(seed=seed).network.vision.linear.weight.detach()

    assert torch.equal(first(1), first(1))
    assert not torch.equal(first(1), first(2))
    assert not torch.equal(first(None), first(None))


def test_a_field_that_does_not_exist() -> None:
    with pytest.raises(ValidationError, match="hiden"):
        module(hiden=3)


@pytest.fixture
def stock() -> SingleAgentEnvRunner:
    """RLlib's runner, on pictures, with the first weights of `config`."""
    own = config("impala").env_runners(
        env_runner_cls=SingleAgentEnvRunner, gym_env_vectorize_mode="vector_entry_point"
    )
    runner = SingleAgentEnvRunner(config=own, worker_index=0)
    torch.nn.init.normal_(runner.module.network.policy.weight)
    return runner


def test_rllibs_runner_plays_the_same_episodes(stock: SingleAgentEnvRunner) -> None:
    """Greedy episodes from the same seeds: same returns and lengths as the fast environment's."""
    played = stock.sample(num_episodes=8, explore=False)
    found = {}
    for episode in played:
        seen = episode.get_observations(0)
        start = (seen["pixels"].tobytes(), float(seen["instruction"][0]))
        found[start] = (episode.get_return(), len(episode))
    env = TimeGridworldVectorEnv(8, autoreset_mode="Disabled", observation="frame", **WORLD)
    seen, _ = env.reset(seed=stock._seed)
    player = Player(stock.module.network, 8, greedy=True, seed=0)
    first, ended = seen, np.zeros(8, bool)
    returns, lengths = np.zeros(8), np.zeros(8, int)
    fast = TimeGridworldVectorEnv(8, autoreset_mode="SameStep", observation="frame", **WORLD)
    seen, _ = fast.reset(seed=stock._seed)
    for _ in range(8):
        seen, rewards, done, _, _ = fast.step(player.act(seen["frame"], seen["instruction"][:, 0]))
        returns += rewards * ~ended
        lengths += ~ended
        ended |= done
    assert ended.all()
    matched = 0
    for i in range(8):
        picture = env.world.frames[first["frame"][i]].tobytes()
        told = float(first["instruction"][i, 0])
        if (picture, told) in found:
            assert found[picture, told] == (pytest.approx(returns[i]), lengths[i])
            matched += 1
    assert matched >= 4


def test_the_same_logits_along_rllibs_episodes(stock: SingleAgentEnvRunner) -> None:
    network = stock.module.network
    for episode in stock.sample(num_episodes=4, explore=True):
        seen = episode.get_observations()
        pictures = torch.from_numpy(seen["pixels"][:-1])[:, None]
        told = torch.from_numpy(seen["instruction"][:-1])
        with torch.no_grad():
            logits, _, _ = network(
                network.vision(pictures), told, torch.ones_like(told), network.initial_state(1)
            )
        recorded = episode.get_extra_model_outputs(Columns.ACTION_DIST_INPUTS)
        np.testing.assert_allclose(recorded, logits[:, 0].numpy(), atol=1e-6)
