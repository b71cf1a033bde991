"""The world: rewards, checked arguments, spaces, identity."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from envs import layout
from envs.time_gridworld import rewards
from envs.world import World


def test_the_defaults_are_the_papers_grid() -> None:
    world = World()
    assert (world.cells, world.frame_pixels, world.instruction_range) == (25, 56, (5, 12))
    assert world.distances.max() == 8


# T = 8 at t = 5, 7, 8, 9, 20 with m = 2 and c = 0.5
@pytest.mark.parametrize(
    ("reward", "expected"),
    [
        ("symmetric", [0.5, 1.5, 2.0, 1.5, -4.0]),
        ("early", [0.5, 1.5, 2.0, 0.0, 0.0]),
        ("exact", [0.0, 0.0, 2.0, 0.0, 0.0]),
    ],
)
def test_rewards(reward: Any, expected: list[float]) -> None:
    world = World(reward=reward, m=2.0, c=0.5)
    t = np.array([5, 7, 8, 9, 20])
    found = rewards(world, np.full(5, 8), t)
    assert found.tolist() == expected
    assert found.dtype == np.float64
    assert [float(rewards(world, 8, int(time))) for time in t] == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"size": 1}, ["size=1", "2 or more"]),
        ({"size": "5"}, ["size='5'", "whole number"]),
        ({"size": True}, ["size=True"]),
        ({"cell_pixels": 0}, ["cell_pixels=0", "1 or more"]),
        ({"border": -1}, ["border=-1", "0 or more"]),
        ({"time_limit": 19.5}, ["time_limit=19.5", "whole number"]),
        ({"walls": [(0, 5)]}, ["walls", "(0, 5)", "0 to 4"]),
        ({"walls": [(-1, 0)]}, ["walls", "(-1, 0)", "0 to 4"]),
        ({"walls": [(1, 1), (1, 1)]}, ["walls", "(1, 1)", "once"]),
        ({"walls": [(1, 1, 1)]}, ["walls", "(1, 1, 1)", "pair"]),
        ({"walls": 3}, ["walls=3", "(row, column)"]),
        ({"size": 2, "walls": [(0, 0), (0, 1), (1, 0)]}, ["walls", "at least 2 cells of 4"]),
        ({"size": 2, "walls": [(0, 0), (1, 1)]}, ["walls", "reached"]),
        ({"instructions": (9, 8)}, ["instructions=(9, 8)", "(smallest, largest)"]),
        ({"instructions": 0}, ["instructions=0", "from 1 on"]),
        ({"instructions": (5, 6, 7)}, ["instructions", "(5, 6, 7)", "pair"]),
        ({"instructions": 7.5}, ["instructions", "7.5", "pair"]),
        ({"instructions": (5, 21)}, ["instructions=(5, 21)", "time_limit=20"]),
        ({"m": 0}, ["m=0", "above 0"]),
        ({"m": "1"}, ["m='1'", "above 0"]),
        ({"c": -0.1}, ["c=-0.1", "0 or more"]),
        ({"c": float("nan")}, ["c=nan"]),
        ({"reward": "late"}, ["reward='late'", "symmetric, early, exact"]),
        ({"show": "never"}, ["show='never'", "always, first"]),
        ({"size": 16}, ["size=16", "cell_pixels=8", "256**2", "144**2", "3.8 GiB", "1"]),
    ],
)
def test_what_is_not_allowed_is_named(arguments: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ValueError, match=r".") as error:
        World(**arguments)
    assert all(word in str(error.value) for word in words), error.value


def test_a_far_too_large_world_is_refused_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []
    for name in ("free_cells", "moves", "distances", "frames"):
        monkeypatch.setattr(layout, name, lambda *_, name=name: made.append(name))
    with pytest.raises(ValueError, match="GiB"):
        World(size=1000)
    assert made == []


def test_the_largest_table_allowed_is_one_gibibyte() -> None:
    # 12 x 12 cells, 112 pixels: 144**2 * 112**2 * 3 bytes = 0.73 GiB; 13 x 13: 1.15 GiB
    World(size=12)
    with pytest.raises(ValueError, match=r"1\.1 GiB"):
        World(size=13)


def test_lists_as_yaml_writes_them_make_the_same_world() -> None:
    given = World(walls=[[1, 1], [2, 3]], instructions=[6, 9])  # type: ignore[arg-type]
    expected = World(walls=((1, 1), (2, 3)), instructions=(6, 9))
    assert given == expected
    assert hash(given) == hash(expected)
    assert World(instructions=7).instruction_range == (7, 7)


def test_a_pickled_world_is_small_and_equal_worlds_share_pictures() -> None:
    world = World(reward="exact")
    pictures = world.frames
    sent = pickle.dumps(world)
    assert len(sent) < 1000
    again = pickle.loads(sent)
    assert again == world
    assert again.frames is pictures
    assert World(time_limit=40).frames is pictures
    with pytest.raises(ValueError, match="read-only"):
        pictures[0] = 0


def test_observation_spaces() -> None:
    world = World(size=3, cell_pixels=4, time_limit=15)
    seen = world.observation_space("pixels")
    assert seen["pixels"] == spaces.Box(0, 255, (20, 20, 3), np.uint8)
    assert seen["instruction"] == spaces.Box(0, 15, (1,), np.float32)
    assert world.observation_space("frame")["frame"] == spaces.Discrete(81)
    with pytest.raises(ValueError, match=r"observation='grey'.*pixels, frame"):
        world.observation_space("grey")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"goal": 3}, "option 'goal' is unknown; known: instruction, agent, target"),
        ({"instruction": 21}, "instruction=21: 1 to 20"),
        ({"instruction": 0}, "instruction=0: 1 to 20"),
        ({"agent": 25}, "agent=25: 0 to 24"),
        ({"target": -1}, "target=-1: 0 to 24"),
        ({"target": 2.0}, "target=2.0: a whole number, or 2"),
        ({"agent": [1, 2, 3]}, "or 2, is needed"),
        ({"agent": [1, 2], "target": [3, 2]}, "two distinct cells"),
    ],
)
def test_options_that_do_not_fit_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        World().fixed_starts(options, 2)


def test_options_become_arrays() -> None:
    fixed = World().fixed_starts({"instruction": 19, "agent": [1, 2]}, 2)
    assert {name: values.tolist() for name, values in fixed.items()} == {
        "instruction": [19, 19],
        "agent": [1, 2],
    }
