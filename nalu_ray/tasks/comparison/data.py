"""Pairs of numbers, and whether they satisfy a comparison."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nalu_ray.seeding import Streams
from nalu_ray.task import Batch
from nalu_ray.tasks.comparison.network import ComparisonSetting

Array = NDArray[np.float64]


class Relation(NamedTuple):
    """A comparison of arrays, and its sign in print."""

    holds: Callable[[Any, Any], Any]
    sign: str


OPERATIONS = {
    "greater": Relation(operator.gt, ">"),
    "less": Relation(operator.lt, "<"),
    "greater_equal": Relation(operator.ge, "≥"),
    "less_equal": Relation(operator.le, "≤"),
    "equal": Relation(operator.eq, "="),
    "not_equal": Relation(operator.ne, "≠"),
}
LARGEST = 9  # number in training
EXPONENTS = tuple(range(1, 19))
REACH = 5  # largest difference in the extrapolation, in units
MOST_PAIRS = 4 * REACH + 1  # of an exponent


def near(setting: ComparisonSetting, streams: Streams) -> Batch:
    """All 81 pairs of 1 to 9, the same at each step; or 18, of which half are equal.

    In a balanced set each number is paired with itself and with another that is drawn per seed.
    """
    if setting.equality and setting.balanced:
        return _balanced(setting.op, streams.task, streams.seeds)
    return _all(setting.op, len(streams.seeds))


@functools.lru_cache(maxsize=8)
def _all(op: str, seeds: int) -> Batch:
    numbers = np.arange(1.0, LARGEST + 1)
    pairs = np.stack(np.meshgrid(numbers, numbers, indexing="ij"), -1).reshape(-1, 2)
    return _batch(op, np.broadcast_to(pairs, (seeds, *pairs.shape)).copy())


@functools.lru_cache(maxsize=8)
def _balanced(op: str, task: str, seeds: tuple[int, ...]) -> Batch:
    numbers = np.arange(LARGEST)
    other = (numbers + Streams(task, seeds, "pairs").integers((LARGEST,), 1, LARGEST)) % LARGEST
    same = np.broadcast_to(numbers, other.shape)
    return _batch(op, 1.0 + np.concatenate([_both(same, same), _both(same, other)], 1))


def far(setting: ComparisonSetting, streams: Streams) -> Batch:
    """Pairs around one number of each exponent, (R, exponents * pairs, 2).

    The number x is drawn from [10^k, 10^(k+1)), at the last exponent below 2^63. Its partners are
    x + i u for i from -5 to 5, in both orders; for equality as many pairs (x + i u, x + i u) as
    unequal ones. The unit u is 1, or the distance of neighbouring float64 numbers at the upper end
    where that is larger, from 10^15 on: smaller differences do not exist for the network.
    """
    steps = np.arange(-REACH, REACH + 1.0)
    parts = []
    for exponent in EXPONENTS:
        low, high = 10**exponent, min(10 ** (exponent + 1), 2**63)
        unit = max(1.0, float(np.spacing(float(high))))
        drawn = streams.integers((1,), low, high).astype(np.float64)
        x = np.floor(drawn / unit) * unit
        if setting.equality:
            neighbours = x + unit * steps[steps != 0]
            pairs = (
                _both(np.broadcast_to(x, neighbours.shape), neighbours),
                _both(neighbours, neighbours),
            )
        else:
            neighbours = x + unit * steps
            away = neighbours[:, steps != 0]
            pairs = (
                _both(np.broadcast_to(x, neighbours.shape), neighbours),
                _both(away, np.broadcast_to(x, away.shape)),
            )
        parts.append(np.concatenate(pairs, 1))
    return _batch(setting.op, np.concatenate(parts, 1))


def by_exponent(values: Tensor) -> Tensor:
    """(R, exponents * pairs, 1) to (R, exponents, pairs)."""
    return values.reshape(len(values), len(EXPONENTS), -1)


def _both(first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
    return np.stack([first, second], -1)


def _batch(op: str, pairs: Array) -> Batch:
    holds = OPERATIONS[op].holds(pairs[..., :1], pairs[..., 1:])
    targets = torch.from_numpy(np.asarray(holds, dtype=np.float64))
    return Batch((torch.from_numpy(pairs),), targets)
