"""Multilayer perceptrons, the paper's baselines, registered under their activation's name."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ._checks import check_count, check_network_shape
from .activations import ACTIVATIONS, make_activation, width_factor
from .functional import linear
from .initialisers import initialise
from .registry import register
from .stack import Stack

CITATION = "Trask et al. (2018), section 1.1 and appendices A and B"


class Linear(nn.Module):
    """Affine layer, y = x W^T + b, with the values and the names of torch.nn.Linear.

    It uses :func:`~nalu_ray.layers.functional.linear`, which trains stacked networks faster than
    torch.nn.Linear under vmap, and draws its parameters, the same numbers, from a generator.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        bias: whether b exists.
        device: device of the parameters.
        dtype: floating-point type of the parameters.

    Raises:
        ValueError: if a size is below 1.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_count("in_features", in_features)
        check_count("out_features", out_features)
        self.in_features = in_features
        self.out_features = out_features
        empty = torch.empty((out_features, in_features), device=device, dtype=dtype)
        self.weight = nn.Parameter(empty)
        self.bias = nn.Parameter(empty.new_empty(out_features)) if bias else None
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the parameters from ``generator``, which must live on their device."""
        initialise(self.weight, "linear", generator)
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features)
            nn.init.uniform_(self.bias, -bound, bound, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        y = linear(x, self.weight)
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class MLP(Stack):
    """Multilayer perceptron: affine layers with an activation after each but the last.

    The baseline of Trask et al. (2018), section 1.1 (three hidden layers of 8) and appendix B
    (one hidden layer of 2). The paper gives the activations, not the initialisation or whether
    there are biases: both are torch.nn.Linear's here.

    Args:
        in_features: size of the input's last axis.
        hidden_features: units in each hidden layer; CReLU makes two activations of each.
        out_features: size of the output's last axis.
        activation: a name in ``ACTIVATIONS``.
        hidden_layers: number of hidden layers; 0 leaves one affine layer.
        bias: whether the affine layers have one.
        device: device of the parameters.
        dtype: floating-point type of the parameters.

    Raises:
        ValueError: if a size is out of range or the activation unknown.
    """

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        out_features: int,
        *,
        activation: str,
        hidden_layers: int = 1,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_network_shape(in_features, hidden_features, out_features, hidden_layers)
        factor = width_factor(make_activation(activation))
        layers: list[nn.Module] = []
        width = in_features
        for _ in range(hidden_layers):
            layers += [
                Linear(width, hidden_features, bias=bias, device=device, dtype=dtype),
                make_activation(activation).to(device=device, dtype=dtype),
            ]
            width = hidden_features * factor
        layers.append(Linear(width, out_features, bias=bias, device=device, dtype=dtype))
        super().__init__(*layers)


def _factory(activation: str) -> Callable[..., MLP]:
    def mlp(
        in_features: int,
        hidden_features: int,
        out_features: int,
        hidden_layers: int = 1,
        *,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> MLP:
        return MLP(
            in_features,
            hidden_features,
            out_features,
            activation=activation,
            hidden_layers=hidden_layers,
            bias=bias,
            device=device,
            dtype=dtype,
        )

    return mlp


for _name, _activation in ACTIVATIONS.items():
    register(_name, label=_activation.label, citation=CITATION)(_factory(_name))
