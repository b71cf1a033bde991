"""Snapping NACs: the weight's exact limits, values in complex numbers, exact solutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from nalu_ray.layers.nac import nac_weight
from nalu_ray.layers.snapping_nac import SnappingNAC, SnappingPower
from tests.layers.oracle import Array, Oracle, assert_follows, fill, numbers


def set_weight(unit: SnappingNAC, weight: list[list[float]]) -> None:
    """Sets W to values of -1, 0 and 1."""
    w = torch.tensor(weight)
    with torch.no_grad():
        unit.W_hat.copy_(7.3 * w.sign())
        unit.M_hat.copy_(14.0 * (2 * w.abs() - 1))


def test_a_weight_snaps_within_the_tolerance_alone() -> None:
    unit = SnappingNAC(6, 1).double()
    near, far = np.arctanh(1 - 0.9e-6), np.arctanh(1 - 1.1e-6)
    high, low = np.log((1 - 0.9e-6) / 0.9e-6), np.log((1 - 1.1e-6) / 1.1e-6)
    with torch.no_grad():
        unit.W_hat.copy_(torch.tensor([[near, -near, far, near, near, 0.3]]))
        unit.M_hat.copy_(torch.tensor([[high, high, high, low, -high, -high]]))
    wanted = torch.tensor([[1, -1, 1 - 1.1e-6, 1 - 1.1e-6, 0, 0]], dtype=torch.float64)
    torch.testing.assert_close(unit.weight, wanted, rtol=0, atol=1e-14)
    assert torch.equal(unit.weight[:, [0, 1, 4]], wanted[:, [0, 1, 4]])


@pytest.mark.parametrize("start", [0.5, 9.0, 20.0])
def test_the_gradient_is_that_of_a_nac(start: float) -> None:
    unit = SnappingNAC(20, 10, start=start).double()
    slopes = torch.autograd.grad((unit.weight * torch.arange(20)).sum(), list(unit.parameters()))
    smooth = (nac_weight(unit.W_hat, unit.M_hat) * torch.arange(20)).sum()
    wanted = torch.autograd.grad(smooth, list(unit.parameters()))
    for found, expected in zip(slopes, wanted, strict=True):
        # the other factor of a product may have snapped
        torch.testing.assert_close(found, expected, rtol=2e-6, atol=2e-5)
    assert all(slope.abs().sum() > 0 for slope in slopes)


def test_sums_and_differences_are_exact() -> None:
    unit = SnappingNAC(3, 2)
    set_weight(unit, [[1, 1, 0], [1, -1, 0]])
    y = unit(torch.tensor([[0.25, -8.5e6, 1e30]]))
    assert torch.equal(y, torch.tensor([[-8499999.75, 8500000.25]]))
    assert unit.measure()["sparsity_error"] == 0


@pytest.mark.parametrize("signs", [(1, 1), (1, -1), (-1, 1), (-1, -1)])
def test_products_and_ratios_are_exact(signs: tuple[int, int]) -> None:
    unit = SnappingPower(3, 3)
    set_weight(unit, [[1, 1, 0], [1, -1, 0], [0, -1, 0]])
    a, b = 12.0 * signs[0], 8.0 * signs[1]
    y = unit(torch.tensor([[a, b, 0.0]]))
    assert torch.equal(y, torch.tensor([[a * b, a / b, 1 / b]]))


def test_the_sign_of_many_factors_is_exact() -> None:
    unit = SnappingPower(20_001, 1)
    set_weight(unit, [[1.0] * 20_001])
    assert unit(-torch.ones(1, 20_001)).item() == -1


def of_weight(unit: SnappingNAC, formula: Callable[[Array, Array], Array]) -> Oracle:
    """A function of x and W as one of x, W_hat and M_hat.

    A factor of W that has snapped moves from there as the smooth one does.
    """
    start, tolerance = numbers(unit), unit.tolerance

    def factor(smooth: Callable[[Array], Array], name: str, limits: Array, now: Array) -> Array:
        first = smooth(start[name])
        distances = np.abs(first[..., None] - limits)
        snapped = np.where(distances.min(-1) <= tolerance, limits[distances.argmin(-1)], first)
        return np.asarray(snapped + smooth(now) - first)

    def oracle(x: Array, W_hat: Array, M_hat: Array) -> Array:
        t = factor(np.tanh, "W_hat", np.array([-1.0, 1.0]), W_hat)
        s = factor(lambda z: 1 / (1 + np.exp(-z)), "M_hat", np.array([0.0, 1.0]), M_hat)
        return formula(x, t * s)

    return oracle


def sums(x: Array, weight: Array) -> Array:
    return np.array([weight @ each for each in x])


# Published code: complex numbers, here two real factors; no smallest magnitude (`epsilon`).
def powers(x: Array, weight: Array) -> Array:
    """Re prod_i x_i^W_ji in complex numbers."""
    return np.prod(x[:, None, :].astype(complex) ** weight, -1).real


@pytest.mark.parametrize(("unit", "formula"), [(SnappingNAC, sums), (SnappingPower, powers)])
@pytest.mark.parametrize("tolerance", [1e-6, 0.2])
def test_values_and_gradients(unit: type[SnappingNAC], formula: Any, tolerance: float) -> None:
    """Where no factor of W has snapped, and where some have."""
    layer = unit(3, 4, tolerance=tolerance).double()
    fill(layer, low=-3.0, high=3.0)
    whole = (layer.weight == layer.weight.round()).sum()
    assert (0 < whole < layer.weight.numel()) if tolerance > 0.1 else not whole
    assert_follows(layer, of_weight(layer, formula))


def test_values_are_the_real_part_of_complex_powers() -> None:
    unit = SnappingPower(4, 3, start=2.0).double()
    unit.reset_parameters(torch.Generator().manual_seed(1))
    x = np.array([[1.5, -0.5, -3.0, 2.0], [-1.0, -0.2, -0.7, -4.0]])
    wanted = powers(x, unit.weight.detach().numpy())
    np.testing.assert_allclose(unit(torch.from_numpy(x)).detach().numpy(), wanted, rtol=1e-10)


@pytest.mark.parametrize("weight", [[1.0, 1.0], [1.0, -1.0], [0.0, 1.0]])
def test_zeros_have_finite_results_and_gradients(weight: list[float]) -> None:
    unit = SnappingPower(2, 1)
    set_weight(unit, [weight])
    x = torch.tensor([[3.0, 0.0], [0.0, 2.0], [0.0, 0.0]], requires_grad=True)
    y = unit(x)
    slopes = torch.autograd.grad(y.sum(), [x, *unit.parameters()])
    assert y.isfinite().all()
    assert all(slope.isfinite().all() for slope in slopes)


def test_start() -> None:
    for unit in (SnappingNAC(50, 40), SnappingPower(50, 40)):
        for parameter in (unit.W_hat, unit.M_hat):
            assert parameter.abs().max() <= 0.02
            assert parameter.var().item() == pytest.approx(0.02**2 / 3, rel=0.1)
        assert not torch.equal(unit.W_hat, unit.M_hat)
    assert not SnappingNAC(3, 2, start=0.0).W_hat.any()


def test_penalty() -> None:
    unit = SnappingNAC(2, 1)
    with torch.no_grad():
        unit.W_hat.copy_(torch.atanh(torch.tensor([[0.9, -0.2]])))
        unit.M_hat.fill_(20.0)
    assert unit.penalty()["sparsity"].item() == pytest.approx(0.15)
    assert unit.measure()["sparsity_error"].item() == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": -1.0}, r"^start must be a finite number of at least 0, got -1.0$"),
        ({"tolerance": 0.0}, r"^tolerance must be a finite number above 0, got 0.0$"),
        ({"epsilon": 0.0}, r"^epsilon must be a finite number above 0, got 0.0$"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SnappingPower(2, 1, **options)  # type: ignore[arg-type]
