"""Vanilla recurrent networks (Elman, "Finding structure in time", 1990)."""

from __future__ import annotations

import torch
from torch import Tensor

from .base import AffineCell, State
from .unit_cell import register_cell

_ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu}


class RNN(AffineCell):
    """h_t = f(W x_t + U h_{t-1} + b), h_0 = 0, f = tanh or ReLU.

    The values of ``torch.nn.RNN``, whose two biases are added up.

    Args:
        in_features: size of the input's last axis.
        hidden_features: size of h.
        activation: ``tanh`` or ``relu``.

    Raises:
        ValueError: if a size is below 1 or the activation unknown.
    """

    def __init__(self, in_features: int, hidden_features: int, *, activation: str = "tanh") -> None:
        if activation not in _ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(_ACTIVATIONS)}: {activation!r}")
        super().__init__(in_features, hidden_features)
        self.activation = activation

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
