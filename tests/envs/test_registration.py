"""``gymnasium.make`` and ``make_vec`` find the environment, in every way they offer."""

from __future__ import annotations

import subprocess
import sys
import warnings

import gymnasium
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import envs


def test_make() -> None:
    env = gymnasium.make("nalu_ray/TimeGridworld-v0", size=4, reward="exact")
    assert isinstance(env.unwrapped, envs.TimeGridworldEnv)
    assert env.unwrapped.world == envs.World(size=4, reward="exact")


def test_make_vec_takes_the_vector_environment() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make_vec(envs.ID, num_envs=3, autoreset_mode="SameStep", instructions=7)
    assert isinstance(env, envs.TimeGridworldVectorEnv)
    assert (env.num_envs, env.world.instructions) == (3, 7)
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    again = gymnasium.make_vec(env.spec)
    assert (again.num_envs, again.metadata) == (3, env.metadata)


def test_make_vec_by_name_of_the_mode() -> None:
    vector = gymnasium.make_vec(envs.ID, 2, vectorization_mode="vector_entry_point", size=3)
    assert isinstance(vector, envs.TimeGridworldVectorEnv)
    sync = gymnasium.make_vec(envs.ID, 2, vectorization_mode="sync", size=3)
    assert isinstance(sync, SyncVectorEnv)
    assert vector.observation_space == sync.observation_space
    assert vector.action_space == sync.action_space


@pytest.mark.parametrize("first", ["", "import envs; "])
def test_gymnasium_imports_the_package(first: str) -> None:
    """In a fresh process: by the module in the id, or after an import."""
    name = "nalu_ray/TimeGridworld-v0" if first else "envs:nalu_ray/TimeGridworld-v0"
    code = (
        f"import sys, gymnasium; {first}"
        f"gymnasium.make({name!r}).reset(seed=1); gymnasium.make_vec({name!r}, 2).reset(seed=1); "
        "assert not {'torch', 'ray', 'nalu_ray', 'pydantic'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
