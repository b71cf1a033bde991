"""An MLP in the place of a unit: with a hidden layer and biases of its own.

The MLPs of ``mlp.py``, registered by their activation, have biases too; but as a single layer they
are affine, and no match for a unit that multiplies. This one is the baseline there, in recurrent
cells and wherever else a single unit stands.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ._checks import check_count
from .mlp import MLP
from .registry import register
from .stack import Stacked


class MLPUnit(nn.Module):
    """Affine layer, activation, affine layer: y = B f(A x + a) + b, a universal approximator.

    It can approximate any operation within the range of training, and none beyond it except sums.
    With ReLU it is linear far from 0. The weights start as torch.nn.Linear's: U(-r, r),
    r = 1 / sqrt(inputs of the layer), the biases with them.

    Hornik, Stinchcombe and White, "Multilayer feedforward networks are universal approximators"
    (1989).

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        width: units between the two affine layers.
        activation: f, a name in ``ACTIVATIONS``.
        device: device of the parameters.
        dtype: floating-point type of the parameters.

    Raises:
        ValueError: if a size is below 1 or the activation unknown.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        width: int = 64,
        activation: str = "relu",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_count("width", width)
        self.net = MLP(
            in_features, width, out_features, activation=activation, device=device, dtype=dtype
        )

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the parameters from ``generator``, which must live on their device."""
        self.net.reset_parameters(generator)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        y: Tensor = self.net(x)
        return y


register("mlp_bias", label="MLP", citation="Hornik et al. (1989)")(Stacked(MLPUnit))
