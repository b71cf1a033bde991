"""Neural addition unit.

Madsen and Johansen, "Neural Arithmetic Units" (ICLR 2020), https://arxiv.org/abs/2001.05016.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ._noise import Noise
from ._weighted import Selector, away_from_zero, within
from .functional import linear
from .initialisers import Init
from .registry import register
from .stack import Stacked

CITATION = "Madsen and Johansen (2020), section 2"


class NAU(Selector):
    """Neural addition unit: sums and differences of its inputs, with a linear weight.

    Madsen and Johansen (2020), section 2.2::

        y_j = sum_i W_ji x_i,    W in [-1, 1]

    W may be exactly -1, 0 or 1. The forward pass limits W to its bounds and lets the gradient
    through; training clamps W itself after each step.

    The stochastic NAU of the code of Mistry et al. (2022, arXiv:2211.05624) adds noise to the
    inputs in training and subtracts its sum from the output, ``W (x + n) - W n``. As the unit is
    linear, value and gradient are the NAU's, to rounding.

    * Start: U(-r, r), r = min(1/2, sqrt(6 / (in + out))), so Glorot's variance for wide layers.
    * Penalties: ``sparsity``, ``sparsity_squared`` and ``inputs``, which is R_z, the mean of
      (1 - |W_ji|) z_i^2 with z the mean of the inputs: it pushes W away from 0 and inputs to 0.
    * Measure: ``sparsity_error``.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        stochastic: add the noise, U(-1 / v, 1 / v) with v the variance of all inputs of the call,
            which must not be 0.
        start: initialisation of W, a name in ``INITIALISERS`` or a constant, limited to [-1, 1];
            ``None`` means the published one.
        clamp: keep W within [-1, 1]; ``False`` removes the bounds, in forward pass and training.
        device: device of the parameter.
        dtype: floating-point type of the parameter.

    Raises:
        ValueError: if a size is below 1 or the initialisation is unknown.
    """

    published_start: ClassVar[Init] = "glorot_limited"

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        stochastic: bool = False,
        start: Init | None = None,
        clamp: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            in_features, out_features, start=start, clamp=clamp, device=device, dtype=dtype
        )
        self.noise = Noise(device=device) if stochastic else None

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw W, and the noise's seed, from ``generator``, which must live on their device."""
        super().reset_parameters(generator)
        if self.noise is not None:
            self.noise.reset_parameters(generator)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        weight = within(self.W, -1.0, 1.0) if self.clamp else self.W
        if self.noise is not None and self.training:
            noise = ((2 * self.noise(x) - 1) / x.detach().var()).to(x.dtype)
            return linear(x + noise, weight) - linear(noise, weight)
        return linear(x, weight)

    def penalty(self, inputs: Tensor | None = None) -> dict[str, Tensor]:
        """Penalties by name; ``inputs``, (N, in_features), are needed for the one of this name."""
        penalties = super().penalty()
        if inputs is not None:
            penalties["inputs"] = away_from_zero(self.W, inputs)
        return penalties


register("nau", label="NAU", citation=CITATION)(Stacked(NAU))
