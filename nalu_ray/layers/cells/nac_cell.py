"""NAC and NALU as recurrent cells: the unit applied to [x_t, h_{t-1}].

Trask et al. (2018), section 4.1. The same parameters and values as a ``UnitCell`` of the unit has;
what the weights and the inputs of all steps contribute is computed once a sequence.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from .._checks import check_count, check_finite
from ..functional import bounded_exp, exponent, gated, linear, log_magnitude
from ..nac import CITATION, NAC, NALU
from .cell import State
from .unit_cell import UnitCell, UnitFactory, register_cell

Weights = tuple[Tensor, ...]


class _ArithmeticCell(UnitCell):
    """A NAC or NALU whose state may start as a memory: W near the identity on h."""

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        unit: type[NAC | NALU],
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
        """Draw the parameters anew; ``generator`` must live on their device."""
        super().reset_parameters(generator)
        self._remember()

    @torch.no_grad()
    def _remember(self) -> None:
        if self.memory_init is None:
            return
        unit, own = cast(NAC, self.unit), torch.eye(self.out_features)
        unit.W_hat[:, self.in_features :] = self.memory_init * own
        unit.M_hat[:, self.in_features :] = self.memory_init * (2 * own - 1)


class NACCell(_ArithmeticCell):
    """h_t = NAC([x_t, h_{t-1}]), h_0 = 0: an accumulator.

    Args:
        in_features: size of the input's last axis.
        hidden_features: size of h.
        memory_init: m; W_hat and M_hat start at m from each h to itself, at 0 and -m to the
            others, so that W is the nearer to the identity there the larger m is, and the cell
            starts by keeping what it has. From 110 on it keeps it for ever: in float32 W is the
            identity and its gradient 0. ``None`` leaves them to ``init``.
        options: of :class:`~nalu_ray.layers.NAC`.
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
        x, h = cast(NAC, self.unit).weight.split([self.in_features, self.out_features], -1)
        return x, h

    def _project(self, x: Tensor, weights: Weights) -> Tensor:
        return linear(x, weights[0])

    def _step(self, projected: Tensor, state: State, weights: Weights) -> tuple[Tensor, State]:
        h = projected + linear(state[0], weights[1])
        return h, (h,)


class NALUCell(_ArithmeticCell):
    """h_t = NALU([x_t, h_{t-1}]), h_0 = 0.

    Args:
        in_features: size of the input's last axis.
        hidden_features: size of h.
        memory_init: as in :class:`NACCell`.
        options: of :class:`~nalu_ray.layers.NALU`.
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
        logs = log_magnitude(x, cast(NALU, self.unit).epsilon)
        return torch.cat([linear(x, weights[1]), exponent(logs, weights[0])], -1)

    def _step(self, projected: Tensor, state: State, weights: Weights) -> tuple[Tensor, State]:
        (h,), size = state, self.out_features
        logs = log_magnitude(h, cast(NALU, self.unit).epsilon)
        a, gate = (projected[..., : 2 * size] + linear(h, weights[3])).chunk(2, -1)
        dtype = weights[2].dtype
        m = bounded_exp(projected[..., 2 * size :] + exponent(logs, weights[2]), dtype)
        h = gated(m, a, gate, dtype)
        return h, (h,)


register_cell("nac", label="NAC", citation=CITATION)(UnitFactory(NAC, NACCell))
register_cell("nalu", label="NALU", citation=CITATION)(UnitFactory(NALU, NALUCell))
