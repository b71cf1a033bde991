"""KAN against SciPy's splines: values, the grid's limits, a fit within and none beyond, start."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.interpolate import BSpline

from nalu_ray.layers.kan import KAN
from tests.layers.oracle import Array, assert_follows


def splines(x: np.ndarray, low: float, high: float, intervals: int) -> np.ndarray:
    """The basis by SciPy, (N,) to (N, intervals + 3)."""
    width = (high - low) / intervals
    knots = low + width * np.arange(-3, intervals + 4)
    basis = [
        BSpline.basis_element(knots[c : c + 5], extrapolate=False)(x) for c in range(intervals + 3)
    ]
    return np.nan_to_num(np.stack(basis, -1))


@pytest.mark.parametrize(("low", "high", "intervals"), [(-1.0, 1.0, 5), (1.0, 4.0, 2)])
def test_splines_are_scipys(low: float, high: float, intervals: int) -> None:
    unit = KAN(1, 1, low=low, high=high, intervals=intervals).double()
    x = np.linspace(low - 5, high + 5, 203)
    found = unit.splines(torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, splines(x, low, high, intervals), atol=1e-12)
    inside = found[(x >= low) & (x <= high)]
    np.testing.assert_allclose(inside.sum(-1), 1, atol=1e-12)


def test_values_and_gradients() -> None:
    def kan(x: Array, a: Array, s: Array, C: Array) -> Array:
        y = np.zeros((len(x), 3))
        for row, output, i in np.ndindex(*y.shape, 2):
            v = x[row, i]
            basis = splines(np.array([v]), -1, 1, 5)[0]
            y[row, output] += a[output, i] * v / (1 + np.exp(-v))
            y[row, output] += s[output, i] * (C[output, i] @ basis)
        return y

    unit = KAN(2, 3, noise=4.0).double()
    with torch.no_grad():
        unit.s += 0.5
    assert_follows(unit, kan, torch.tensor([[0.3, -0.9], [1.3, -5.0]], dtype=torch.float64))


def test_a_cubic_is_exact_on_the_grid_alone() -> None:
    """Cubic splines contain all cubics: x^3 from its coefficients by least squares."""
    unit = KAN(1, 1, base=0.0).double()
    x = np.linspace(-1, 1, 50)
    solution = np.linalg.lstsq(splines(x, -1, 1, 5), x**3, rcond=None)[0]
    with torch.no_grad():
        unit.C.copy_(torch.from_numpy(solution)[None, None])
    test = torch.linspace(-1, 1, 77, dtype=torch.float64)[:, None]
    torch.testing.assert_close(unit(test), test**3, rtol=0, atol=1e-12)
    assert unit(torch.tensor([[10.0]], dtype=torch.float64)).item() == 0


def test_sums_of_large_positive_numbers_are_exact() -> None:
    unit = KAN(2, 1, base=1.0)
    assert unit(torch.tensor([[1000.0, 234.5]])).item() == 1234.5


def test_start() -> None:
    unit = KAN(20, 30)
    assert (unit.s == 1).all()
    bound = (6 / 50) ** 0.5
    assert unit.a.abs().max() <= bound
    assert unit.a.var().item() == pytest.approx(bound**2 / 3, rel=0.15)
    assert unit.C.abs().max() <= 0.01
    assert unit.C.var().item() == pytest.approx(0.01**2 / 3, rel=0.1)
    assert (KAN(3, 2, base=1.0).a == 1).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"intervals": 0}, r"^intervals must be an integer of at least 1, got 0$"),
        ({"low": 1.0}, r"^low must be below high, got 1.0 and 1.0$"),
        ({"noise": -0.1}, r"^noise must be a finite number of at least 0, got -0.1$"),
        ({"base": "one"}, r"^base must be one of glorot, .* or a finite number, got 'one'$"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KAN(2, 1, **options)  # type: ignore[arg-type]
