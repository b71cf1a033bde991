"""NACs whose weights snap to -1, 0 and 1: sums, and products as powers with exact signs.

DuJardin, "Hill Space" (2025): the space of weights tanh(W_hat) * sigmoid(M_hat), in which every
weight of an operation is stable.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from ._checks import check_count, check_not_negative, check_positive
from ._product import multiplied
from ._weighted import Sparse
from .functional import linear
from .registry import register
from .stack import Stacked

CITATION = "DuJardin (2025)"


def snapped(value: Tensor, nearest: Tensor, tolerance: float) -> Tensor:
    """Replaces a value within ``tolerance`` of ``nearest`` by it; the gradient passes unchanged."""
    near = (value.detach() - nearest).abs() <= tolerance
    # not value + (nearest - value), which may miss nearest by a rounding
    return torch.where(near, nearest + (value - value.detach()), value)


class SnappingNAC(Sparse):
    """Neural accumulator whose weight is exactly -1, 0 or 1 once it is close.

    DuJardin (2025)::

        t = tanh(W_hat), set to -1 or 1 if within 1e-6 of it
        s = sigmoid(M_hat), set to 0 or 1 if within 1e-6 of it
        y = W x,    W = t * s

    A weight is exact from W_hat = 7.3 and M_hat = 13.9 on, where NAC's is not yet; the gradient is
    that of NAC. Sums and differences of any inputs are exact in that state. The publication has two
    inputs and lets the caller choose the operation: this class for sums and differences,
    :class:`SnappingPower` for products and ratios.

    The publication starts at 0, or near it; 10 fails. At exactly 0 all outputs of a layer stay the
    same, so W_hat and M_hat are drawn from U(-start, start) here; ``start=0`` is the publication's.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        start: largest magnitude of a parameter at the start.
        tolerance: distance from a limit below which a value is set to it.
        device: device of the parameters.
        dtype: floating-point type of the parameters.

    Raises:
        ValueError: if a size is below 1, start negative or tolerance not above 0.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        start: float = 0.02,
        tolerance: float = 1e-6,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_count("in_features", in_features)
        check_count("out_features", out_features)
        check_not_negative("start", start)
        check_positive("tolerance", tolerance)
        self.in_features = in_features
        self.out_features = out_features
        self.start = start
        self.tolerance = tolerance
        shape = (out_features, in_features)
        self.W_hat = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.M_hat = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the parameters from ``generator``, which must live on their device."""
        nn.init.uniform_(self.W_hat, -self.start, self.start, generator=generator)
        nn.init.uniform_(self.M_hat, -self.start, self.start, generator=generator)

    @property
    def weight(self) -> Tensor:
        """W, (out_features, in_features), each element in [-1, 1]."""
        t, s = torch.tanh(self.W_hat), torch.sigmoid(self.M_hat)
        sign, bit = t.detach().sign(), s.detach().round()
        return snapped(t, sign, self.tolerance) * snapped(s, bit, self.tolerance)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        return linear(x, self.weight)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"start={self.start}, tolerance={self.tolerance}"
        )


class SnappingPower(SnappingNAC):
    """Product of powers of the inputs, with the weight of :class:`SnappingNAC` as exponents.

    DuJardin (2025), the real part of a product of complex powers::

        y_j = Re(product over i of x_i ^ W_ji) = cos(pi k_j) * product over i of |x_i| ^ W_ji
        k_j = sum over i of W_ji [x_i < 0]

    Both factors are real, so nothing is stored or trained as a complex number. For W of -1, 0 and 1
    products, ratios and reciprocals are exact, signs included: the powers are computed without
    logarithms. Magnitudes below epsilon count as epsilon, without a gradient, so that a ratio stays
    finite; the publication has no such bound. A result may overflow.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        epsilon: smallest magnitude of an input.
        start: as in :class:`SnappingNAC`.
        tolerance: as in :class:`SnappingNAC`.
        device: device of the parameters.
        dtype: floating-point type of the parameters.

    Raises:
        ValueError: if a size is below 1, start negative, or tolerance or epsilon not above 0.
    """

    recurrent_start: ClassVar[float] = 1.0

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        epsilon: float = 1e-10,
        start: float = 0.02,
        tolerance: float = 1e-6,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_positive("epsilon", epsilon)
        super().__init__(
            in_features, out_features, start=start, tolerance=tolerance, device=device, dtype=dtype
        )
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features), with tensors of (..., out, in) on the way."""
        weight = self.weight
        powers = torch.pow(x.abs().clamp(min=self.epsilon)[..., None, :], weight)
        turns = linear((x < 0).to(weight.dtype), weight)
        # whole turns are taken off first: pi times a large number is not exact
        sign = torch.cos(math.pi * (turns - 2 * torch.floor(turns.detach() / 2)))
        return multiplied(powers.unsqueeze(-1)).squeeze(-1) * sign

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, epsilon={self.epsilon}"


register("snapping_nac", label="Snapping NAC", citation=CITATION)(Stacked(SnappingNAC))
register("snapping_power", label="Snapping power", citation=CITATION)(Stacked(SnappingPower))
register("snapping_nac_power", label="Snapping NAC, power", citation=CITATION)(
    Stacked(SnappingPower, first=SnappingNAC)
)
