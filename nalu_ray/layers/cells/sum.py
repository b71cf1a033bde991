"""A control for units that accumulate: the accumulator is given, a linear layer feeds it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .._checks import check_count
from ..functional import linear
from .base import Cell, State
from .unit_cell import register_cell


class Sum(Cell):
    """h_t = h_{t-1} + W x_t, h_0 = 0: the running sum of a plain linear layer's outputs.

    Given by hand: the recurrence, which keeps its state for ever, exactly. Learned: W, (hidden,
    in), without a bias, whose share would grow with the length. What a NAC or NALU with a memory of
    its own is credited with is what it does beyond this cell.

    Args:
        in_features: size of the input's last axis.
        hidden_features: size of h.

    Raises:
        ValueError: if a size is below 1.
    """

    def __init__(self, in_features: int, hidden_features: int) -> None:
        super().__init__()
        check_count("in_features", in_features)
        check_count("hidden_features", hidden_features)
        self.in_features, self.out_features = in_features, hidden_features
        self.weight_x = nn.Parameter(torch.empty(hidden_features, in_features))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw W from U(-r, r), r = 1 / sqrt(in), as torch draws a linear layer's."""
        bound = 1 / math.sqrt(self.in_features)
        with torch.no_grad():
            self.weight_x.uniform_(-bound, bound, generator=generator)

    def initial(self, batch: int, like: Tensor) -> State:
        """Returns h = 0."""
        return (like.new_zeros(batch, self.out_features),)

    def _project(self, x: Tensor, weights: tuple[Tensor, ...]) -> Tensor:
        return linear(x, self.weight_x)

    def _step(
        self, projected: Tensor, state: State, weights: tuple[Tensor, ...]
    ) -> tuple[Tensor, State]:
        h = state[0] + projected
        return h, (h,)


register_cell("sum", label="sum (control)", citation="ours", given="the accumulator")(Sum)
