"""The vector environment: equal to the single one in every number, and Gymnasium's conventions."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics
from hypothesis import given, settings
from hypothesis import strategies as st

from envs.time_gridworld import TimeGridworldEnv
from envs.vector import TimeGridworldVectorEnv

UP, DOWN, LEFT, RIGHT, PASS = range(5)
MODES = list(AutoresetMode)


def single(arguments: dict[str, Any], count: int, mode: AutoresetMode) -> SyncVectorEnv:
    """The oracle: Gymnasium's loop over single environments."""
    return SyncVectorEnv([lambda: TimeGridworldEnv(**arguments)] * count, autoreset_mode=mode)


def assert_same(mine: Any, other: Any) -> None:
    assert data_equivalence(mine, other, exact=True)


worlds = st.fixed_dictionaries(
    {
        "size": st.integers(2, 4),
        "cell_pixels": st.integers(1, 3),
        "border": st.integers(0, 1),
        "instructions": st.sampled_from([1, 4, (1, 3), (2, 6), [3, 5]]),
        "time_limit": st.integers(6, 9),
        "reward": st.sampled_from(["symmetric", "early", "exact"]),
        "m": st.sampled_from([1.0, 2.5]),
        "c": st.sampled_from([0.0, 0.1, 0.7]),
        "show": st.sampled_from(["always", "first"]),
        "walls": st.sampled_from([[], [[0, 0]]]),
        "observation": st.sampled_from(["pixels", "frame"]),
    }
)


@settings(max_examples=60)
@given(
    arguments=worlds,
    mode=st.sampled_from(MODES),
    count=st.integers(1, 5),
    seed=st.integers(0, 2**40),
    copy=st.booleans(),
    data=st.data(),
)
def test_equal_to_single_environments(
    *,
    arguments: dict[str, Any],
    mode: AutoresetMode,
    count: int,
    seed: int,
    copy: bool,
    data: st.DataObject,
) -> None:
    mine = TimeGridworldVectorEnv(count, autoreset_mode=mode, copy=copy, **arguments)
    other = single(arguments, count, mode)
    assert_same(mine.reset(seed=seed), other.reset(seed=seed))
    assert mine.np_random_seed == other.np_random_seed
    actions = np.random.default_rng(data.draw(st.integers(0, 99))).integers(0, 5, (30, count))
    for taken in actions:
        found = mine.step(taken)
        assert_same(found, other.step(taken))
        ended = found[2]
        if mode is AutoresetMode.DISABLED and ended.any():
            options = {"reset_mask": ended}
            assert_same(mine.reset(options=options), other.reset(options=dict(options)))
    assert_same(mine.reset(), other.reset())


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_equal_to_single_environments_in_the_papers_world(mode: AutoresetMode) -> None:
    """Long, with the default arguments: hundreds of episodes, some met at T exactly."""
    mine, other = TimeGridworldVectorEnv(8, autoreset_mode=mode), single({}, 8, mode)
    assert_same(mine.reset(seed=11), other.reset(seed=11))
    rng = np.random.default_rng(0)
    rewards = []
    for _ in range(400):
        taken = rng.integers(0, 5, 8)
        found = mine.step(taken)
        assert_same(found, other.step(taken))
        rewards.append(found[1])
    assert 1.0 in np.array(rewards)
    assert mine._episodes.episode.min() > 10


def two(**arguments: Any) -> TimeGridworldVectorEnv:
    """Two copies; the first is next to its target, the second far from it."""
    env = TimeGridworldVectorEnv(2, observation="frame", instructions=5, **arguments)
    env.reset(seed=0, options={"agent": [0, 0], "target": [1, 24]})
    return env


def test_next_step_ignores_the_action_that_begins_an_episode() -> None:
    env = two()
    seen, rewards, terminated, truncated, infos = env.step(np.array([RIGHT, DOWN]))
    assert seen["frame"].tolist() == [1 * 25 + 1, 5 * 25 + 24]
    assert rewards.tolist() == [pytest.approx(0.6), 0.0]
    assert terminated.tolist() == infos["arrived"].tolist() == [True, False]
    assert truncated.tolist() == [False, False]
    state = env.state_dict()
    for action in range(5):
        env.load_state_dict(state)
        seen, rewards, terminated, _, infos = env.step(np.array([action, DOWN]))
        assert infos["t"].tolist() == [0, 2]
        assert (rewards.tolist(), terminated.tolist()) == ([0.0, 0.0], [False, False])
        if action == 0:
            first = int(seen["frame"][0])
        assert seen["frame"][0] == first


def test_same_step_gives_the_last_observation_beside_the_first() -> None:
    env = two(autoreset_mode="SameStep", show="first")
    env.step(np.array([DOWN, DOWN]))
    seen, rewards, terminated, _, infos = env.step(np.array([UP, RIGHT]))
    assert "final_obs" not in infos
    seen, rewards, terminated, _, infos = env.step(np.array([RIGHT, RIGHT]))
    assert terminated.tolist() == [True, False]
    assert rewards.tolist() == [pytest.approx(0.8), 0.0]
    assert infos["t"].tolist() == [0, 3]
    assert seen["instruction"].tolist() == [[5.0], [0.0]]
    assert infos["_final_obs"].tolist() == infos["_final_info"].tolist() == [True, False]
    assert infos["final_obs"][0]["frame"] == 1 * 25 + 1
    assert infos["final_obs"][0]["instruction"].tolist() == [0.0]
    assert infos["final_obs"][1] is None
    assert infos["final_info"]["t"].tolist() == [3, 0]
    assert infos["final_info"]["distance"].tolist() == [1, 0]
    assert infos["final_info"]["arrived"].tolist() == [True, False]
    assert "arrived" not in infos


def test_disabled_waits_for_a_reset() -> None:
    env = two(autoreset_mode="Disabled")
    _, _, ended, _, _ = env.step(np.array([RIGHT, DOWN]))
    with pytest.raises(ResetNeeded, match=r"environments \[0\] have ended"):
        env.step(np.array([PASS, PASS]))
    seen, infos = env.reset(options={"reset_mask": ended, "agent": 7, "target": 8})
    assert seen["frame"].tolist() == [7 * 25 + 8, 5 * 25 + 24]
    # As Gymnasium has it: of those that were reset.
    assert infos["_t"].tolist() == infos["_distance"].tolist() == [True, False]
    assert infos["distance"].tolist() == [1, 0]
    assert env.t.tolist() == [0, 1]
    *_, infos = env.step(np.array([RIGHT, PASS]))
    assert infos["t"].tolist() == [1, 2]


def test_seeds() -> None:
    """A number, its list, ``None`` among them."""
    env = TimeGridworldVectorEnv(3, observation="frame")
    by_number = env.reset(seed=4)
    assert_same(by_number, env.reset(seed=[4, 5, 6]))
    following = env.reset()
    env.reset(seed=4)
    seen, _ = env.reset(seed=[4, None, 6])
    assert seen["frame"][[0, 2]].tolist() == by_number[0]["frame"][[0, 2]].tolist()
    assert seen["frame"][1] == following[0]["frame"][1]
    with pytest.raises(ValueError, match="2 seeds were given for 3"):
        env.reset(seed=[1, 2])
    with pytest.raises(gymnasium.error.Error, match="-1"):
        env.reset(seed=-1)


def test_a_reset_that_failed_has_begun_nothing() -> None:
    env = TimeGridworldVectorEnv(2)
    with pytest.raises(ValueError, match="1 seeds"):
        env.reset(seed=[1])
    with pytest.raises(gymnasium.error.Error, match="-1"):
        env.reset(seed=[1, -1])
    with pytest.raises(ResetNeeded):
        env.step(np.array([0, 0]))


def test_without_a_seed_copies_and_environments_differ() -> None:
    env, other = (TimeGridworldVectorEnv(50, observation="frame") for _ in range(2))
    mine = env.reset()[0]["frame"]
    assert len(set(mine.tolist())) > 30
    assert mine.tolist() != other.reset()[0]["frame"].tolist()


def draw(env: Any) -> list[float]:
    return [generator.random() for generator in env.np_random]


def test_seeds_and_generators_are_gymnasiums() -> None:
    """Gymnasium's own vector tests, and what they do not ask."""
    mine, other = TimeGridworldVectorEnv(3), single({}, 3, AutoresetMode.DISABLED)
    fresh = mine.np_random_seed
    assert len(set(fresh)) == 3
    assert mine.np_random_seed == fresh
    drawn = mine.reset()
    assert mine.np_random_seed == fresh
    assert_same(drawn, mine.reset(seed=[*fresh]))
    assert_same(drawn, other.reset(seed=[*fresh]))
    for seed, options in (
        (42, None),
        (None, None),
        ([7, None, 9], None),
        ([1, 2, 3], {"reset_mask": np.array([False, True, False])}),
    ):
        assert_same(
            mine.reset(seed=seed, options=options),
            other.reset(seed=seed, options=options and dict(options)),
        )
        assert mine.np_random_seed == other.np_random_seed
        assert draw(mine) == draw(other)
    assert mine.np_random_seed == (7, 2, 9)


def test_what_others_draw_first_moves_the_start() -> None:
    """As in a single environment, whose key is the next number of its generator."""
    seed = TimeGridworldVectorEnv(1).np_random_seed[0]
    mine, other = TimeGridworldVectorEnv(1), TimeGridworldEnv()
    mine.np_random = [np.random.default_rng(seed)]
    other.np_random = np.random.default_rng(seed)
    assert draw(mine) == [other.np_random.random()]
    assert mine.reset()[0]["instruction"][0] == other.reset()[0]["instruction"]
    assert mine.np_random_seed == (other.np_random_seed,) == (-1,)


def test_np_random_gives_the_entropy() -> None:
    def start(generators: Any) -> list[int]:
        env = TimeGridworldVectorEnv(5, observation="frame")
        env.np_random = generators
        found: list[int] = env.reset()[0]["frame"].tolist()
        return found

    assert start(np.random.default_rng(1)) == start(np.random.default_rng(1))
    many = [[np.random.default_rng(i) for i in range(5)] for _ in range(2)]
    assert start(many[0]) == start(many[1])
    with pytest.raises(ValueError, match="2 generators were given for 5"):
        start(many[0][:2])


@pytest.mark.parametrize("seed", [-1, [3, -1, 5]])
def test_a_seed_that_is_refused_changes_nothing(seed: Any) -> None:
    env, other = TimeGridworldVectorEnv(3), TimeGridworldVectorEnv(3)
    env.reset(seed=1)
    other.reset(seed=1)
    with pytest.raises(gymnasium.error.Error, match="-1"):
        env.reset(seed=seed)
    assert env.np_random_seed == (1, 2, 3)
    assert_same(env.reset(), other.reset())


def test_seeds_may_be_numpys() -> None:
    env = TimeGridworldVectorEnv(3)
    first = env.reset(seed=4)
    assert_same(first, env.reset(seed=np.int64(4)))  # type: ignore[arg-type]
    assert_same(first, env.reset(seed=np.arange(4, 7)))  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", MODES)
def test_a_first_reset_by_a_mask_of_all(mode: AutoresetMode) -> None:
    """Gymnasium's own test of partial resets begins so."""
    mine, other = TimeGridworldVectorEnv(3, autoreset_mode=mode), single({}, 3, mode)
    for _ in range(2):
        options = {"reset_mask": np.ones(3, np.bool_)}
        assert_same(mine.reset(seed=5, options=options), other.reset(seed=5, options=dict(options)))
        assert options.keys() == {"reset_mask"}
        assert_same(mine.step(np.full(3, PASS)), other.step(np.full(3, PASS)))


def test_a_list_of_actions() -> None:
    mine, other = TimeGridworldVectorEnv(2), single({}, 2, AutoresetMode.NEXT_STEP)
    mine.reset(seed=0)
    other.reset(seed=0)
    actions = [mine.single_action_space.sample() for _ in range(2)]
    assert_same(mine.step(actions), other.step(actions))  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_saved_state_goes_on_exactly(mode: str) -> None:
    arguments: dict[str, Any] = {"autoreset_mode": mode, "show": "first"}
    env = TimeGridworldVectorEnv(16, **arguments)
    env.reset(seed=2)
    actions = np.random.default_rng(0).integers(0, 5, (60, 16))
    for taken in actions[:30]:
        env.step(taken)
    state = env.state_dict()
    kept = {name: values.copy() for name, values in state.items()}
    expected = [env.step(taken) for taken in actions[30:]]
    again = TimeGridworldVectorEnv(16, **arguments)
    again.load_state_dict(state)
    for taken, step in zip(actions[30:], expected, strict=True):
        assert_same(again.step(taken), step)
    assert again.np_random_seed == (-1,) * 16
    assert_same(again.reset(), env.reset())
    assert data_equivalence(state, kept, exact=True)
    assert all(type(values) is np.ndarray for values in state.values())


def test_states_that_do_not_fit_are_refused() -> None:
    env = TimeGridworldVectorEnv(2)
    with pytest.raises(ResetNeeded, match="no state to save"):
        env.state_dict()
    env.reset(seed=1)
    state = env.state_dict()
    larger = TimeGridworldVectorEnv(3)
    larger.reset()
    with pytest.raises(ValueError, match=r"int64 \(2,\), this environment's int64 \(3,\)"):
        larger.load_state_dict({**larger.state_dict(), "t": state["t"]})
    env.reset(options={"agent": 24})
    with pytest.raises(ValueError, match="other than 16 cells"):
        TimeGridworldVectorEnv(2, size=4).load_state_dict(env.state_dict())
    with pytest.raises(ValueError, match="state has"):
        env.load_state_dict({"t": state["t"]})
    with pytest.raises(ValueError, match=r"state\['t'\] is float64"):
        env.load_state_dict({**state, "t": state["t"].astype(float)})


def test_public_arrays_are_those_of_the_current_observation() -> None:
    env = TimeGridworldVectorEnv(32, observation="frame", show="first")
    env.reset(seed=0)
    for taken in np.random.default_rng(0).integers(0, 5, (40, 32)):
        seen, _, _, _, infos = env.step(taken)
        assert (env.frame == seen["frame"]).all()
        for name in ("t", "instruction", "distance"):
            assert (getattr(env, name) == infos[name]).all()
            assert infos[f"_{name}"].all()
        assert (seen["instruction"][:, 0] == np.where(env.t == 0, env.instruction, 0)).all()


@pytest.mark.parametrize("observation", ["pixels", "frame"])
@pytest.mark.parametrize("copy", [True, False])
def test_copies_are_kept_and_views_change(observation: str, copy: bool) -> None:
    env = TimeGridworldVectorEnv(4, observation=observation, copy=copy)
    first = env.reset(seed=0, options={"agent": 12, "target": 0})[0][observation]
    before = first.copy()
    second = env.step(np.full(4, DOWN))[0][observation]
    assert (first is second or np.shares_memory(first, second)) is not copy
    assert (first == before).all() == copy


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_what_a_step_returns_is_the_callers(mode: str, copy: bool) -> None:
    """Writing into rewards, terminations and infos changes nothing later."""
    env, other = (
        TimeGridworldVectorEnv(8, autoreset_mode=mode, copy=copy, time_limit=12) for _ in range(2)
    )
    env.reset(seed=0)
    other.reset(seed=0)
    for taken in np.random.default_rng(0).integers(0, 5, (60, 8)):
        found, expected = env.step(taken), other.step(taken)
        assert_same(found, expected)
        returned = [*found[1:4], *(v for v in found[4].values() if isinstance(v, np.ndarray))]
        for values in returned:
            if values.dtype != object:
                values[:] = 1
        masks = [values for name, values in found[4].items() if name.startswith("_")]
        assert not any(np.shares_memory(found[2], mask) for mask in masks)


def test_observations_are_in_their_space() -> None:
    env = TimeGridworldVectorEnv(4, instructions=(5, 20))
    seen, _ = env.reset(seed=0)
    assert env.observation_space.contains(seen)
    seen, *_ = env.step(env.action_space.sample())
    assert env.observation_space.contains(seen)
    assert seen["pixels"].shape == (4, 56, 56, 3)


def test_gymnasiums_wrappers_work() -> None:
    env = RecordEpisodeStatistics(two(time_limit=5))
    env.reset(seed=0, options={"agent": 0, "target": 24})
    for _ in range(5):
        *_, infos = env.step(np.array([PASS, PASS]))
    assert infos["episode"]["l"].tolist() == [5, 5]
    listed = DictInfoToList(two(autoreset_mode="SameStep"))
    *_, found = listed.step(np.array([RIGHT, PASS]))
    assert found[0]["final_info"] == {"t": 1, "instruction": 5, "distance": 1, "arrived": True}
    assert found[1] == {"t": 1, "instruction": 5, "distance": 8}
    # An environment that was not reset tells nothing of it.
    rest = DictInfoToList(two(autoreset_mode="Disabled"))
    _, found = rest.reset(options={"reset_mask": np.array([True, False])})
    assert [sorted(told) for told in found] == [["distance", "instruction", "t"], []]


def test_render() -> None:
    env = TimeGridworldVectorEnv(2, render_mode="rgb_array", observation="frame")
    env.reset(options={"agent": 3, "target": 4})
    pictures = env.render()
    assert pictures is not None
    assert [picture.tolist() for picture in pictures] == [env.world.frames[79].tolist()] * 2
    assert two().render() is None
    with pytest.raises(ResetNeeded, match="nothing to draw"):
        TimeGridworldVectorEnv(2, render_mode="rgb_array").render()


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        ([0, 5], "0 to 4"),
        ([0, -1], "0 to 4"),
        ([0], r"int64 \(1,\): integers \(2,\)"),
        ([[0, 1]], r"int64 \(1, 2\)"),
        ([0.0, 1.0], "float64"),
    ],
)
def test_actions_that_are_none(actions: Any, words: str) -> None:
    env = two()
    before = env.state_dict()
    with pytest.raises(ValueError, match=words):
        env.step(np.array(actions))
    assert data_equivalence(env.state_dict(), before, exact=True)


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.int64])
def test_actions_of_any_integer_type_stay_as_they_are(kind: type) -> None:
    env = two()
    actions = np.array([DOWN, RIGHT], kind)
    seen, *_ = env.step(actions)
    assert seen["frame"].tolist() == [5 * 25 + 1, 1 * 25 + 24]
    assert actions.tolist() == [DOWN, RIGHT]


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (np.array([False, False]), "not all false"),
        (np.array([1, 0]), "bool array"),
        ([True, False], "bool array"),
        (np.array([True]), r"shape \(1,\), not \(2,\)"),
    ],
)
def test_masks_that_do_not_fit(mask: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        two().reset(options={"reset_mask": mask})


def test_misuse_is_named() -> None:
    env = TimeGridworldVectorEnv(2)
    with pytest.raises(ResetNeeded, match="reset"):
        env.step(np.array([0, 0]))
    with pytest.raises(ResetNeeded, match="all environments"):
        env.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(ValueError, match="num_envs=0"):
        TimeGridworldVectorEnv(0)
    with pytest.raises(ValueError, match="render_mode='human'"):
        TimeGridworldVectorEnv(2, render_mode="human")
    with pytest.raises(ValueError, match="Sometimes"):
        TimeGridworldVectorEnv(2, autoreset_mode="Sometimes")
    with pytest.raises(ValueError, match="observation='grey'"):
        TimeGridworldVectorEnv(2, observation="grey")
