"""NAU, NMU and their relatives: values, starts, domains, penalties, the cells' starts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from nalu_ray.layers import NAC, NAU, NMU, SNMU, build, build_cell
from nalu_ray.training import members
from tests.layers.oracle import Array, assert_follows


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def make(unit: type[nn.Module], *shape: int, seed: int = 0, **options: Any) -> Any:
    layer = unit(*shape, dtype=torch.float64, **options)
    layer.reset_parameters(torch.Generator().manual_seed(seed))  # type: ignore[operator]
    return layer


# Published code: no gradient of W outside its bounds; here it passes.
def nau(x: Array, W: Array) -> Array:
    """In loops."""
    return np.array(
        [[sum(w * z for w, z in zip(row, each, strict=True)) for row in W] for each in x]
    )


def nmu(x: Array, W: Array) -> Array:
    """In loops."""
    return np.array(
        [
            [math.prod(w * z + 1 - w for w, z in zip(row, each, strict=True)) for row in W]
            for each in x
        ]
    )


OF_W = {NAU: nau, NMU: nmu}


@pytest.mark.parametrize("shape", [(5,), (7, 5), (2, 3, 5)])
@pytest.mark.parametrize("unit", OF_W)
def test_values_are_the_formulas(unit: type[nn.Module], shape: tuple[int, ...]) -> None:
    layer, x = make(unit, 5, 4), 2 * drawn(*shape, seed=1)
    expected = OF_W[unit](x.numpy().reshape(-1, 5), layer.W.detach().numpy())
    np.testing.assert_allclose(
        layer(x).detach().numpy(), expected.reshape(*shape[:-1], 4), rtol=1e-12
    )


@pytest.mark.parametrize("unit", OF_W)
def test_gradients_are_those_of_finite_differences(unit: type[nn.Module]) -> None:
    layer, x = make(unit, 4, 3), drawn(6, 4, seed=1)
    # where factors are 0: one, two of a row, and a row of zeros
    x[0, 1] = x[1, 0] = x[1, 2] = 0
    x[2] = 0
    with torch.no_grad():
        layer.W[0, :3] = 1.0
    assert_follows(layer, OF_W[unit], x)


@pytest.mark.parametrize("unit", OF_W)
def test_weights_are_limited_and_their_gradients_are_not(unit: type[nn.Module]) -> None:
    layer, x = make(unit, 3, 2), drawn(8, 3, seed=1)
    low, high = layer.bounds["W"]
    assert (low, high) == ((0, 1) if unit is NMU else (-1, 1))
    inside = torch.tensor([[low, high, 0.25], [high, 0.5, low]], dtype=torch.float64)
    beyond = torch.tensor([[-0.5, 0.5, 0.0], [2.0, 0.0, -3.0]], dtype=torch.float64)
    results = []
    for weight in (inside.requires_grad_(), (inside.detach() + beyond).requires_grad_()):
        y = functional_call(layer, {"W": weight}, (x,))
        results.append((y, *torch.autograd.grad(y.square().sum(), weight)))
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)
    assert (results[0][1] != 0).all()


@pytest.mark.parametrize("unit", [NAU, NMU])
def test_without_the_clamp_weights_are_free(unit: type[nn.Module]) -> None:
    layer = make(unit, 2, 1, clamp=False)
    assert layer.bounds == {}
    assert members.bounds(layer) == {}
    assert members.bounds(make(unit, 2, 1)) != {}
    with torch.no_grad():
        layer.W[:] = torch.tensor([[1.5, -2.0]], dtype=torch.float64)
    x = torch.tensor([[4.0, 3.0]], dtype=torch.float64)
    # 1.5 * 4 - 2 * 3; (1.5 * 4 - 0.5) (-2 * 3 + 3)
    assert layer(x).tolist() == [[0.0 if unit is NAU else -16.5]]
    distances = (0.5, 1.0) if unit is NAU else (0.5, 2.0)  # of 1.5 and -2
    found = {name: value.item() for name, value in layer.penalty().items()}
    assert found["sparsity"] == pytest.approx(sum(distances) / 2)
    one = 1.0 if unit is NAU else 9.0  # (1 - |-2|)^2 or (1 + 2)^2
    assert found["sparsity_squared"] == pytest.approx((2.25 * 0.25 + 4 * one) / 2)


@pytest.mark.parametrize(
    ("unit", "shape", "low", "high"),
    [
        (NAU, (300, 100), -math.sqrt(6 / 400), math.sqrt(6 / 400)),
        # where Glorot's range is wider
        (NAU, (8, 2), -0.5, 0.5),
        (NMU, (300, 100), 0.25, 0.75),
        (NMU, (20, 5), 0.25, 0.75),
        (SNMU, (20, 5), 0.25, 0.75),
    ],
)
def test_starts_are_the_published_ones(
    unit: type[nn.Module], shape: tuple[int, int], low: float, high: float
) -> None:
    layers = [make(unit, *shape, seed=seed) for seed in range(30000 // math.prod(shape))]
    weights = torch.cat([layer.W.detach().flatten() for layer in layers])
    assert low <= weights.min() < weights.max() <= high
    assert weights.min().item() == pytest.approx(low, abs=0.01 * (high - low))
    assert weights.max().item() == pytest.approx(high, abs=0.01 * (high - low))
    assert weights.mean().item() == pytest.approx((low + high) / 2, abs=0.01 * (high - low))
    # of a uniform law
    assert weights.var().item() == pytest.approx((high - low) ** 2 / 12, rel=0.03)


def test_another_start_is_limited_to_the_bounds() -> None:
    assert (make(NMU, 3, 2, start=0.25).W == 0.25).all()
    assert (make(NMU, 3, 2, start=-4.0).W == 0).all()
    weights = make(NMU, 100, 100, start="uniform").W
    assert weights.max() > 0.49
    assert (weights == 0).double().mean().item() == pytest.approx(0.5, abs=0.02)
    # Glorot's range of one input and one output is sqrt(3)
    assert make(NAU, 1, 1, start="glorot", seed=3).W.abs().max() <= 1
    with pytest.raises(ValueError, match=r"^start must be one of .*got 'no such'$"):
        NAU(3, 2, start="no such")
    with pytest.raises(ValueError, match=r"^in_features must be an integer of at least 1, got 0$"):
        NMU(0, 2)


def test_tasks_leave_the_start_alone() -> None:
    """They pass ``init`` and ``gate_init`` to the units that have them."""
    for name in ("nau", "nmu", "nau_nmu"):
        network = build(name, 5, 3, 2, start=0.5)
        assert all((parameter == 0.5).all() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("shape", "wanted", "variance"),
    # r is the published code's; 3 inputs and 1 output count as 5
    [((100, 2), 0.5039, 2 / 102), ((6, 4), 2.5003, 2 / 10), ((3, 1), 9.471, 2 / 5)],
)
def test_variance_starts_a_nac_as_the_published_code(
    shape: tuple[int, int], wanted: float, variance: float
) -> None:
    generator, hats, weights = torch.Generator().manual_seed(0), [], []
    layer = NAC(*shape, init="variance", dtype=torch.float64)
    for _ in range(20000 // math.prod(shape)):
        layer.reset_parameters(generator)
        hats += [p.detach().flatten().clone() for p in (layer.W_hat, layer.M_hat)]
        weights.append(layer.weight.detach().flatten())
    for name, hat in (("W_hat", hats[::2]), ("M_hat", hats[1::2])):
        values = torch.cat(hat)
        assert values.max().item() == pytest.approx(wanted, rel=2e-3), name
        assert values.min().item() == pytest.approx(-wanted, rel=2e-3), name
        assert values.var().item() == pytest.approx(wanted**2 / 3, rel=0.03), name
    assert torch.cat(weights).var().item() == pytest.approx(variance, rel=0.03)


WEIGHTS = torch.tensor([[1.0, 0.25, -0.5], [0.0, 0.875, -1.0]], dtype=torch.float64)
INPUTS = torch.tensor([[1.0, 2.0, 3.0], [3.0, -4.0, 0.0]], dtype=torch.float64)  # means 2, -1, 1.5


def test_penalties_of_the_nau_by_hand() -> None:
    layer = make(NAU, 3, 2)
    with torch.no_grad():
        layer.W.copy_(WEIGHTS)
    assert set(layer.penalty()) == {"sparsity", "sparsity_squared"}
    found = layer.penalty(INPUTS)
    # distances 0, 1/4, 1/2; 0, 1/8, 0
    assert found["sparsity"].item() == pytest.approx((1 / 4 + 1 / 2 + 1 / 8) / 6)
    squared = (1 / 4 * 3 / 4) ** 2 + (1 / 2 * 1 / 2) ** 2 + (7 / 8 * 1 / 8) ** 2
    assert found["sparsity_squared"].item() == pytest.approx(squared / 6)
    rest = (3 / 4 * 1 + 1 / 2 * 2.25) + (1 * 4 + 1 / 8 * 1)
    assert found["inputs"].item() == pytest.approx(rest / 6)
    assert layer.measure()["sparsity_error"].item() == 0.5
    (slope,) = torch.autograd.grad(found["sparsity"], layer.W)
    # away from the nearest of -1, 0, 1; none at these
    expected = torch.tensor([[0, 1, -1], [0, -1, 0]]) / 6
    at = WEIGHTS.abs() % 1 != 0
    # at 1/2 both are as near
    at[0, 2] = False
    torch.testing.assert_close(slope[at], expected[at].double())


def test_penalties_of_the_nmu_by_hand() -> None:
    layer, weights = make(NMU, 3, 2), WEIGHTS.abs()
    with torch.no_grad():
        layer.W.copy_(weights)
    found = layer.penalty(INPUTS)
    assert found["sparsity"].item() == pytest.approx((1 / 4 + 1 / 2 + 1 / 8) / 6)
    # (1 - z)^2 is 1, 4 and 1/4
    rest = (3 / 4 * 4 + 1 / 2 * 1 / 4) + (1 * 1 + 1 / 8 * 4)
    assert found["inputs"].item() == pytest.approx(rest / 6)
    (slope,) = torch.autograd.grad(found["inputs"], layer.W)
    expected = -torch.tensor([[1, 4, 0.25], [1, 4, 0.25]], dtype=torch.float64) / 6
    torch.testing.assert_close(slope, expected)


@pytest.mark.parametrize("outside", [-1.25, 1.5, -0.3])
def test_a_weight_beyond_its_bounds_is_penalised_too(outside: float) -> None:
    layer = make(NAU, 1, 1, start=0.5)
    with torch.no_grad():
        layer.W.fill_(outside)
    expected = min(abs(outside), abs(1 - abs(outside)))
    assert layer.penalty()["sparsity"].item() == pytest.approx(expected)


def test_cells_start_where_the_unit_changes_nothing() -> None:
    """Sums over time start at 0 and products at 1, so that W = 1 accumulates exactly."""
    x = 0.5 + drawn(3, 6, 2, seed=2).abs()
    for name, expected in (("nau", x.cumsum(1)), ("nmu", x.cumprod(1))):
        cell = build_cell(name, 2, 2, dtype=torch.float64)
        with torch.no_grad():
            cell.unit.W.copy_(torch.tensor([[1, 0, 1, 0], [0, 1, 0, 1]]))
        torch.testing.assert_close(cell(x)[0], expected, rtol=1e-13, atol=1e-13)
        ends = [cell(x[:, :1])[0], cell(x[:, :1], cell.initial(3, x))[0]]
        assert torch.equal(*ends)
