"""Neural accumulator and neural arithmetic logic unit.

Trask et al., "Neural Arithmetic Logic Units" (2018), section 2, https://arxiv.org/abs/1808.00508.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ._checks import check_count, check_positive
from .functional import bounded_exp, exponent, gated, linear, log_magnitude, nac_weight
from .initialisers import Init, check_init, initialise
from .registry import register
from .stack import Stacked

CITATION = "Trask et al. (2018), section 2"


class _Accumulator(nn.Module):
    """W = tanh(W_hat) * sigmoid(M_hat) and its two parameters, which NAC and NALU share."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        init: Init,
        m_hat_init: Init | None,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        check_count("in_features", in_features)
        check_count("out_features", out_features)
        self.in_features = in_features
        self.out_features = out_features
        self.init = init
        self.m_hat_init = init if m_hat_init is None else m_hat_init
        check_init("init", self.init)
        check_init("m_hat_init", self.m_hat_init)
        shape = (out_features, in_features)
        self.W_hat = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.M_hat = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))

    @property
    def weight(self) -> Tensor:
        """W, (out_features, in_features), each element in [-1, 1]."""
        return nac_weight(self.W_hat, self.M_hat)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the parameters anew; ``generator`` must live on their device."""
        initialise(self.W_hat, self.init, generator)
        initialise(self.M_hat, self.m_hat_init, generator)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"init={self.init!r}, m_hat_init={self.m_hat_init!r}"
        )


class NAC(_Accumulator):
    """Neural accumulator: sums and differences of its inputs, without bias or squashing.

    Trask et al. (2018), section 2::

        y = W x,    W = tanh(W_hat) * sigmoid(M_hat)

    W is exactly -1, 0 or 1 only in the limit of large parameters; in float32, parameters of 20
    are large enough for 1 and -1, and W_hat = 0 gives 0.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        init: initialisation of W_hat, a name in ``INITIALISERS`` or a constant.
        m_hat_init: the same for M_hat; ``None`` means as W_hat.
        device: where the parameters live.
        dtype: their floating-point type.

    Raises:
        ValueError: if a size is below 1 or an initialisation is unknown.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        init: Init = "glorot",
        m_hat_init: Init | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(
            in_features, out_features, init=init, m_hat_init=m_hat_init, device=device, dtype=dtype
        )
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features), for any leading shape, also none."""
        return linear(x, self.weight)


class NALU(_Accumulator):
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
        m_hat_init: the same for M_hat; ``None`` means as W_hat.
        gate_init: the same for G.
        device: where the parameters live.
        dtype: their floating-point type.

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
        """(..., in_features) to (..., out_features), for any leading shape, also none."""
        weight = self.weight
        # W and G meet the same x, so one product serves both.
        a, gate = linear(x, torch.cat([weight, self.G])).chunk(2, dim=-1)
        logs = log_magnitude(x, self.epsilon)
        m = bounded_exp(exponent(logs, weight), weight.dtype)
        return gated(m, a, gate, weight.dtype)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, gate_init={self.gate_init!r}, epsilon={self.epsilon}"


# Appendix B stacks two of a kind; a NAC below a NALU leaves the choice of inputs to the NAC.
register("nac", label="NAC", citation=CITATION)(Stacked(NAC))
register("nalu", label="NALU", citation=CITATION)(Stacked(NALU))
register("nac_nalu", label="NAC, NALU", citation=CITATION)(Stacked(NALU, first=NAC))
