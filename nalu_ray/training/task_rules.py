"""The rules that a task may have of its own, and the checks of what they return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nalu_ray.errors import shown

RULES = ("penalties", "measure", "after_step", "stuck", "stop")
"""Methods of :class:`nalu_ray.training.supervised.SupervisedTask` that see the setting and the
parameters of a block."""


def chosen_seeds(rule: str, value: Any, seeds: int) -> Tensor | None:
    """Returns which seeds a task's ``stuck`` or ``stop`` chose; None if it leaves them alone.

    Args:
        rule: its name.
        value: what it returned.
        seeds: number of seeds of the block, R.

    Raises:
        TypeError: if that is neither None nor (R,) of bool.
    """
    if value is None:
        return None
    if isinstance(value, Tensor) and value.dtype == torch.bool and value.shape == (seeds,):
        return value
    raise TypeError(
        f"{rule} returned {described(value)}; it must return None or a tensor of bool of shape "
        f"(R,), one value per seed: here ({seeds},)"
    )


def new_values(values: Any, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns copies of the values that a task's ``after_step`` gave.

    Args:
        values: what it returned.
        parameters: the trained parameters of the block by name, (R, *shape) each.

    Raises:
        TypeError: if a name or a shape is not a parameter's.
    """
    if not isinstance(values, Mapping):
        raise TypeError(
            f"after_step returned {described(values)}; it must return tensors by the parameter's "
            "name, or {} to change nothing"
        )
    for name, value in values.items():
        if name not in parameters:
            names = ", ".join(parameters)
            raise TypeError(f"after_step: {name!r} is no trained parameter; there is {names}")
        if not isinstance(value, Tensor) or value.shape != parameters[name].shape:
            sizes = f"{tuple(parameters[name].shape)}, got {described(value)}"
            raise TypeError(f"after_step: {name} must be a tensor of shape {sizes}")
    # a value may be a view of another parameter, which is written too
    return {name: value.clone() for name, value in values.items()}


def described(value: Any) -> str:
    """Returns what a value is, for a message: a tensor's type and shape, else the value."""
    if isinstance(value, Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"a tensor of {dtype} of shape {tuple(value.shape)}"
    return shown(value)
