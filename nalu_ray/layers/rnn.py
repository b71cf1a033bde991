"""Vanilla recurrent networks (Elman, "Finding structure in time", 1990)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ._checks import check_count
from .cell import Cell, State
from .cells import register_cell

_ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu}


class RNN(Cell):
    """h_t = f(W x_t + U h_{t-1} + b), h_0 = 0, f = tanh or ReLU.

    The values of ``torch.nn.RNN`` whose two biases are added up.

    Args:
        in_features: size of the input's last axis.
        hidden_features: size of h.
        activation: ``tanh`` or ``relu``.

    Raises:
        ValueError: if a size is below 1 or the activation unknown.
    """

    def __init__(self, in_features: int, hidden_features: int, *, activation: str = "tanh") -> None:
        super().__init__()
        check_count("in_features", in_features)
        check_count("hidden_features", hidden_features)
        if activation not in _ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(_ACTIVATIONS)}: {activation!r}")
        self.in_features, self.out_features = in_features, hidden_features
        self.activation = activation
        self.weight_x = nn.Parameter(torch.empty(hidden_features, in_features))
        self.weight_h = nn.Parameter(torch.empty(hidden_features, hidden_features))
        self.bias = nn.Parameter(torch.empty(hidden_features))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights from U(-r, r), r = 1 / sqrt(hidden), as torch does; the bias is 0."""
        bound = 1 / math.sqrt(self.out_features)
        with torch.no_grad():
            self.weight_x.uniform_(-bound, bound, generator=generator)
            self.weight_h.uniform_(-bound, bound, generator=generator)
            self.bias.zero_()

    def initial(self, batch: int, like: Tensor) -> State:
        return (like.new_zeros(batch, self.out_features),)

    def _project(self, x: Tensor, weights: tuple[Tensor, ...]) -> Tensor:
        return nn.functional.linear(x, self.weight_x, self.bias)

    def _step(
        self, projected: Tensor, state: State, weights: tuple[Tensor, ...]
    ) -> tuple[Tensor, State]:
        h = _ACTIVATIONS[self.activation](projected + state[0] @ self.weight_h.mT)
        return h, (h,)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, activation={self.activation!r}"


@register_cell("rnn_tanh", label="RNN-tanh", citation="Elman (1990)")
def _tanh(in_features: int, hidden_features: int) -> RNN:
    return RNN(in_features, hidden_features, activation="tanh")


@register_cell("rnn_relu", label="RNN-ReLU", citation="Elman (1990)")
def _relu(in_features: int, hidden_features: int) -> RNN:
    return RNN(in_features, hidden_features, activation="relu")
