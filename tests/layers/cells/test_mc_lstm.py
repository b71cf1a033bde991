"""MC-LSTM: mass is conserved; values by hand; exact sums and products; start."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from nalu_ray.layers.cells.mc_lstm import MCLSTM, MulMCLSTM

BATCH, STEPS = 3, 6


def sequence(features: int, seed: int = 0) -> Tensor:
    drawn = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, STEPS, features, generator=drawn, dtype=torch.float64)


def made(**options: Any) -> MCLSTM:
    """A cell of five inputs that has learned something."""
    cell = MCLSTM(5, 4, **options).double()
    with torch.no_grad():
        for n, parameter in enumerate(cell.parameters()):
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(n)))
    return cell


def softmax(logits: np.ndarray) -> np.ndarray:
    shares: np.ndarray = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return shares


@pytest.mark.parametrize("auxiliary", [0, 2])
def test_mass_is_conserved(auxiliary: int) -> None:
    """All mass that has come in has gone out or is in the cell."""
    cell = made(auxiliary=auxiliary, cumulative=False)
    x, start = sequence(5), (torch.rand(BATCH, 4, dtype=torch.float64),)
    out, (held,) = cell(x, start)
    mass = x[..., : 5 - auxiliary].sum((1, 2)) + start[0].sum(-1)
    torch.testing.assert_close(out.sum((1, 2)) + held.sum(-1), mass)


def test_without_the_gate_each_output_is_all_mass_so_far() -> None:
    cell = made(auxiliary=1)
    x = sequence(5)
    out, (held,) = cell(x)
    torch.testing.assert_close(out.sum(-1), x[..., :4].sum(-1).cumsum(-1))
    assert torch.equal(held, out[:, -1])


@pytest.mark.parametrize("auxiliary", [0, 2])
def test_values(auxiliary: int) -> None:
    cell = made(auxiliary=auxiliary, cumulative=False)
    p = {name: value.detach().numpy() for name, value in cell.named_parameters()}
    x = sequence(5)
    out, (held,) = cell(x)
    for row in range(BATCH):
        c = np.zeros(4)
        for t in range(STEPS):
            seen = x[row, t].numpy()
            mass, a = (seen[:3], seen[3:]) if auxiliary else (seen, np.ones(1))
            junction = softmax((p["A"] @ a).reshape(len(mass), 4) + p["d"])
            m = mass @ junction + c @ softmax(p["r"])
            o = 1 / (1 + np.exp(-(p["B"] @ a + p["b"])))
            c = (1 - o) * m
            np.testing.assert_allclose(out[row, t].detach().numpy(), o * m, rtol=1e-10)
        np.testing.assert_allclose(held[row].detach().numpy(), c, rtol=1e-10)


def set_exactly(cell: MCLSTM, to: list[int]) -> None:
    """Sends each mass to a hidden unit that keeps it."""
    with torch.no_grad():
        cell.A.zero_()
        cell.d.zero_()
        for row, unit in enumerate(to):
            cell.d[row, unit] = 800.0
        cell.r.copy_(800.0 * torch.eye(len(cell.r)))


def test_a_running_sum_is_exact() -> None:
    cell = MCLSTM(3, 2)
    set_exactly(cell, [0, 1, 0])
    x = torch.tensor([[[1.0, 5.0, 2.0], [4.0, -1.0, 1e6]]])
    out, _ = cell(x)
    assert torch.equal(out, torch.tensor([[[3.0, 5.0], [1000007.0, 4.0]]]))


def test_a_sum_comes_out_at_the_marked_step() -> None:
    """As published: the auxiliary input is 1, and -1 at the last step."""
    cell = MCLSTM(2, 1, auxiliary=1, cumulative=False)
    set_exactly(cell, [0])
    assert cell.B is not None
    assert cell.b is not None
    with torch.no_grad():
        cell.B.fill_(-200.0)
        cell.b.zero_()
    x = torch.tensor([[[3.0, 1.0], [4.0, 1.0], [5.5, -1.0]]])
    out, (held,) = cell(x)
    assert torch.equal(out[0, :, 0], torch.tensor([0.0, 0.0, 12.5]))
    assert held.item() == 0


def test_a_running_product_is_exact() -> None:
    cell = MulMCLSTM(2, 1).double()
    set_exactly(cell.sums, [0, 1])
    x = torch.tensor([[[3.0, 7.0], [-4.0, 9.0], [0.5, 2.0]]], dtype=torch.float64)
    out, _ = cell(x)
    wanted = torch.tensor([3.0, 12.0, 6.0], dtype=torch.float64)
    torch.testing.assert_close(out[0, :, 0], wanted, rtol=1e-6, atol=0)


def test_large_products_stay_finite() -> None:
    cell = MulMCLSTM(1, 1, spare=0)
    out, _ = cell(torch.full((1, 50, 1), 1e6))
    assert 1e12 < out[0, -1].item() < 1e13


def test_start() -> None:
    cell = MCLSTM(3, 2, auxiliary=1, cumulative=False)
    assert torch.equal(cell.r, torch.eye(2))
    assert cell.A.square().sum().item() == pytest.approx(1, rel=1e-6)
    assert cell.b is not None
    assert (cell.b == -3).all()
    assert torch.equal(cell.d, torch.zeros(2, 2) + 3 * torch.eye(2))
    assert not MCLSTM(3, 2).d.any()
    assert MCLSTM(3, 2).B is None
    product = MulMCLSTM(3, 2)
    assert product.sums.out_features == 3
    assert not product.e.any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"auxiliary": -1}, r"^auxiliary must be an integer of at least 0, got -1$"),
        ({"auxiliary": 3}, r"^in_features must be an integer of at least 4, got 3$"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MCLSTM(3, 2, **options)  # type: ignore[arg-type]
