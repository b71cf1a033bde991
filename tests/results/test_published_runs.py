"""The success protocol against 6,000 runs that Madsen and Johansen published (tests/data)."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nalu_ray.results.analysis.statistics import (
    Rate,
    median_interval,
    perturbed_mse,
    solved_at,
    success_rate,
    wilson_interval,
)

PUBLISHED_RUNS = Path(__file__).parents[1] / "data" / "stable_nalu_static.csv.gz"
# Success thresholds of the published runs (stable-nalu's paper/results).
THRESHOLDS = {
    "add": 1.47861742158438e-5,
    "sub": 1.38437045113029e-8,
    "mul": 0.160010658743333,
    "div": 4.93805490041429e-12,
    "square": 0.159473806098301,
    "sqrt": 8.95525993233274e-9,
}
# Solved of 100 published runs, in the order of THRESHOLDS.
SUCCESSES = {
    "linear": (100, 7, 0, 0, 0, 0),
    "relu": (62, 0, 0, 0, 0, 0),
    "relu6": (0, 0, 0, 0, 0, 0),
    "nac_add": (100, 100, 0, 0, 0, 0),
    "nac_mul": (0, 0, 31, 0, 77, 7),
    "nac_mul_sigmoid": (0, 0, 100, 0, 100, 0),
    "nac_mul_nmu": (0, 0, 93, 0, 100, 3),
    "nalu": (14, 14, 0, 0, 0, 2),
    "nau": (100, 100, 0, 0, 0, 0),
    "nmu": (0, 56, 98, 0, 100, 0),
}
MEDIAN_SOLVED_AT = {
    ("linear", "add"): "6.1e+04",
    ("nac_add", "add"): "2.5e+05",
    ("nalu", "add"): "1.5e+06",
    ("nau", "add"): "1.8e+04",
    ("linear", "sub"): "3.3e+06",
    ("nac_add", "sub"): "9.0e+03",
    ("nalu", "sub"): "1.9e+06",
    ("nau", "sub"): "5.0e+03",
    ("nac_mul", "mul"): "2.8e+06",
    ("nmu", "mul"): "1.4e+06",
}


def masks(size: int, shared: int) -> tuple[np.ndarray, np.ndarray]:
    index = np.arange(100)
    return index < size, (index >= size - shared) & (index < 2 * size - shared)


@pytest.mark.parametrize(("op", "published"), THRESHOLDS.items())
def test_thresholds_of_the_published_runs_sum_26_elements(op: str, published: float) -> None:
    x = np.random.default_rng(0).uniform(2, 6, size=(20_000, 100))
    assert perturbed_mse(op, x, *masks(26, 13)) == pytest.approx(published, rel=0.03)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("add", 1.60e-5),
        ("sub", 1.38e-8),
        ("mul", 0.161),
        ("div", 5.8e-12),
        ("square", 0.160),
        ("sqrt", 1.01e-8),
    ],
)
def test_thresholds_of_the_task_as_described_sum_25(op: str, expected: float) -> None:
    x = np.random.default_rng(0).uniform(2, 6, size=(20_000, 100))
    assert perturbed_mse(op, x, *masks(25, 12)) == pytest.approx(expected, rel=0.03)


def published_runs() -> pd.DataFrame:
    runs = pd.read_csv(PUBLISHED_RUNS)
    return runs.assign(threshold=runs["operation"].map(THRESHOLDS), solved=runs["solved"] == 1)


def test_published_verdicts_and_success_rates_are_reproduced() -> None:
    runs = published_runs().rename(columns={"solved_at": "published_solved_at"})
    log = runs.drop(columns="solved").assign(step=0, interpolation=0.0)
    keys = ["model", "operation", "seed"]
    got = solved_at(log, keys)
    assert len(got) == 6000
    assert got["solved"].equals(runs["solved"])
    rates = {
        model: tuple(success_rate(cell["solved"]) for cell in cells_of(got, model))
        for model in SUCCESSES
    }
    assert {m: tuple(rate.successes for rate in row) for m, row in rates.items()} == SUCCESSES
    assert {rate.n for row in rates.values() for rate in row} == {100}
    assert rates["nac_mul"][2] == Rate(31, 100, 0.31, *wilson_interval(31, 100))


def cells_of(runs: pd.DataFrame, model: str) -> list[pd.DataFrame]:
    return [runs[(runs["model"] == model) & (runs["operation"] == op)] for op in THRESHOLDS]


@pytest.mark.parametrize(("cell", "median"), MEDIAN_SOLVED_AT.items())
def test_published_median_solved_at_is_reproduced(cell: tuple[str, str], median: str) -> None:
    runs = published_runs()
    mine = runs[(runs["model"] == cell[0]) & (runs["operation"] == cell[1]) & runs["solved"]]
    assert f"{median_interval(mine['solved_at']).estimate:.1e}" == median
