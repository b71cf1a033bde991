"""Stacked gradients, (R, P), whose squares may overflow their type."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def clip_rows(gradient: Tensor, norm: float) -> None:
    """Scales each replica's gradient, (R, P), to a norm of at most ``norm``, in place.

    A row whose norm even float64 cannot hold becomes NaN.
    """
    lengths = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
    wide = ~lengths.isfinite()
    # on a GPU the host would wait here for the answer, each step
    if gradient.device.type == "cpu" and not wide.any():
        gradient.mul_(norm / lengths.clamp_min(norm))
        return
    exact = gradient.double()
    longer = torch.linalg.vector_norm(exact, dim=1, keepdim=True)
    factors = (norm / longer.clamp_min(norm)).masked_fill(longer.isinf(), math.nan)
    clipped = (exact * factors).to(gradient.dtype)
    gradient.copy_(torch.where(wide, clipped, gradient * (norm / lengths.clamp_min(norm))))


def matrix_norms(matrices: Tensor) -> Tensor:
    """Returns the Frobenius norm of each matrix, (R, n, m) to (R, 1, 1).

    Uses float64 where the squares overflow float32.
    """
    norms: Tensor = torch.linalg.matrix_norm(matrices, keepdim=True)
    if norms.device.type == "cpu" and norms.isfinite().all():  # as in clip_rows
        return norms
    exact = torch.linalg.matrix_norm(matrices, keepdim=True, dtype=torch.float64)
    return torch.where(norms.isfinite(), norms, exact)


def usable(loss: Tensor, gradient: Tensor, most: float) -> Tensor:
    """Returns which replicas can make a step, (R,) and (R, P) to (R,) of bool.

    These have a finite loss and no gradient larger than ``most``.
    """
    return loss.isfinite() & (gradient.abs() <= most).all(dim=1)


def all_usable(loss: Tensor, gradient: Tensor, most: float) -> bool:
    """Returns whether :func:`usable` holds for all replicas, in one pass without a mask."""
    # a sum is not finite if any term is not, and a maximum is NaN if any is
    within = torch.linalg.vector_norm(gradient, math.inf) <= most
    return bool(loss.sum().isfinite() & within)
