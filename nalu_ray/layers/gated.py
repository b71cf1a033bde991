"""Gates between a sum and a product with weights of their own.

Madsen and Johansen, "Neural Arithmetic Units" (ICLR 2020), https://arxiv.org/abs/2001.05016,
appendix C.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ._checks import check_positive
from .functional import linear
from .initialisers import Init, check_init, initialise
from .mnac import MNAC, NACPlus
from .nalu import exponent, log_magnitude, nalu_output
from .nau import NAU
from .nmu import NMU
from .registry import register
from .stack import Stacked

CITATION = "Madsen and Johansen (2020), appendix C"


class SeparateNALU(nn.Module):
    """NALU with a weight for each path.

    Madsen and Johansen (2020), appendix C::

        y = g * a + (1 - g) * m
        a = W_a x,    m = exp(W_m log(|x| + epsilon)),    g = sigmoid(G x)

    Each W is a NAC's, tanh(W_hat) * sigmoid(M_hat). Bounds, types and guarantees are those of
    :class:`~nalu_ray.layers.NALU`.

    * Start: W_hat and M_hat as in :class:`MNAC`, G Glorot's uniform law.
    * Penalty ``sparsity`` and measure ``sparsity_error`` of each path, and penalty ``inputs`` of
      the sum's; the paper uses no penalty.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        epsilon: keeps the logarithm away from 0.
        start: initialisation of each W_hat and M_hat, a name in ``INITIALISERS`` or a constant.
        gate_start: initialisation of G.
        device: device of the parameters.
        dtype: floating-point type of the parameters.

    Raises:
        ValueError: if a size is below 1, epsilon not above 0, or an initialisation unknown.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        epsilon: float = 1e-7,
        start: Init = "variance",
        gate_start: Init = "glorot",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_positive("epsilon", epsilon)
        check_init("gate_start", gate_start)
        shape = (in_features, out_features)
        self.sum = NACPlus(*shape, start=start, device=device, dtype=dtype)
        self.product = MNAC(*shape, epsilon=epsilon, start=start, device=device, dtype=dtype)
        self.G = nn.Parameter(torch.empty_like(self.sum.W_hat))
        self.epsilon, self.gate_start = epsilon, gate_start
        initialise(self.G, gate_start)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the parameters from ``generator``, which must live on their device."""
        self.sum.reset_parameters(generator)
        self.product.reset_parameters(generator)
        initialise(self.G, self.gate_start, generator)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        exponents = exponent(log_magnitude(x, self.epsilon), self.product.weight)
        return nalu_output(self.sum(x), linear(x, self.G), exponents, self.G.dtype)

    def extra_repr(self) -> str:
        return f"gate_start={self.gate_start!r}"


class GatedNAUNMU(nn.Module):
    """Gate between a NAU and an NMU, each with its own weight.

    Madsen and Johansen (2020), appendix C::

        y = g * NAU(x) + (1 - g) * NMU(x),    g = sigmoid(G x)

    Bounds, penalties and measures are those of the two parts, which training sees as units of
    their own.

    * Start: that of the parts; G Glorot's uniform law.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        start: initialisation of both W, a name in ``INITIALISERS`` or a constant; ``None`` means
            the published ones.
        gate_start: initialisation of G.
        device: device of the parameters.
        dtype: floating-point type of the parameters.

    Raises:
        ValueError: if a size is below 1 or an initialisation is unknown.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        start: Init | None = None,
        gate_start: Init = "glorot",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_init("gate_start", gate_start)
        self.nau = NAU(in_features, out_features, start=start, device=device, dtype=dtype)
        self.nmu = NMU(in_features, out_features, start=start, device=device, dtype=dtype)
        self.G = nn.Parameter(torch.empty_like(self.nau.W))
        self.gate_start = gate_start
        initialise(self.G, gate_start)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the parameters from ``generator``, which must live on their device."""
        self.nau.reset_parameters(generator)
        self.nmu.reset_parameters(generator)
        initialise(self.G, self.gate_start, generator)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        m = self.nmu(x)
        a, gate = self.nau(x).to(m.dtype), linear(x, self.G).to(m.dtype)
        # exact at both ends of the gate
        return torch.lerp(m, a, torch.sigmoid(gate))

    def extra_repr(self) -> str:
        return f"gate_start={self.gate_start!r}"


register("nalu_separate", label="NALU (separate)", citation=CITATION)(Stacked(SeparateNALU))
register("gated_nau_nmu", label="Gated NAU/NMU", citation=CITATION)(Stacked(GatedNAUNMU))
# the gate study: a NAC selects, the gated unit computes
register("nac_nalu_separate", label="NAC+NALU (separate)", citation=CITATION)(
    Stacked(SeparateNALU, first=NACPlus)
)
register("nac_gated_nau_nmu", label="NAC, gated NAU/NMU", citation=CITATION)(
    Stacked(GatedNAUNMU, first=NACPlus)
)
