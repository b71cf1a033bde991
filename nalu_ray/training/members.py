"""What units of a network say beside their forward pass, found by name on every submodule.

Members that a unit may have, all optional:

* ``bounds: Mapping[str, tuple[float, float]]``: limits of its own parameters;
* ``penalty()`` or ``penalty(inputs)``: named scalars to add to the loss;
* ``projected()``: new values of its own parameters after a step;
* ``measure()``: named scalars of the parameters to log.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import reduce
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from nalu_ray.errors import first_line, shown
from nalu_ray.training.replicas import Replicas

Named = Mapping[str, Tensor]


def units_with(network: nn.Module, member: str) -> dict[str, nn.Module]:
    """Returns the modules that have a method of this name, by their path in the network."""
    having = {}
    for path, module in network.named_modules():
        method = getattr(module, member, None)
        if callable(method) and not isinstance(method, nn.Module):
            having[path] = module
    return having


def takes_inputs(unit: nn.Module) -> bool:
    """Whether a unit's ``penalty`` is given the inputs of its forward pass."""
    return bool(inspect.signature(unit.penalty).parameters)  # type: ignore[arg-type]


def penalty(unit: nn.Module, inputs: Tensor | None) -> Named:
    """Returns a unit's penalties.

    Args:
        unit: the unit.
        inputs: all inputs of its forward pass in a step, (N, in_features), or None if none of the
            penalties that are asked for depends on them.
    """
    untyped_unit: Any = unit
    if not takes_inputs(unit):
        return _named(untyped_unit.penalty())
    if inputs is None:  # any will do
        inputs = _zeros(unit, untyped_unit.in_features)
    return _named(untyped_unit.penalty(inputs))


def _zeros(unit: nn.Module, features: int) -> Tensor:
    state = chain(unit.parameters(), unit.buffers())
    return next(state, torch.empty(0)).new_zeros(1, features)


def tensors(network: nn.Module, path: str, member: str) -> Named:
    """Returns what a method of a unit gives, ``projected()`` or ``measure()``.

    Raises:
        TypeError: if it is no dict of tensors, for ``measure`` of scalars; the message names the
            unit.
    """
    unit: Any = network.get_submodule(path)
    try:
        return _named(getattr(unit, member)(), scalars=member == "measure")
    except Exception as error:  # whatever the unit's code raises
        raise TypeError(f"{about(network, path, member)}: {first_line(error)}") from error


def about(network: nn.Module, path: str, member: str) -> str:
    """Returns a unit's member as messages name it."""
    unit = type(network.get_submodule(path)).__name__
    return f"{member} of {path or 'the network'} ({unit})"


def _named(values: Any, *, scalars: bool = True) -> Named:
    noun = "scalar tensor" if scalars else "tensor"
    if not isinstance(values, Mapping):
        raise TypeError(f"must be a dict of {noun}s, got {type(values).__name__}")
    for name, value in values.items():
        if not isinstance(value, Tensor) or (scalars and value.shape != ()):
            actual = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise TypeError(f"{name} must be a {noun}, got {actual}")
    return values


def offered(network: nn.Module) -> dict[str, dict[str, bool]]:
    """Returns by unit and by name of its penalties whether these depend on its inputs.

    Args:
        network: on any device, also on ``meta``.

    Raises:
        TypeError: if a unit's penalties are not scalars by name.
    """
    return {path: _names(network, path) for path in units_with(network, "penalty")}


def _names(network: nn.Module, path: str) -> dict[str, bool]:
    unit, inputs = network.get_submodule(path), None
    try:
        if takes_inputs(unit):
            if not isinstance(features := getattr(unit, "in_features", None), int):
                raise TypeError("a unit whose penalty takes inputs must have in_features")
            inputs = _zeros(unit, features).requires_grad_()
        with torch.enable_grad():
            values = penalty(unit, inputs)
        return {name: _depends(value, inputs) for name, value in values.items()}
    except Exception as error:  # whatever the unit's code raises
        raise TypeError(f"{about(network, path, 'penalty')}: {first_line(error)}") from error


def _depends(value: Tensor, inputs: Tensor | None) -> bool:
    if inputs is None or not value.requires_grad:
        return False
    (gradient,) = torch.autograd.grad(value, inputs, retain_graph=True, allow_unused=True)
    return gradient is not None


def bounds(network: nn.Module) -> dict[str, tuple[float, float]]:
    """Returns the bounds of the trained parameters, by the parameter's name in the network.

    Raises:
        TypeError: if a unit has bounds that are not pairs low <= high of parameters of its own.
    """
    names = {id(tensor): name for name, tensor in network.named_parameters()}
    limits: dict[str, tuple[float, float]] = {}
    for path, module in network.named_modules():
        parameters = dict(module.named_parameters(recurse=False))
        for name, pair in _bounds(module).items():
            subject = about(network, path, "bounds")
            if name not in parameters:
                available = ", ".join(parameters) or "none"
                raise TypeError(
                    f"{subject}: {name!r} is no parameter of its own; there is {available}"
                )
            try:
                low, high = map(float, pair)
            except (TypeError, ValueError):
                text = f"{name} must be a pair of numbers, got {shown(pair)}"
                raise TypeError(f"{subject}: {text}") from None
            if not low <= high:
                raise TypeError(f"{subject}: {name} {low:g}:{high:g} is an empty range")
            if parameters[name].requires_grad:
                limits[names[id(parameters[name])]] = (low, high)
    return limits


def _bounds(module: nn.Module) -> Mapping[str, tuple[float, float]]:
    limits = getattr(module, "bounds", None)
    return limits if isinstance(limits, Mapping) else {}


def measured(replicas: Replicas) -> dict[str, Tensor]:
    """Returns the figures that the units' ``measure()`` gives of their parameters, {name: (R,)}.

    Of several units, the largest of a name counts.
    """
    paths = list(units_with(replicas.module, "measure"))
    if not paths:
        return {}

    def figures(network: nn.Module) -> dict[str, Tensor]:
        every: dict[str, list[Tensor]] = {}
        for path in paths:
            for name, value in tensors(network, path, "measure").items():
                every.setdefault(name, []).append(value)
        return {name: reduce(torch.maximum, values) for name, values in every.items()}

    result: dict[str, Tensor] = replicas.apply(figures)
    return result
