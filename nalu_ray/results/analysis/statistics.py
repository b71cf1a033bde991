"""Success rates and intervals: pure functions of arrays.

The success protocol is that of Madsen and Johansen, "Neural Arithmetic Units" (ICLR 2020): pick a
run's step by interpolation error, call the run solved if its extrapolation error there is below
that of a nearly exact model, and report rates with a Wilson interval.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rate:
    """A success rate: ``successes`` of ``n`` runs, and the interval [low, high] of the rate."""

    successes: int
    n: int
    rate: float
    low: float
    high: float


@dataclass(frozen=True)
class Interval:
    """An estimate, its interval [low, high], and how often such an interval covers the truth."""

    estimate: float
    low: float
    high: float
    confidence: float


def wilson_interval(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Score interval of a proportion (Wilson, 1927).

    Unlike the normal approximation it stays inside [0, 1] and has a width at 0 and n successes.
    Returns (low, high); (0, 1) when n is 0, since nothing is known then.
    """
    _check_confidence(confidence)
    if not 0 <= successes <= n:
        raise ValueError(f"need 0 <= successes <= n, got successes={successes}, n={n}")
    if n == 0:
        return 0.0, 1.0
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    p = successes / n
    scale = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / scale
    # Exact at the ends, where rounding could leave the rate outside its own interval.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return low, high


def success_rate(solved: ArrayLike, confidence: float = 0.95) -> Rate:
    """Share of solved runs with its Wilson interval.

    Args:
        solved: (runs,) booleans, or zeros and ones. A run that failed counts as False: pass it.

    Returns:
        The rate; NaN with the interval [0, 1] when there are no runs.

    Raises:
        ValueError: on anything but booleans, zeros and ones (NaN would count as True).
    """
    flags = np.asarray(solved)
    if flags.ndim != 1 or not all(flag in (0, 1) for flag in flags.tolist()):
        raise ValueError(f"solved must be one dimension of booleans, got {solved!r}")
    n, successes = flags.size, int(flags.sum())
    low, high = wilson_interval(successes, n, confidence)
    return Rate(successes, n, successes / n if n else float("nan"), low, high)


def median_interval(values: ArrayLike, confidence: float = 0.95) -> Interval:
    """Median with the distribution-free interval between two order statistics.

    [x_(k), x_(n+1-k)] covers the median with probability 1 - 2 P(Bin(n, 1/2) < k) or more whatever
    the distribution; k is the largest that reaches ``confidence``. Chosen over the bootstrap
    because it needs no generator and no finite values: a diverged run is simply ``inf``.

    Args:
        values: (n,), n >= 1, without NaN.

    Returns:
        The interval and the confidence that it truly has. Fewer than six values cannot reach 95 %:
        the interval is then (min, max) and its ``confidence`` says how little that is.
    """
    _check_confidence(confidence)
    ordered = np.sort(_without_nan(values))
    if ordered.ndim != 1:
        raise ValueError(f"values must have one dimension, got shape {ordered.shape}")
    n = ordered.size
    below, term, k = 1, n, 1  # 2^n P(Bin < k) and C(n, k), exact integers
    while 2 * k < n and 1 - (below + term) / 2 ** (n - 1) >= confidence:
        below, term, k = below + term, term * (n - k) // (k + 1), k + 1
    low, high = float(ordered[k - 1]), float(ordered[n - k])
    return Interval(float(np.median(ordered)), low, high, 1 - below / 2 ** (n - 1))


def mean_interval(values: ArrayLike, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Intervals of means over few seeds, mean -+ t s / sqrt(n), of normal values.

    t is Student's quantile with n - 1 degrees of freedom. We use this interval instead of the
    percentile bootstrap, which covers the true mean in only three of four cases for three normal
    values. For three uniform values, this interval covers the mean in 92 % of cases instead of
    95 %.

    Args:
        values: (n, ...), finite; one interval over the first axis for each of the others.

    Returns:
        Lower and upper ends, (...,) each; NaN for one value, which has no spread.
    """
    _check_confidence(confidence)
    data = _without_nan(values)
    n = len(data)
    if n < 2:
        unknown = np.full(data.shape[1:], np.nan)
        return unknown, unknown
    t = _student_quantile(0.5 + confidence / 2, n - 1)
    middle, half = data.mean(axis=0), t * data.std(axis=0, ddof=1) / sqrt(n)
    return middle - half, middle + half


def upper_mean_limit(values: ArrayLike, confidence: float = 0.99) -> float:
    """One-sided upper confidence limit of a mean, mean + t s / sqrt(n), of normal values.

    t is Student's quantile with n - 1 degrees of freedom, s the sample's standard deviation.

    Args:
        values: (n,), n >= 2, without NaN.
    """
    _check_confidence(confidence)
    data = _without_nan(values)
    if data.size < 2:
        raise ValueError("need at least two values: one has no spread")
    t = _student_quantile(confidence, data.size - 1)
    return float(data.mean() + t * data.std(ddof=1) / sqrt(data.size))


def _student_quantile(p: float, degrees: int) -> float:
    """The quantile of Student's t distribution."""
    from scipy.special import stdtrit  # noqa: PLC0415 (slow to load, and few tables need it)

    return float(stdtrit(degrees, p))


def _without_nan(values: ArrayLike) -> Floats:
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0 or np.isnan(data).any():
        raise ValueError("need at least one value and no NaN (a diverged run is inf)")
    return data


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
