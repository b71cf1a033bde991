"""MC-LSTM: mass is conserved; values and gradients by an oracle; exact results; start."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from nalu_ray.layers.cells.mc_lstm import MCLSTM, MulMCLSTM
from tests.layers.oracle import Array, assert_follows

BATCH, STEPS = 3, 6

CellType = TypeVar("CellType", MCLSTM, MulMCLSTM)


def sequence(features: int, seed: int = 0) -> Tensor:
    drawn = torch.Generator().manual_seed(seed)
    return torch.randn(BATCH, STEPS, features, generator=drawn, dtype=torch.float64)


def learned(cell: CellType) -> CellType:
    """The cell in float64, away from its start."""
    cell.double().reset_parameters(torch.Generator().manual_seed(0))
    with torch.no_grad():
        for n, parameter in enumerate(cell.parameters()):
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(n)))
    return cell


def made(**options: Any) -> MCLSTM:
    """A cell of five inputs that has learned something."""
    return learned(MCLSTM(5, 4, **options))


def softmax(logits: Array) -> Array:
    shares: Array = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return shares


class Series(nn.Module):
    """What a cell makes of whole series: the outputs of all steps, and the last state."""

    def __init__(self, cell: MCLSTM | MulMCLSTM) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor) -> Tensor:
        outputs, (held,) = self.cell(x)
        return torch.cat([outputs.flatten(1), held], 1)


def mc_lstm(x: Array, **p: Array) -> Array:
    """Hoedt et al. (2021), one example and one step at a time, laid out as :class:`Series` is."""
    p = {name.rpartition(".")[2]: value for name, value in p.items()}
    masses, hidden = p["d"].shape
    rows = []
    for series in x:
        c, outputs = np.zeros(hidden), []
        for seen in series:
            mass, a = seen[:masses], seen[masses:] if len(seen) > masses else np.ones(1)
            m = mass @ softmax((p["A"] @ a).reshape(masses, hidden) + p["d"])
            m = m + c @ softmax(p["r"])
            # without a gate all mass goes out, and stays
            o = 1 / (1 + np.exp(-(p["B"] @ a + p["b"]))) if "B" in p else 1
            c = (1 - o) * m if "B" in p else m
            outputs.append(o * m)
        rows.append(np.concatenate([*outputs, c]))
    return np.array(rows)


# Published code: log x, which is NaN for negative inputs; here log(|x| + epsilon).
def mul_mc_lstm(x: Array, **p: Array) -> Array:
    """exp(h + e), with h of an MC-LSTM of logarithms that has a hidden unit more than outputs."""
    e = p.pop("cell.e")
    masses, hidden = p["cell.sums.d"].shape
    x = x.copy()
    x[..., :masses] = np.log(np.abs(x[..., :masses]) + 1e-7)
    sums = mc_lstm(x, **p)
    h, c = sums[:, :-hidden].reshape(len(x), -1, hidden), sums[:, -hidden:]
    return np.concatenate([np.exp(h[..., : len(e)] + e).reshape(len(x), -1), c], 1)


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


@pytest.mark.parametrize("cumulative", [False, True])
@pytest.mark.parametrize("auxiliary", [0, 2])
def test_values_and_gradients(auxiliary: int, cumulative: bool) -> None:
    cell = made(auxiliary=auxiliary, cumulative=cumulative)
    assert_follows(Series(cell), mc_lstm, sequence(5))


@pytest.mark.parametrize("cumulative", [False, True])
@pytest.mark.parametrize("auxiliary", [0, 2])
def test_values_and_gradients_of_products(auxiliary: int, cumulative: bool) -> None:
    cell = MulMCLSTM(5, 3, auxiliary=auxiliary, cumulative=cumulative)
    x = sequence(5)
    # away from 0, where the logarithm has a pole
    assert_follows(Series(learned(cell)), mul_mc_lstm, x + 0.3 * x.sign())


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


def test_gates_of_several_inputs_start_orthonormal_and_differ_between_seeds() -> None:
    starts: list[list[Tensor]] = []
    for seed in (0, 1):
        cell = MCLSTM(5, 4, auxiliary=2, cumulative=False)
        cell.reset_parameters(torch.Generator().manual_seed(seed))
        assert cell.B is not None
        starts.append([cell.A, cell.B])
    for first, second in zip(*starts, strict=True):
        assert not torch.equal(first, second)
        for start in (first, second):
            torch.testing.assert_close(start.mT @ start, torch.eye(2))


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
