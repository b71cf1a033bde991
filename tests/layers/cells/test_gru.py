"""The GRU against torch's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nalu_ray.layers import GRU

BATCH, STEPS, INPUTS, HIDDEN = 3, 7, 4, 5


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def pair(dtype: torch.dtype) -> tuple[GRU, nn.GRU]:
    other = nn.GRU(INPUTS, HIDDEN, batch_first=True, dtype=dtype)
    own = GRU(INPUTS, HIDDEN).to(dtype)
    with torch.no_grad():
        for seed, parameter in enumerate(other.parameters()):
            parameter.copy_(drawn(*parameter.shape, seed=seed))
        own.weight_x.copy_(other.weight_ih_l0)
        own.weight_h.copy_(other.weight_hh_l0)
        gates, of_n = other.bias_hh_l0.split([2 * HIDDEN, HIDDEN])
        own.bias.copy_(other.bias_ih_l0 + torch.cat([gates, torch.zeros_like(of_n)]))
        own.bias_n.copy_(of_n)
    return own, other


@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_equal_to_torchs(dtype: torch.dtype, close: float) -> None:
    own, other = pair(dtype)
    x = drawn(BATCH, STEPS, INPUTS, seed=8, dtype=dtype)
    h = drawn(BATCH, HIDDEN, seed=9, dtype=dtype)
    outputs, (last,) = own(x, (h,))
    wanted, end = other(x, h[None])
    torch.testing.assert_close(outputs, wanted, rtol=close, atol=close)
    torch.testing.assert_close(last, end[0], rtol=close, atol=close)
    weight = drawn(BATCH, STEPS, HIDDEN, seed=10, dtype=dtype)
    (outputs * weight).sum().backward()
    (wanted * weight).sum().backward()
    pairs = [
        (own.weight_x.grad, other.weight_ih_l0.grad),
        (own.weight_h.grad, other.weight_hh_l0.grad),
        (own.bias.grad, other.bias_ih_l0.grad),
        (own.bias_n.grad, other.bias_hh_l0.grad[2 * HIDDEN :]),
    ]
    for found, expected in pairs:
        scale = float(expected.abs().max())
        torch.testing.assert_close(found, expected, rtol=0, atol=10 * close * scale)


def test_the_reset_gate_closes_over_the_second_bias() -> None:
    """With r = 0 neither h nor its bias reaches n; with z = 0 all of h' is n."""
    cell = GRU(INPUTS, HIDDEN).double()
    with torch.no_grad():
        cell.weight_x.zero_()
        cell.bias[: 2 * HIDDEN] = -50
        cell.bias[2 * HIDDEN :] = 0.3
        cell.bias_n.fill_(5)
    x, h = drawn(BATCH, 1, INPUTS), 0.5 * drawn(BATCH, HIDDEN)
    outputs, _ = cell(x, (h,))
    expected = torch.tensor(0.3, dtype=torch.float64).tanh().expand_as(outputs)
    torch.testing.assert_close(outputs, expected)


def test_weights_are_drawn_within_the_bound() -> None:
    cell = GRU(100, 25)
    with torch.no_grad():
        cell.bias_n.fill_(1)
    cell.reset_parameters(torch.Generator().manual_seed(1))
    for weight in (cell.weight_x, cell.weight_h):
        assert weight.abs().max() <= 0.2
        assert abs(float(weight.detach().std()) - 0.2 / 3**0.5) < 0.01
    assert (cell.bias == 0).all()
    assert (cell.bias_n == 0).all()
