"""The LSTM inside other cells."""

from __future__ import annotations

from torch import Tensor, nn

from ..functional import linear
from .base import State
from .lstm import LSTM


class Controller(LSTM):
    """An LSTM that reads the inputs and the values that its cell feeds back.

    The inputs' contribution to the gates is computed for all steps at once, by :meth:`project`.

    Args:
        in_features: size of the inputs' last axis.
        fed_back: size of the values fed back at each step; 0 is allowed.
        hidden_features: size of h and of c.
        forget_init: as in :class:`LSTM`.
    """

    def __init__(
        self, in_features: int, fed_back: int, hidden_features: int, *, forget_init: float = 0.0
    ) -> None:
        super().__init__(in_features + fed_back, hidden_features, forget_init=forget_init)
        self.known = in_features

    def columns(self) -> tuple[Tensor, ...]:
        """Returns the weights of the inputs and of the values fed back."""
        return self.weight_x.tensor_split([self.known], -1)

    def project(self, x: Tensor, weight: Tensor) -> Tensor:
        """Returns the inputs' contribution to the gates, (..., in_features) to (..., 4 hidden)."""
        return nn.functional.linear(x, weight, self.bias)

    def control(
        self, projected: Tensor, fed_back: Tensor | None, state: State, weight: Tensor
    ) -> tuple[Tensor, State]:
        """Reads one step, (batch, ...); returns its h, (batch, hidden), and state."""
        gates = projected if fed_back is None else projected + linear(fed_back, weight)
        return self._step(gates, state, ())
