"""A unit that adds the inputs that it chooses."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from nalu_ray.layers import Stacked, linear, register


class Choice(nn.Module):
    """Sums of chosen inputs: y = W x with W in [0, 1], (..., in_features) to (..., out_features).

    W starts at U(0.25, 0.75). The penalty ``sparsity`` is the mean distance of W from {0, 1}; the
    measure ``sparsity_error`` is the largest.
    """

    bounds: ClassVar[dict[str, tuple[float, float]]] = {"W": (0.0, 1.0)}

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        shape = (out_features, in_features)
        self.W = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draws W anew."""
        nn.init.uniform_(self.W, 0.25, 0.75, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """Training keeps W within its bounds, so nothing has to be limited here."""
        return linear(x, self.W)

    def penalty(self) -> dict[str, Tensor]:
        """Returns the penalties by name, without coefficients: the setting has them."""
        return {"sparsity": self._distance().mean()}

    def measure(self) -> dict[str, Tensor]:
        """Returns what is logged at each evaluation."""
        return {"sparsity_error": self._distance().amax()}

    def _distance(self) -> Tensor:
        return torch.minimum(self.W.abs(), (1 - self.W).abs())


register("choice", label="Choice", citation="An example")(Stacked(Choice))
