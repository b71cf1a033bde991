"""The single environment: episodes by hand, Gymnasium's own checks, drawing."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled, ResetNeeded
from gymnasium.utils.env_checker import check_env

import envs
from envs.time_gridworld import TimeGridworldEnv

UP, DOWN, LEFT, RIGHT, PASS = range(5)


def play(env: TimeGridworldEnv, actions: list[int]) -> list[tuple[Any, ...]]:
    return [env.step(action) for action in actions]


def test_an_arrival_at_t_by_hand() -> None:
    env = TimeGridworldEnv()
    seen, info = env.reset(seed=0, options={"instruction": 5, "agent": 0, "target": 6})
    assert info == {"t": 0, "instruction": 5, "distance": 2}
    assert seen["instruction"].tolist() == [5.0]
    assert seen["pixels"].tolist() == env.world.frames[6].tolist()
    # against the wall, pass, pass, right, down: at t = 5
    steps = play(env, [UP, PASS, PASS, RIGHT, DOWN])
    assert [step[1:4] for step in steps] == [(0.0, False, False)] * 4 + [(1.0, True, False)]
    assert [step[4]["t"] for step in steps] == [1, 2, 3, 4, 5]
    assert ["arrived" in step[4] for step in steps] == [False] * 4 + [True]
    assert steps[-1][4] == {"t": 5, "instruction": 5, "distance": 2, "arrived": True}
    assert (steps[3][0]["pixels"] == env.world.frames[1 * 25 + 6]).all()
    assert (steps[4][0]["pixels"] == env.world.frames[6 * 25 + 6]).all()


def test_every_action_moves_the_agent_as_named() -> None:
    env = TimeGridworldEnv(observation="frame")
    for action, cell in zip((UP, DOWN, LEFT, RIGHT, PASS), (7, 17, 11, 13, 12), strict=True):
        env.reset(options={"agent": 12, "target": 0})
        assert env.step(action)[0]["frame"] == cell * 25


@pytest.mark.parametrize(
    ("reward", "expected"), [("symmetric", 0.6), ("early", 0.6), ("exact", 0.0)]
)
def test_too_early(reward: str, expected: float) -> None:
    env = TimeGridworldEnv(reward=reward)
    env.reset(options={"instruction": 5, "agent": 0, "target": 1})
    assert env.step(RIGHT)[1:3] == (pytest.approx(expected), True)


@pytest.mark.parametrize(
    ("reward", "expected"), [("symmetric", 0.8), ("early", 0.0), ("exact", 0.0)]
)
def test_too_late(reward: str, expected: float) -> None:
    env = TimeGridworldEnv(reward=reward)
    env.reset(options={"instruction": 5, "agent": 0, "target": 1})
    assert play(env, [PASS] * 6 + [RIGHT])[-1][1:3] == (pytest.approx(expected), True)


def test_time_out_terminates_without_reward() -> None:
    env = TimeGridworldEnv(instructions=3, time_limit=4)
    env.reset(options={"agent": 0, "target": 1})
    steps = play(env, [PASS] * 4)
    assert [step[1:4] for step in steps] == [(0.0, False, False)] * 3 + [(0.0, True, False)]
    assert steps[-1][4]["arrived"] is False


def test_an_arrival_at_the_limit_counts() -> None:
    env = TimeGridworldEnv(instructions=4, time_limit=4)
    env.reset(options={"agent": 0, "target": 1})
    _, reward, terminated, truncated, info = play(env, [PASS] * 3 + [RIGHT])[-1]
    assert (reward, terminated, truncated, info["arrived"]) == (1.0, True, False, True)


def test_walls_stop_and_make_detours() -> None:
    env = TimeGridworldEnv(size=3, walls=[[0, 1]], observation="frame")
    _, info = env.reset(options={"agent": 0, "target": 1})
    assert info["distance"] == 4
    seen, *_ = env.step(RIGHT)
    assert seen["frame"] == 1


def test_the_instruction_may_be_seen_at_first_only() -> None:
    env = TimeGridworldEnv(show="first")
    seen, _ = env.reset(options={"instruction": 7, "agent": 0, "target": 1})
    steps = play(env, [PASS, RIGHT])
    assert [seen["instruction"].tolist()] + [s[0]["instruction"].tolist() for s in steps] == [
        [7.0],
        [0.0],
        [0.0],
    ]
    assert steps[0][4]["instruction"] == 7


def test_seeds_give_episodes() -> None:
    env, other = TimeGridworldEnv(observation="frame"), TimeGridworldEnv(observation="frame")

    def episodes(env: TimeGridworldEnv, seed: int) -> list[tuple[int, int]]:
        first = env.reset(seed=seed)
        rest = [env.reset() for _ in range(20)]
        return [(int(seen["frame"]), info["instruction"]) for seen, info in [first, *rest]]

    mine = episodes(env, 3)
    assert episodes(other, 3) == mine
    assert episodes(env, 3) == mine
    assert episodes(env, 4) != mine
    assert len(set(mine)) > 15


def test_without_a_seed_environments_differ() -> None:
    env, other = TimeGridworldEnv(observation="frame"), TimeGridworldEnv(observation="frame")
    mine = [int(env.reset()[0]["frame"]) for _ in range(10)]
    assert mine != [int(other.reset()[0]["frame"]) for _ in range(10)]


def test_options_fix_one_episode() -> None:
    env = TimeGridworldEnv(instructions=5)
    assert env.reset(seed=1, options={"instruction": 19})[1]["instruction"] == 19
    assert env.reset()[1]["instruction"] == 5


@pytest.mark.parametrize(
    "arguments",
    [{}, {"observation": "frame"}, {"size": 4, "walls": [[1, 1]], "show": "first"}],
)
def test_gymnasiums_checker(arguments: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(envs.ID, **arguments).unwrapped, skip_render_check=True)


def test_gymnasiums_checker_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """In every render mode, so also in a window."""
    pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(envs.ID, render_mode="rgb_array").unwrapped)


def test_render_gives_the_picture() -> None:
    env = TimeGridworldEnv(render_mode="rgb_array", observation="frame")
    env.reset(options={"agent": 3, "target": 4})
    picture = env.render()
    assert picture is not None
    assert (picture == env.world.frames[3 * 25 + 4]).all()
    picture[:] = 0
    assert env.world.frames[3 * 25 + 4].any()
    silent = TimeGridworldEnv()
    silent.reset()
    assert silent.render() is None


def test_misuse_is_named() -> None:
    env = TimeGridworldEnv(render_mode="rgb_array")
    with pytest.raises(ResetNeeded, match="reset"):
        env.step(PASS)
    with pytest.raises(ResetNeeded, match="reset"):
        env.render()
    env.reset(options={"agent": 0, "target": 1})
    with pytest.raises(ValueError, match="action 5: 0 to 4"):
        env.step(5)
    with pytest.raises(ValueError, match="action -1: 0 to 4"):
        env.step(-1)
    env.step(RIGHT)
    with pytest.raises(ResetNeeded, match="ended"):
        env.step(PASS)
    with pytest.raises(ValueError, match="option 'goal'"):
        env.reset(options={"goal": 3})
    with pytest.raises(ValueError, match="render_mode='ansi'"):
        TimeGridworldEnv(render_mode="ansi")
    with pytest.raises(TypeError, match="colour"):
        TimeGridworldEnv(colour="blue")


def test_an_observation_is_the_callers() -> None:
    env = TimeGridworldEnv()
    seen, _ = env.reset(options={"agent": 0, "target": 1})
    seen["pixels"][:] = 0
    assert env.step(PASS)[0]["pixels"].any()


def test_window_without_pygame(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pygame", None)
    env = TimeGridworldEnv(render_mode="human")
    with pytest.raises(DependencyNotInstalled, match=r"pygame.*gymnasium\[toy-text\]"):
        env.reset()


def test_window_shows_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    env = TimeGridworldEnv(render_mode="human")
    env.metadata = {**env.metadata, "render_fps": 1000}
    env.reset(options={"agent": 0, "target": 24})
    env.step(RIGHT)
    assert env.render() is None
    shown = pygame.surfarray.array3d(pygame.display.get_surface()).swapaxes(0, 1)
    assert shown.shape == (560, 560, 3)
    assert np.array_equal(shown[::10, ::10], env.world.frames[25 + 24])
    env.close()
    assert not pygame.display.get_init()
    env.close()
