"""Neural power units with complex weights.

Heim, Pevný and Šmídl, "Neural Power Units" (2020), https://arxiv.org/abs/2006.01681.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from ._checks import check_choice, check_count, check_finite
from ._power import (
    GATE_GRADIENTS,
    check_epsilon,
    gate_distance,
    gated_polar,
    limited_gate,
    polar,
    scaled_start,
)
from ._weighted import distance
from .initialisers import Init, check_init
from .nalu import exponent, max_exponent
from .nau import NAU
from .registry import register
from .stack import Stacked

CITATION = "Heim, Pevný and Šmídl (2020)"


def complex_power(logs: Tensor, angles: Tensor, real: Tensor, imaginary: Tensor) -> Tensor:
    """Real part of the product of complex powers, Re prod_i exp(W_ji (log r_i + i k_i)).

    Args:
        logs: log r, (..., in_features).
        angles: k, (..., in_features).
        real: real part of W, (out_features, in_features).
        imaginary: imaginary part of W.

    Returns:
        (..., out_features), of the type of W.
    """
    rows = [torch.cat([real, -imaginary], -1), torch.cat([imaginary, real], -1)]
    sums = exponent(torch.cat([logs, angles], -1), torch.cat(rows))
    exponents, turns = sums.chunk(2, -1)
    limit = max_exponent(real.dtype)
    return (torch.exp(exponents.clamp(max=limit)) * torch.cos(turns)).to(real.dtype)


class ComplexPower(nn.Module):
    """Base of units with complex weights: W = W_r + i W_i, its start and its figures."""

    recurrent_start: ClassVar[float] = 1.0

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        start: Init,
        gain: float,
        epsilon: float | None,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        check_count("in_features", in_features)
        check_count("out_features", out_features)
        check_init("start", start)
        check_finite("gain", gain)
        check_epsilon(epsilon)
        self.in_features, self.out_features = in_features, out_features
        self.start, self.gain, self.epsilon = start, gain, epsilon
        self.W_r = nn.Parameter(torch.empty(out_features, in_features, device=device, dtype=dtype))
        self.W_i = nn.Parameter(torch.empty_like(self.W_r))

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the parameters from ``generator``, which must live on their device."""
        scaled_start(self.W_r, self.start, self.gain, generator)
        nn.init.zeros_(self.W_i)

    def penalty(self) -> dict[str, Tensor]:
        """Penalties by name: ``sparsity``, mean of min(|W|, |1 - |W||) over W_r and W_i."""
        return {"sparsity": self._distances().mean()}

    def measure(self) -> dict[str, Tensor]:
        """Figures by name: ``sparsity_error``, the largest such distance."""
        return {"sparsity_error": self._distances().max()}

    def _distances(self) -> Tensor:
        return distance(torch.stack([self.W_r, self.W_i]))

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"start={self.start!r}, gain={self.gain}, epsilon={self.epsilon}"
        )


class NaiveNPU(ComplexPower):
    """Neural power unit without gates.

    Heim, Pevný and Šmídl (2020), with complex weights W = W_r + i W_i::

        y = exp(W_r log r - W_i k) * cos(W_i log r + W_r k)
        r = |x| + epsilon,    k = pi where x < 0, else 0

    y is the real part of prod_i x_i^W_ji. W_r starts Glorot-uniform, W_i from 0.

    * epsilon, as in the authors' code, is the machine epsilon of float32, 1.19e-7 (for float64, of
      float64). The paper's text has none (``epsilon=0``): then an input of 0 gives 0, infinity or
      NaN, unless a gate leaves it out.
    * The exponent is exact up to ``max_exponent(dtype)``. Above, it stays there and passes no
      gradient, as in :class:`NALU`.
    * Everything is computed in float32 at least.
    * While W_i = 0, inputs that are all positive give W_i no gradient.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        start: initialisation of W_r, a name in ``INITIALISERS`` or a constant.
        gain: factor on ``start``. The code of the paper's large task has 0.1.
        epsilon: what |x| is enlarged by; ``None`` means the machine epsilon.
        device: device of the parameters.
        dtype: floating-point type of the parameters.

    Raises:
        ValueError: if a size is below 1, the start unknown, the gain no finite number, or epsilon
            negative.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        start: Init = "glorot",
        gain: float = 1.0,
        epsilon: float | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            in_features,
            out_features,
            start=start,
            gain=gain,
            epsilon=epsilon,
            device=device,
            dtype=dtype,
        )
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        magnitude, angle = polar(x, self.epsilon)
        return complex_power(magnitude.log(), angle, self.W_r, self.W_i)


class NPU(ComplexPower):
    """Neural power unit: a :class:`NaiveNPU` that can leave inputs out.

    Heim, Pevný and Šmídl (2020), with one gate g per input::

        y = exp(W_r log r - W_i k) * cos(W_i log r + W_r k)
        g = min(max(G, 0), 1)
        r = g (|x| + epsilon) + 1 - g,    k = pi g where x < 0, else 0

    W_r starts Glorot-uniform, W_i from 0, G from 1/2. See :class:`NaiveNPU` for epsilon, exponents,
    types and gradients, and :class:`RealNPU` for the two gradients of the gate.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        start: initialisation of W_r, a name in ``INITIALISERS`` or a constant.
        gain: factor on ``start``. The code of the paper's large task has 0.1.
        epsilon: what |x| is enlarged by; ``None`` means the machine epsilon.
        gate_gradient: ``through`` or ``clamp``.
        device: device of the parameters.
        dtype: floating-point type of the parameters.

    Raises:
        ValueError: if a size is below 1, the start or the gate's gradient unknown, the gain no
            finite number, or epsilon negative.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        start: Init = "glorot",
        gain: float = 1.0,
        epsilon: float | None = None,
        gate_gradient: str = "through",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            in_features,
            out_features,
            start=start,
            gain=gain,
            epsilon=epsilon,
            device=device,
            dtype=dtype,
        )
        check_choice("gate_gradient", gate_gradient, GATE_GRADIENTS)
        self.gate_gradient = gate_gradient
        self.G = nn.Parameter(self.W_r.new_empty(in_features))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        super().reset_parameters(generator)
        nn.init.constant_(self.G, 0.5)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        logs, angles = gated_polar(x, limited_gate(self.G, self.gate_gradient), self.epsilon)
        return complex_power(logs, angles, self.W_r, self.W_i)

    def penalty(self) -> dict[str, Tensor]:
        """Penalties by name: ``sparsity``, and ``gate``, the mean of min(|G|, |1 - G|)."""
        return super().penalty() | {"gate": gate_distance(self.G).mean()}

    def measure(self) -> dict[str, Tensor]:
        """Figures by name: ``sparsity_error``, and ``gate_error``, the largest min(g, 1 - g)."""
        return super().measure() | {"gate_error": gate_distance(self.G.clamp(0, 1)).max()}

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, gate_gradient={self.gate_gradient!r}"


register("npu", label="NPU", citation=CITATION)(Stacked(NPU))
register("naive_npu", label="Naive NPU", citation=CITATION)(Stacked(NaiveNPU))
# The paper's large task has an NAU below each of them.
register("nau_npu", label="NAU, NPU", citation=CITATION)(Stacked(NPU, first=NAU))
register("nau_naive_npu", label="NAU, Naive NPU", citation=CITATION)(Stacked(NaiveNPU, first=NAU))
