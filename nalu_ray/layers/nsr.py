"""Neural status register: comparisons with gradients.

Faber and Wattenhofer, "Neural Status Registers" (ICML 2023), https://arxiv.org/abs/2004.07085.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ._checks import check_count, check_positive
from ._weighted import distance
from .functional import linear
from .registry import register
from .stack import Stacked

CITATION = "Faber and Wattenhofer (2023)"


class NSR(nn.Module):
    """Neural status register: the probability that a comparison of two of its inputs holds.

    Faber and Wattenhofer (2023). Each output has R registers, and register r compares::

        d_r = x (softmax(V1_r) - softmax(V2_r))
        sign_r = tanh(zeta d_r)
        zero_r = 1 - 2 tanh(zeta d_r)^2
        P = sigmoid(b + sum over r of w_sign_r sign_r + w_zero_r zero_r)

    As sign and zero stay within [-1, 1], P does not change once the difference is large, and all
    six comparisons of integers are exact to within the saturation of tanh and sigmoid. The larger
    zeta, the smaller the differences that count, and the fewer the inputs with a gradient. The
    publication also returns 1 - P, which is left to the caller.

    The publication has several registers, its code always one: ``registers``. V1 and V2 are drawn
    from N(0, 2 / (in_features + R)), w_sign and w_zero from N(0, 2 / (R + 1)) (Xavier); b is 0.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis, each a comparison of its own.
        registers: R.
        zeta: factor on differences.
        device: device of the parameters.
        dtype: floating-point type of the parameters; float64 keeps differences of large numbers.

    Raises:
        ValueError: if a size is below 1 or zeta not above 0.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        registers: int = 1,
        zeta: float = 1.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_count("in_features", in_features)
        check_count("out_features", out_features)
        check_count("registers", registers)
        check_positive("zeta", zeta)
        self.in_features = in_features
        self.out_features = out_features
        self.registers = registers
        self.zeta = zeta

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype))

        self.V1 = empty(out_features * registers, in_features)
        self.V2 = empty(out_features * registers, in_features)
        self.w_sign = empty(out_features, registers)
        self.w_zero = empty(out_features, registers)
        self.b = empty(out_features)
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the parameters from ``generator``, which must live on their device."""
        selectors = math.sqrt(2 / (self.in_features + self.registers))
        weights = math.sqrt(2 / (self.registers + 1))
        for parameter, std in (
            (self.V1, selectors),
            (self.V2, selectors),
            (self.w_zero, weights),
            (self.w_sign, weights),
        ):
            nn.init.normal_(parameter, std=std, generator=generator)
        nn.init.zeros_(self.b)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features), each in [0, 1]."""
        first, second = torch.softmax(self.V1, -1), torch.softmax(self.V2, -1)
        d = (linear(x, first) - linear(x, second)).unflatten(-1, self.w_sign.shape)
        sign = torch.tanh(self.zeta * d)
        zero = 1 - 2 * sign.square()
        return torch.sigmoid(self.b + (self.w_sign * sign + self.w_zero * zero).sum(-1))

    def penalty(self) -> dict[str, Tensor]:
        """``sparsity``, ours: the mean distance of the selectors from 0 and 1."""
        return {"sparsity": distance(self._selectors()).mean()}

    def measure(self) -> dict[str, Tensor]:
        """``sparsity_error``: the largest distance of the selectors from 0 and 1."""
        return {"sparsity_error": distance(self._selectors()).max()}

    def _selectors(self) -> Tensor:
        return torch.softmax(torch.stack([self.V1, self.V2]), -1)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"registers={self.registers}, zeta={self.zeta}"
        )


register("nsr", label="NSR", citation=CITATION)(Stacked(NSR))
