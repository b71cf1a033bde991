"""Magnitudes, angles and gates of the inputs of power units."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ._checks import check_not_negative
from ._product import machine_epsilon, widened
from ._weighted import within
from .initialisers import Init, initialise

GATE_GRADIENTS = ("through", "clamp")


def check_epsilon(epsilon: object) -> None:
    """Raise ``ValueError`` unless ``epsilon`` is ``None`` or a number of at least 0."""
    if epsilon is not None:
        check_not_negative("epsilon", epsilon)


def polar(x: Tensor, epsilon: float | None) -> tuple[Tensor, Tensor]:
    """Magnitude |x| + epsilon and angle, pi where x < 0, else 0; in float32 at least.

    Without an epsilon it is the machine epsilon of the type.
    """
    wide = widened(x)
    added = machine_epsilon(wide.dtype) if epsilon is None else epsilon
    return wide.abs() + added, math.pi * (wide < 0).to(wide.dtype)


def gated_polar(x: Tensor, gate: Tensor, epsilon: float | None) -> tuple[Tensor, Tensor]:
    """Logarithm of the magnitude and angle of the inputs, 0 where their gate is 0.

    Args:
        x: (..., in_features).
        gate: (in_features,) in [0, 1].
        epsilon: as in :func:`polar`.
    """
    magnitude, angle = polar(x, epsilon)
    gate = gate.to(magnitude.dtype)
    return (gate * magnitude + (1 - gate)).log(), gate * angle


def limited_gate(g: Tensor, gradient: str) -> Tensor:
    """``g`` within [0, 1]; see ``gate_gradient`` of :class:`RealNPU`."""
    if gradient == "clamp":
        # torch.clamp itself passes the gradient at 0 and 1 in some releases, and not in others
        return torch.where((g < 0) | (g > 1), g.detach().clamp(0.0, 1.0), g)
    return within(g, 0.0, 1.0)


def gate_distance(gate: Tensor) -> Tensor:
    """Distance of each element from the nearer of 0 and 1: min(|G|, |1 - G|)."""
    return torch.minimum(gate.abs(), (1 - gate).abs())


def scaled_start(
    weight: Tensor, start: Init, gain: float, generator: torch.Generator | None
) -> None:
    """Draws ``weight`` as :func:`initialise` does, times ``gain``, in place."""
    initialise(weight, start, generator)
    with torch.no_grad():
        weight.mul_(gain)
