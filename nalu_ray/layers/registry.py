"""Networks by layer name.

To add a layer, put a module that calls :func:`register` into this package, or name a module of
another package in the entry-point group ``nalu_ray.layers``. There is no central list. A complete
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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from typing import Any, TypeVar

from torch import nn

ENTRY_POINT_GROUP = "nalu_ray.layers"
SHAPE = ("in_features", "hidden_features", "out_features", "hidden_layers")

Factory = TypeVar("Factory", bound=Callable[..., nn.Module])


class UnknownLayerError(ValueError):
    """No layer, or no cell, has this name."""


@dataclass(frozen=True)
class LayerEntry:
    """A network that is built by name.

    Attributes:
        name: the value of ``layer=``, which rows store.
        label: its name in tables and figures.
        factory: ``(in_features, hidden_features, out_features, hidden_layers=1, **options)`` to
            the network, ``(in_features, hidden_features, **options)`` to a cell; :func:`options_of`
            says what its options are.
        citation: the source of the layer.
        given: what the caller gives it by hand that others learn, such as ``operation``; tables
            say so. By default what a factory has under this name.
    """

    name: str
    label: str
    factory: Callable[..., nn.Module]
    citation: str = ""
    given: str = ""

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options that the factory takes."""
        return tuple(self.option_types)

    @property
    def option_types(self) -> dict[str, Any]:
        """The type that the factory gives each option; ``Any`` where it gives none."""
        return dict(_option_types(self.factory))

    @property
    def option_defaults(self) -> dict[str, Any]:
        """What each option is if it is left out; without those whose takers have several."""
        return dict(_option_defaults(self.factory))


@cache
def _option_defaults(factory: Callable[..., nn.Module]) -> dict[str, Any]:
    defaults: dict[str, list[Any]] = {}
    for parameter in _options_of_takers(factory):
        defaults.setdefault(parameter.name, []).append(parameter.default)
    return {
        name: first for name, (first, *more) in defaults.items() if all(v == first for v in more)
    }


@cache
def _option_types(factory: Callable[..., nn.Module]) -> dict[str, Any]:
    return {name: _type(parameter) for name, parameter in options_of(factory).items()}


def _type(parameter: inspect.Parameter) -> Any:
    if isinstance(parameter.annotation, str):  # an unresolved name
        return Any
    if parameter.annotation is not parameter.empty:
        return parameter.annotation
    return type(parameter.default) if isinstance(parameter.default, bool | float) else Any


def options_of(factory: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """The options of a factory, by name: its keyword-only parameters.

    A factory that passes ``**options`` on to classes names these in ``passes_options_to``; their
    keyword-only parameters count as its own.
    """
    return {parameter.name: parameter for parameter in _options_of_takers(factory)}


def _options_of_takers(factory: Callable[..., object]) -> Iterator[inspect.Parameter]:
    for taker in (factory, *getattr(factory, "passes_options_to", ())):
        parameters = _signature(taker).parameters.values()
        yield from (p for p in parameters if p.kind is p.KEYWORD_ONLY)


def _signature(factory: Callable[..., object]) -> inspect.Signature:
    """The signature of a factory, with annotations as types where their names can be resolved."""
    try:
        return inspect.signature(factory, eval_str=True)
    except NameError:  # imported for type checkers alone
        return inspect.signature(factory)


class Registry:
    """Factories by name.

    Args:
        noun: what the factories make, for messages.
        shape: parameters that each factory starts with.
    """

    def __init__(self, noun: str, shape: tuple[str, ...]) -> None:
        self.noun, self.shape = noun, shape
        self.entries: dict[str, LayerEntry] = {}

    def register(
        self, name: str, *, label: str, citation: str = "", given: str = ""
    ) -> Callable[[Factory], Factory]:
        """Register a factory under ``name``; see :class:`LayerEntry` for the arguments.

        Raises:
            TypeError: if the factory does not start with the parameters in ``shape``.
            ValueError: if another factory holds the name.
        """

        def decorate(factory: Factory) -> Factory:
            parameters = tuple(inspect.signature(factory).parameters)
            if parameters[: len(self.shape)] != self.shape:
                text = f"{self.noun} {name!r}: its factory must start with {self.shape}"
                raise TypeError(f"{text}: {parameters}")
            held = self.entries.get(name)
            # A module that is imported anew may register anew.
            if held is not None and held.factory.__module__ != factory.__module__:
                raise ValueError(
                    f"{self.noun} {name!r} of {factory.__module__} is taken by "
                    f"{held.factory.__module__}"
                )
            self.entries[name] = LayerEntry(
                name, label, factory, citation, given or getattr(factory, "given", "")
            )
            return factory

        return decorate

    def names(self) -> list[str]:
        """Every name that :meth:`build` takes, sorted."""
        _discover()
        return sorted(self.entries)

    def get(self, name: str) -> LayerEntry:
        """The entry of a name.

        Raises:
            UnknownLayerError: if there is none; the message suggests the nearest and lists all.
        """
        if name not in self.entries and name not in (allowed_names := self.names()):
            near = get_close_matches(name.lower(), allowed_names, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            allowed = ", ".join(allowed_names)
            raise UnknownLayerError(f"unknown {self.noun} {name!r}.{hint} Allowed: {allowed}")
        return self.entries[name]

    def build(self, name: str, *shape: int, **options: object) -> nn.Module:
        """Build the module of a name.

        Args:
            name: one of :meth:`names`.
            shape: the factory's first arguments.
            options: passed to the factory.

        Raises:
            UnknownLayerError: if there is no such name.
            TypeError: if the factory does not take one of the options.
            ValueError: if a size is out of range.
        """
        return self.build_entry(self.get(name), *shape, **options)

    def build_entry(self, entry: LayerEntry, *shape: int, **options: object) -> nn.Module:
        """Build the module of an entry; see :meth:`build`."""
        for option in options:
            if option not in entry.options:
                allowed = ", ".join(entry.options) or "none"
                text = f"{self.noun} {entry.name!r} has no option {option!r}"
                raise TypeError(f"{text}; its options: {allowed}")
        return entry.factory(*shape, **options)


_layers = Registry("layer", SHAPE)
register, names, get = _layers.register, _layers.names, _layers.get


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
        hidden_layers: number of hidden layers; the network has one layer more.
        options: passed to the layer's factory.

    Returns:
        A module from (..., in_features) to (..., out_features) with
        ``reset_parameters(generator)``.

    Raises:
        UnknownLayerError: if there is no such layer.
        TypeError: if the layer does not take one of the options.
        ValueError: if a size is out of range.
    """
    shape = (in_features, hidden_features, out_features, hidden_layers)
    return _layers.build(name, *shape, **options)


def _discover() -> None:
    package = importlib.import_module(__name__.rpartition(".")[0])
    _import_modules(package.__name__, tuple(package.__path__))
    _load_plugins()


@cache
def _import_modules(package: str, folders: tuple[str, ...]) -> None:
    for module in pkgutil.walk_packages(folders, f"{package}."):
        if not module.name.rpartition(".")[2].startswith("_"):
            importlib.import_module(module.name)


@cache
def _load_plugins() -> None:
    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            point.load()
        except (Exception, SystemExit) as error:  # one broken package must not hide the rest
            warnings.warn(f"layers of {point.value!r} left out: {error!r}", stacklevel=2)
