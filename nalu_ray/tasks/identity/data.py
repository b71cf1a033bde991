"""Numbers of the identity task: each is its own target."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks.identity.network import IdentitySetting


def draw(setting: IdentitySetting, split: str, streams: Streams) -> Batch:
    """Draws uniform training numbers, (R, N, 1), or returns all integers of a split, (R, M, 1)."""
    if split == "train" and setting.train_inputs == "uniform":
        limit = float(setting.train_limit)
        x = torch.from_numpy(streams.uniform((setting.batch, 1), -limit, limit))
        return Batch((x,), x)
    limits = {
        "train": setting.train_limit,
        "interpolation": setting.train_limit,
        "figure": setting.figure_limit,
        "extrapolation": setting.test_limit,
    }
    x = _integers(limits[split]).expand(len(streams.seeds), -1, -1)
    return Batch((x,), x)


@functools.cache
def _integers(limit: int) -> Tensor:
    """Returns -limit to limit as (1, 2 limit + 1, 1), shared by all seeds."""
    return torch.arange(-limit, limit + 1, dtype=torch.float32)[None, :, None]
