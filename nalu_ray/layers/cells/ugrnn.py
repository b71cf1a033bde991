"""Update gate recurrent network (Collins et al., "Capacity and trainability in RNNs", 2016)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from .base import AffineCell, State
from .unit_cell import register_cell

FORGET_OFFSET = 1.0


@register_cell("ugrnn", label="UGRNN", citation="Collins et al. (2016)")
class UGRNN(AffineCell):
    """One gate between the state and its update.

    Written out::

        g = sigmoid(W x + U h + b + 1)     each their own rows
        c = tanh(W x + U h + b)
        h' = g h + (1 - g) c

    Args:
        in_features: size of the input's last axis.
        hidden_features: size of h.

    Raises:
        ValueError: if a size is below 1.
    """

    rows: ClassVar[int] = 2

    def _step(
        self, projected: Tensor, state: State, weights: tuple[Tensor, ...]
    ) -> tuple[Tensor, State]:
        (h,) = state
        gate, update = (projected + h @ self.weight_h.mT).chunk(2, -1)
        keep_gate = torch.sigmoid(gate + FORGET_OFFSET).to(h.dtype)
        h = torch.lerp(torch.tanh(update).to(h.dtype), h, keep_gate)
        return h, (h,)
