"""What evaluation measures, on networks whose behaviour is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from envs import TimeGridworldEnv, World
from envs.time_gridworld import rewards
from nalu_ray.rl.agent.network import Network, NetworkConfig
from nalu_ray.rl.agent.stored import Agent, build_network
from nalu_ray.rl.evaluation import METRICS, episodes, per_instruction, shares
from tests.rl.scripted import scripted

WORLD = World(size=4, cell_pixels=1, instructions=(3, 6), time_limit=8)


def small_network(seed: int = 0, **settings: Any) -> Network:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        config = NetworkConfig.model_validate({"vision": 16, "hidden": 8, **settings})
        network = build_network(config, WORLD)
        torch.nn.init.normal_(network.policy.weight)
    return network


def test_walking_straight_arrives_after_the_distance() -> None:
    played = episodes(scripted(WORLD, "straight"), WORLD, [2, 5], 100, 10)
    assert played["instruction"].tolist() == [2] * 100 + [5] * 100
    assert played["distance"].between(1, 6).all()
    assert played["distance"].nunique() == 6
    assert (played["arrival"] == played["distance"]).all()
    wanted = rewards(WORLD, played["instruction"], played["distance"])
    assert np.array_equal(played["reward"], wanted)
    found = per_instruction(played, 10)
    for t, group in played.groupby("instruction"):
        feasible = group[group["distance"] <= t]
        assert math.isclose(found.exact[t], (feasible["distance"] == t).mean())
        assert math.isclose(found.arrival[t], group["distance"].mean())
    assert (found.never == 0).all()


def test_waiting_exactly_is_exact_wherever_it_can_be() -> None:
    """Beyond the training range and beyond the world's own time limit too."""
    played = episodes(scripted(WORLD, "exact"), WORLD, [2, 6, 30], 60, 40)
    found = per_instruction(played, 40)
    assert found.index.tolist() == [2, 6, 30]
    assert (found.exact == 1.0).all()
    late = played[played["distance"] > played["instruction"]]
    assert len(late) > 0
    assert (late["arrival"] == late["distance"]).all()
    assert found.arrival[30] == 30.0
    assert found.reward[30] == WORLD.m
    assert found.reward[2] < WORLD.m


def test_never_moving() -> None:
    played = episodes(scripted(WORLD, "never"), WORLD, [6, 7], 20, 10)
    assert played["arrival"].isna().all()
    assert (played["reward"] == 0).all()
    found = per_instruction(played, 10)
    assert (found.never == 1).all()
    assert (found.exact == 0).all()
    assert found.arrival.isna().all()
    assert (found.time == 10).all()
    assert shares(played, 10)["late"] == shares(played, 10)["off"] == 3.5  # never counts as 10


@pytest.mark.parametrize("limit", [5, 9])
def test_the_time_limit_is_the_episodes_own(limit: int) -> None:
    """The agent would arrive at 9; a T that no one can be in time for is never met."""
    found = per_instruction(episodes(scripted(WORLD, "exact"), WORLD, [9], 10, limit), limit)
    assert found.never[9] == float(limit < 9)
    assert found.exact[9] == float(limit == 9)


def played_alone(network: Network, t: int, seed: int, limit: int) -> tuple[int, float, float]:
    """One episode of the single environment, on pixels' numbers; distance, arrival, reward."""
    env = TimeGridworldEnv(
        observation="frame", size=4, cell_pixels=1, instructions=(1, limit), time_limit=limit
    )
    seen, info = env.reset(seed=seed, options={"instruction": t})
    player = Agent(network, WORLD).player(1)
    ended, reward = False, 0.0
    while not ended:
        (action,) = player.act(np.array([seen["frame"]]), seen["instruction"])
        seen, reward, ended, _, info = env.step(action)
    return info["distance"], info["t"] if info["arrived"] else math.nan, reward


@pytest.mark.parametrize("variant", ["lstm", "nac_core"])
def test_equal_to_single_environments_one_by_one(variant: str) -> None:
    network = small_network(variant=variant)
    played = episodes(network, WORLD, [4, 12], 15, 14, seed=7)
    assert played["arrival"].isna().any()
    assert played["arrival"].nunique() > 1
    for n, row in played.iterrows():
        alone = played_alone(network, int(row["instruction"]), 7 + int(str(n)), 14)
        assert np.array_equal(row[["distance", "arrival", "reward"]], alone, equal_nan=True)


def test_a_row_depends_on_its_own_start_alone() -> None:
    network = small_network()
    many = episodes(network, WORLD, [4, 12, 5], 10, 14, seed=3)
    pd.testing.assert_frame_equal(episodes(network, WORLD, [4], 10, 14, seed=3), many[:10])
    later = episodes(network, WORLD, [12, 5], 10, 14, seed=13)
    pd.testing.assert_frame_equal(later, many[10:].reset_index(drop=True))


def test_by_seed() -> None:
    network = small_network()
    for greedy in (True, False):
        one, same, other = (
            episodes(network, WORLD, [5, 9], 20, 12, greedy=greedy, seed=seed)
            for seed in (0, 0, 99)
        )
        pd.testing.assert_frame_equal(one, same)
        assert not one.equals(other)
    assert not episodes(network, WORLD, [5], 20, 12).equals(
        episodes(network, WORLD, [5], 20, 12, greedy=False)
    )


def test_pixels_tell_what_tables_tell() -> None:
    """The network's table is what it makes of the world's pictures."""
    network = small_network()
    pixels = torch.from_numpy(WORLD.frames.copy())
    torch.testing.assert_close(network.vision.table(), network.vision(pixels), rtol=0, atol=1e-6)


PLAYED = pd.DataFrame(
    {
        "instruction": [5, 5, 5, 5, 2, 2],
        "distance": [3, 5, 6, 1, 3, 4],
        "arrival": [5.0, 7.0, 6.0, math.nan, 3.0, math.nan],
        "reward": [1.0, 0.8, 0.9, 0.0, 0.9, 0.0],
    }
)


def test_means_of_each_instruction_by_hand() -> None:
    found = per_instruction(PLAYED, 20)
    assert found.columns.tolist() == METRICS
    assert found.index.tolist() == [2, 5]
    # of T = 5 three could be met and one was; of T = 2 none could
    assert found.exact[5] == pytest.approx(1 / 3)
    assert math.isnan(found.exact[2])
    assert found.arrival.tolist() == [3.0, 6.0]
    assert found.time.tolist() == [11.5, 9.5]
    assert found.never.tolist() == [0.5, 0.25]
    assert found.reward.tolist() == pytest.approx([0.45, 0.675])


def test_shares_of_all_by_hand() -> None:
    found = shares(PLAYED, 10)
    wanted = {"exact": 1 / 3, "inexact": 2 / 3, "reward": 0.6, "never": 1 / 3}
    assert found == pytest.approx({**wanted, "late": 17 / 6, "off": 17 / 6})
    early = PLAYED.assign(arrival=PLAYED["instruction"] - 2)
    assert shares(early, 10)["late"] == -2.0
    assert shares(early, 10)["off"] == 2.0


@pytest.mark.parametrize("variant", ["snmu", "lstm_snmu"])
def test_an_evaluation_is_without_noise_and_leaves_the_network_as_it_is(variant: str) -> None:
    """The unit's noise is for training, and it counts its calls in a buffer."""
    network = small_network(variant=variant)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    first = episodes(network, WORLD, [4, 5], 20, 12)
    assert network.training
    after = network.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    pd.testing.assert_frame_equal(first, episodes(network.eval(), WORLD, [4, 5], 20, 12))
