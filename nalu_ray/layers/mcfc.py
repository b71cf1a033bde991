"""Mass-conserving fully connected layers: shares of the inputs, summed or multiplied.

Hoedt et al., "MC-LSTM: Mass-Conserving LSTM" (2021), https://arxiv.org/abs/2101.05186.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from ._checks import check_choice, check_count, check_positive
from ._power import gate_distance
from ._product import multiplied
from ._weighted import distance
from .functional import linear
from .mlp import Linear
from .nalu import exponent, log_magnitude, max_exponent
from .registry import register
from .stack import Stacked

CITATION = "Hoedt et al. (2021)"
SIGNS = ("none", "product", "cosine")


@torch.no_grad()
def orthogonal_(weight: Tensor, generator: torch.Generator | None = None) -> None:
    """Fill a matrix with orthonormal rows or columns, whichever are fewer, in place.

    Drawn in float32 at least, as torch has no QR decomposition in half precision.
    """
    drawn = torch.empty_like(weight, dtype=torch.promote_types(weight.dtype, torch.float32))
    weight.copy_(nn.init.orthogonal_(drawn, generator=generator))


@torch.no_grad()
def shares_(logits: Tensor, generator: torch.Generator | None = None) -> None:
    """Fill the logits of shares, (from, to), in place: the identity if square, else orthogonal."""
    if logits.shape[0] == logits.shape[1]:
        nn.init.eye_(logits)
    else:
        orthogonal_(logits, generator)


class MCFC(nn.Module):
    """Mass-conserving fully connected layer: each input is shared out among the outputs.

    Hoedt et al. (2021)::

        J = softmax(r), each row over the outputs
        o = sigmoid(w + b)
        y = o * (x J)

    Each row of J sums to 1, so x J has the sum of x; the gate o lets a part of it through. Sums of
    subsets are exact with J of 0 and 1 and o = 1; in float32 that needs a w + b above 17. Negative
    weights are out of reach. The publication gives r as the logits of a gate that reads a constant
    1; w and b are the weight and bias of such a gate, and only their sum counts.

    r starts as the identity if it is square, else orthogonal; w is a random vector of length 1; b
    is 0. The authors' multiplication has an additional output that takes unwanted mass
    and is left out of y: ``spare=1``. Their addition has none.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        spare: number of additional outputs that y leaves out.
        device: device of the parameters.
        dtype: floating-point type of the parameters.

    Raises:
        ValueError: if a size is below 1, or spare below 0.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        spare: int = 0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_count("in_features", in_features)
        check_count("out_features", out_features)
        check_count("spare", spare, least=0)
        self.in_features = in_features
        self.out_features = out_features
        self.spare = spare
        outputs = out_features + spare
        self.r = nn.Parameter(torch.empty(in_features, outputs, device=device, dtype=dtype))
        self.w = nn.Parameter(torch.empty(outputs, device=device, dtype=dtype))
        self.b = nn.Parameter(torch.empty(outputs, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the parameters from ``generator``, which must live on their device."""
        shares_(self.r, generator)
        orthogonal_(self.w[:, None], generator)
        nn.init.zeros_(self.b)

    @property
    def weight(self) -> Tensor:
        """J times o, transposed, without spare outputs: (out_features, in_features) in [0, 1]."""
        shared = torch.softmax(self.r, -1) * torch.sigmoid(self.w + self.b)
        return shared[:, : self.out_features].mT

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        return linear(x, self.weight)

    def penalty(self) -> dict[str, Tensor]:
        """``saturation``: minus the mean squares of r, w and b, which draws them away from 0.

        It has no lower bound: the parameters grow as long as it is in use.
        """
        parts = (self.r, self.w, self.b)
        return {"saturation": -torch.stack([part.square().mean() for part in parts]).sum()}

    def measure(self) -> dict[str, Tensor]:
        """``sparsity_error``: the largest distance of a weight from the nearest of 0 and 1."""
        return {"sparsity_error": distance(self.weight).max()}

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, spare={self.spare}"
        )


class MulMCFC(MCFC):
    """Products by a mass-conserving layer of logarithms.

    Hoedt et al. (2021), with :class:`MCFC` of n + ``spare`` outputs and without its spare ones::

        y = exp(MCFC(log(|x| + epsilon)) + c)

    As the logarithm loses the sign, three readings exist, here as ``signs``. V is the weight of the
    MC-FC, J times o, and J its shares alone:

    * ``none``: y as above, never negative. The authors take log(x), NaN at negative inputs, and no
      epsilon; for positive inputs the values are the same up to epsilon.
    * ``product``: y times the product over i of J_ij sign(x_i) + 1 - J_ij.
    * ``cosine``: y times cos(pi sum over i of J_ij g_i [x_i < 0]), with a gate g_i that starts at
      1/2 and stays within [0, 1].

    Both signed versions are those of Mistry's benchmark of these units, which has no spare output.
    Results end at exp(B), B = :func:`~nalu_ray.layers.max_exponent`, without a gradient beyond.

    c starts at 0, all else as in :class:`MCFC`.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        spare: number of additional outputs that y leaves out; the benchmark has 0.
        signs: one of ``SIGNS``.
        epsilon: keeps the logarithm away from 0.
        device: device of the parameters.
        dtype: floating-point type of the parameters.

    Raises:
        ValueError: if a size is out of range, signs unknown or epsilon not above 0.
    """

    recurrent_start: ClassVar[float] = 1.0

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        spare: int = 1,
        signs: str = "none",
        epsilon: float = 1e-7,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_choice("signs", signs, SIGNS)
        check_positive("epsilon", epsilon)
        super().__init__(in_features, out_features, spare=spare, device=device, dtype=dtype)
        self.signs = signs
        self.epsilon = epsilon
        self.c = nn.Parameter(torch.zeros(out_features, device=device, dtype=dtype))
        gates = in_features if signs == "cosine" else 0
        gate = torch.full((gates,), 0.5, device=device, dtype=dtype)
        self.g = nn.Parameter(gate) if gates else None
        self.bounds: dict[str, tuple[float, float]] = {"g": (0.0, 1.0)} if gates else {}

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        super().reset_parameters(generator)
        if hasattr(self, "c"):  # not yet while the base class is being made
            nn.init.zeros_(self.c)
            if self.g is not None:
                nn.init.constant_(self.g, 0.5)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        weight = self.weight
        exponents = exponent(log_magnitude(x, self.epsilon), weight) + self.c
        y = torch.exp(exponents.clamp(max=max_exponent(weight.dtype)))
        if self.signs != "none":
            y = y * self._sign(x)
        return y.to(weight.dtype)

    def _sign(self, x: Tensor) -> Tensor:
        """The sign of each output, (..., in_features) to (..., out_features), in [-1, 1]."""
        shares = torch.softmax(self.r, -1)[:, : self.out_features].mT
        gate = self.g
        if gate is not None:
            negative = (x < 0).to(shares.dtype) * gate
            return torch.cos(math.pi * linear(negative, shares))
        factors = shares * torch.sign(x)[..., None, :] + 1 - shares
        return multiplied(factors.unsqueeze(-1)).squeeze(-1)

    def penalty(self) -> dict[str, Tensor]:
        """``saturation`` as in :class:`MCFC`; ``gate`` with ``signs="cosine"``.

        ``gate`` is the mean distance of g from the nearest of 0 and 1.
        """
        terms = super().penalty()
        if self.g is not None:
            terms["gate"] = gate_distance(self.g).mean()
        return terms

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, signs={self.signs!r}, epsilon={self.epsilon}"


# The authors' static networks: a linear head on MC-FC for sums and differences, MulMCFC on MC-FC.
register("mcfc", label="MC-FC", citation=CITATION)(Stacked(MCFC))
register("mcfc_linear", label="MC-FC, linear", citation=CITATION)(Stacked(Linear, first=MCFC))
register("mul_mcfc", label="MulMC-FC", citation=CITATION)(Stacked(MulMCFC))
register("mcfc_mul_mcfc", label="MC-FC, MulMC-FC", citation=CITATION)(Stacked(MulMCFC, first=MCFC))
