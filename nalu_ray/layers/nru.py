"""Neural reciprocal unit.

Mistry, Farrahi and Hare, "Learning Division with Neural Arithmetic Logic Modules" (2021),
https://arxiv.org/abs/2110.05177.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from ._product import floored_log, machine_epsilon, widened
from ._weighted import Weighted, within
from .registry import register
from .stack import Stacked

CITATION = "Mistry, Farrahi and Hare (2021)"


def start_of_sums(weight: Tensor, generator: torch.Generator | None) -> None:
    """Draws from U(-r, r), r = min(1/2, sqrt(6 / (in + out))), in place."""
    bound = min(0.5, math.sqrt(6 / sum(weight.shape)))
    nn.init.uniform_(weight, -bound, bound, generator=generator)


class NRU(Weighted):
    """Neural reciprocal unit: a product of inputs and their reciprocals.

    Mistry, Farrahi and Hare (2021)::

        y_j = prod_i (sign(x_i) |x_i|^W_ji * b_ji + 1 - b_ji),    W in [-1, 1]
        b = tanh(1000 W)^2 while training,    b = |W| in evaluation

    W = 1 multiplies by an input, -1 divides by it, 0 leaves it out. W starts from U(-r, r),
    r = min(1/2, sqrt(6 / (in + out))), as that of the NAU does.

    The authors' code has a second form (``separate_sign``): the product above is taken of |x|, and
    the sign is that of the inputs whose W rounds to 1 or -1. It passes no gradient.

    Magnitudes below the machine epsilon of float32 (for float64, of float64) count as that
    epsilon, without a gradient, where the authors' code has 0 or infinity. So a zero input divides
    as 0, since its sign is 0, and with ``separate_sign`` as a huge number. Each factor is at most
    1 / epsilon; the product of many such factors may overflow.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        separate_sign: the second form.
        device: device of the parameters.
        dtype: floating-point type of the parameters.

    Raises:
        ValueError: if a size is below 1.
    """

    recurrent_start: ClassVar[float] = 1.0

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        separate_sign: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_features, out_features, device=device, dtype=dtype)
        self.separate_sign = separate_sign
        self.reset_parameters()

    def _start(self, weight: Tensor, generator: torch.Generator | None) -> None:
        start_of_sums(weight, generator)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        wide = widened(x)
        weight = within(self.W, -1.0, 1.0).to(wide.dtype)
        selected = torch.tanh(1000.0 * weight).square() if self.training else weight.abs()
        logs = floored_log(wide, machine_epsilon(wide.dtype))
        powers = torch.exp(weight * logs.unsqueeze(-2))
        if not self.separate_sign:
            powers = wide.sign().unsqueeze(-2) * powers
        y = (powers * selected + (1 - selected)).prod(-1)
        if self.separate_sign:
            chosen = weight.detach().abs() > 0.5
            negative = (wide.unsqueeze(-2) < 0) & chosen
            y = torch.where(negative.sum(-1) % 2 == 1, -y, y)
        return y.to(self.W.dtype)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, separate_sign={self.separate_sign}"


register("nru", label="NRU", citation=CITATION)(Stacked(NRU))
