"""Random starts: SplitMix64, uniform, independent of what else is drawn."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from envs import draws
from envs.generators import Generators

MASK = 2**64 - 1
COUNT = 200_000


def splitmix64(state: int, count: int) -> list[int]:
    """The published generator, in Python's integers."""
    found = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        found.append(z ^ (z >> 31))
    return found


def test_the_published_first_numbers() -> None:
    """Of the reference implementation in C with the state 1234567."""
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert splitmix64(1234567, 3) == expected


@pytest.mark.parametrize("key", [0, 1234567, MASK])
def test_episode_k_takes_numbers_2k_and_2k_plus_1(key: int) -> None:
    episodes = np.arange(5, dtype=np.uint64)
    found = draws.words(np.full(5, key, np.uint64), episodes)
    assert found.T.reshape(-1).tolist() == splitmix64(key, 10)


@pytest.mark.parametrize("bound", [1, 2, 8, 600, 2**32 - 1])
def test_below_is_the_upper_half_of_the_product(bound: int) -> None:
    words = [0, 1, 2**32 - 1, 2**32, 2**63, MASK - 1, MASK, *splitmix64(7, 100)]
    found = draws.below(np.array(words, np.uint64), bound)
    assert found.dtype == np.int64
    assert found.tolist() == [(word * bound) >> 64 for word in words]


def test_a_block_of_environments_draws_what_each_draws_alone() -> None:
    key = draws.keys(np.random.default_rng(3), 50)
    episode = np.arange(50, dtype=np.uint64)
    block = draws.starts(key, episode, 25, (5, 12))
    for i in range(50):
        alone = draws.starts(key[i : i + 1], episode[i : i + 1], 25, (5, 12))
        assert [int(value[i]) for value in block] == [int(value[0]) for value in alone]


def seeded_key(seed: int) -> np.uint64:
    """Key of an environment after ``reset(seed=seed)``."""
    (key,) = Generators(1).keys({0: seed})
    return np.uint64(key)


def test_keys_of_seeds() -> None:
    keys = {int(seeded_key(seed)) for seed in [*range(1000), 2**70]}
    assert len(keys) == 1001
    expected = np.random.Generator(np.random.PCG64(5)).integers(2**64, dtype=np.uint64)
    assert seeded_key(5) == expected


def uniform(values: NDArray[np.int64], bins: int) -> float:
    """The chi-square test's p."""
    counts = np.bincount(values, minlength=bins)
    assert len(counts) == bins
    return float(stats.chisquare(counts).pvalue)


# Seeds are fixed, so these pass or fail for good; 1e-3 leaves a correct generator room.
@pytest.mark.parametrize("over", ["episodes", "seeds"])
def test_starts_are_uniform(over: str) -> None:
    """Over the episodes of one environment, and over the first episodes of many."""
    if over == "episodes":
        key, episode = np.full(COUNT, seeded_key(0)), np.arange(COUNT, dtype=np.uint64)
    else:
        key, episode = np.arange(COUNT, dtype=np.uint64), np.zeros(COUNT, np.uint64)
    instruction, agent, target = draws.starts(key, episode, 25, (5, 12))
    assert (agent != target).all()
    pair = agent * 24 + target - (target > agent)
    assert uniform(instruction - 5, 8) > 1e-3
    assert uniform(pair, 600) > 1e-3
    assert uniform((instruction - 5) * 600 + pair, 4800) > 1e-3
    # One start says nothing of the next.
    assert uniform(instruction[:-1] * 8 + instruction[1:] - 45, 64) > 1e-3
    assert uniform(agent[:-1] * 25 + agent[1:], 625) > 1e-3


@pytest.mark.parametrize("name", ["agent", "target"])
def test_the_other_cell_stays_uniform_where_one_is_fixed(name: str) -> None:
    key, episode = np.zeros(COUNT, np.uint64), np.arange(COUNT, dtype=np.uint64)
    fixed = {name: np.full(COUNT, 7)}
    _, agent, target = draws.starts(key, episode, 25, (5, 12), fixed)
    mine, other = (agent, target) if name == "agent" else (target, agent)
    assert (mine == 7).all()
    assert (other != 7).all()
    assert uniform(other - (other > 7), 24) > 1e-3


def test_everything_fixed() -> None:
    one = np.zeros(1, np.uint64)
    fixed = {"instruction": np.array([19]), "agent": np.array([3]), "target": np.array([4])}
    found = draws.starts(one, one, 25, (5, 12), fixed)
    assert [value.tolist() for value in found] == [[19], [3], [4]]
    free = draws.starts(one, one, 25, (5, 12))
    instruction, agent, target = draws.starts(
        one, one, 25, (5, 12), {"instruction": np.array([19])}
    )
    assert instruction.tolist() == [19]
    assert (agent, target) == free[1:]
