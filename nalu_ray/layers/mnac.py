"""Products by logarithms: the multiplicative path of a NALU as a unit, with three kinds of weight.

Madsen and Johansen, "Neural Arithmetic Units" (ICLR 2020), https://arxiv.org/abs/2001.05016,
compare the NMU with these units, and call them NAC with a bullet.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from ._checks import check_count, check_positive
from ._weighted import Selector, Sparse, within
from .initialisers import Init, check_init, initialise
from .nac import NAC, Accumulator
from .nalu import exponent, log_magnitude, max_exponent
from .nau import CITATION, NAU
from .nmu import away_from_one
from .registry import register
from .stack import Stacked


def log_product(x: Tensor, weight: Tensor, epsilon: float, dtype: torch.dtype) -> Tensor:
    """Products of powers, y = exp(W log(|x| + epsilon)).

    Exact up to exp(B), B = ``max_exponent(dtype)``; above, y stays at exp(B) and passes no
    gradient. As in a NALU, logarithms and exponents are in float32 at least.

    Args:
        x: (..., in_features).
        weight: W, (out_features, in_features).
        epsilon: keeps the logarithm away from 0.
        dtype: the type of the result.

    Returns:
        (..., out_features), none of them negative.
    """
    exponents = exponent(log_magnitude(x, epsilon), weight)
    return torch.exp(exponents.clamp(max=max_exponent(dtype))).to(dtype)


class NACPlus(NAC):
    """A :class:`~nalu_ray.layers.NAC` that starts as in Madsen and Johansen's code.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        start: initialisation of W_hat and M_hat, a name in ``INITIALISERS`` or a constant.
        device: device of the parameters.
        dtype: floating-point type of the parameters.

    Raises:
        ValueError: if a size is below 1 or the initialisation is unknown.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        start: Init = "variance",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_init("start", start)
        super().__init__(in_features, out_features, init=start, device=device, dtype=dtype)


class MNAC(Accumulator):
    """Multiplicative NAC: products and quotients of magnitudes, with the NAC's weight.

    Madsen and Johansen (2020), section 1.1::

        y = exp(W log(|x| + epsilon)),    W = tanh(W_hat) * sigmoid(M_hat)

    Signs are lost. W of 1, -1 and 1/2 give a factor, a divisor and a square root; epsilon adds a
    relative error of epsilon / |x| for each. Results above exp(B) stay there, see
    :func:`log_product`; the published code has no such bound.

    * Start: W_hat and M_hat U(-r, r), where r gives W the variance 2 / (in + out).
    * Penalty ``sparsity`` and measure ``sparsity_error``; the paper uses no penalty here.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        epsilon: keeps the logarithm away from 0.
        start: initialisation of W_hat and M_hat, a name in ``INITIALISERS`` or a constant.
        device: device of the parameters.
        dtype: floating-point type of the parameters.

    Raises:
        ValueError: if a size is below 1, epsilon not above 0, or the initialisation unknown.
    """

    recurrent_start: ClassVar[float] = 1.0

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        epsilon: float = 1e-7,
        start: Init = "variance",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_init("start", start)
        super().__init__(
            in_features, out_features, init=start, m_hat_init=None, device=device, dtype=dtype
        )
        check_positive("epsilon", epsilon)
        self.epsilon = epsilon
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        return log_product(x, self.weight, self.epsilon, self.W_hat.dtype)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, epsilon={self.epsilon}"


class SigmoidMNAC(Sparse):
    """Multiplicative NAC with weights in (0, 1): products of magnitudes, but no quotients.

    Madsen and Johansen (2020), section 3.1::

        y = exp(W log(|x| + epsilon)),    W = sigmoid(W_hat)

    W of 1/2 gives a square root. Otherwise as :class:`MNAC`.

    * Start: W_hat N(0, 2 / (in + out)), so W near 1/2.
    * Penalty ``sparsity`` and measure ``sparsity_error``; the paper uses no penalty here.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        epsilon: keeps the logarithm away from 0.
        start: initialisation of W_hat, a name in ``INITIALISERS`` or a constant.
        device: device of the parameter.
        dtype: floating-point type of the parameter.

    Raises:
        ValueError: if a size is below 1, epsilon not above 0, or the initialisation unknown.
    """

    recurrent_start: ClassVar[float] = 1.0

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        epsilon: float = 1e-7,
        start: Init = "glorot_normal",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_count("in_features", in_features)
        check_count("out_features", out_features)
        check_positive("epsilon", epsilon)
        check_init("start", start)
        self.in_features, self.out_features = in_features, out_features
        self.epsilon, self.start = epsilon, start
        empty = torch.empty(out_features, in_features, device=device, dtype=dtype)
        self.W_hat = nn.Parameter(empty)
        self.reset_parameters()

    @property
    def weight(self) -> Tensor:
        """W, (out_features, in_features), each element in (0, 1)."""
        return torch.sigmoid(self.W_hat)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the parameter from ``generator``, which must live on its device."""
        initialise(self.W_hat, self.start, generator)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        return log_product(x, self.weight, self.epsilon, self.W_hat.dtype)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"start={self.start!r}, epsilon={self.epsilon}"
        )


class LinearMNAC(Selector):
    """Multiplicative NAC with the NMU's weight: its bounds, its start and its penalties.

    Madsen and Johansen (2020), section 3.1::

        y = exp(W log(|x| + epsilon)),    W in [0, 1]

    W of 1/2 gives a square root. Otherwise as :class:`MNAC`.

    * Start: U(1/4, 3/4).
    * Penalties: ``sparsity``, ``sparsity_squared`` and ``inputs``, the NMU's R_z.
    * Measure: ``sparsity_error``.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        epsilon: keeps the logarithm away from 0.
        start: initialisation of W, a name in ``INITIALISERS`` or a constant, limited to [0, 1];
            ``None`` means the published one.
        device: device of the parameter.
        dtype: floating-point type of the parameter.

    Raises:
        ValueError: if a size is below 1, epsilon not above 0, or the initialisation unknown.
    """

    bounds: ClassVar[dict[str, tuple[float, float]]] = {"W": (0.0, 1.0)}
    recurrent_start: ClassVar[float] = 1.0
    published_start: ClassVar[Init] = "middle"

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        epsilon: float = 1e-7,
        start: Init | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_features, out_features, start=start, device=device, dtype=dtype)
        check_positive("epsilon", epsilon)
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        return log_product(x, within(self.W, 0.0, 1.0), self.epsilon, self.W.dtype)

    def penalty(self, inputs: Tensor | None = None) -> dict[str, Tensor]:
        """Penalties by name; ``inputs``, (N, in_features), are needed for the one of this name."""
        penalties = super().penalty()
        if inputs is not None:
            penalties["inputs"] = away_from_one(self.W, inputs)
        return penalties

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, epsilon={self.epsilon}"


register("mnac", label="NAC•", citation=CITATION)(Stacked(MNAC))
register("mnac_sigmoid", label="NAC•,σ", citation=CITATION)(Stacked(SigmoidMNAC))
register("mnac_linear", label="NAC•,NMU", citation=CITATION)(Stacked(LinearMNAC))
# the two-layer networks of the paper's comparison
register("nac_mnac", label="NAC, NAC•", citation=CITATION)(Stacked(MNAC, first=NACPlus))
register("nac_mnac_sigmoid", label="NAC, NAC•,σ", citation=CITATION)(
    Stacked(SigmoidMNAC, first=NACPlus)
)
register("nau_mnac_linear", label="NAU, NAC•,NMU", citation=CITATION)(
    Stacked(LinearMNAC, first=NAU)
)
