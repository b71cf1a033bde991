"""NRU and NMRU against their equations in loops, in training and in evaluation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from nalu_ray.layers import NMRU, NRU, get
from nalu_ray.layers.nmru import Gate
from tests.layers.oracle import Array, assert_finite_at_corners, assert_follows, fill

MODES = pytest.mark.parametrize("training", [True, False])
FORMS: list[tuple[Any, dict[str, bool]]] = [
    (NRU, {}), (NRU, {"separate_sign": True}), (NMRU, {}), (NMRU, {"gated": True}),
]  # fmt: skip
EVERY_FORM = pytest.mark.parametrize(("unit", "options"), FORMS)


# Published code, NRU and NMRU: infinity or NaN at x = 0 in evaluation; finite here.
@MODES
@pytest.mark.parametrize("separate_sign", [False, True])
def test_nru(training: bool, separate_sign: bool) -> None:
    def nru(x: Array, W: Array) -> Array:
        y = np.ones((len(x), len(W)))
        for n, j in np.ndindex(y.shape):
            for v, w in zip(x[n], W[j], strict=True):
                b = math.tanh(1000 * w) ** 2 if training else abs(w)
                sign = math.copysign(1, v)
                y[n, j] *= (1 if separate_sign else sign) * abs(v) ** w * b + 1 - b
                if separate_sign:
                    y[n, j] *= sign ** round(w)
        return y

    layer = NRU(3, 2, separate_sign=separate_sign, dtype=torch.float64).train(training)
    fill(layer)
    if training:  # within the narrow range in which the selection is open
        with torch.no_grad():
            layer.W[0, 1] = 0.0007
            layer.W[1, 0] = -0.0004
    assert (layer.W.abs() > 0.5).any()
    assert_follows(layer, nru)


@MODES
@pytest.mark.parametrize("gated", [False, True])
def test_nmru(training: bool, gated: bool) -> None:
    def nmru(x: Array, W: Array, **others: Array) -> Array:
        y = np.ones((len(x), len(W)))
        for n, j in np.ndindex(y.shape):
            z = [*x[n], *(1 / (x[n] + (2**-52 if training else 0)))]
            half_turns = 0.0
            gates = others.get("gate.g", np.ones(len(z)))
            for v, gate, w in zip(z, gates, W[j], strict=True):
                y[n, j] *= w * abs(gate * v) + 1 - w
                half_turns += w * (v < 0)
            y[n, j] *= math.cos(math.pi * half_turns)
        return y

    layer = NMRU(3, 2, gated=gated, dtype=torch.float64).train(training)
    fill(layer, low=0.05, high=0.95)
    assert layer.W.shape == (2, 6)
    assert_follows(layer, nmru)


def test_reciprocal_while_training_in_float32() -> None:
    layer = NMRU(1, 1)
    with torch.no_grad():
        layer.W.copy_(torch.tensor([[0.0, 1.0]]))
    x = torch.tensor([[2.0**-20]])
    assert layer(x).item() == pytest.approx(1 / (2.0**-20 + 2.0**-23), rel=1e-6)
    assert layer.eval()(x).item() == 2.0**20


@EVERY_FORM
def test_outside_the_bounds_as_on_them_with_a_gradient(unit: Any, options: Any) -> None:
    outside, on = (unit(2, 2, dtype=torch.float64, **options).eval() for _ in range(2))
    fill(outside, low=0.3, high=0.7)
    with torch.no_grad():
        outside.W[0, 0], outside.W[1, 1] = 1.7, -1.6
        on.load_state_dict(outside.state_dict())
        on.W.clamp_(*on.bounds["W"])
    x = torch.tensor([[2.0, -3.0]], dtype=torch.float64)
    assert torch.equal(outside(x), on(x))
    (slope,) = torch.autograd.grad(outside(x).sum(), outside.W)
    assert slope[0, 0] != 0
    assert slope[1, 1] != 0


@EVERY_FORM
@MODES
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_finite_at_corners(unit: Any, options: Any, training: bool, dtype: torch.dtype) -> None:
    layer = unit(2, 2, dtype=dtype, **options).train(training)
    for low, high in (-1.0, 1.0), (0.0, 0.0), (1.0, 1.0), (-1.0, -1.0):
        fill(layer, low=low, high=high)
        assert_finite_at_corners(layer)


@EVERY_FORM
@MODES
def test_bfloat16_follows_float64(unit: Any, options: Any, training: bool) -> None:
    half = unit(3, 2, dtype=torch.bfloat16, **options).train(training)
    fill(half, low=0.1, high=0.9)
    wide = unit(3, 2, dtype=torch.float64, **options).train(training)
    wide.load_state_dict(half.state_dict())
    x = torch.tensor([[2.0, -3.0, 0.5], [-1.5, 0.25, 4.0]], dtype=torch.float64)
    y = half(x.bfloat16())
    assert y.dtype is torch.bfloat16
    torch.testing.assert_close(y.double(), wide(x), rtol=2**-8, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_nmru_divides_by_the_smallest_numbers_as_by_zero(dtype: torch.dtype) -> None:
    unit = NMRU(2, 1, dtype=dtype).eval()
    small = torch.finfo(dtype).tiny / 1e4
    x = torch.tensor([[small, 2.0], [0.0, 2.0]], dtype=dtype, requires_grad=True)
    y = unit(x)
    torch.testing.assert_close(y[0], y[1])
    for slope in torch.autograd.grad(y.sum(), [x, *unit.parameters()]):
        assert slope.isfinite().all()


def test_a_zero_factor_has_its_gradient() -> None:
    layer = NRU(3, 1, dtype=torch.float64)
    with torch.no_grad():
        layer.W.copy_(torch.tensor([[1.0, 1.0, 0.0]]))
    x = torch.tensor([[0.0, 3.0, 5.0]], dtype=torch.float64)
    y = layer(x)
    assert y.item() == 0
    chosen = NMRU(2, 1, dtype=torch.float64).eval()
    with torch.no_grad():
        chosen.W.copy_(torch.tensor([[1.0, 1.0, 0.0, 0.0]]))
    (slope,) = torch.autograd.grad(chosen(torch.tensor([[0.0, 3.0]]).double()).sum(), chosen.W)
    # y = (1 + W_1 (0 - 1)) (1 + W_2 (3 - 1)) (...): dy/dW_1 = -3, and what is multiplied by 0 is 0
    torch.testing.assert_close(slope[0, :2], torch.tensor([-3.0, 0.0]).double())


def test_starts_and_bounds() -> None:
    for inputs, bound in (2, 0.5), (99, math.sqrt(6 / 100)):
        layer = NRU(inputs, 1)
        draws = []
        for seed in range(20_000 // inputs):
            layer.reset_parameters(torch.Generator().manual_seed(seed))
            draws.append(layer.W.detach().clone())
        weight = torch.cat(draws)
        assert 0.99 * bound < weight.abs().max() <= bound
        assert weight.var().item() == pytest.approx(bound**2 / 3, rel=0.05)
    reciprocal = NMRU(100, 100, gated=True)
    reciprocal.reset_parameters(torch.Generator().manual_seed(0))
    assert 0.25 <= reciprocal.W.min() < 0.255
    assert 0.745 < reciprocal.W.max() <= 0.75
    assert reciprocal.W.var().item() == pytest.approx(1 / 48, rel=0.05)
    assert (reciprocal.get_parameter("gate.g") == 0.5).all()
    assert NRU.bounds == {"W": (-1.0, 1.0)}
    assert reciprocal.bounds == {"W": (0.0, 1.0)}
    assert Gate.bounds == {"g": (0.0, 1.0)}


def test_penalties_and_figures_by_hand() -> None:
    layer = NMRU(2, 1, gated=True)
    with torch.no_grad():
        layer.W.copy_(torch.tensor([[0.2, 0.9, 0.45, 1.0]]))
        layer.get_parameter("gate.g").copy_(torch.tensor([0.3, 0.9, 0.0, 1.0]))
    assert layer.penalty()["sparsity"].item() == pytest.approx(0.75 / 4)
    assert layer.measure()["sparsity_error"].item() == pytest.approx(0.45)
    assert layer.gate is not None
    assert layer.gate.penalty()["gate"].item() == pytest.approx(0.1)
    assert layer.gate.measure()["gate_error"].item() == pytest.approx(0.3)
    assert NMRU(2, 1).gate is None
    unit = NRU(2, 1)
    with torch.no_grad():
        unit.W.copy_(torch.tensor([[0.2, -0.9]]))
    unit.penalty()["sparsity"].backward()
    assert unit.penalty()["sparsity"].item() == pytest.approx(0.15)
    assert unit.W.grad is not None
    assert unit.W.grad.tolist() == [[0.5, 0.5]]


def test_options() -> None:
    assert "gated" in get("nmru").options
    assert "separate_sign" in get("nru").options
    assert not {"init", "gate_init"} & {*get("nmru").options, *get("nru").options}
