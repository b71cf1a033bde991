"""Neural accumulator.

Trask et al., "Neural Arithmetic Logic Units" (2018), section 2, https://arxiv.org/abs/1808.00508.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ._checks import check_count
from ._weighted import Sparse, away_from_zero
from .functional import linear
from .initialisers import Init, check_init, initialise
from .registry import register
from .stack import Stacked

CITATION = "Trask et al. (2018), section 2"


def nac_weight(w_hat: Tensor, m_hat: Tensor) -> Tensor:
    """Weight of the NAC, W = tanh(W_hat) * sigmoid(M_hat), elementwise in [-1, 1].

    Trask et al., "Neural Arithmetic Logic Units" (2018), section 2. Arguments and result share
    one shape.
    """
    return torch.tanh(w_hat) * torch.sigmoid(m_hat)


class Accumulator(Sparse):
    """Base of NAC and NALU: the weight W = tanh(W_hat) * sigmoid(M_hat) and its parameters."""

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
        """Redraw the parameters from ``generator``, which must live on their device."""
        initialise(self.W_hat, self.init, generator)
        initialise(self.M_hat, self.m_hat_init, generator)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"init={self.init!r}, m_hat_init={self.m_hat_init!r}"
        )


class NAC(Accumulator):
    """Neural accumulator: sums and differences of its inputs, without bias or squashing.

    Trask et al. (2018), section 2::

        y = W x,    W = tanh(W_hat) * sigmoid(M_hat)

    W is exactly -1, 0 or 1 only in the limit of large parameters; in float32, parameters of 20
    are large enough for 1 and -1, and W_hat = 0 gives 0.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        init: initialisation of W_hat, a name in ``INITIALISERS`` or a constant.
        m_hat_init: initialisation of M_hat; ``None`` means that of W_hat.
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
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        return linear(x, self.weight)

    def penalty(self, inputs: Tensor | None = None) -> dict[str, Tensor]:
        """Penalties by name: ``sparsity``, and ``inputs``, the R_z of sums.

        R_z is the mean of (1 - |W_ji|) z_i^2 with z the mean of the inputs (Madsen and Johansen,
        2020).

        Args:
            inputs: (N, in_features), needed for the penalty of this name.
        """
        penalties = super().penalty()
        if inputs is not None:
            penalties["inputs"] = away_from_zero(self.weight, inputs)
        return penalties


register("nac", label="NAC", citation=CITATION)(Stacked(NAC))
