"""Laws that inputs are drawn from."""

from __future__ import annotations

import math
from typing import Literal

import torch

from nalu_ray.seeding import FloatArray, Streams

Distribution = Literal["uniform", "normal", "exponential", "benford"]

_BELOW = 0.0013498980316301  # share of a normal law below three standard deviations


def check_distribution(distribution: str, *ranges: tuple[float, float]) -> None:
    """Checks that inputs can be drawn from these ranges.

    Raises:
        ValueError: they cannot; the message names the distribution and the range.
    """
    for low, high in ranges:
        if distribution == "benford" and low <= 0:
            raise ValueError(f"distribution=benford needs ranges above 0, not {low}:{high}")


def draw(
    distribution: Distribution,
    streams: Streams,
    shape: tuple[int, int],
    bounds: tuple[float, float],
) -> FloatArray:
    """Draws inputs for R seeds, (R, *shape).

    Args:
        distribution: ``uniform``: U(low, high); ``normal``: with the middle as mean and a sixth of
            the range as standard deviation, and nothing beyond the range; ``exponential``: low plus
            an exponential law of mean high - low, without an upper end; ``benford``: the logarithm
            is uniform between those of low and high, so that leading digits follow Benford's law
            where the range is a decade or several.
        streams: of the seeds.
        shape: examples and inputs.
        bounds: low and high; ``benford`` needs low > 0.
    """
    low, high = bounds
    if distribution == "uniform":
        return streams.uniform(shape, low, high)
    if distribution == "normal":
        # quantiles of uniform numbers, within three standard deviations
        uniform = torch.from_numpy(streams.uniform(shape, _BELOW, 1 - _BELOW))
        x = (low + high) / 2 + (high - low) / 6 * torch.special.ndtri(uniform)
        x = x.clamp(low, high)
    elif distribution == "exponential":
        x = low - (high - low) * torch.log1p(-torch.from_numpy(streams.uniform(shape)))
    else:
        ends = math.log(low), math.log(high)
        x = torch.from_numpy(streams.uniform(shape, *ends)).exp().clamp(low, high)
    drawn: FloatArray = x.numpy()
    return drawn
