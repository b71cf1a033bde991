"""Statistics against hand-computed values and invariants."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from nalu_ray.results.analysis.selection import select
from nalu_ray.results.analysis.statistics import (
    Interval,
    Rate,
    mean_interval,
    median_interval,
    success_rate,
    wilson_interval,
)

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("successes", "low", "high"), [(0, 0.0, 3.7), (31, 22.8, 40.6), (98, 93.0, 99.4)]
)
def test_wilson_gives_the_published_intervals(successes: int, low: float, high: float) -> None:
    interval = wilson_interval(successes, 100)
    assert [round(100 * bound, 1) for bound in interval] == [low, high]


def test_wilson_without_runs_knows_nothing() -> None:
    assert wilson_interval(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("successes", "n", "confidence"), [(5, 4, 0.9), (-1, 4, 0.9), (1, 4, 1.0)])
def test_wilson_refuses_impossible_input(successes: int, n: int, confidence: float) -> None:
    with pytest.raises(ValueError, match=r"successes|confidence"):
        wilson_interval(successes, n, confidence)


@given(st.integers(1, 500), st.data(), st.floats(0.5, 0.999))
def test_wilson_contains_the_rate_and_mirrors(n: int, data: st.DataObject, level: float) -> None:
    successes = data.draw(st.integers(0, n))
    low, high = wilson_interval(successes, n, level)
    mirrored = wilson_interval(n - successes, n, level)
    wider = wilson_interval(successes, n, (1 + level) / 2)
    assert 0 <= low <= successes / n <= high <= 1
    assert mirrored == pytest.approx((1 - high, 1 - low), abs=1e-12)
    assert wider[0] <= low
    assert high <= wider[1]


@given(st.integers(1, 500), st.data(), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_is_scipys(n: int, data: st.DataObject, level: float) -> None:
    successes = data.draw(st.integers(0, n))
    expected = scipy.stats.binomtest(successes, n).proportion_ci(level, method="wilson")
    assert wilson_interval(successes, n, level) == pytest.approx(tuple(expected), abs=1e-12)


def test_success_rate_counts_and_keeps_its_interval() -> None:
    assert success_rate([True, False, 1, 0.0]) == Rate(2, 4, 0.5, *wilson_interval(2, 4))
    assert success_rate(np.array([True, True])).rate == 1.0
    assert math.isnan(success_rate([]).rate)


@pytest.mark.parametrize("solved", [[1.0, NAN], [2], [0.5], [True, None], [[True]]])
def test_success_rate_refuses_what_is_not_a_verdict(solved: Any) -> None:
    with pytest.raises(ValueError, match="booleans"):
        success_rate(solved)


@pytest.mark.parametrize(
    ("n", "low", "high", "confidence"),
    [
        (1, 1, 1, 0.0),
        (5, 1, 5, 1 - 2 / 32),
        (6, 1, 6, 1 - 2 / 64),
        (10, 2, 9, 1 - 2 * 11 / 1024),
        (20, 6, 15, 0.9586),
        (100, 40, 61, 0.9648),
    ],
)
def test_median_interval_uses_the_tabulated_order_statistics(
    n: int, low: int, high: int, confidence: float
) -> None:
    """Sign-test tables (Conover): n = 10 gives the 2nd and 9th value, n = 20 the 6th and 15th."""
    shuffled = np.random.default_rng(0).permutation(np.arange(1, n + 1))
    got = median_interval(shuffled)
    assert (got.estimate, got.low, got.high) == ((n + 1) / 2, low, high)
    assert got.confidence == pytest.approx(confidence, abs=5e-5)


@pytest.mark.parametrize("n", [6, 7, 10, 20, 61, 300])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_median_interval_is_scipys(n: int, level: float) -> None:
    values = np.random.default_rng(n).exponential(size=n)
    low, high = scipy.stats.quantile_test(values).confidence_interval(level)
    got = median_interval(values, level)
    assert (got.low, got.high) == (low, high)
    covered = 1 - 2 * scipy.stats.binom.cdf((values < got.low).sum(), n, 0.5)
    assert got.confidence == pytest.approx(covered, abs=1e-12)


def test_median_interval_takes_diverged_runs_but_no_gaps() -> None:
    assert median_interval([1, 2, 3, 4, 5, 6, INF]) == Interval(4, 1, INF, 1 - 2 / 128)
    for values in ([], [1.0, NAN]):
        with pytest.raises(ValueError, match="no NaN"):
            median_interval(values)
    with pytest.raises(ValueError, match="one dimension"):
        median_interval([[1.0]])


def test_median_interval_covers_as_often_as_it_says() -> None:
    draws = np.random.default_rng(1).exponential(size=(2000, 10))
    hits = [(got := median_interval(row)).low <= math.log(2) <= got.high for row in draws]
    assert np.mean(hits) == pytest.approx(1 - 22 / 1024, abs=0.012)


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=60), st.floats(0.5, 0.99))
def test_median_interval_brackets_and_widens(values: list[float], level: float) -> None:
    narrow, wide = median_interval(values, level), median_interval(values, (1 + level) / 2)
    assert wide.low <= narrow.low <= narrow.estimate <= narrow.high <= wide.high
    assert narrow.confidence >= level or (narrow.low, narrow.high) == (min(values), max(values))


def test_select_takes_the_lowest_finite_row_and_the_lowest_seed_of_ties() -> None:
    frame = pd.DataFrame(
        [
            ("nac", 3, 0.5, "tie"),
            ("nac", 1, 0.5, "winner"),
            ("nac", 1, 0.5, "later"),
            ("nac", 0, NAN, "nan"),
            ("nac", 9, -INF, "infinite"),
            ("relu", 0, INF, "diverged"),
            (None, 2, 0.7, "keyless"),
            (None, 3, 0.6, "keyless winner"),
        ],
        columns=["layer", "seed", "error", "note"],
        index=[5] * 8,
    )
    got = select(frame, "error", ["layer"])
    assert list(got["note"]) == ["winner", "keyless winner"]
    assert list(got.index) == [0, 1]
    assert list(select(frame, "error", [])["note"]) == ["winner"]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 5), st.floats(0, 10) | st.just(NAN)),
        min_size=1,
        max_size=30,
    )
)
def test_select_finds_each_groups_minimum(rows: list[tuple[int, int, float]]) -> None:
    frame = pd.DataFrame(rows, columns=["group", "seed", "error"])
    expected = {
        group: min((error, seed) for g, seed, error in rows if g == group and error == error)
        for group in {g for g, _, error in rows if error == error}
    }
    got = select(frame, "error", ["group"])
    assert {row.group: (row.error, row.seed) for row in got.itertuples()} == expected


@pytest.mark.parametrize(
    ("shape", "mean", "n"),
    [("normal", 0.0, 3), ("normal", 0.0, 5), ("normal", 0.0, 10), ("uniform", 0.5, 10)],
)
def test_the_interval_of_a_mean_covers_it_as_often_as_it_says(
    shape: str, mean: float, n: int
) -> None:
    """A percentile bootstrap of three covers it in 74 %, of five in 83 %."""
    low, high = mean_interval(getattr(np.random.default_rng(n), shape)(size=(n, 20_000)))
    assert ((low <= mean) & (mean <= high)).mean() == pytest.approx(0.95, abs=0.02)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=20), st.sampled_from([0.8, 0.95]))
def test_the_interval_of_a_mean_is_scipys(values: list[float], level: float) -> None:
    low, high = mean_interval(values, level)
    half = scipy.stats.sem(values) * scipy.stats.t.ppf(0.5 + level / 2, len(values) - 1)
    wanted = (np.mean(values) - half, np.mean(values) + half)
    assert (low, high) == pytest.approx(wanted, rel=1e-9, abs=1e-9)


def test_one_value_has_no_interval() -> None:
    assert np.isnan(mean_interval([[1.0, 2.0]])).all()
