"""nalu_ray's environments for Gymnasium: the time-tracking gridworld.

Importing this package registers ``nalu_ray/TimeGridworld-v0``; Gymnasium can do the import itself::

    gymnasium.make("envs:nalu_ray/TimeGridworld-v0", size=7)
    gymnasium.make_vec("envs:nalu_ray/TimeGridworld-v0", num_envs=64, autoreset_mode="SameStep")
"""

from __future__ import annotations

from .registration import ID
from .time_gridworld import TimeGridworldEnv
from .vector import TimeGridworldVectorEnv
from .world import World

__all__ = ["ID", "TimeGridworldEnv", "TimeGridworldVectorEnv", "World"]
