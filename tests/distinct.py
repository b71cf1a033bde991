"""Names of the registry of which each stands for another module: what is tested at length."""

from __future__ import annotations

from typing import Any

from torch import nn

from nalu_ray import layers
from nalu_ray.layers.cells.unit_cell import UnitFactory


def cells() -> list[str]:
    """Returns the names of cells, one per class."""
    first: dict[Any, str] = {}
    for name in layers.cell_names():
        factory = layers.get_cell(name).factory
        first.setdefault(factory.unit if isinstance(factory, UnitFactory) else factory, name)
    return list(first.values())


def is_pair(name: str) -> bool:
    """Returns whether a layer's networks are of two classes, each of which has another name."""
    factory = layers.get(name).factory
    return isinstance(factory, layers.Stacked) and factory.first is not factory.layer


def is_torchs_activation(name: str) -> bool:
    """Returns whether a layer is a perceptron whose activation is PyTorch's own."""
    network = layers.build(name, 2, 2, 2)
    if not isinstance(network, layers.MLP) or isinstance(network[1], nn.Identity):
        return False
    own = type(network[1]).__module__.startswith("torch.")
    return own and not list(network[1].parameters())
