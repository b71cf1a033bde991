"""Units whose weights stay within bounds: the parameter W, its penalty and its measures."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from ._checks import check_count


def within(weight: Tensor, low: float, high: float) -> Tensor:
    """Limits a weight to [low, high], elementwise; the gradient passes unchanged.

    A plain clamp has no gradient outside its limits, so a weight that a step has carried there
    would never return.
    """
    return weight + (weight.detach().clamp(low, high) - weight.detach())


def distance(weight: Tensor) -> Tensor:
    """Distance of each element from the nearest of -1, 0 and 1: min(|W|, |1 - |W||)."""
    magnitude = weight.abs()
    return torch.minimum(magnitude, (1 - magnitude).abs())


class Weighted(nn.Module):
    """Base of units with a weight W, (out_features, in_features), that stays within bounds.

    A subclass gives the forward pass and the start of W (:meth:`_start`).

    Attributes:
        bounds: for each bounded parameter, the limits that training keeps it within.
    """

    bounds: ClassVar[dict[str, tuple[float, float]]] = {"W": (-1.0, 1.0)}

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_count("in_features", in_features)
        check_count("out_features", out_features)
        self.in_features = in_features
        self.out_features = out_features
        self.W = nn.Parameter(torch.empty(out_features, in_features, device=device, dtype=dtype))

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the parameters from ``generator``, which must live on their device."""
        self._start(self.W, generator)

    def _start(self, weight: Tensor, generator: torch.Generator | None) -> None:
        raise NotImplementedError

    def penalty(self) -> dict[str, Tensor]:
        """Penalties of the parameters by name: ``sparsity``, the mean of min(|W|, |1 - |W||)."""
        return {"sparsity": distance(self.W).mean()}

    def measure(self) -> dict[str, Tensor]:
        """Figures of the parameters by name: ``sparsity_error``, the largest distance."""
        return {"sparsity_error": distance(self.W).max()}

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"
