"""Improved neural arithmetic logic unit.

Schlör, Ring and Hotho, "iNALU: Improved Neural Arithmetic Logic Unit" (2020),
https://arxiv.org/abs/2003.07629.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ._checks import check_choice, check_count, check_positive
from ._product import floored_log, selected_product, widened
from ._weighted import distance
from .functional import linear
from .nac import nac_weight
from .nalu import exponent, max_exponent
from .registry import register
from .stack import Stacked

CITATION = "Schlör, Ring and Hotho (2020)"

SIZE = 20.0
"""The parameter size that the penalty ``size`` asks for."""

STARTS: dict[str, tuple[float, float, float, float]] = {
    "authors": (1.0, -1.0, 0.0, 0.1),
    "port": (0.88, 0.5, 0.0, 0.2),
}
"""Means of W_hat, M_hat and g, and their common standard deviation, by name of the start."""


class INALU(nn.Module):
    """Improved NALU: a signed product, a bounded exponent, and a gate that ignores the input.

    Schlör, Ring and Hotho (2020)::

        y = g * a + (1 - g) * m * s,    g = sigmoid(G)
        a = W_a x
        m = exp(min(W_m log max(|x|, epsilon), ceiling))
        s_j = prod_i (sign(x_i) |W_m,ji| + 1 - |W_m,ji|)

    W_a and W_m are weights of the NAC's form, tanh(W_hat) * sigmoid(M_hat). Each path has its own,
    or both share W_a (``shared``). G has one element per output.

    Paper and code:

    * The authors' code limits s to [-1, 1], a later port does not. The two are equal: each factor
      lies in [-1, 1], and so does s.
    * The authors' experiments draw W_hat, M_hat and G from N(1, 0.1), N(-1, 0.1) and N(0, 0.1)
      (``start="authors"``; the second number is the standard deviation). The defaults of their
      file, which the port uses, are N(0.88, 0.2), N(0.5, 0.2) and N(0, 0.2) (``start="port"``).
    * In their training, ten batches in turn change the weights (eight) and the gate (two), and a
      seed that is stuck is redrawn. The unit itself knows nothing of this.

    m is computed in float32 at least, and stays finite: for outputs in float16, the ceiling is at
    most ``max_exponent(dtype)``. With the ceiling of 20, no product exceeds 4.9e8.

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        shared: one weight for both paths. The paper recommends a weight for each.
        epsilon: magnitudes below it count as epsilon, without a gradient.
        ceiling: largest exponent of m; above, m passes no gradient.
        start: the initialisation, ``authors`` or ``port``.
        device: device of the parameters.
        dtype: floating-point type of the parameters.

    Raises:
        ValueError: if a size is below 1, epsilon or ceiling not above 0, or the start unknown.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        shared: bool = False,
        epsilon: float = 1e-7,
        ceiling: float = 20.0,
        start: str = "authors",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_count("in_features", in_features)
        check_count("out_features", out_features)
        check_positive("epsilon", epsilon)
        check_positive("ceiling", ceiling)
        check_choice("start", start, tuple(STARTS))
        self.in_features, self.out_features = in_features, out_features
        self.shared, self.start = shared, start
        self.epsilon, self.ceiling = epsilon, ceiling

        def matrix() -> nn.Parameter:
            return nn.Parameter(torch.empty(out_features, in_features, device=device, dtype=dtype))

        self.W_hat, self.M_hat = matrix(), matrix()
        # None where both paths share W_hat and M_hat
        self.W_hat_m = None if shared else matrix()
        self.M_hat_m = None if shared else matrix()
        self.G = nn.Parameter(torch.empty(out_features, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the parameters from ``generator``, which must live on their device."""
        w_hat, m_hat, gate, deviation = STARTS[self.start]
        for name, parameter in self.named_parameters():
            mean = gate if name == "G" else w_hat if name.startswith("W") else m_hat
            nn.init.normal_(parameter, mean, deviation, generator=generator)

    def weights(self) -> tuple[Tensor, Tensor]:
        """W_a and W_m, each (out_features, in_features) and in [-1, 1]."""
        additive = nac_weight(self.W_hat, self.M_hat)
        if self.W_hat_m is None or self.M_hat_m is None:
            return additive, additive
        return additive, nac_weight(self.W_hat_m, self.M_hat_m)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        additive, multiplicative = self.weights()
        dtype = additive.dtype
        wide = widened(x)
        exponents = exponent(floored_log(wide, self.epsilon), multiplicative)
        m = torch.exp(exponents.clamp(max=min(self.ceiling, max_exponent(dtype))))
        s = selected_product(wide.sign(), widened(multiplicative.abs()))
        gate = torch.sigmoid(self.G.to(m.dtype))
        a = linear(x, additive).to(m.dtype)
        return (gate * a + (1 - gate) * (m * s)).to(dtype)

    def penalty(self) -> dict[str, Tensor]:
        """Penalties by name: ``size``, the mean of max(20 - |v|, 0) per parameter, summed."""
        sizes = [(SIZE - value.abs()).clamp(min=0).mean() for value in self.parameters()]
        return {"size": torch.stack(sizes).sum()}

    def measure(self) -> dict[str, Tensor]:
        """Figures by name: the largest distance of weights and gates from their discrete values.

        ``sparsity_error`` is that of W_a and W_m from -1, 0 and 1, ``gate_error`` that of g from 0
        and 1.
        """
        errors = [distance(weight).max() for weight in self.weights()]
        return {
            "sparsity_error": torch.stack(errors).max(),
            "gate_error": distance(torch.sigmoid(self.G)).max(),
        }

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"shared={self.shared}, epsilon={self.epsilon}, ceiling={self.ceiling}, "
            f"start={self.start!r}"
        )


register("inalu", label="iNALU", citation=CITATION)(Stacked(INALU))
