"""Stochastic neural multiplication unit: an NMU that is trained on noisy inputs.

Mistry, Farrahi and Hare, "Improving the Robustness of Neural Multiplication Units with Reversible
Stochasticity" (2022), https://arxiv.org/abs/2211.05624.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ._checks import check_positive
from ._noise import Noise
from ._product import product, selected, selected_product, widened
from ._weighted import within
from .initialisers import Init
from .nau import NAU
from .nmu import NMU
from .registry import register
from .stack import Stacked

CITATION = "Mistry, Farrahi and Hare (2022)"


class SNMU(NMU):
    """Stochastic NMU: noise on the inputs, which is divided out of the output.

    Mistry et al. (2022). In training, each input of each example gets its own factor n_i::

        y_j = NMU_j(x * n) / NMU_j(n),    n_i ~ U(noise_low, noise_high)

    Where W is 0 or 1, y is the NMU's product whatever the noise; where W is between, the noise
    changes y, and with it the gradient, so that W rarely rests there. In evaluation mode the unit
    is an :class:`~nalu_ray.layers.NMU`. Both products are taken at once, as one product of ratios,
    which does not overflow where NMU(x * n) would.

    The noise is a hash of two buffers, a seed and the number of training calls.

    Start, penalties and measure are the NMU's. In the published code the penalty ``inputs`` sees
    the inputs after the noise, as the code multiplies in place; here it sees those before.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        noise_low: lower end of the noise, above 0.
        noise_high: upper end of the noise, not below ``noise_low``.
        batch_noise: take U(1, 1 + 1 / sd) in place of these ends, where sd is the standard
            deviation of all inputs of the call, which must not be 0.
        start: initialisation of W, a name in ``INITIALISERS`` or a constant, limited to [0, 1];
            ``None`` means the published one.
        device: device of parameter and buffers.
        dtype: floating-point type of the parameter.

    Raises:
        ValueError: if a size is below 1, an end of the noise is out of range, or the
            initialisation is unknown.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        noise_low: float = 1.0,
        noise_high: float = 5.0,
        batch_noise: bool = False,
        start: Init | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_features, out_features, start=start, device=device, dtype=dtype)
        check_positive("noise_low", noise_low)
        check_positive("noise_high", noise_high)
        if noise_high < noise_low:
            raise ValueError(
                f"noise_high must be at least noise_low={noise_low!r}, got {noise_high!r}"
            )
        self.noise_low, self.noise_high = float(noise_low), float(noise_high)
        self.batch_noise = batch_noise
        self.noise = Noise(device=device)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw W and the noise's seed from ``generator``, which must live on their device."""
        super().reset_parameters(generator)
        self.noise.reset_parameters(generator)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        weight = widened(within(self.W, 0.0, 1.0))
        if not self.training:
            return selected_product(x, weight).to(self.W.dtype)
        if self.batch_noise:
            drawn = 1 + self.noise(x) / x.detach().to(weight.dtype).std()
        else:
            drawn = self.noise_low + (self.noise_high - self.noise_low) * self.noise(x)
        drawn = drawn.to(weight.dtype)
        ratios = selected(x * drawn, weight) / selected(drawn, weight)
        return product(ratios, x).to(self.W.dtype)

    def extra_repr(self) -> str:
        ends = f"noise_low={self.noise_low}, noise_high={self.noise_high}"
        return f"{super().extra_repr()}, {ends}, batch_noise={self.batch_noise}"


register("snmu", label="sNMU", citation=CITATION)(Stacked(SNMU))
register("nau_snmu", label="NAU, sNMU", citation=CITATION)(Stacked(SNMU, first=NAU))
