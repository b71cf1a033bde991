"""Gated recurrent unit (Cho et al., "Learning phrase representations", 2014)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from .base import AffineCell, State
from .unit_cell import register_cell


@register_cell("gru", label="GRU", citation="Cho et al. (2014)")
class GRU(AffineCell):
    """One layer, with the values of ``torch.nn.GRU``.

    Written out::

        r, z = sigmoid(W x + U h + b)      each their own rows
        n = tanh(W x + b + r (U h + d))
        h' = (1 - z) n + z h

    The biases of r and z, of which torch has two each, are added up; those of n are not, for r
    stands between them.

    Args:
        in_features: size of the input's last axis.
        hidden_features: size of h.

    Raises:
        ValueError: if a size is below 1.
    """

    rows: ClassVar[int] = 3

    def __init__(self, in_features: int, hidden_features: int) -> None:
        super().__init__(in_features, hidden_features)
        self.bias_n = nn.Parameter(torch.zeros(hidden_features))

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights from U(-r, r), r = 1 / sqrt(hidden), as torch does; biases are 0."""
        super().reset_parameters(generator)
        if hasattr(self, "bias_n"):
            nn.init.zeros_(self.bias_n)

    def _step(
        self, projected: Tensor, state: State, weights: tuple[Tensor, ...]
    ) -> tuple[Tensor, State]:
        (h,), size = state, self.out_features
        of_h = h @ self.weight_h.mT
        r, z = torch.sigmoid((projected + of_h)[..., : 2 * size]).chunk(2, -1)
        n = torch.tanh(projected[..., 2 * size :] + r * (of_h[..., 2 * size :] + self.bias_n))
        h = torch.lerp(n.to(h.dtype), h, z.to(h.dtype))
        return h, (h,)
