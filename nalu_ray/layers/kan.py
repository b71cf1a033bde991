"""Kolmogorov-Arnold network: a learned function of one variable on every edge.

Liu et al., "KAN: Kolmogorov-Arnold Networks" (2024), https://arxiv.org/abs/2404.19756.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ._checks import check_count, check_finite, check_not_negative
from .functional import linear
from .initialisers import Init, check_init, initialise
from .registry import register
from .stack import Stacked

CITATION = "Liu et al. (2024)"


class KAN(nn.Module):
    """Sums of learned functions of one variable, each a SiLU and a cubic spline.

    Liu et al. (2024)::

        y_j = sum over i of a_ji SiLU(x_i) + s_ji sum over c of C_jic B_c(x_i)

    The B_c are the ``intervals + 3`` cubic B-splines of a uniform grid over [low, high]. Within
    these limits they can fit any smooth function. Three intervals beyond, they are 0, and a
    function is a_ji SiLU(x_i) alone, linear in positive inputs: an honest baseline, which cannot
    extrapolate anything but sums.

    s starts at 1, and C in U(-noise / (2 intervals), noise / (2 intervals)). The authors draw the
    same values at the points of the grid and fit C to them; they also offer to refit the grid to
    the inputs, which this class does not. a starts by Xavier's rule in the publication and at 1 in
    the authors' code: ``base="glorot"`` or ``1.0``. At 1, sums of several inputs soon leave the
    next layer's grid, and its splines get no gradient.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        intervals: of the grid between low and high.
        low: lower end of the grid.
        high: upper end of the grid.
        noise: size of the spline at the start.
        base: initialisation of a, a name in ``INITIALISERS`` or a constant.
        device: device of the parameters.
        dtype: floating-point type of the parameters.

    Raises:
        ValueError: if a size is below 1, low not below high, noise negative or base unknown.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        intervals: int = 5,
        low: float = -1.0,
        high: float = 1.0,
        noise: float = 0.1,
        base: Init = "glorot",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_count("in_features", in_features)
        check_count("out_features", out_features)
        check_count("intervals", intervals)
        check_finite("low", low)
        check_finite("high", high)
        if not low < high:
            raise ValueError(f"low must be below high, got {low!r} and {high!r}")
        check_not_negative("noise", noise)
        check_init("base", base)
        self.in_features = in_features
        self.out_features = out_features
        self.intervals = intervals
        self.low, self.high, self.noise, self.base = low, high, noise, base
        self.width = (high - low) / intervals
        shape = (out_features, in_features)
        self.a = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.s = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
        self.C = nn.Parameter(torch.empty(*shape, intervals + 3, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the parameters from ``generator``, which must live on their device."""
        initialise(self.a, self.base, generator)
        nn.init.ones_(self.s)
        bound = self.noise / (2 * self.intervals)
        nn.init.uniform_(self.C, -bound, bound, generator=generator)

    def splines(self, x: Tensor) -> Tensor:
        """The values of the B-splines, (...) to (..., intervals + 3).

        In units of an interval, with the distance v from its centre, a cubic B-spline is
        2/3 - v^2 + v^3 / 2 up to 1, (2 - v)^3 / 6 up to 2, and 0 beyond.
        """
        # the outermost splines have their centres one interval beyond the limits
        centres = torch.arange(-1, self.intervals + 2, device=x.device, dtype=x.dtype)
        v = ((x[..., None] - self.low) / self.width - centres).abs()
        return (F.relu(2 - v).pow(3) - 4 * F.relu(1 - v).pow(3)) / 6

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        coefficients = (self.s[..., None] * self.C).flatten(1)
        return linear(F.silu(x), self.a) + linear(self.splines(x).flatten(-2), coefficients)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"intervals={self.intervals}, low={self.low}, high={self.high}, noise={self.noise}, "
            f"base={self.base!r}"
        )


register("kan", label="KAN", citation=CITATION)(Stacked(KAN))
