"""NAC as a recurrent cell: the unit applied to [x_t, h_{t-1}].

Trask et al. (2018), section 4.1. The same parameters and values as a ``UnitCell`` of the unit; the
parts that do not depend on the state are computed once per sequence.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from .._checks import check_count, check_finite
from ..functional import linear
from ..nac import CITATION, NAC, Accumulator
from .base import State
from .unit_cell import UnitCell, UnitFactory, register_cell

Weights = tuple[Tensor, ...]


class AccumulatorCell(UnitCell):
    """A NAC or NALU as a cell, whose state may start as a memory: W near the identity on h.

    Args:
        in_features: size of the input's last axis.
        hidden_features: size of h.
        unit: NAC or NALU.
        memory_init: as in :class:`NACCell`.
        options: the unit's.

    Raises:
        ValueError: if a size is below 1, memory_init not finite, or an option out of range.
    """

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        unit: type[Accumulator],
        memory_init: float | None,
        **options: object,
    ) -> None:
        check_count("in_features", in_features)
        check_count("hidden_features", hidden_features)
        if memory_init is not None:
            check_finite("memory_init", memory_init)
        super().__init__(in_features, hidden_features, unit, **options)
        self.memory_init = memory_init
        self._remember()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the parameters from ``generator``, which must live on their device."""
        super().reset_parameters(generator)
        self._remember()

    @torch.no_grad()
    def _remember(self) -> None:
        if self.memory_init is None:
            return
        unit, identity = cast(Accumulator, self.unit), torch.eye(self.out_features)
        unit.W_hat[:, self.in_features :] = self.memory_init * identity
        unit.M_hat[:, self.in_features :] = self.memory_init * (2 * identity - 1)


class NACCell(AccumulatorCell):
    """h_t = NAC([x_t, h_{t-1}]), h_0 = 0: an accumulator.

    Args:
        in_features: size of the input's last axis.
        hidden_features: size of h.
        memory_init: m; from each unit of h to itself W_hat and M_hat start at m, to the others at 0
            and -m. The larger m, the nearer W is to the identity on h, and the cell starts by
            keeping its state. From 110 on it keeps the state for ever: in float32 W is the identity
            and its gradient 0. ``None`` leaves them to ``init``.
        options: options of :class:`~nalu_ray.layers.NAC`.
    """

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        *,
        memory_init: float | None = None,
        **options: object,
    ) -> None:
        super().__init__(in_features, hidden_features, NAC, memory_init, **options)

    def _weights(self) -> Weights:
        """Returns W of x and of h; nothing if hooks wait for the unit's whole input."""
        if self.unit._forward_pre_hooks:
            return ()
        x, h = cast(NAC, self.unit).weight.split([self.in_features, self.out_features], -1)
        return x, h

    def _project(self, x: Tensor, weights: Weights) -> Tensor:
        return linear(x, weights[0]) if weights else x

    def _step(self, projected: Tensor, state: State, weights: Weights) -> tuple[Tensor, State]:
        if not weights:
            return super()._step(projected, state, weights)
        h = projected + linear(state[0], weights[1])
        return h, (h,)


register_cell("nac", label="NAC", citation=CITATION)(UnitFactory(NAC, NACCell))
