"""Neural multiplicative reciprocal unit.

Mistry, Farrahi and Hare, "Learning Division with Neural Arithmetic Logic Modules" (2021),
https://arxiv.org/abs/2110.05177.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from ._power import gate_distance
from ._product import machine_epsilon, selected_product, widened
from ._weighted import Selector, within
from .initialisers import Init
from .nalu import exponent
from .nau import NAU
from .nru import CITATION
from .registry import register
from .stack import Stacked


class Gate(nn.Module):
    """One gate per input, y = g x with g in [0, 1].

    Args:
        features: number of inputs.
        device: device of the parameter.
        dtype: floating-point type of the parameter.
    """

    bounds: ClassVar[dict[str, tuple[float, float]]] = {"g": (0.0, 1.0)}

    def __init__(
        self,
        features: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.g = nn.Parameter(torch.empty(features, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Set all gates to their start, 1/2; there is nothing to draw."""
        nn.init.constant_(self.g, 0.5)

    def forward(self, x: Tensor) -> Tensor:
        """(..., features) to the same."""
        return x * within(self.g, 0.0, 1.0).to(x.dtype)

    def penalty(self) -> dict[str, Tensor]:
        """Penalties by name: ``gate``, the mean of min(|g|, |1 - g|)."""
        return {"gate": gate_distance(self.g).mean()}

    def measure(self) -> dict[str, Tensor]:
        """Figures by name: ``gate_error``, the largest min(|g|, |1 - g|)."""
        return {"gate_error": gate_distance(self.g).max()}


class NMRU(Selector):
    """Neural multiplicative reciprocal unit: a product over the inputs and their reciprocals.

    Mistry, Farrahi and Hare (2021), the version that retrieves the sign::

        z = [x, 1 / x]
        y_j = prod_i (W_ji |z_i| + 1 - W_ji) * cos(pi sum_i W_ji [z_i < 0])

    W, (out_features, 2 in_features), lies in [0, 1] and starts from U(1/4, 3/4). The first half of
    a row selects inputs to multiply by, the second half inputs to divide by.

    While training, the reciprocal is 1 / (x + epsilon), with the machine epsilon of float32 (for
    float64, of float64). Where the divisor is 0, or below the smallest normal number, it counts as
    epsilon, in evaluation too; the authors' code has infinity there.

    The code also has a gated form (``gated``): z is first multiplied by one gate per element, each
    in [0, 1] and 1/2 at the start. The gates are a module, ``gate``, with bounds and a penalty of
    its own. A closed gate makes z_i 0, so that a selected z_i then makes the output 0; only W can
    leave an input out.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        gated: the gated form.
        start: initialisation of W, a name in ``INITIALISERS`` or a constant, limited to [0, 1];
            ``None`` means the published one.
        device: device of the parameters.
        dtype: floating-point type of the parameters.

    Raises:
        ValueError: if a size is below 1 or the initialisation is unknown.
    """

    bounds: ClassVar[dict[str, tuple[float, float]]] = {"W": (0.0, 1.0)}
    recurrent_start: ClassVar[float] = 1.0
    published_start: ClassVar[Init] = "middle"

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        gated: bool = False,
        start: Init | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_features, out_features, start=start, device=device, dtype=dtype)
        self.W = nn.Parameter(self.W.new_empty(out_features, 2 * in_features))
        self.gated = gated
        self.gate = Gate(2 * in_features, device=device, dtype=dtype) if gated else None
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        super().reset_parameters(generator)
        if self.gate is not None:
            self.gate.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        wide = widened(x)
        weight = widened(within(self.W, 0.0, 1.0))
        epsilon = machine_epsilon(wide.dtype)
        divisor = wide + epsilon if self.training else wide
        # below the smallest normal number, 1 / divisor may be infinite
        too_small = divisor.abs() < (2.0**-1022 if wide.dtype == torch.float64 else 2.0**-126)
        z = torch.cat([wide, 1 / divisor.masked_fill(too_small, epsilon)], -1)
        if self.gate is not None:
            z = self.gate(z)
        half_turns = exponent((z < 0).to(wide.dtype), weight)
        y = selected_product(z.abs(), weight) * torch.cos(math.pi * half_turns)
        return y.to(self.W.dtype)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, gated={self.gated}"


register("nmru", label="NMRU", citation=CITATION)(Stacked(NMRU))
# Published alone; below it, an NAU makes the numbers to divide.
register("nau_nmru", label="NAU, NMRU", citation=CITATION)(Stacked(NMRU, first=NAU))
