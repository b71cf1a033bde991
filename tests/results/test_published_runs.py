"""The success protocol against 6,000 runs that Madsen and Johansen published (tests/data)."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from nalu_ray.results.analysis.statistics import Rate, median_interval, wilson_interval
from nalu_ray.results.analysis.table import TableCell, build
from nalu_ray.results.specs import Axis, Measure, TableSpec
from nalu_ray.results.store.rows import COLUMNS, COMPLETED

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


OPERATIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "square": lambda a, b: a * a,
    "sqrt": lambda a, b: np.sqrt(a),
}


def perturbed_mse(op: str, x: np.ndarray, masks: np.ndarray, eps: float = 1e-5) -> float:
    """Error of a nearly exact model, the success threshold of Madsen and Johansen (2020).

    The model's first layer sums a and b, the columns of ``masks``, with weights 1 - eps in place of
    1 and eps in place of 0; its second layer is exact.
    """
    exact, nearly = x @ masks, x @ np.where(masks, 1 - eps, eps)
    apply = OPERATIONS[op]
    return float(np.mean((apply(*nearly.T) - apply(*exact.T)) ** 2))


def test_perturbed_mse_by_hand() -> None:
    """x = (4, 1, 2), a = 4, b = 6, eps = 0.1: nearly a = 3.6 + 0.3, nearly b = 5.4 + 0.1."""
    x, masks = np.array([[4.0, 1.0, 2.0]]), np.array([[1, 1], [0, 0], [0, 1]], dtype=bool)
    assert perturbed_mse("sub", x, masks, eps=0.1) == pytest.approx(0.4**2)
    assert perturbed_mse("mul", x, masks, eps=0.1) == pytest.approx((24 - 3.9 * 5.5) ** 2)
    assert perturbed_mse("sqrt", x, masks, eps=0.1) == pytest.approx((2 - 3.9**0.5) ** 2)


def masks(size: int, shared: int) -> np.ndarray:
    index = np.arange(100)
    b = (index >= size - shared) & (index < 2 * size - shared)
    return np.stack([index < size, b], axis=1)


@pytest.mark.parametrize(("op", "published"), THRESHOLDS.items())
def test_thresholds_of_the_published_runs_sum_26_elements(op: str, published: float) -> None:
    x = np.random.default_rng(0).uniform(2, 6, size=(20_000, 100))
    assert perturbed_mse(op, x, masks(26, 13)) == pytest.approx(published, rel=0.03)


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
    assert perturbed_mse(op, x, masks(25, 12)) == pytest.approx(expected, rel=0.03)


def published_runs() -> pd.DataFrame:
    runs = pd.read_csv(PUBLISHED_RUNS)
    return runs.assign(threshold=runs["operation"].map(THRESHOLDS), solved=runs["solved"] == 1)


def stored(runs: pd.DataFrame) -> pd.DataFrame:
    """The published runs as rows of our store: one logged step, where interpolation is best."""
    base = runs.assign(setting_id=runs["model"] + runs["operation"], step=0, task="static")
    logs = {
        ("mse", "interpolation"): 0.0,
        ("mse", "extrapolation"): base["extrapolation"],
        ("threshold", "extrapolation"): base["threshold"],
        (COMPLETED, "train"): 1.0,
    }
    parts = [base.assign(metric=m, split=s, value=value) for (m, s), value in logs.items()]
    rows = pd.concat(parts, ignore_index=True).reindex(columns=[*COLUMNS, "model", "operation"])
    return rows.assign(outcome=rows["metric"].where(rows["metric"] == COMPLETED))


def test_published_success_rates_are_reproduced() -> None:
    spec = TableSpec(
        name="published",
        caption="",
        rows=Axis(field="model"),
        columns=Axis(field="operation"),
        measures={"e": Measure(metric="mse", split="extrapolation", label="E")},
        solved_below="threshold",
    )
    cells = build(spec, stored(published_runs())).cells

    def solved(cell: TableCell) -> int:
        assert cell.rate is not None
        assert cell.rate.n == 100
        return cell.rate.successes

    rates = {
        model: tuple(solved(cells[model, op, "e"]) for op in THRESHOLDS) for model in SUCCESSES
    }
    assert rates == SUCCESSES
    assert cells["nac_mul", "mul", "e"].rate == Rate(31, 100, 0.31, *wilson_interval(31, 100))


def test_published_verdicts_are_reproduced() -> None:
    runs = published_runs()
    assert len(runs) == 6000
    assert (runs["extrapolation"] < runs["threshold"]).equals(runs["solved"])


@pytest.mark.parametrize(("cell", "median"), MEDIAN_SOLVED_AT.items())
def test_published_median_solved_at_is_reproduced(cell: tuple[str, str], median: str) -> None:
    runs = published_runs()
    mine = runs[(runs["model"] == cell[0]) & (runs["operation"] == cell[1]) & runs["solved"]]
    assert f"{median_interval(mine['solved_at']).estimate:.1e}" == median
