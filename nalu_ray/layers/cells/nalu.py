"""NALU as a recurrent cell: the unit applied to [x_t, h_{t-1}].

Trask et al. (2018), section 4.1. The same parameters and values as a ``UnitCell`` of the unit; the
parts that do not depend on the state are computed once per sequence.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from ..nac import CITATION
from ..nalu import NALU, nalu_output, nalu_sums
from .base import State
from .nac import AccumulatorCell, Weights
from .unit_cell import UnitFactory, register_cell


class NALUCell(AccumulatorCell):
    """h_t = NALU([x_t, h_{t-1}]), h_0 = 0.

    Args:
        in_features: size of the input's last axis.
        hidden_features: size of h.
        memory_init: as in :class:`NACCell`.
        options: options of :class:`~nalu_ray.layers.NALU`.
    """

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        *,
        memory_init: float | None = None,
        **options: object,
    ) -> None:
        super().__init__(in_features, hidden_features, NALU, memory_init, **options)

    def _weights(self) -> Weights:
        unit, sizes = cast(NALU, self.unit), [self.in_features, self.out_features]
        x, h = unit.weight.split(sizes, -1)
        gate_x, gate_h = unit.G.split(sizes, -1)
        return x, torch.cat([x, gate_x]), h, torch.cat([h, gate_h])

    def _project(self, x: Tensor, weights: Weights) -> Tensor:
        return torch.cat(nalu_sums(x, weights[0], weights[1], self._epsilon), -1)

    def _step(self, projected: Tensor, state: State, weights: Weights) -> tuple[Tensor, State]:
        (h,), width = state, 2 * self.out_features
        sums, exponents = nalu_sums(h, weights[2], weights[3], self._epsilon)
        a, gate = (projected[..., :width] + sums).chunk(2, -1)
        h = nalu_output(a, gate, projected[..., width:] + exponents, weights[2].dtype)
        return h, (h,)

    @property
    def _epsilon(self) -> float:
        return cast(NALU, self.unit).epsilon


register_cell("nalu", label="NALU", citation=CITATION)(UnitFactory(NALU, NALUCell))
