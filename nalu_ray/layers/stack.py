"""Networks of stacked layers, and the factory that builds them from any layer class."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Protocol, cast

import torch
from torch import nn

from ._checks import check_network_shape
from .registry import options_of


class _Resettable(Protocol):
    def reset_parameters(self, generator: torch.Generator | None = None) -> None: ...


def reset_parameters(module: nn.Module, generator: torch.Generator | None = None) -> None:
    """Initialise a layer or network of this package; ``generator`` must live on its device."""
    cast(_Resettable, module).reset_parameters(generator)


class Stack(nn.Sequential):
    """Layers applied in order, whose parameters can be redrawn from a single generator."""

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Initialise the layers that have parameters, first to last."""
        for layer in self:
            if any(True for _ in layer.parameters()):
                reset_parameters(layer, generator)


class Stacked:
    """Factory of networks of ``hidden_layers + 1`` layers of one class, for the registry.

    Its options are the keyword-only parameters of the layers' constructors; each layer gets those
    that it takes. A list or tuple as an option holds one value per layer, first to last.

    Args:
        layer: a module class with constructor ``(in_features, out_features, *, options)``.
        first: another such class for the first layer; then there must be a second.

    Attributes:
        is_pair: whether there are two classes.
        given: which class comes first, if there are two: tables say that it is given by hand.
    """

    def __init__(self, layer: type[nn.Module], *, first: type[nn.Module] | None = None) -> None:
        self.layer = layer
        self.first = first or layer
        self.is_pair = self.first is not layer
        self.least = int(self.is_pair)
        self.given = f"{self.first.__name__} first" if self.is_pair else ""
        self.__module__ = layer.__module__
        self.passes_options_to = (self.first, self.layer)

    def __call__(
        self,
        in_features: int,
        hidden_features: int,
        out_features: int,
        hidden_layers: int = 1,
        **options: Any,
    ) -> Stack:
        check_network_shape(
            in_features, hidden_features, out_features, hidden_layers, least=self.least
        )
        widths = pairwise([in_features, *[hidden_features] * hidden_layers, out_features])
        classes = [self.first, *[self.layer] * hidden_layers]
        return Stack(
            *(
                layer(*width, **_of_layer(index, layer, options, len(classes)))
                for index, (layer, width) in enumerate(zip(classes, widths, strict=True))
            )
        )

    def last(self, in_features: int, out_features: int, **options: Any) -> nn.Module:
        """A single layer, of the class that comes last."""
        return self.layer(in_features, out_features, **options)


def _of_layer(
    index: int, layer: type[nn.Module], options: dict[str, Any], count: int
) -> dict[str, Any]:
    """The options that layer ``index`` of ``count`` takes."""
    chosen = {}
    for name in options_of(layer):
        if name not in options:
            continue
        value = options[name]
        if isinstance(value, list | tuple):
            if len(value) != count:
                raise ValueError(
                    f"{name} must hold one value for each of {count} layers, got {value!r}"
                )
            value = value[index]
        chosen[name] = value
    return chosen
