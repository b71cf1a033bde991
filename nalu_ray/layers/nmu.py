"""Neural multiplication unit.

Madsen and Johansen, "Neural Arithmetic Units" (ICLR 2020), https://arxiv.org/abs/2001.05016.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from ._product import selected_product, widened
from ._weighted import Selector, within
from .initialisers import Init
from .nau import CITATION, NAU
from .registry import register
from .stack import Stacked


def away_from_one(weight: Tensor, inputs: Tensor) -> Tensor:
    """R_z of products, the mean of (1 - W_ji) (1 - z_i)^2 with z the mean of inputs, (N, in)."""
    return ((1 - weight) * (1 - inputs.mean(0)).square()).mean()


class NMU(Selector):
    """Neural multiplication unit: products of selected inputs, of any sign.

    Madsen and Johansen (2020), section 2.3::

        y_j = prod_i (W_ji x_i + 1 - W_ji),    W in [0, 1]

    An input with weight 1 is a factor, and one with weight 0 is none. The forward pass limits W
    to its bounds and lets the gradient through; training clamps W itself after each step. The
    product is computed in float32 at least, also under ``torch.autocast``; the output is of the
    parameter's type.

    * Start: U(1/4, 3/4), as in the published code, of variance 1/48. (The paper names a variance
      of 1/4, which a uniform law on [0, 1] does not reach.)
    * Penalties: ``sparsity``, ``sparsity_squared`` and ``inputs``, which is R_z, the mean of
      (1 - W_ji) (1 - z_i)^2 with z the mean of the inputs.
    * Measure: ``sparsity_error``.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        start: initialisation of W, a name in ``INITIALISERS`` or a constant, limited to [0, 1];
            ``None`` means the published one.
        clamp: keep W within [0, 1]; ``False`` removes the bounds, in forward pass and training, as
            in an ablation of the paper.
        device: device of the parameter.
        dtype: floating-point type of the parameter.

    Raises:
        ValueError: if a size is below 1 or the initialisation is unknown.
    """

    bounds: ClassVar[dict[str, tuple[float, float]]] = {"W": (0.0, 1.0)}
    recurrent_start: ClassVar[float] = 1.0
    published_start: ClassVar[Init] = "middle"

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        weight = widened(within(self.W, 0.0, 1.0) if self.clamp else self.W)
        return selected_product(x, weight).to(self.W.dtype)

    def penalty(self, inputs: Tensor | None = None) -> dict[str, Tensor]:
        """Penalties by name; ``inputs``, (N, in_features), are needed for the one of this name."""
        penalties = super().penalty()
        if inputs is not None:
            penalties["inputs"] = away_from_one(self.W, inputs)
        return penalties


register("nmu", label="NMU", citation=CITATION)(Stacked(NMU))
register("nau_nmu", label="NAU, NMU", citation=CITATION)(Stacked(NMU, first=NAU))
