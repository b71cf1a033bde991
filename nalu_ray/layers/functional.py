"""Equations that the arithmetic layers share, as pure functions of tensors."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """Linear map without bias, y = x W^T.

    Args:
        x: (..., in_features), any leading shape, also none.
        weight: (out_features, in_features).

    Returns:
        (..., out_features).
    """
    if x.dim() == 2:
        # The same product as F.linear, transposed. Stacked by vmap it is bmm(W, x^T), whose
        # backward on a CPU is several times faster than that of bmm(x, W^T) when out_features
        # is small: both operands of the weight's gradient are then read along their rows.
        return (weight @ x.mT).mT
    return F.linear(x, weight)


def nac_weight(w_hat: Tensor, m_hat: Tensor) -> Tensor:
    """Weight of the NAC, W = tanh(W_hat) * sigmoid(M_hat), elementwise in [-1, 1].

    Trask et al., "Neural Arithmetic Logic Units" (2018), section 2. Arguments and result share
    one shape.
    """
    return torch.tanh(w_hat) * torch.sigmoid(m_hat)


def log_magnitude(x: Tensor, epsilon: float) -> Tensor:
    """log(|x| + epsilon), elementwise; the sign of x is lost.

    Its gradient sign(x) / (|x| + epsilon) is at most 1 / epsilon, and 0 at x = 0.
    """
    # In place on the fresh copy that abs made: one (..., in_features) tensor instead of three.
    return x.abs().add_(epsilon).log_()


def max_exponent(dtype: torch.dtype) -> float:
    """Largest exponent that :func:`bounded_exp` takes: 28.07 in float32, 235.09 in float64.

    One third of the largest that the dtype can represent, less 1.5, so that the product of three
    results stays finite with a factor 90 to spare. Three is what the gradient of a squared error
    through two stacked NALUs multiplies: the error, an activation, and an activation below it.
    In float32 and bfloat16 the results end at 1.5e12, just above the product of two inputs of
    1e6; float16 (largest result 9) is no type for these layers.
    """
    return math.log(torch.finfo(dtype).max) / 3 - 1.5


def bounded_exp(z: Tensor) -> Tensor:
    """exp(min(z, B)) with B = max_exponent(z.dtype): exact up to B, constant and flat above it."""
    return torch.exp(z.clamp(max=max_exponent(z.dtype)))
