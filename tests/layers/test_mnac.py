"""Products by logarithms and gates with weights of their own: equations, starts, domains."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from nalu_ray.layers import (
    MNAC,
    NALU,
    GatedNAUNMU,
    LinearMNAC,
    SeparateNALU,
    SigmoidMNAC,
    build,
    build_cell,
    get,
    max_exponent,
)
from tests.layers.oracle import Array, assert_finite_at_corners, assert_follows, fill


def sigmoid(z: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-z)))


# Published code: no bound on the exponent of a product.
def power(x: Array, w: Array, epsilon: float = 1e-7) -> Array:
    """Products of powers, without a logarithm of a sum."""
    return np.array([[np.prod((np.abs(each) + epsilon) ** row) for row in w] for each in x])


def mnac(x: Array, W_hat: Array, M_hat: Array) -> Array:
    return power(x, np.tanh(W_hat) * sigmoid(M_hat))


def mnac_sigmoid(x: Array, W_hat: Array) -> Array:
    return power(x, sigmoid(W_hat))


def mnac_linear(x: Array, W: Array) -> Array:
    return power(x, np.clip(W, 0, 1))


def nalu_separate(x: Array, G: Array, **paths: Array) -> Array:
    weight = np.tanh(paths["sum.W_hat"]) * sigmoid(paths["sum.M_hat"])
    a, m = x @ weight.T, mnac(x, paths["product.W_hat"], paths["product.M_hat"])
    g = sigmoid(x @ G.T)
    return np.asarray(g * a + (1 - g) * m)


def gated_nau_nmu(x: Array, G: Array, **paths: Array) -> Array:
    product = np.array([[np.prod(w * each + 1 - w) for w in paths["nmu.W"]] for each in x])
    g = sigmoid(x @ G.T)
    return np.asarray(g * (x @ paths["nau.W"].T) + (1 - g) * product)


UNITS: dict[type[nn.Module], Any] = {
    MNAC: mnac,
    SigmoidMNAC: mnac_sigmoid,
    LinearMNAC: mnac_linear,
    SeparateNALU: nalu_separate,
    GatedNAUNMU: gated_nau_nmu,
}
every_unit = pytest.mark.parametrize("unit", UNITS)


@every_unit
def test_the_equations(unit: type[nn.Module]) -> None:
    layer = unit(3, 2, dtype=torch.float64)
    # within the domain of every weight
    fill(layer, low=0.1, high=0.9)
    assert_follows(layer, UNITS[unit])


@every_unit
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_finite_at_corners(unit: type[nn.Module], dtype: torch.dtype) -> None:
    layer = unit(3, 2, dtype=dtype)
    fill(layer, low=0.1, high=0.9)
    assert_finite_at_corners(layer)


@pytest.mark.parametrize("unit", [MNAC, SigmoidMNAC, LinearMNAC])
def test_epsilon_is_an_option(unit: type[nn.Module]) -> None:
    half = 1 / (1 + math.exp(-0.5))  # sigmoid(1/2)
    weight = {MNAC: math.tanh(0.5) * half, SigmoidMNAC: half, LinearMNAC: 0.5}[unit]
    layer = unit(1, 1, epsilon=0.25, start=0.5, dtype=torch.float64)
    x = torch.tensor([[-2.0]], dtype=torch.float64)
    assert layer(x).item() == pytest.approx(2.25**weight, rel=1e-14)


def test_large_products_stop_at_the_bound() -> None:
    """Beyond float32's third of range a product stays, and passes no gradient."""
    layer = LinearMNAC(2, 1, start=1.0)
    for values, finite in (((1e5, 1e6), True), ((1e9, 1e9), False)):
        y = layer(torch.tensor([values]))
        (slope,) = torch.autograd.grad(y.sum(), layer.W)
        expected = math.prod(values) if finite else math.exp(max_exponent(torch.float32))
        assert y.item() == pytest.approx(expected, rel=1e-4)
        assert slope.any().item() is finite


def values_of(unit: type[nn.Module], *shape: int) -> dict[str, Array]:
    """All parameters of many seeds."""
    generator = torch.Generator().manual_seed(0)
    layer: Any = unit(*shape, dtype=torch.float64)
    drawn: dict[str, list[Array]] = {}
    for _ in range(20000 // math.prod(shape)):
        layer.reset_parameters(generator)
        for name, value in layer.named_parameters():
            drawn.setdefault(name, []).append(value.detach().numpy().copy().ravel())
    return {name: np.concatenate(parts) for name, parts in drawn.items()}


def assert_uniform(values: Array, low: float, high: float) -> None:
    assert low <= values.min() < low + 2e-3 * (high - low)
    assert high - 2e-3 * (high - low) < values.max() <= high
    assert values.var() == pytest.approx((high - low) ** 2 / 12, rel=0.03)


# of 100 inputs and 2 outputs, the first layer of the static task
VARIANCE, GLOROT = 0.503909, math.sqrt(6 / 102)


def test_starts_are_the_published_ones() -> None:
    shape = (100, 2)
    for values in values_of(MNAC, *shape).values():
        assert_uniform(values, -VARIANCE, VARIANCE)
    sigmoids = values_of(SigmoidMNAC, *shape)["W_hat"]
    assert sigmoids.var() == pytest.approx(2 / 102, rel=0.03)
    # a normal law: kurtosis 3, where a uniform one has 1.8
    assert np.mean(sigmoids**4) / sigmoids.var() ** 2 == pytest.approx(3, abs=0.15)
    assert_uniform(values_of(LinearMNAC, *shape)["W"], 0.25, 0.75)
    expected = {"sum.W_hat": VARIANCE, "sum.M_hat": VARIANCE, "product.W_hat": VARIANCE}
    expected |= {"product.M_hat": VARIANCE, "G": GLOROT}
    found = values_of(SeparateNALU, *shape)
    assert found.keys() == expected.keys()
    for name, r in expected.items():
        assert_uniform(found[name], -r, r)
    found = values_of(GatedNAUNMU, *shape)
    ranges = {"nau.W": (-GLOROT, GLOROT), "nmu.W": (0.25, 0.75), "G": (-GLOROT, GLOROT)}
    assert found.keys() == ranges.keys()
    for name, ends in ranges.items():
        assert_uniform(found[name], *ends)


@pytest.mark.parametrize(
    ("name", "first"),
    [("nac_mnac", VARIANCE), ("nac_mnac_sigmoid", VARIANCE), ("nac_gated_nau_nmu", VARIANCE)],
)
def test_a_pairs_nac_starts_as_published_whatever_a_task_passes(name: str, first: float) -> None:
    assert not {"init", "gate_init", "m_hat_init"} & set(get(name).options)
    network: Any = build(name, 100, 2, 1)
    assert 0.9 * first < network[0].W_hat.abs().max() <= first
    network = build(name, 100, 2, 1, start=[0.25, 0.5])
    assert (network[0].M_hat == 0.25).all()


def test_equal_weights_make_a_nalu() -> None:
    separate, shared = SeparateNALU(3, 2, dtype=torch.float64), NALU(3, 2, dtype=torch.float64)
    fill(shared)
    hats = {"W_hat": shared.W_hat, "M_hat": shared.M_hat}
    state = {f"{path}.{name}": hat for path in ("sum", "product") for name, hat in hats.items()}
    separate.load_state_dict(state | {"G": shared.G})
    x = torch.randn(9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(separate(x), shared(x), rtol=1e-14, atol=1e-14)


def test_gated_parts_say_their_own_bounds_and_penalties() -> None:
    network = build("nac_gated_nau_nmu", 4, 3, 2)
    bounds = {
        name: unit.bounds for name, unit in network.named_modules() if hasattr(unit, "bounds")
    }
    assert bounds == {"1.nau": {"W": (-1.0, 1.0)}, "1.nmu": {"W": (0.0, 1.0)}}
    unit = network[1]
    with torch.no_grad():
        unit.nau.W.fill_(-0.75)
        unit.nmu.W.fill_(0.5)
    assert unit.nau.penalty()["sparsity"].item() == 0.25
    assert unit.nmu.penalty()["sparsity"].item() == 0.5


def test_the_linear_one_has_the_nmus_penalties() -> None:
    layer = LinearMNAC(2, 1, dtype=torch.float64)
    with torch.no_grad():
        layer.W.copy_(torch.tensor([[0.25, 1.0]]))
    found = layer.penalty(torch.tensor([[2.0, 5.0], [4.0, 7.0]], dtype=torch.float64))
    assert found["sparsity"].item() == 0.125
    assert found["inputs"].item() == 0.5 * 0.75 * (1 - 3) ** 2
    assert layer.bounds == {"W": (0.0, 1.0)}


@pytest.mark.parametrize("name", ["mnac", "mnac_sigmoid", "mnac_linear"])
def test_cells_of_products_start_at_one(name: str) -> None:
    cell: Any = build_cell(name, 1, 1, epsilon=1e-30, dtype=torch.float64)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.fill_(40.0)
    x = torch.tensor([[[2.0], [3.0], [0.5]]], dtype=torch.float64)
    torch.testing.assert_close(cell(x)[0], x.cumprod(1), rtol=1e-13, atol=0)


@every_unit
def test_bad_options_are_named(unit: type[nn.Module]) -> None:
    with pytest.raises(ValueError, match=r"^in_features must be an integer of at least 1, got 0$"):
        unit(0, 1)
    with pytest.raises(ValueError, match=r"^start must be one of .*, got 'no such'$"):
        unit(1, 1, start="no such")
    if unit is GatedNAUNMU:
        with pytest.raises(ValueError, match=r"^gate_start must be one of .*, got 'no such'$"):
            unit(1, 1, gate_start="no such")
    else:
        with pytest.raises(ValueError, match=r"^epsilon must be a finite number above 0, got 0$"):
            unit(1, 1, epsilon=0)
