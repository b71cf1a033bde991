"""Neural multiplication unit.

Madsen and Johansen, "Neural Arithmetic Units" (ICLR 2020), https://arxiv.org/abs/2001.05016.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ._weighted import Selector, within
from .initialisers import Init
from .nau import CITATION, NAU
from .registry import register
from .stack import Stacked


def selected(x: Tensor, weight: Tensor) -> Tensor:
    """The factors W_ji x_i + 1 - W_ji: x_i where the weight is 1, and 1 where it is 0.

    Args:
        x: (..., in_features), at least (in_features,).
        weight: (out_features, in_features), in float32 or wider.

    Returns:
        (..., out_features, in_features, rows) in the type of the weight, with the last of x's
        leading axes at the end, where it is long and contiguous; rows is 1 if x has none.
    """
    rows = x.to(weight.dtype)
    if rows.dim() == 1:
        rows = rows.unsqueeze(0)
    # exact at W = 0 and at W = 1
    return torch.lerp(weight.new_ones([]), rows.mT.unsqueeze(-3), weight.unsqueeze(-1))


def product(factors: Tensor, x: Tensor) -> Tensor:
    """The product over the inputs, in the layout of x.

    Its gradient is exact where factors are 0.

    Args:
        factors: (..., out_features, in_features, rows), from :func:`selected`.
        x: the inputs that the factors are of.

    Returns:
        (..., out_features), with the leading axes of x.
    """
    y = factors.prod(-2).mT
    return y.squeeze(0) if x.dim() == 1 else y


def widened(weight: Tensor) -> Tensor:
    """The weight in float32 where it is of half precision, which rounds each factor."""
    return weight.float() if weight.element_size() < 4 else weight


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
        weight = widened(within(self.W, 0.0, 1.0))
        return product(selected(x, weight), x).to(self.W.dtype)

    def penalty(self, inputs: Tensor | None = None) -> dict[str, Tensor]:
        """Penalties by name; ``inputs``, (N, in_features), are needed for the one of this name."""
        penalties = super().penalty()
        if inputs is not None:
            penalties["inputs"] = away_from_one(self.W, inputs)
        return penalties


register("nmu", label="NMU", citation=CITATION)(Stacked(NMU))
register("nau_nmu", label="NAU, NMU", citation=CITATION)(Stacked(NMU, first=NAU))
