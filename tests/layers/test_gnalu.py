"""The G-NALU against its equations with base phi, and that it is a rescaled NALU."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from nalu_ray.layers import GNALU, NALU
from tests.layers.oracle import Array, assert_follows, fill

PHI = (1 + math.sqrt(5)) / 2
C = math.log(PHI)


def gnalu(x: Array, W_hat: Array, M_hat: Array, G: Array) -> Array:
    """Rana et al. (2019), with powers of phi; the product as the later port writes it."""
    tanh = (PHI ** (2 * W_hat) - 1) / (PHI ** (2 * W_hat) + 1)
    w = tanh / (1 + PHI**-M_hat)
    gate = 1 / (1 + PHI ** -(x @ G.T))
    product = PHI ** (np.log(np.abs(x) + 1e-7) @ w.T / math.log(PHI))
    return np.asarray(gate * (x @ w.T) + (1 - gate) * product)


def test_the_equations() -> None:
    layer = GNALU(3, 2, dtype=torch.float64)
    fill(layer, low=-2.0, high=2.0)
    assert_follows(layer, gnalu)


def test_scale_of_the_weight() -> None:
    layer = GNALU(1, 1, dtype=torch.float64)
    with torch.no_grad():
        layer.W_hat.fill_(1.0)
        layer.M_hat.fill_(0.0)
    # tanh_phi(1) = (phi^2 - 1) / (phi^2 + 1) = 1 / sqrt(5)
    assert layer.weight.item() == pytest.approx(0.5 / math.sqrt(5), rel=1e-15)


def test_starts_as_a_nalu() -> None:
    golden, plain = GNALU(5, 4), NALU(5, 4)
    for unit in (golden, plain):
        unit.reset_parameters(torch.Generator().manual_seed(0))
    for ours, theirs in zip(golden.parameters(), plain.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_trains_as_a_nalu_of_scaled_start_and_rate() -> None:
    golden, plain = GNALU(3, 2, dtype=torch.float64), NALU(3, 2, dtype=torch.float64)
    golden.reset_parameters(torch.Generator().manual_seed(0))
    with torch.no_grad():
        for ours, theirs in zip(plain.parameters(), golden.parameters(), strict=True):
            ours.copy_(C * theirs)
    x = 1 + torch.rand(32, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    target = (x[:, :1] + x[:, 1:2]).expand(-1, 2)
    # Adam's own epsilon is the part that does not scale
    rates = [(golden, 1e-2), (plain, C * 1e-2)]
    optimisers = [torch.optim.Adam(unit.parameters(), lr=lr, eps=1e-30) for unit, lr in rates]
    for _ in range(20):
        for (unit, _), optimiser in zip(rates, optimisers, strict=True):
            optimiser.zero_grad()
            (unit(x) - target).square().mean().backward()
            optimiser.step()
    torch.testing.assert_close(golden(x), plain(x), rtol=1e-10, atol=0)
    for ours, theirs in zip(plain.parameters(), golden.parameters(), strict=True):
        torch.testing.assert_close(ours, C * theirs, rtol=1e-9, atol=1e-12)
