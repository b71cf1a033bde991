"""Rollouts: what is in them, randomness, going on where one was, the episodes that ended."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode

from envs import TimeGridworldVectorEnv, World
from nalu_ray.rl.agent.network import Network, NetworkConfig
from nalu_ray.rl.agent.stored import build_network
from nalu_ray.rl.rollout import Collector, Rollout
from nalu_ray.training.recording import Repeated

RULES: dict[str, Any] = {"size": 3, "instructions": (2, 5), "time_limit": 6, "show": "first"}
COUNT, LENGTH = 7, 40
FIELDS = ("frames", "instruction", "keep", "actions", "log_probs", "rewards", "state")


def collector(seed: int | None = 0, index: int = 0, length: int = LENGTH) -> Collector:
    env = TimeGridworldVectorEnv(
        COUNT, autoreset_mode=AutoresetMode.SAME_STEP, observation="frame", **RULES
    )
    return Collector(env, length, seed, index)


def make(**settings: Any) -> Network:
    torch.manual_seed(0)
    made = build_network(NetworkConfig(hidden=6, vision=6, channels=2, **settings), World(**RULES))
    torch.nn.init.normal_(made.policy.weight)
    return made


@pytest.fixture(scope="module")
def network() -> Network:
    return make()


def same(a: Rollout, b: Rollout) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in FIELDS)


def test_shapes_and_types(network: Network) -> None:
    made, _ = collector().collect(network, version=3)
    assert made.version == 3
    assert made.steps == LENGTH * COUNT
    assert (made.frames.shape, made.frames.dtype) == ((LENGTH + 1, COUNT), np.int32)
    assert (made.instruction.shape, made.instruction.dtype) == ((LENGTH + 1, COUNT), np.float32)
    assert (made.keep.shape, made.keep.dtype) == ((LENGTH + 1, COUNT), np.bool_)
    assert (made.actions.shape, made.actions.dtype) == ((LENGTH, COUNT), np.int8)
    assert (made.log_probs.shape, made.log_probs.dtype) == ((LENGTH, COUNT), np.float32)
    assert (made.rewards.shape, made.rewards.dtype) == ((LENGTH, COUNT), np.float32)
    assert (made.state.shape, made.state.dtype) == ((COUNT, 12), np.float32)


def test_replayed_by_the_rules(network: Network) -> None:
    """Frames follow from actions; rewards, ends and what is told from the world."""
    world = World(**RULES)
    made, _ = collector().collect(network)
    agent, target = np.divmod(made.frames, world.cells)
    after = world.moves[agent[:-1], made.actions]
    going = ~made.done
    assert (after[going] == agent[1:][going]).all()
    assert (target[:-1][going] == target[1:][going]).all()
    for i in range(COUNT):
        t, asked = 0, 0.0
        for step in range(LENGTH):
            if not made.keep[step, i]:
                t, asked = 0, made.instruction[step, i]
                assert 2 <= asked <= 5
            else:
                assert made.instruction[step, i] == 0
            t += 1
            arrived = after[step, i] == target[step, i]
            assert made.done[step, i] == (arrived or t == 6)
            expected = 1 - 0.1 * abs(asked - t) if arrived else 0
            assert made.rewards[step, i] == pytest.approx(expected)
    assert not made.keep[0].any()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"variant": "mc_lstm"},
        {"variant": "lstm_nalu"},
        {"variant": "lstm_nsr", "wiring": "feedback"},
    ],
)
def test_log_probabilities_are_the_policys(settings: dict[str, Any]) -> None:
    """One pass over the rollout gives what the single steps gave: memory and resets fit."""
    network = make(**settings)
    many = collector(length=13)
    for _ in range(3):
        made, _ = many.collect(network)
    assert made.keep[0].any()
    with torch.no_grad():
        logits, _, last = network(
            network.vision.numbered(torch.from_numpy(made.frames)),
            torch.from_numpy(made.instruction),
            torch.from_numpy(made.keep).float(),
            torch.from_numpy(made.state),
        )
    log_policy = logits[:-1].log_softmax(-1)
    taken = log_policy.gather(-1, torch.from_numpy(made.actions).long()[..., None])[..., 0]
    torch.testing.assert_close(torch.from_numpy(made.log_probs), taken)
    assert last.abs().sum() > 0


def test_actions_are_drawn_by_the_policy(network: Network) -> None:
    made, _ = collector(length=3000).collect(network)
    drawn = np.exp(made.log_probs).mean()
    with torch.no_grad():
        logits, _, _ = network(
            network.vision.numbered(torch.from_numpy(made.frames)),
            torch.from_numpy(made.instruction),
            torch.from_numpy(made.keep).float(),
            torch.from_numpy(made.state),
        )
    expected = float(logits[:-1].softmax(-1).square().sum(-1).mean())
    # The mean probability of what is drawn is the mean of the sum of p squared.
    assert drawn == pytest.approx(expected, abs=0.01)


def test_the_same_seed_and_index_only(network: Network) -> None:
    first, _ = collector(3, 1).collect(network)
    assert same(first, collector(3, 1).collect(network)[0])
    for other in (collector(4, 1), collector(3, 2), collector(None, 1)):
        assert not np.array_equal(first.frames[0], other.collect(network)[0].frames[0])
    assert not same(collector(None).collect(network)[0], collector(None).collect(network)[0])


def test_torchs_generator_is_left_alone(network: Network) -> None:
    before = torch.random.get_rng_state()
    collector().collect(network)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize("rollouts", [0, 2])
def test_goes_on_exactly(network: Network, rollouts: int) -> None:
    one = collector(length=9)
    for _ in range(rollouts):
        one.collect(network)
    buffer = io.BytesIO()
    torch.save(one.state_dict(), buffer)
    buffer.seek(0)
    other = collector(seed=99, length=9)
    other.load_state_dict(torch.load(buffer, weights_only=True))
    for _ in range(3):
        assert same(one.collect(network)[0], other.collect(network)[0])


def test_a_saved_state_does_not_change(network: Network) -> None:
    one = collector(length=9)
    one.collect(network)
    saved = one.state_dict()
    expected, _ = one.collect(network)
    one.collect(network)
    other = collector(length=9)
    other.load_state_dict(saved)
    assert same(other.collect(network)[0], expected)


def test_ended_episodes(network: Network) -> None:
    """Counted again from the rollout, for episodes that began in it."""
    made, ended = collector().collect(network)
    world = World(**RULES)
    returns, lengths, exact, never = [], [], [], []
    for step, i in zip(*np.nonzero(made.done), strict=True):
        start = step
        while made.keep[start, i]:
            start -= 1
        t, asked = step - start + 1, made.instruction[start, i]
        agent, target = divmod(int(made.frames[start, i]), world.cells)
        at, goal = divmod(int(made.frames[step, i]), world.cells)
        came = world.moves[at, made.actions[step, i]] == goal
        returns.append(made.rewards[start : step + 1, i].sum())
        lengths.append(t)
        never.append(not came)
        if world.distances[agent, target] <= asked:
            exact.append(came and t == asked)
    np.testing.assert_allclose(ended.returns, returns)
    assert ended.lengths.tolist() == lengths
    assert ended.never.tolist() == never
    assert ended.exact.tolist() == exact
    assert any(exact)
    assert any(never)
    assert len(exact) < len(never)


def test_joined(network: Network) -> None:
    parts = [collector(index=i).collect(network, version=i)[0] for i in (2, 1)]
    made = Rollout.joined(parts)
    assert made.version == 1
    assert made.steps == 2 * LENGTH * COUNT
    for name in FIELDS:
        beside = np.concatenate([getattr(part, name) for part in parts], int(name != "state"))
        assert np.array_equal(getattr(made, name), beside)
    assert Rollout.joined(parts[:1]) is parts[0]


@pytest.mark.parametrize("variant", ["lstm", "nac_core"])
def test_recorded_steps_act_like_plain_ones(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with other weights than those with which the step was recorded."""
    policy, acting, plain = make(variant=variant), collector(), collector()
    monkeypatch.setattr(Repeated, "plain_calls", 10)
    for _ in range(2):
        got, _ = acting.collect(policy)
        assert acting._actor is not None
        repeated = acting._actor[1]
        monkeypatch.setattr(Repeated, "plain_calls", 10**9)
        wanted, _ = plain.collect(policy)
        monkeypatch.setattr(Repeated, "plain_calls", 10)
        assert same(got, wanted)
        assert [repeat is not None for repeat in repeated._known.values()] == [True]
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
