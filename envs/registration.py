"""The environment's id in Gymnasium's registry, under the name that this package has."""

from __future__ import annotations

import gymnasium

ID = "nalu_ray/TimeGridworld-v0"

gymnasium.register(
    ID,
    entry_point=f"{__package__}.time_gridworld:TimeGridworldEnv",
    vector_entry_point=f"{__package__}.vector:TimeGridworldVectorEnv",
)
