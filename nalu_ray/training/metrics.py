"""Metrics of an evaluation set per seed, (R, ...) x (R, ...) -> (R,)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def constant_errors(target: Tensor) -> dict[str, Tensor]:
    """The errors of the best constant answer to an evaluation set, (R, N, ...) -> {name: (R,)}.

    The constant is each seed's own mean target for ``constant_mse``, and its median for
    ``constant_mae``; of targets with several outputs, one constant per output. A model that
    reads its input ought to do better.
    """
    exact = target.double()
    mean, median = exact.mean(1, keepdim=True), exact.median(1, keepdim=True).values
    errors = {
        "constant_mse": mean_squared_error(mean, exact),
        "constant_mae": mean_absolute_error(median, exact),
    }
    return {name: error.to(target.dtype) for name, error in errors.items()}


def constant_errors_by_part(parts: Mapping[Any, Tensor]) -> dict[str, Tensor]:
    """The :func:`constant_errors` of each part of an evaluation set, named ``<error>_<part>``."""
    return {
        f"{name}_{part}": error
        for part, target in parts.items()
        for name, error in constant_errors(target).items()
    }
