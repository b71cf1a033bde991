"""Random starts as a function of (key, episode): the same for one environment or for many.

An environment has a 64-bit key. Its random words are the SplitMix64 sequence that starts at the
key, and episode k takes two of them, numbers 2k and 2k + 1: nothing is stored between episodes, and
any number of environments draws in one NumPy expression, which separate generators would not allow.

SplitMix64: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators" (2014). All its
sequences lie on one cycle of 2**64, so two of n environments share numbers within their first e
episodes with a probability of about 2 e n**2 / 2**64: 1e-8 for a thousand that play 100,000 each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

UIntArray = NDArray[np.uint64]
IntArray = NDArray[np.int64]

WORDS = 2  # of an episode: the instruction, the pair of cells
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_OFFSETS = np.arange(1, WORDS + 1, dtype=np.uint64)[:, None] * _GOLDEN
_LOW = 2**32 - 1


def keys(rng: np.random.Generator, count: int) -> UIntArray:
    """Draws the keys of environments, (count,)."""
    return rng.integers(2**64, size=count, dtype=np.uint64)


def words(key: UIntArray, episode: UIntArray) -> UIntArray:
    """Returns the random words of episodes, (WORDS, N), for keys and episodes of shape (N,)."""
    z: UIntArray = episode * WORDS * _GOLDEN + key + _OFFSETS
    z ^= z >> 30
    z *= _FIRST
    z ^= z >> 27
    z *= _SECOND
    z ^= z >> 31
    return z


def below(random: UIntArray, bound: ArrayLike) -> IntArray:
    """Maps words to integers of [0, bound), for bounds below 2**32 that broadcast.

    The upper half of the 128-bit product word * bound (Lemire, 2019, without the rejection): no
    value's probability is off by more than 2**-64.
    """
    n = np.asarray(bound, np.uint64)
    carry = ((random & _LOW) * n) >> 32
    return (((random >> 32) * n + carry) >> 32).view(np.int64)


def starts(
    key: UIntArray,
    episode: UIntArray,
    cells: int,
    instructions: tuple[int, int],
    fixed: dict[str, IntArray] | None = None,
) -> tuple[IntArray, IntArray, IntArray]:
    """Returns the starts of episodes: instruction, agent's cell and target's cell, each (N,).

    The instruction is uniform over the inclusive range, the two cells over all pairs of distinct
    ones. A value given in ``fixed`` replaces its draw, and the other cell stays uniform over the
    cells that remain.

    Args:
        key: the environments' keys, (N,).
        episode: how many episodes each began before, (N,).
        cells: number of free cells.
        instructions: smallest and largest T.
        fixed: (N,) int64 arrays under any of ``instruction``, ``agent`` and ``target``.
    """
    low, high = instructions
    bounds = ((high - low + 1,), (cells * (cells - 1),))
    instruction, pair = below(words(key, episode), bounds)
    instruction += low
    agent: IntArray
    other: IntArray
    agent, other = np.divmod(pair, cells - 1)
    fixed = fixed or {}
    if "target" in fixed and "agent" not in fixed:
        agent = other + (other >= fixed["target"])
    agent = fixed.get("agent", agent)
    # `other` counts the cells that are not the agent's.
    target = fixed.get("target", other + (other >= agent))
    return fixed.get("instruction", instruction), agent, target
