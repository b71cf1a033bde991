"""A control for units with a memory: an RNN whose recurrent matrix is frozen to the identity."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .._checks import check_count
from .base import Cell, State
from .unit_cell import register_cell

CITATION = "after Le et al. (2015), arXiv 1504.00941, whose recurrent matrix is learned"


class IdentityRNN(Cell):
    """h_t = ReLU(W x_t + h_{t-1} + b), h_0 = 0: RNN-ReLU with the identity for U.

    Given by hand: the recurrent matrix, which is the identity and stays it. Learned: W, (hidden,
    in), and b, (hidden,). Beside ``sum``, it says what bias and ReLU cost an accumulator; beside
    RNN-ReLU, what learning the recurrence costs.

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
        self.bias = nn.Parameter(torch.empty(hidden_features))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw W from U(-r, r), r = 1 / sqrt(hidden), as RNN-ReLU draws its own; b is 0."""
        bound = 1 / math.sqrt(self.out_features)
        with torch.no_grad():
            self.weight_x.uniform_(-bound, bound, generator=generator)
            self.bias.zero_()

    def initial(self, batch: int, like: Tensor) -> State:
        """Returns h = 0."""
        return (like.new_zeros(batch, self.out_features),)

    def _project(self, x: Tensor, weights: tuple[Tensor, ...]) -> Tensor:
        return nn.functional.linear(x, self.weight_x, self.bias)

    def _step(
        self, projected: Tensor, state: State, weights: tuple[Tensor, ...]
    ) -> tuple[Tensor, State]:
        h = (projected + state[0]).relu()
        return h, (h,)


register_cell(
    "rnn_identity",
    label="RNN, identity (control)",
    citation=CITATION,
    given="the recurrent matrix",
)(IdentityRNN)
