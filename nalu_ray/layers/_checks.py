"""Checks of constructor arguments; messages name the field, its value and what is allowed."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import TypeGuard


def check_count(field: str, value: object, *, least: int = 1) -> None:
    """Raise ``ValueError`` unless ``value`` is an integer of at least ``least``."""
    if not isinstance(value, Integral) or value < least:
        raise ValueError(f"{field} must be an integer of at least {least}, got {value!r}")


def check_positive(field: str, value: object) -> None:
    """Raise ``ValueError`` unless ``value`` is a finite number above 0."""
    if not is_finite(value) or value <= 0:
        raise ValueError(f"{field} must be a finite number above 0, got {value!r}")


def check_finite(field: str, value: object) -> None:
    """Raise ``ValueError`` unless ``value`` is a finite number."""
    if not is_finite(value):
        raise ValueError(f"{field} must be a finite number, got {value!r}")


def check_not_negative(field: str, value: object) -> None:
    """Raise ``ValueError`` unless ``value`` is a finite number of at least 0."""
    if not is_finite(value) or value < 0:
        raise ValueError(f"{field} must be a finite number of at least 0, got {value!r}")


def check_choice(field: str, value: object, choices: tuple[str, ...]) -> None:
    """Raise ``ValueError`` unless ``value`` is one of the choices."""
    if value not in choices:
        raise ValueError(f"{field} must be one of {', '.join(choices)}, got {value!r}")


def is_finite(value: object) -> TypeGuard[Real]:
    """Whether ``value`` is a number, and neither infinite nor NaN."""
    return isinstance(value, Real) and math.isfinite(value)


def check_network_shape(
    in_features: int, hidden_features: int, out_features: int, hidden_layers: int, *, least: int = 0
) -> None:
    """Check the sizes of a network with at least ``least`` hidden layers."""
    check_count("in_features", in_features)
    check_count("hidden_features", hidden_features)
    check_count("out_features", out_features)
    check_count("hidden_layers", hidden_layers, least=least)
