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
    """log(|x| + epsilon), elementwise, in float32 where x is of half precision; the sign is lost.

    Its gradient sign(x) / (|x| + epsilon) is at most 1 / epsilon, and 0 at x = 0.
    """
    if x.element_size() < 4:
        x = x.float()
    # In place on the fresh copy that abs made: one (..., in_features) tensor instead of three.
    return x.abs().add_(epsilon).log_()


def exponent(logs: Tensor, weight: Tensor) -> Tensor:
    """W l, as :func:`linear` has it, in the type of l, also under autocast.

    Half precision rounds an exponent of 7 by up to 0.002 (float16) or 0.016 (bfloat16), and its
    exponential is off by as large a part.

    Args:
        logs: l, (..., in_features), of :func:`log_magnitude`.
        weight: (out_features, in_features).
    """
    weight = weight.to(logs.dtype)
    if torch.jit.is_scripting():  # type: ignore[attr-defined]
        # a script cannot leave autocast, which leaves float64 as it is
        return linear(logs.double(), weight.double()).to(logs.dtype)
    kind = logs.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        with torch.autocast(kind, enabled=False):
            return linear(logs, weight)
    return linear(logs, weight)


def max_exponent(dtype: torch.dtype) -> float:
    """Largest exponent that :func:`bounded_exp` takes: 28.07 in float32, 235.09 in float64.

    One third of the largest that the dtype can represent, less 1.5, so that the product of three
    results stays finite with a factor 90 to spare. Three is what the gradient of a squared error
    through two stacked NALUs multiplies: the error, an activation, and an activation below it.
    In float32 and bfloat16 the results end at 1.5e12, just above the product of two inputs of
    1e6; in float16, which could hold no such product of three, at 2.4e4.
    """
    # torch.finfo(dtype).max, which a script does not know
    if dtype == torch.float16:
        return math.log(65504.0) - 1.0
    if dtype == torch.float64:
        return math.log(1.7976931348623157e308) / 3 - 1.5
    if dtype == torch.bfloat16:
        return math.log(3.3895313892515355e38) / 3 - 1.5
    return math.log(3.4028234663852886e38) / 3 - 1.5


def bounded_exp(z: Tensor, dtype: torch.dtype) -> Tensor:
    """exp(min(z, B)) with B = max_exponent(dtype): exact up to B, constant and flat above it.

    Args:
        z: exponents, in float32 or wider.
        dtype: that the result is to be turned into; it comes in that of z.
    """
    return torch.exp(z.clamp(max=max_exponent(dtype)))


def gated(m: Tensor, a: Tensor, gate: Tensor, dtype: torch.dtype) -> Tensor:
    """(1 - g) m + g a with g = sigmoid(gate), elementwise, in the type of m, then as ``dtype``.

    Exact at both ends of the gate, where m + g (a - m) would lose a beside a large m.
    """
    return torch.lerp(m, a.to(m.dtype), torch.sigmoid(gate.to(m.dtype))).to(dtype)
