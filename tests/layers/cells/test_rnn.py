"""The vanilla recurrent networks against torch's."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from nalu_ray.layers import RNN, build_cell

BATCH, STEPS, INPUTS, HIDDEN = 3, 7, 4, 5


def drawn(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize(("dtype", "close"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
def test_equal_to_torchs(activation: str, dtype: torch.dtype, close: float) -> None:
    other = nn.RNN(INPUTS, HIDDEN, nonlinearity=activation, batch_first=True, dtype=dtype)
    own = RNN(INPUTS, HIDDEN, activation=activation).to(dtype)
    with torch.no_grad():
        for seed, parameter in enumerate(other.parameters()):
            parameter.copy_(0.5 * drawn(*parameter.shape, seed=seed))
        own.weight_x.copy_(other.weight_ih_l0)
        own.weight_h.copy_(other.weight_hh_l0)
        own.bias.copy_(other.bias_ih_l0 + other.bias_hh_l0)
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
        (own.weight_x, other.weight_ih_l0),
        (own.weight_h, other.weight_hh_l0),
        (own.bias, other.bias_ih_l0),
    ]
    for found, expected in pairs:
        scale = float(expected.grad.abs().max())
        torch.testing.assert_close(found.grad, expected.grad, rtol=0, atol=10 * close * scale)


def test_both_are_there_by_name() -> None:
    assert build_cell("rnn_tanh", INPUTS, HIDDEN).activation == "tanh"
    assert build_cell("rnn_relu", INPUTS, HIDDEN).activation == "relu"


def test_an_unknown_activation_is_named() -> None:
    with pytest.raises(ValueError, match=r"^activation must be one of tanh, relu: 'sine'$"):
        RNN(INPUTS, HIDDEN, activation="sine")


def test_weights_are_drawn_within_the_bound() -> None:
    cell = RNN(100, 25)
    cell.reset_parameters(torch.Generator().manual_seed(1))
    for weight in (cell.weight_x, cell.weight_h):
        assert weight.abs().max() <= 0.2
        assert abs(float(weight.detach().std()) - 0.2 / 3**0.5) < 0.01
    assert (cell.bias == 0).all()
