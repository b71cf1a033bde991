"""Neural addition unit.

Madsen and Johansen, "Neural Arithmetic Units" (ICLR 2020), https://arxiv.org/abs/2001.05016.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from ._weighted import Selector, within
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

    * Start: U(-r, r), r = min(1/2, sqrt(6 / (in + out))), so Glorot's variance for wide layers.
    * Penalties: ``sparsity``, ``sparsity_squared`` and ``inputs``, which is R_z, the mean of
      (1 - |W_ji|) z_i^2 with z the mean of the inputs: it pushes W away from 0 and inputs to 0.
    * Measure: ``sparsity_error``.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        start: initialisation of W, a name in ``INITIALISERS`` or a constant; ``None`` means the
            published one.
        device: device of the parameter.
        dtype: floating-point type of the parameter.

    Raises:
        ValueError: if a size is below 1 or the initialisation is unknown.
    """

    published_start: ClassVar[Init] = "glorot_limited"

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        return linear(x, within(self.W, -1.0, 1.0))

    def penalty(self, inputs: Tensor | None = None) -> dict[str, Tensor]:
        """Penalties by name; ``inputs``, (N, in_features), are needed for the one of this name."""
        penalties = super().penalty()
        if inputs is not None:
            penalties["inputs"] = ((1 - self.W.abs()) * inputs.mean(0).square()).mean()
        return penalties


register("nau", label="NAU", citation=CITATION)(Stacked(NAU))
