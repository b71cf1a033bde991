"""The activations that the paper compares, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class CReLU(nn.Module):
    """Concatenated ReLU, [max(x, 0), max(-x, 0)], which doubles the width.

    Shang et al., "Understanding and Improving Convolutional Neural Networks via Concatenated
    Rectified Linear Units" (2016), https://arxiv.org/abs/1603.05201.
    """

    width_factor = 2

    def forward(self, x: Tensor) -> Tensor:
        """(..., features) to (..., 2 features): all positive parts, then all negative parts."""
        return torch.cat([F.relu(x), F.relu(-x)], dim=-1)


class PReLU(nn.PReLU):
    """torch.nn.PReLU, one learned slope per layer, with the project's ``reset_parameters``."""

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Set the slope to its start, 0.25; there is nothing to draw."""
        nn.init.constant_(self.weight, self.init)


class Activation(NamedTuple):
    """An activation's label in tables, and the constructor of its module."""

    label: str
    make: Callable[[], nn.Module]


# The paper does not say which threshold its "Threshold" has, and torch has no default for it. At
# 0 it would be ReLU, which the paper's identity table lists apart with a fifth of its error; 1 is
# the default of Keras's ThresholdedReLU.
THRESHOLD, BELOW_THRESHOLD = 1.0, 0.0

ACTIVATIONS: dict[str, Activation] = {
    "crelu": Activation("CReLU", CReLU),
    "elu": Activation("ELU", nn.ELU),
    "hardtanh": Activation("Hardtanh", nn.Hardtanh),
    "leaky_relu": Activation("LeakyReLU", nn.LeakyReLU),
    "none": Activation("None", nn.Identity),
    "prelu": Activation("PReLU", PReLU),
    "relu": Activation("ReLU", nn.ReLU),
    "relu6": Activation("ReLU6", nn.ReLU6),
    "selu": Activation("SELU", nn.SELU),
    "sigmoid": Activation("Sigmoid", nn.Sigmoid),
    "softplus": Activation("Softplus", nn.Softplus),
    "softshrink": Activation("Softshrink", nn.Softshrink),
    "softsign": Activation("Softsign", nn.Softsign),
    "tanh": Activation("Tanh", nn.Tanh),
    "tanhshrink": Activation("Tanhshrink", nn.Tanhshrink),
    "threshold": Activation("Threshold", lambda: nn.Threshold(THRESHOLD, BELOW_THRESHOLD)),
}


def make_activation(name: str) -> nn.Module:
    """A new activation module.

    Raises:
        ValueError: if there is none of this name; the message lists all.
    """
    if name not in ACTIVATIONS:
        raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {name!r}")
    return ACTIVATIONS[name].make()


def width_factor(activation: nn.Module) -> int:
    """Outputs that an activation has for each input: 2 for CReLU, else 1."""
    return int(getattr(activation, "width_factor", 1))
