"""Units whose weights stay within bounds: the parameter W, its penalty and its measures."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from ._checks import check_count
from .initialisers import Init, check_init, initialise


def within(weight: Tensor, low: float, high: float) -> Tensor:
    """Limits a weight to [low, high], elementwise; the gradient passes unchanged.

    A plain clamp has no gradient outside its limits, so a weight that a step has carried there
    would never return.
    """
    value = weight.detach()
    return weight + (value.clamp(low, high) - value)


def distance(weight: Tensor, low: int = -1) -> Tensor:
    """Distance of each element from the nearest of -1, 0 and 1: min(|W|, |1 - |W||).

    With ``low=0``, from the nearest of 0 and 1: min(|W|, |1 - W|).

    Written by the nearest value, it takes a third of the operations of the minimum's gradient. At
    the tie |W| = 1/2 the nearest is 0.
    """
    return (weight - weight.detach().round().clamp(low, 1)).abs()


def away_from_zero(weight: Tensor, inputs: Tensor) -> Tensor:
    """R_z of sums, the mean of (1 - |W_ji|) z_i^2 with z the mean of inputs, (N, in)."""
    return ((1 - weight.abs()) * inputs.mean(0).square()).mean()


class Sparse(nn.Module):
    """Base of units with a computed :attr:`weight` that should end at -1, 0 and 1."""

    @property
    def weight(self) -> Tensor:
        """W, (out_features, in_features)."""
        raise NotImplementedError

    def penalty(self) -> dict[str, Tensor]:
        """Penalties of the parameters by name: ``sparsity``, the mean of min(|W|, |1 - |W||)."""
        return {"sparsity": distance(self.weight).mean()}

    def measure(self) -> dict[str, Tensor]:
        """Figures of the parameters by name: ``sparsity_error``, the largest distance."""
        return {"sparsity_error": distance(self.weight).max()}


class Weighted(nn.Module):
    """Base of units with a weight W, (out_features, in_features), that stays within bounds.

    A subclass gives the forward pass and the start of W (:meth:`_start`).

    Attributes:
        bounds: for each bounded parameter, the limits that training keeps it within.
        recurrent_start: the state that the unit's cell starts from: 0 where the unit adds, 1 where
            it multiplies.
    """

    bounds: ClassVar[dict[str, tuple[float, float]]] = {"W": (-1.0, 1.0)}
    recurrent_start: ClassVar[float] = 0.0

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

    def penalty(self, inputs: Tensor | None = None) -> dict[str, Tensor]:
        """Penalties of the parameters by name.

        * ``sparsity``: the mean of min(|W|, |1 - |W||).
        * ``sparsity_squared``: the mean of W^2 (1 - |W|)^2.

        Where W's lower bound is 0, W takes the place of |W| in 1 - |W|, which tells them apart
        only where W is not clamped.

        Args:
            inputs: (N, in_features), for units with a penalty that depends on their inputs.
        """
        selects = type(self).bounds.get("W", (-1.0, 1.0))[0] == 0
        squared = self.W.square() * (1 - (self.W if selects else self.W.abs())).square()
        sparsity = distance(self.W, 0 if selects else -1)
        return {"sparsity": sparsity.mean(), "sparsity_squared": squared.mean()}

    def measure(self) -> dict[str, Tensor]:
        """Figures of the parameters by name: ``sparsity_error``, the largest distance."""
        return {"sparsity_error": distance(self.W).max()}

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


class Selector(Weighted):
    """Base of units whose W selects inputs, and which need no other parameter.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        start: initialisation of W, a name in ``INITIALISERS`` or a constant, limited to W's bounds;
            ``None`` means that of the published code, :attr:`published_start`.
        clamp: keep W within its bounds; ``False`` removes them, in forward pass and training.
        device: device of the parameter.
        dtype: floating-point type of the parameter.

    Raises:
        ValueError: if a size is below 1 or the initialisation is unknown.
    """

    published_start: ClassVar[Init]

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        start: Init | None = None,
        clamp: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_features, out_features, device=device, dtype=dtype)
        self.clamp = clamp
        if not clamp:
            self.bounds = {}  # type: ignore[misc]  # of this unit alone
        self.start = self.published_start if start is None else start
        check_init("start", self.start)
        self._start(self.W, None)

    @torch.no_grad()
    def _start(self, weight: Tensor, generator: torch.Generator | None) -> None:
        initialise(weight, self.start, generator)
        low, high = type(self).bounds["W"]
        weight.clamp_(low, high)

    def extra_repr(self) -> str:
        clamp = "" if self.clamp else ", clamp=False"
        return f"{super().extra_repr()}, start={self.start!r}{clamp}"
