"""Metrics of an evaluation set per seed, (R, ...) x (R, ...) -> (R,)."""

from __future__ import annotations

from torch import Tensor


def mean_squared_error(prediction: Tensor, target: Tensor) -> Tensor:
    """Mean of (prediction - target)^2 over all axes but the seeds."""
    return mean_over_examples((prediction - target).square())


def mean_absolute_error(prediction: Tensor, target: Tensor) -> Tensor:
    """Mean of |prediction - target| over all axes but the seeds."""
    return mean_over_examples((prediction - target).abs())


def mean_over_examples(values: Tensor) -> Tensor:
    """Mean over all axes but the leading one, (R, ...) -> (R,).

    Summed in float64: the order of a float32 sum depends on how many seeds share the block, and a
    seed's figures must not.
    """
    return values.flatten(1).double().mean(1).to(values.dtype)
