"""Mass-conserving layers: mass, values by hand, exact solutions, start, penalties."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from nalu_ray.layers import build
from nalu_ray.layers.mcfc import MCFC, SIGNS, MulMCFC
from tests.layers.oracle import Array, assert_follows

X = np.array([[1.5, 0.25, 3.0], [2.0, 1.0, 0.5]])
SIGNED = np.array([[-1.5, 0.25, 3.0], [-2.0, -1.0, 0.5]])


def made(unit: MCFC) -> MCFC:
    unit.reset_parameters(torch.Generator().manual_seed(3))
    with torch.no_grad():
        for parameter in unit.parameters():
            parameter.add_(0.3 * torch.arange(parameter.numel()).reshape(parameter.shape))
    return unit.double()


def values(unit: MCFC) -> dict[str, Array]:
    return {name: value.detach().numpy() for name, value in unit.named_parameters()}


def softmax(logits: Array) -> Array:
    shares: Array = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return shares


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def set_exactly(unit: MCFC, to: list[int]) -> None:
    """Sends each input to an output, with open gates."""
    with torch.no_grad():
        unit.r.fill_(0.0)
        for row, output in enumerate(to):
            unit.r[row, output] = 200.0
        unit.w.fill_(20.0)


def test_mass_is_conserved_behind_open_gates() -> None:
    unit = made(MCFC(3, 5))
    x = torch.from_numpy(SIGNED)
    assert (unit(x).sum(-1) < x.sum(-1)).any()
    with torch.no_grad():
        unit.b.fill_(60.0)
    torch.testing.assert_close(unit(x).sum(-1), x.sum(-1))


def test_values_and_gradients() -> None:
    def mcfc(x: Array, r: Array, w: Array, b: Array) -> Array:
        return np.asarray((sigmoid(w + b) * (x @ softmax(r)))[:, :2])

    assert_follows(made(MCFC(3, 2, spare=1)), mcfc, torch.from_numpy(X))


# Published code: log x, which is NaN for negative inputs; here log(|x| + epsilon).
@pytest.mark.parametrize("signs", SIGNS)
def test_values_and_gradients_of_products(signs: str) -> None:
    def product(x: Array, **p: Array) -> Array:
        shares = softmax(p["r"])
        logs = (sigmoid(p["w"] + p["b"]) * (np.log(np.abs(x) + 1e-12) @ shares))[:, :2]
        y = np.exp(logs + p["c"])
        for row, column in np.ndindex(y.shape):
            share, seen = shares[:, column], x[row]
            if signs == "product":
                y[row, column] *= np.prod(share * np.sign(seen) + 1 - share)
            if signs == "cosine":
                y[row, column] *= np.cos(np.pi * np.sum(share * p["g"] * (seen < 0)))
        return np.asarray(y)

    unit = made(MulMCFC(3, 2, signs=signs, epsilon=1e-12))
    assert_follows(unit, product, torch.from_numpy(SIGNED))


def test_sums_of_subsets_are_exact() -> None:
    unit = MCFC(4, 2, spare=1)
    set_exactly(unit, [0, 2, 1, 1])
    y = unit(torch.tensor([[1.0, 7.0, -2.5, 1e6]]))
    assert torch.equal(y, torch.tensor([[1.0, 999997.5]]))
    assert unit.measure()["sparsity_error"] == 0


@pytest.mark.parametrize(("signs", "wanted"), [("none", 6e6), ("product", -6e6), ("cosine", -6e6)])
def test_a_product_of_a_subset_is_exact(signs: str, wanted: float) -> None:
    unit = MulMCFC(3, 1, signs=signs).double()
    set_exactly(unit, [0, 1, 0])
    if unit.g is not None:
        with torch.no_grad():
            unit.g.fill_(1.0)
            unit.w.fill_(60.0)
    y = unit(torch.tensor([[-2.0, -5.0, 3e6]], dtype=torch.float64))
    assert y.item() == pytest.approx(wanted, rel=1e-6)


def test_a_difference_needs_the_linear_head() -> None:
    network = build("mcfc_linear", 2, 2, 1)
    with torch.no_grad():
        set_exactly(network[0], [0, 1])  # type: ignore[index, arg-type]
        network[1].weight.copy_(torch.tensor([[1.0, -1.0]]))  # type: ignore[index]
        network[1].bias.zero_()  # type: ignore[index]
    assert network(torch.tensor([[5.0, 8.0]])).item() == -3.0


def test_products_keep_their_gradient_at_zero_inputs() -> None:
    unit = made(MulMCFC(3, 2, signs="product"))
    x = torch.tensor([[0.0, 2.0, -3.0]], dtype=torch.float64, requires_grad=True)
    slopes: tuple[Tensor, ...] = torch.autograd.grad(unit(x).sum(), [x, *unit.parameters()])
    assert all(slope.isfinite().all() for slope in slopes)


def test_large_products_stay_finite() -> None:
    unit = MulMCFC(100, 1, spare=0)
    with torch.no_grad():
        unit.b.fill_(20.0)
    assert 1e12 < unit(torch.full((1, 100), 1e6)).item() < 1e13


def test_start() -> None:
    square = MCFC(4, 4)
    assert torch.equal(square.r, torch.eye(4))
    wide, tall = MCFC(3, 8, dtype=torch.bfloat16), MCFC(50, 2, spare=1)
    torch.testing.assert_close(wide.r @ wide.r.mT, torch.eye(3).bfloat16(), atol=0.02, rtol=0)
    torch.testing.assert_close(tall.r.mT @ tall.r, torch.eye(3))
    for unit in (square, tall, MulMCFC(3, 2, signs="cosine")):
        assert unit.w.square().sum().item() == pytest.approx(1, rel=1e-6)
        assert not unit.b.any()
    signed = MulMCFC(3, 2, signs="cosine")
    assert signed.g is not None
    assert not signed.c.any()
    assert (signed.g == 0.5).all()
    with torch.no_grad():
        signed.g.fill_(1.0)
        signed.c.fill_(1.0)
    signed.reset_parameters()
    assert (signed.g == 0.5).all()
    assert not signed.c.any()
    # the directions of w: as often negative as positive
    starts = torch.stack([MCFC(2, 6).w.detach() for _ in range(300)])
    assert abs(starts.mean().item()) < 0.04
    assert starts.var().item() == pytest.approx(1 / 6, rel=0.02)


def test_penalties_and_bounds() -> None:
    unit = made(MulMCFC(3, 2, signs="cosine"))
    assert isinstance(unit, MulMCFC)
    assert unit.g is not None
    p = values(unit)
    terms = unit.penalty()
    wanted = -sum(np.mean(p[name] ** 2) for name in ("r", "w", "b"))
    assert terms["saturation"].item() == pytest.approx(wanted)
    distances = [min(abs(g), abs(1 - abs(g))) for g in p["g"]]
    assert terms["gate"].item() == pytest.approx(np.mean(distances))
    assert unit.bounds == {"g": (0.0, 1.0)}
    (slope,) = torch.autograd.grad(terms["saturation"], [unit.r])
    torch.testing.assert_close(slope, -2 * unit.r.detach() / unit.r.numel())
    plain = MulMCFC(3, 2)
    assert set(plain.penalty()) == {"saturation"}
    assert plain.bounds == {}
    assert plain.g is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"signs": "both"}, r"^signs must be one of none, product, cosine, got 'both'$"),
        ({"spare": -1}, r"^spare must be an integer of at least 0, got -1$"),
        ({"epsilon": 0.0}, r"^epsilon must be a finite number above 0, got 0.0$"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MulMCFC(3, 2, **options)  # type: ignore[arg-type]
