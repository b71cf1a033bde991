"""The controls: cells whose recurrence is given by hand."""

from __future__ import annotations

import numpy as np
import torch

from nalu_ray.layers import IdentityRNN, Sum, build_cell, get_cell

BATCH, STEPS, INPUTS, HIDDEN = 3, 6, 4, 2


def drawn(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, STEPS, INPUTS, generator=generator, dtype=torch.float64)


def test_sum_is_the_running_sum_of_a_linear_layer() -> None:
    cell, x = Sum(INPUTS, HIDDEN).double(), drawn(1)
    outputs, (last,) = cell(x)
    wanted = np.cumsum(x.numpy() @ cell.weight_x.detach().numpy().T, axis=1)
    np.testing.assert_allclose(outputs.detach().numpy(), wanted, rtol=1e-12, atol=1e-12)
    assert torch.equal(last, outputs[:, -1])
    assert [name for name, _ in cell.named_parameters()] == ["weight_x"]


def test_the_sum_of_a_million_ones_is_exact() -> None:
    cell = Sum(1, 1)
    torch.nn.init.ones_(cell.weight_x)
    state = (torch.full((1, 1), 999_000.0),)
    assert cell(torch.ones(1, 1000, 1), state)[0][0, -1] == 1_000_000


def test_rnn_identity_is_a_relu_network_with_the_identity() -> None:
    cell, x = IdentityRNN(INPUTS, HIDDEN).double(), drawn(2)
    torch.nn.init.constant_(cell.bias, -0.25)
    same = build_cell("rnn_relu", INPUTS, HIDDEN).double()
    same.load_state_dict({**cell.state_dict(), "weight_h": torch.eye(HIDDEN)})
    torch.testing.assert_close(cell(x)[0], same(x)[0], rtol=1e-12, atol=1e-12)
    assert (cell(x)[0] == 0).any()


def test_tables_say_what_is_given() -> None:
    assert get_cell("sum").given == "the accumulator"
    assert get_cell("rnn_identity").given == "the recurrent matrix"


def test_starts_stay_within_their_bounds() -> None:
    for name, bound in (("sum", 0.1), ("rnn_identity", 0.2)):
        weight = build_cell(name, 100, 25).state_dict()["weight_x"]
        assert 0.9 * bound < weight.abs().max() <= bound
