"""Neural multiplicative reciprocal unit.

Mistry, Farrahi and Hare, "Learning Division with Neural Arithmetic Logic Modules" (2021),
https://arxiv.org/abs/2110.05177.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from ._product import machine_epsilon, selected_product, widened
from ._weighted import Weighted, distance, within
from .nalu import exponent
from .nru import CITATION
from .registry import register
from .stack import Stacked


class NMRU(Weighted):
    """Neural multiplicative reciprocal unit: a product over the inputs and their reciprocals.

    Mistry, Farrahi and Hare (2021), the version that retrieves the sign::

        z = [x, 1 / x]
        y_j = prod_i (W_ji |z_i| + 1 - W_ji) * cos(pi sum_i W_ji [z_i < 0])

    W, (out_features, 2 in_features), lies in [0, 1] and starts from U(1/4, 3/4). The first half of
    a row selects inputs to multiply by, the second half inputs to divide by.

    While training, the reciprocal is 1 / (x + epsilon), with the machine epsilon of float32 (for
    float64, of float64). Where the divisor is 0, it counts as epsilon, in evaluation too; the
    authors' code has infinity there.

    The code also has a gated form (``gated``): z is first multiplied by g, one gate in [0, 1] per
    element of z, which starts at 1/2. A closed gate makes z_i 0, so that a selected z_i then makes
    the output 0; only W can leave an input out.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        gated: the gated form.
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
        gated: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_features, out_features, device=device, dtype=dtype)
        self.W = nn.Parameter(self.W.new_empty(out_features, 2 * in_features))
        self.gated = gated
        self.g = nn.Parameter(self.W.new_empty(2 * in_features)) if gated else None
        self.bounds = {"W": (0.0, 1.0), "g": (0.0, 1.0)} if gated else {"W": (0.0, 1.0)}
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        super().reset_parameters(generator)
        if self.g is not None:
            nn.init.constant_(self.g, 0.5)

    def _start(self, weight: Tensor, generator: torch.Generator | None) -> None:
        nn.init.uniform_(weight, 0.25, 0.75, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        wide = widened(x)
        weight = within(self.W, 0.0, 1.0).to(wide.dtype)
        epsilon = machine_epsilon(wide.dtype)
        divisor = wide + epsilon if self.training else wide
        z = torch.cat([wide, 1 / divisor.masked_fill(divisor == 0, epsilon)], -1)
        if self.g is not None:
            z = z * within(self.g, 0.0, 1.0).to(wide.dtype)
        half_turns = exponent((z < 0).to(wide.dtype), weight)
        y = selected_product(z.abs(), weight) * torch.cos(math.pi * half_turns)
        return y.to(self.W.dtype)

    def penalty(self) -> dict[str, Tensor]:
        """Penalties by name: ``sparsity``, and with gates ``gate``, the mean of min(g, 1 - g)."""
        gate = {} if self.g is None else {"gate": distance(self.g).mean()}
        return super().penalty() | gate

    def measure(self) -> dict[str, Tensor]:
        """Figures by name: ``sparsity_error``, and with gates ``gate_error``, the same of g."""
        gate = {} if self.g is None else {"gate_error": distance(self.g).max()}
        return super().measure() | gate

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, gated={self.gated}"


register("nmru", label="NMRU", citation=CITATION)(Stacked(NMRU))
