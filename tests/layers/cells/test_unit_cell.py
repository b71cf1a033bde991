"""The cell of any unit: its start is the unit's."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nalu_ray.layers import Linear, UnitCell


class Product(nn.Module):
    """The product of all inputs, once per output."""

    recurrent_start = 1.0

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.out_features = out_features

    def forward(self, x: Tensor) -> Tensor:
        return x.prod(-1, keepdim=True).expand(*x.shape[:-1], self.out_features)


def test_a_unit_that_multiplies_starts_at_one() -> None:
    cell = UnitCell(1, 1, Product)
    series = torch.tensor([[[2.0], [3.0], [4.0]], [[5.0], [0.5], [2.0]]])
    outputs, state = cell(series)
    assert outputs[..., 0].tolist() == [[2.0, 6.0, 24.0], [5.0, 2.5, 5.0]]
    assert state[0].flatten().tolist() == [24.0, 5.0]
    start = cell.initial(2, series.double())[0]
    assert (start.tolist(), start.dtype) == ([[1.0], [1.0]], torch.float64)


def test_other_units_start_at_zero() -> None:
    cell = UnitCell(2, 3, Linear)
    assert cell.initial(2, torch.zeros(1))[0].tolist() == [[0.0] * 3] * 2


def test_a_start_is_each_seeds() -> None:
    cell = UnitCell(1, 1, Product)
    stacked = torch.vmap(lambda x: cell(x)[0])(torch.full((3, 2, 4, 1), 2.0))
    assert stacked[:, :, -1].flatten().tolist() == [16.0] * 6
