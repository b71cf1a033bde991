"""Neural reciprocal unit.

Mistry, Farrahi and Hare, "Learning Division with Neural Arithmetic Logic Modules" (2021),
https://arxiv.org/abs/2110.05177.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from ._product import floored_log, machine_epsilon, product, widened
from ._weighted import Selector, within
from .initialisers import Init
from .registry import register
from .stack import Stacked

CITATION = "Mistry, Farrahi and Hare (2021)"


class NRU(Selector):
    """Neural reciprocal unit: a product of inputs and their reciprocals.

    Mistry, Farrahi and Hare (2021)::

        y_j = prod_i (sign(x_i) |x_i|^W_ji * b_ji + 1 - b_ji),    W in [-1, 1]
        b = tanh(1000 W)^2 while training,    b = |W| in evaluation

    W = 1 multiplies by an input, -1 divides by it, 0 leaves it out. W starts from U(-r, r),
    r = min(1/2, sqrt(6 / (in + out))), as that of the NAU does.

    The authors' code has a second form (``separate_sign``): the product above is taken of |x|, and
    the signs of the inputs with |W| > 1/2 are multiplied. They pass no gradient to W.

    Magnitudes below the machine epsilon of float32 (for float64, of float64) count as that
    epsilon, without a gradient. So a zero input divides as 0, since its sign is 0, where the
    authors' code has infinity. A factor is at most 1 / epsilon; the product of many such factors
    may overflow.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        separate_sign: the second form.
        start: initialisation of W, a name in ``INITIALISERS`` or a constant, limited to [-1, 1];
            ``None`` means the published one.
        device: device of the parameters.
        dtype: floating-point type of the parameters.

    Raises:
        ValueError: if a size is below 1 or the initialisation is unknown.
    """

    recurrent_start: ClassVar[float] = 1.0
    published_start: ClassVar[Init] = "glorot_limited"

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        separate_sign: bool = False,
        start: Init | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_features, out_features, start=start, device=device, dtype=dtype)
        self.separate_sign = separate_sign

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        wide = widened(x)
        # (..., 1, in_features, rows) and (out_features, in_features, 1): long rows at the end
        columns = (wide.unsqueeze(0) if x.dim() == 1 else wide).mT.unsqueeze(-3)
        weight = widened(within(self.W, -1.0, 1.0)).unsqueeze(-1)
        taken = torch.tanh(1000.0 * weight).square() if self.training else weight.abs()
        sign = columns.sign()
        powers = torch.exp(weight * floored_log(columns, machine_epsilon(wide.dtype)))
        if self.separate_sign:
            factors = torch.where(weight.abs() > 0.5, sign, 1.0) * (powers * taken + (1 - taken))
        else:
            factors = sign * powers * taken + (1 - taken)
        return product(factors, x).to(self.W.dtype)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, separate_sign={self.separate_sign}"


register("nru", label="NRU", citation=CITATION)(Stacked(NRU))
