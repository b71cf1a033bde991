"""Success rates, intervals and selection: pure functions of arrays and frames.

The success protocol is that of Madsen and Johansen, "Neural Arithmetic Units" (ICLR 2020): pick a
run's step by interpolation error, call the run solved if its extrapolation error there is below
that of a nearly exact model, and report rates with a Wilson interval.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_OPERATIONS: dict[str, Callable[[Floats, Floats], Floats]] = {
    "a": lambda a, b: a,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "square": lambda a, b: a * a,
    "sqrt": lambda a, b: np.sqrt(a),
}


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


def bootstrap_interval(
    values: ArrayLike,
    statistic: Callable[[Floats], float],
    rng: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 2000,
) -> Interval:
    """Percentile bootstrap of any statistic; its confidence is nominal.

    Args:
        values: (runs, ...), runs >= 1, without NaN; whole runs are drawn with replacement.
        statistic: maps a (runs, ...) array to a number.
        rng: the only source of randomness; equal generators give equal intervals.
        resamples: how many data sets are drawn.
    """
    _check_confidence(confidence)
    data = _without_nan(values)
    draws = [statistic(data[rng.integers(len(data), size=len(data))]) for _ in range(resamples)]
    # Interpolating between an infinite and a finite draw gives NaN, so take an actual draw.
    tails = [0.5 - confidence / 2, 0.5 + confidence / 2]
    low, high = np.quantile(draws, tails, method="inverted_cdf")
    return Interval(float(statistic(data)), float(low), float(high), confidence)


def select(frame: pd.DataFrame, by: str, group: Sequence[str]) -> pd.DataFrame:
    """The row of each group with the lowest ``by``.

    NaN and infinities never win, so a group without a finite value has no row in the result. Ties
    go to the lowest seed, then to the earlier row. Missing values in ``group`` are a key of their
    own, since not every setting has every field.

    Args:
        frame: (rows, columns) with the columns ``by``, ``seed`` and those of ``group``.
        by: the selecting metric. Never an extrapolation one.
        group: columns that name a group; none means that the whole frame is one.

    Returns:
        (groups, columns), in the frame's order, index renumbered.
    """
    rows = frame.reset_index(drop=True)
    finite = rows[np.isfinite(rows[by].to_numpy(dtype=np.float64))]
    best = finite.sort_values([by, "seed"], kind="stable")
    winners: pd.DataFrame = best.drop_duplicates(list(group)) if group else best.head(1)
    return winners.sort_index().reset_index(drop=True)


def solved_at(
    frame: pd.DataFrame,
    run: Sequence[str],
    selector: str = "interpolation",
    score: str = "extrapolation",
) -> pd.DataFrame:
    """Which runs are solved, and the first logged step at which they were.

    A run is solved if its ``score`` is below ``threshold`` at the step with the lowest
    ``selector``; a run that dips below earlier but is not below at that step is not solved.

    Args:
        frame: (evaluations, columns): ``seed step threshold``, the two metrics and ``run``.
        run: columns that name a run, the seed among them.
        selector: column that chooses the step.
        score: column compared with ``threshold``, strictly.

    Returns:
        (runs, len(run) + 2): ``run``, ``solved`` (bool), ``solved_at`` (float, NaN if unsolved).
        Every run of the frame has a row, also one whose errors were never finite.
    """
    keys = list(run)
    log = frame.sort_values("step", kind="stable")
    log = log.assign(solved=log[score] < log["threshold"])
    chosen = select(log, by=selector, group=keys)
    first = log[log["solved"]].drop_duplicates(keys).rename(columns={"step": "solved_at"})
    table = frame[keys].drop_duplicates()
    table = table.merge(chosen[[*keys, "solved"]], on=keys, how="left")
    table = table.merge(first[[*keys, "solved_at"]], on=keys, how="left")
    table["solved"] = table["solved"].eq(True)
    table["solved_at"] = table["solved_at"].astype(float).where(table["solved"])
    return table


def perturbed_mse(
    op: str, x: ArrayLike, mask_a: ArrayLike, mask_b: ArrayLike, eps: float = 1e-5
) -> float:
    """Error of a nearly exact model: the success threshold of Madsen and Johansen (2020).

    The model's first layer sums a and b with weights 1 - eps where 1 is right and eps where 0 is
    right; its second layer applies ``op`` exactly. Their published thresholds are those of 26
    elements a sum, 13 shared, though their runs sum 25, 12 shared.

    Args:
        op: one of ``a add sub mul div square sqrt``.
        x: (n, d) samples of the extrapolation distribution; ten thousand give two digits.
        mask_a, mask_b: (d,) ones at the elements that a, and b, sum; else zeros.
        eps: how far every first-layer weight is off.

    Returns:
        Mean squared error over the n samples, in float64.
    """
    if op not in _OPERATIONS:
        raise ValueError(f"unknown operation {op!r}; known: {', '.join(_OPERATIONS)}")
    samples = np.asarray(x, dtype=np.float64)
    masks = np.stack([np.asarray(mask_a), np.asarray(mask_b)], axis=1).astype(np.float64)
    exact = samples @ masks
    nearly = samples @ (masks * (1 - eps) + (1 - masks) * eps)
    apply = _OPERATIONS[op]
    error = apply(nearly[:, 0], nearly[:, 1]) - apply(exact[:, 0], exact[:, 1])
    return float(np.mean(error**2))


def sparsity_error(*weights: ArrayLike) -> float:
    """How far the worst weight is from -1, 0 or 1: max over W of min(|W|, |1 - |W||).

    Args:
        weights: one array of any shape a layer, of one run; NaN anywhere gives NaN.
    """
    size = np.abs(np.concatenate([np.ravel(np.asarray(w, dtype=np.float64)) for w in weights]))
    return float(np.max(np.minimum(size, np.abs(1 - size))))


def _without_nan(values: ArrayLike) -> Floats:
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0 or np.isnan(data).any():
        raise ValueError("need at least one value and no NaN (a diverged run is inf)")
    return data


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
