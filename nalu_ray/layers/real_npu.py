"""Neural power units with real weights.

Heim, Pevný and Šmídl, "Neural Power Units" (2020), https://arxiv.org/abs/2006.01681. The modified
unit is of Mistry, Farrahi and Hare, "Learning Division with Neural Arithmetic Logic Modules"
(2021), https://arxiv.org/abs/2110.05177.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from ._checks import check_choice, check_finite
from ._power import (
    GATE_GRADIENTS,
    check_epsilon,
    gate_distance,
    gated_polar,
    limited_gate,
    scaled_start,
)
from ._weighted import Weighted
from .initialisers import Init, check_init
from .nalu import exponent, max_exponent
from .nau import NAU
from .npu import CITATION
from .nru import CITATION as DIVISION
from .registry import register
from .stack import Stacked

SPARSITIES = ("one", "nearest")


class RealNPU(Weighted):
    """Real neural power unit: an :class:`NPU` without the imaginary part of W.

    Heim, Pevný and Šmídl (2020)::

        y = exp(W log r) * cos(W k)
        g = min(max(G, 0), 1)
        r = g (|x| + epsilon) + 1 - g,    k = pi g where x < 0, else 0

    For whole numbers W and g = 1, y = prod_i x_i^W_ji with the right sign. W starts
    Glorot-uniform, G from 1/2. epsilon, limits and types are as in :class:`NaiveNPU`.

    A gate that a step has carried out of [0, 1] is two units in two languages. In the authors'
    Julia, the gradient passes the limits unchanged, and the gate can return
    (``gate_gradient="through"``). In the later ports to torch it has none there, and never moves
    again unless a penalty moves it (``gate_gradient="clamp"``).

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        start: initialisation of W, a name in ``INITIALISERS`` or a constant.
        gain: factor on ``start``. The code of the paper's large task has 0.1.
        epsilon: as in :class:`NaiveNPU`.
        gate_gradient: ``through`` or ``clamp``.
        device: device of the parameters.
        dtype: floating-point type of the parameters.

    Raises:
        ValueError: if a size is below 1, the start or the gate's gradient unknown, the gain no
            finite number, or epsilon negative.
    """

    bounds: ClassVar[dict[str, tuple[float, float]]] = {}
    recurrent_start: ClassVar[float] = 1.0

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        start: Init = "glorot",
        gain: float = 1.0,
        epsilon: float | None = None,
        gate_gradient: str = "through",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_features, out_features, device=device, dtype=dtype)
        check_init("start", start)
        check_finite("gain", gain)
        check_epsilon(epsilon)
        check_choice("gate_gradient", gate_gradient, GATE_GRADIENTS)
        self.start, self.gain, self.gate_gradient = start, gain, gate_gradient
        self.epsilon = epsilon
        self.G = nn.Parameter(self.W.new_empty(in_features))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        super().reset_parameters(generator)
        nn.init.constant_(self.G, 0.5)

    def _start(self, weight: Tensor, generator: torch.Generator | None) -> None:
        scaled_start(weight, self.start, self.gain, generator)

    def forward(self, x: Tensor) -> Tensor:
        """(..., in_features) to (..., out_features); the leading shape may be empty."""
        logs, angles = gated_polar(x, limited_gate(self.G, self.gate_gradient), self.epsilon)
        exponents = exponent(logs, self.W).clamp(max=max_exponent(self.W.dtype))
        return (torch.exp(exponents) * torch.cos(exponent(angles, self.W))).to(self.W.dtype)

    def penalty(self, inputs: Tensor | None = None) -> dict[str, Tensor]:
        """Penalties by name: those of W, and ``gate``, the mean of min(|G|, |1 - G|)."""
        return super().penalty() | {"gate": gate_distance(self.G).mean()}

    def measure(self) -> dict[str, Tensor]:
        """Figures by name: ``sparsity_error``, and ``gate_error``, the largest min(g, 1 - g)."""
        return super().measure() | {"gate_error": gate_distance(self.G.clamp(0, 1)).max()}

    def extra_repr(self) -> str:
        return (
            f"{super().extra_repr()}, start={self.start!r}, gain={self.gain}, "
            f"epsilon={self.epsilon}, gate_gradient={self.gate_gradient!r}"
        )


class ModifiedRealNPU(RealNPU):
    """Real NPU with bounds, penalties and a smaller start.

    Mistry, Farrahi and Hare (2021): the equations of :class:`RealNPU`. Training keeps W within
    [-1, 1] and G within [0, 1]; W starts from U(-r, r), r = min(1/2, sqrt(6 / (in + out))).

    Their penalty of W is mean |1 - |W|| (``sparsity="one"``): every weight multiplies or divides,
    and the gate alone leaves inputs out. Their code also has mean min(|W|, |1 - |W||)
    (``sparsity="nearest"``).

    Args:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
        start: initialisation of W, a name in ``INITIALISERS`` or a constant, limited to [-1, 1].
        epsilon: as in :class:`NaiveNPU`.
        sparsity: the penalty ``sparsity``, ``one`` or ``nearest``.
        device: device of the parameters.
        dtype: floating-point type of the parameters.

    Raises:
        ValueError: if a size is below 1, the start or the sparsity unknown, or epsilon negative.
    """

    bounds: ClassVar[dict[str, tuple[float, float]]] = {"W": (-1.0, 1.0), "G": (0.0, 1.0)}

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        start: Init = "glorot_limited",
        epsilon: float | None = None,
        sparsity: str = "one",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_choice("sparsity", sparsity, SPARSITIES)
        super().__init__(
            in_features, out_features, start=start, epsilon=epsilon, device=device, dtype=dtype
        )
        self.sparsity = sparsity

    def _start(self, weight: Tensor, generator: torch.Generator | None) -> None:
        super()._start(weight, generator)
        with torch.no_grad():
            weight.clamp_(-1.0, 1.0)

    def penalty(self, inputs: Tensor | None = None) -> dict[str, Tensor]:
        """Penalties by name, ``sparsity`` as the option says."""
        penalties = super().penalty()
        if self.sparsity == "one":
            penalties["sparsity"] = (1 - self.W.abs()).abs().mean()
        return penalties

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"start={self.start!r}, epsilon={self.epsilon}, sparsity={self.sparsity!r}"
        )


register("real_npu", label="Real NPU", citation=CITATION)(Stacked(RealNPU))
register("modified_real_npu", label="Modified Real NPU", citation=DIVISION)(
    Stacked(ModifiedRealNPU)
)
# As the paper's large task has it for the Real NPU.
register("nau_real_npu", label="NAU, Real NPU", citation=CITATION)(Stacked(RealNPU, first=NAU))
register("nau_modified_real_npu", label="NAU, Modified Real NPU", citation=DIVISION)(
    Stacked(ModifiedRealNPU, first=NAU)
)
