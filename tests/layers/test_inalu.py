"""The iNALU against its equations in loops, its two starts, its penalty, and its limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from nalu_ray.layers import INALU, build, get_cell
from tests.layers.oracle import Array, assert_finite_at_corners, assert_follows, fill

SHARED = pytest.mark.parametrize("shared", [True, False])


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


# Published code: the sign is limited to [-1, 1], in a port it is not; no sign lies outside.
def inalu(x: Array, **p: Array) -> Array:
    """Schlör et al. (2020), one number at a time; the sign product limited as in their code."""
    y = np.zeros((len(x), len(p["G"])))
    hats = (p["W_hat"], p["M_hat"])
    hats_m = (p.get("W_hat_m", hats[0]), p.get("M_hat_m", hats[1]))
    for n, j in np.ndindex(y.shape):
        a, log_m, s = 0.0, 0.0, 1.0
        for i, v in enumerate(x[n]):
            w_a, w_m = (math.tanh(w[j, i]) * sigmoid(m[j, i]) for w, m in (hats, hats_m))
            a += w_a * v
            log_m += w_m * math.log(max(abs(v), 1e-7))
            s *= math.copysign(1, v) * abs(w_m) + 1 - abs(w_m)
        g = sigmoid(p["G"][j])
        y[n, j] = g * a + (1 - g) * math.exp(min(log_m, 20.0)) * max(-1.0, min(1.0, s))
    return y


@SHARED
def test_the_papers_equations(shared: bool) -> None:
    layer = INALU(3, 2, shared=shared, dtype=torch.float64)
    fill(layer, low=-2.0, high=2.0)
    assert_follows(layer, inalu)


@SHARED
def test_finite_at_corners(shared: bool) -> None:
    for dtype in torch.float32, torch.float64:
        layer = INALU(2, 2, shared=shared, dtype=dtype)
        fill(layer, low=-3.0, high=3.0)
        assert_finite_at_corners(layer)


def test_parameters_of_each_form() -> None:
    assert [*dict(INALU(3, 2, shared=True).named_parameters())] == ["W_hat", "M_hat", "G"]
    names = ["W_hat", "M_hat", "W_hat_m", "M_hat_m", "G"]
    assert [*dict(INALU(3, 2).named_parameters())] == names


@pytest.mark.parametrize(
    ("start", "means", "deviation"),
    [("authors", (1.0, -1.0, 0.0), 0.1), ("port", (0.88, 0.5, 0.0), 0.2)],
)
def test_starts(start: str, means: tuple[float, float, float], deviation: float) -> None:
    layer = INALU(100, 4000, start=start)
    layer.reset_parameters(torch.Generator().manual_seed(0))
    wanted = dict(zip(("W_hat", "M_hat", "G"), means, strict=True))
    for name, value in layer.named_parameters():
        # five standard errors, of 4,000 numbers at least
        error = 5 * deviation / math.sqrt(value.numel())
        assert abs(value.mean().item() - wanted[name.removesuffix("_m")]) < error, name
        assert abs(value.std().item() - deviation) < error, name
    assert not torch.equal(layer.W_hat, layer.get_parameter("W_hat_m"))


@SHARED
def test_size_is_the_sum_of_each_parameters_mean(shared: bool) -> None:
    layer = INALU(2, 1, shared=shared)
    with torch.no_grad():
        for value in layer.parameters():
            value.fill_(-15.0)
        layer.W_hat.copy_(torch.tensor([[30.0, 4.0]]))
    # mean(0, 16) of W_hat, and 5 of each of the others
    count = 2 if shared else 4
    size = layer.penalty()["size"]
    assert size.item() == 8.0 + 5.0 * count
    size.backward()
    assert layer.W_hat.grad is not None
    assert layer.W_hat.grad.tolist() == [[0.0, -0.5]]
    assert layer.G.grad is not None
    assert layer.G.grad.tolist() == [1.0]


def test_measure() -> None:
    layer = INALU(2, 1, dtype=torch.float64)
    with torch.no_grad():
        for value in layer.parameters():
            value.fill_(40.0)
        layer.get_parameter("W_hat_m")[0, 1] = math.atanh(0.7)
        layer.G.fill_(math.log(0.2 / 0.8))
    measured = layer.measure()
    assert measured["sparsity_error"].item() == pytest.approx(0.3)
    assert measured["gate_error"].item() == pytest.approx(0.2)


def test_the_ceiling_limits_the_product() -> None:
    layer = INALU(2, 1, shared=True, dtype=torch.float64)
    with torch.no_grad():
        for value in layer.parameters():
            value.fill_(40.0)
        layer.G.fill_(-40.0)
    below, above = torch.tensor([[2e4, -2e4], [3e4, -3e4]], dtype=torch.float64)
    assert layer(below).item() == pytest.approx(-4e8, rel=1e-12)
    assert layer(above).item() == pytest.approx(-math.exp(20), rel=1e-12)
    assert INALU(2, 1, ceiling=30.0).ceiling == 30.0


def test_half_precision_stays_finite() -> None:
    layer = INALU(2, 1, dtype=torch.float16)
    with torch.no_grad():
        for value in layer.parameters():
            value.fill_(20.0)
        layer.G.fill_(-20.0)
    y = layer(torch.tensor([2e4, 2e4], dtype=torch.float16))
    assert 2e4 < y.item() < 65504


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"^start must be one of authors, port, got 'paper'$"):
        build("inalu", 2, 2, 1, start="paper")
    with pytest.raises(ValueError, match=r"^ceiling must be a finite number above 0, got 0$"):
        build("inalu", 2, 2, 1, ceiling=0)
    assert {"shared", "start", "epsilon", "ceiling"} <= set(get_cell("inalu").options)
