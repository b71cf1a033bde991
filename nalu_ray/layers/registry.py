"""Networks by layer name.

A layer joins by being a module of this package that calls :func:`register`, or by a module of
another package named in the entry-point group ``nalu_ray.layers``; no list names it. A complete
file, ``nalu_ray/layers/scaled.py``::

    @register("scaled", label="Scaled NAC")
    def scaled(
        in_features: int, hidden_features: int, out_features: int, hidden_layers: int = 1,
        *, scale: float = 1.0,
    ) -> nn.Module:
        ...
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from typing import TypeVar

from torch import nn

ENTRY_POINT_GROUP = "nalu_ray.layers"
SHAPE = ("in_features", "hidden_features", "out_features", "hidden_layers")

Factory = TypeVar("Factory", bound=Callable[..., nn.Module])


class UnknownLayerError(ValueError):
    """No layer has this name."""


@dataclass(frozen=True)
class LayerEntry:
    """A network that can be asked for by name.

    Attributes:
        name: what ``layer=`` takes, and what rows store.
        label: what tables and figures print.
        factory: ``(in_features, hidden_features, out_features, hidden_layers=1, **options)`` to
            the network; its keyword-only parameters are its options.
        citation: where the layer comes from.
    """

    name: str
    label: str
    factory: Callable[..., nn.Module]
    citation: str = ""

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options that the factory takes."""
        parameters = inspect.signature(self.factory).parameters.values()
        return tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


_entries: dict[str, LayerEntry] = {}


def register(name: str, *, label: str, citation: str = "") -> Callable[[Factory], Factory]:
    """Make a factory known under ``name``; see :class:`LayerEntry` for the arguments.

    Raises:
        TypeError: if the factory does not start with the parameters in ``SHAPE``.
        ValueError: if another factory holds the name.
    """

    def decorate(factory: Factory) -> Factory:
        parameters = tuple(inspect.signature(factory).parameters)
        if parameters[: len(SHAPE)] != SHAPE:
            raise TypeError(f"layer {name!r}: its factory must start with {SHAPE}: {parameters}")
        held = _entries.get(name)
        # A module that is imported anew may register anew.
        if held is not None and held.factory.__module__ != factory.__module__:
            raise ValueError(
                f"layer {name!r} of {factory.__module__} is taken by {held.factory.__module__}"
            )
        _entries[name] = LayerEntry(name, label, factory, citation)
        return factory

    return decorate


def names() -> list[str]:
    """Every name that :func:`build` takes, sorted."""
    _discover()
    return sorted(_entries)


def get(name: str) -> LayerEntry:
    """The entry of a name.

    Raises:
        UnknownLayerError: if there is none; the message suggests the nearest and lists all.
    """
    known = names()
    if name not in _entries:
        near = get_close_matches(name.lower(), known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UnknownLayerError(f"unknown layer {name!r}.{hint} Allowed: {', '.join(known)}")
    return _entries[name]


def build(
    name: str,
    in_features: int,
    hidden_features: int,
    out_features: int,
    hidden_layers: int = 1,
    **options: object,
) -> nn.Module:
    """The network of a layer's name, ready to train.

    Args:
        name: one of :func:`names`.
        in_features: size of the input's last axis.
        hidden_features: units in each hidden layer.
        out_features: size of the output's last axis.
        hidden_layers: how many hidden layers; the network has one layer more.
        options: passed to the layer's factory.

    Returns:
        A module from (..., in_features) to (..., out_features) with
        ``reset_parameters(generator)``.

    Raises:
        UnknownLayerError: if there is no such layer.
        TypeError: if the layer does not take one of the options.
        ValueError: if a size is out of range.
    """
    entry = get(name)
    for option in options:
        if option not in entry.options:
            allowed = ", ".join(entry.options) or "none"
            raise TypeError(f"layer {name!r} has no option {option!r}; its options: {allowed}")
    return entry.factory(in_features, hidden_features, out_features, hidden_layers, **options)


def _discover() -> None:
    package = importlib.import_module(__name__.rpartition(".")[0])
    for module in pkgutil.iter_modules(package.__path__):
        if not module.name.startswith("_"):
            importlib.import_module(f"{package.__name__}.{module.name}")
    _load_plugins()


@cache
def _load_plugins() -> None:
    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            point.load()
        except Exception as error:  # one broken package must not hide the rest
            warnings.warn(f"layers of {point.value!r} left out: {error!r}", stacklevel=2)
