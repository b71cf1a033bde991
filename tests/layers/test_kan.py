"""KAN against SciPy's splines: values, the grid's limits, a fit within and none beyond, start."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.interpolate import BSpline

from nalu_ray.layers.kan import KAN


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


def test_values() -> None:
    unit = KAN(2, 3, noise=4.0).double()
    with torch.no_grad():
        unit.s += 0.5
    a, s, c = (value.detach().numpy() for value in (unit.a, unit.s, unit.C))
    x = np.array([[0.3, -0.9], [1.4, -5.0]])
    wanted = np.zeros((2, 3))
    for row, output, i in np.ndindex(2, 3, 2):
        v = x[row, i]
        basis = splines(np.array([v]), -1, 1, 5)[0]
        wanted[row, output] += a[output, i] * v / (1 + np.exp(-v))
        wanted[row, output] += s[output, i] * (c[output, i] @ basis)
    np.testing.assert_allclose(unit(torch.from_numpy(x)).detach().numpy(), wanted, rtol=1e-10)


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
