"""Patterns over the names of a network's parameters, as settings write them."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn

from nalu_ray.errors import short
from nalu_ray.input.values import ValueReader
from nalu_ray.training.replicas import Replicas


def trained(network: nn.Module) -> list[str]:
    """Returns the names of the parameters that are trained."""
    return [name for name, tensor in network.named_parameters() if tensor.requires_grad]


def matching(field: str, pattern: str, names: Sequence[str]) -> list[str]:
    """Returns the names that a pattern matches, as the shell matches names of files.

    Args:
        field: the setting's field, for messages.
        pattern: such as ``*.W``; a ``*`` matches dots too.
        names: of the trained parameters.

    Raises:
        ValueError: if there is none.
    """
    if names_here := [name for name in names if fnmatchcase(name, pattern)]:
        return names_here
    raise ValueError(
        f"{field}: {pattern!r} matches no parameter; there are {short(', '.join(names), 400)}"
    )


def mask(replicas: Replicas, names: Sequence[str]) -> Tensor:
    """Returns which columns of ``replicas.flat`` hold some parameters, (P,) of bool."""
    parts = [
        torch.full((size,), name in names)
        for name, size in zip([*replicas.names, ""], replicas.sizes, strict=True)
    ]
    return torch.cat(parts).to(replicas.flat.device)


def number(text: str, kind: Any = float) -> Any:
    """Reads a finite number, as a setting's field would.

    Args:
        text: the number.
        kind: float or int.

    Raises:
        ValueError: if the text is none.
    """
    try:
        value = ValueReader(kind).read(text)
    except ValueError:
        value = None
    if value is None or not -float("inf") < value < float("inf"):
        noun = "whole number" if kind is int else "number"
        raise ValueError(f"{short(text)!r} is not a {noun}")
    return value


def written(value: float) -> str:
    """Returns the shortest text that reads as the number, without an idle ``.0``."""
    return repr(value + 0).removesuffix(".0")  # -0.0 is 0
