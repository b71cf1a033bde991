"""Layers in a row, and the factory that makes such a network of any layer."""

from __future__ import annotations

import inspect
from itertools import pairwise
from typing import Any, Protocol, cast

import torch
from torch import nn

from ._checks import check_network_shape
from .registry import signature


class _Resettable(Protocol):
    def reset_parameters(self, generator: torch.Generator | None = None) -> None: ...


def reset_parameters(module: nn.Module, generator: torch.Generator | None = None) -> None:
    """Initialise a layer or network of this package; ``generator`` must live on its device."""
    cast(_Resettable, module).reset_parameters(generator)


class Stack(nn.Sequential):
    """Layers applied in order, whose parameters can all be drawn anew from one generator."""

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Initialise the layers that have parameters, first to last."""
        for layer in self:
            if any(True for _ in layer.parameters()):
                reset_parameters(layer, generator)


class Stacked:
    """Factory of networks of ``hidden_layers + 1`` layers of one kind, for the registry.

    Its options are the keyword-only parameters of the layers' constructors; each layer gets those
    that it takes. An option given as a list or tuple holds one value for each layer, first to last.

    Args:
        layer: a module class with constructor ``(in_features, out_features, *, options)``.
        first: another such class for the first layer; then there must be a second.
    """

    def __init__(self, layer: type[nn.Module], *, first: type[nn.Module] | None = None) -> None:
        self.layer = layer
        self.first = first or layer
        self.least = 0 if first is None else 1
        self.__module__ = layer.__module__
        self.__signature__ = self._signature()

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
        kinds = [self.first, *[self.layer] * hidden_layers]
        layers = enumerate(zip(kinds, widths, strict=True))
        return Stack(
            *(
                kind(*width, **_of_layer(place, kind, options, len(kinds)))
                for place, (kind, width) in layers
            )
        )

    def last(self, in_features: int, out_features: int, **options: Any) -> nn.Module:
        """A single layer, of the kind that comes last."""
        return self.layer(in_features, out_features, **options)

    def _signature(self) -> inspect.Signature:
        own = inspect.signature(type(self).__call__).parameters.values()
        shape = [p for p in own if p.name != "self" and p.kind is not p.VAR_KEYWORD]
        options = _options(self.first) | _options(self.layer)
        return inspect.Signature([*shape, *options.values()])


def _of_layer(
    place: int, layer: type[nn.Module], options: dict[str, Any], count: int
) -> dict[str, Any]:
    chosen = {}
    for name in _options(layer):
        if name not in options:
            continue
        value = options[name]
        if isinstance(value, list | tuple):
            if len(value) != count:
                raise ValueError(
                    f"{name} must hold one value for each of {count} layers, got {value!r}"
                )
            value = value[place]
        chosen[name] = value
    return chosen


def _options(layer: type[nn.Module]) -> dict[str, inspect.Parameter]:
    parameters = signature(layer).parameters
    return {name: p for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY}
