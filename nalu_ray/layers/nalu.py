"""Neural arithmetic logic unit.

Trask et al., "Neural Arithmetic Logic Units" (2018), section 2, https://arxiv.org/abs/1808.00508.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ._checks import check_positive
from .functional import linear
from .initialisers import Init, check_init, initialise
from .nac import CITATION, NAC, Accumulator
from .registry import register
from .stack import Stacked


def nalu_sums(x: Tensor, weight: Tensor, stacked: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """The sums over the inputs that a NALU is made of: [a, G x] and W log(|x| + epsilon).

    Args:
        x: (..., in_features).
        weight: W, (out_features, in_features).
        stacked: W above G, (2 * out_features, in_features): both meet the same x, so one product
            serves both.
        epsilon: keeps the logarithm away from 0.

    Returns:
        a and G x side by side, (..., 2 * out_features), and the exponents (..., out_features).
    """
    logs = log_magnitude(x, epsilon)
    return linear(x, stacked), exponent(logs, weight)


def nalu_output(a: Tensor, gate: Tensor, exponents: Tensor, dtype: torch.dtype) -> Tensor:
    """The NALU's equation, y = g * a + (1 - g) * m with g = sigmoid(gate), m = exp(exponents).

    m is exact up to exp(B), B = ``max_exponent(dtype)``, and stays there above, without a gradient.

    Args:
        a: W x, of any shape.
        gate: G x, of the same shape.
        exponents: W log(|x| + epsilon), of the same shape, in float32 or wider.
        dtype: the type of the result.
    """
    m = torch.exp(exponents.clamp(max=max_exponent(dtype)))
    # exact at both ends of the gate, where m + g (a - m) would lose a beside a large m
    return torch.lerp(m, a.to(m.dtype), torch.sigmoid(gate.to(m.dtype))).to(dtype)


def log_magnitude(x: Tensor, epsilon: float) -> Tensor:
    """log(|x| + epsilon), elementwise, in float32 where x is of half precision; the sign is lost.

    Its gradient sign(x) / (|x| + epsilon) is at most 1 / epsilon, and 0 at x = 0.
    """
    if x.element_size() < 4:
        x = x.float()
    # In place on the fresh copy that abs made: one (..., in_features) tensor instead of three.
    return x.abs().add_(epsilon).log_()


def exponent(logs: Tensor, weight: Tensor) -> Tensor:
    """W l in the type of l, also under autocast.

    Half precision rounds an exponent of 7 by up to 0.002 (float16) or 0.016 (bfloat16), and its
    exponential is off by the same fraction.

    Args:
        logs: l, (..., in_features), from :func:`log_magnitude`.
        weight: (out_features, in_features).
    """
    weight = weight.to(logs.dtype)
    if torch.jit.is_scripting():  # type: ignore[attr-defined]
        # a script cannot leave autocast, which leaves float64 as it is
        return linear(logs.double(), weight.double()).to(logs.dtype)
    device = logs.device.type
    if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
        with torch.autocast(device, enabled=False):
            return linear(logs, weight)
    return linear(logs, weight)


def max_exponent(dtype: torch.dtype) -> float:
    """Largest exponent that a NALU takes exactly: 28.07 in float32, 235.09 in float64.

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


class NALU(Accumulator):
    """Neural arithmetic logic unit: a gate between an additive and a multiplicative NAC.

    Trask et al. (2018), section 2. One W serves both paths, and the gate depends on the input::

        y = g * a + (1 - g) * m
        a = W x,    m = exp(W log(|x| + epsilon)),    g = sigmoid(G x)

    The equation is exact as long as each exponent stays below B = ``max_exponent(dtype)``, 28.07
    in float32 (m up to 1.5e12); above, m stays at exp(B) and passes no gradient. Without that
    bound, a hundred inputs of 1e6 reach m = 1e600. What follows in float32:

    * if the absolute values of the inputs sum to at most exp(B), so for any input within 1e6 and
      up to a million of them, all outputs are finite and at most exp(B) in magnitude;
    * gradients of the outputs, and of their mean squared error, are finite there, and so they are
      through two stacked NALUs with up to 16 hidden units (more, unless the hidden units sit at
      the bound while their gates are half open);
    * epsilon bounds the gradient of the logarithm by 1 / epsilon, and at x = 0 it is 0;
    * NaN in the input stays NaN in the output.

    Logarithms, exponents and m are computed in float32 at least, also under ``torch.autocast`` and
    for parameters of half precision; the output is of the parameters' type.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        epsilon: keeps the logarithm away from 0. The paper names no value.
        init: initialisation of W_hat, a name in ``INITIALISERS`` or a constant.
        m_hat_init: initialisation of M_hat; ``None`` means that of W_hat.
        gate_init: initialisation of G.
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
        init: Init = "glorot",
        m_hat_init: Init | None = None,
        gate_init: Init = "glorot",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            in_features, out_features, init=init, m_hat_init=m_hat_init, device=device, dtype=dtype
        )
        check_positive("epsilon", epsilon)
        check_init("gate_init", gate_init)
        self.epsilon = epsilon
        self.gate_init = gate_init
        self.G = nn.Parameter(torch.empty_like(self.W_hat))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        super().reset_parameters(generator)
        initialise(self.G, self.gate_init, generator)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        weight = self.weight
        stacked = torch.cat([weight, self.G])
        sums, exponents = nalu_sums(x, weight, stacked, self.epsilon)
        a, gate = sums.chunk(2, dim=-1)
        return nalu_output(a, gate, exponents, weight.dtype)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, gate_init={self.gate_init!r}, epsilon={self.epsilon}"


# Appendix B stacks two layers of one unit. A NAC below a NALU leaves it the choice of inputs.
register("nalu", label="NALU", citation=CITATION)(Stacked(NALU))
register("nac_nalu", label="NAC+NALU (ours)", citation=CITATION)(Stacked(NALU, first=NAC))
