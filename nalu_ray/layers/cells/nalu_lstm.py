"""A NALU whose weights an LSTM chooses at every step.

Trask et al. (2018), section 4.4: the LSTM reads the symbols of a program, and so learns to control
the NALU, which computes with the numbers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .._checks import check_count, check_not_negative, check_positive
from .._noise import Noise
from .._weighted import distance
from ..functional import linear
from ..initialisers import Init, check_init, initialise
from ..nac import nac_weight
from ..nalu import log_magnitude, nalu_output
from ._controller import Controller
from .base import Cell, State
from .unit_cell import register_cell

VIEWS = ("none", "raw", "log", "sign")
GATES = ("input", "state")

Weights = tuple[Tensor, ...]


class MadeNAC(nn.Module):
    """W = tanh(W_hat) * sigmoid(M_hat) of W_hat and M_hat that another layer has made.

    A module of its own, so that training sees what was made: its penalty takes its inputs.

    Args:
        width: of W_hat and of M_hat, which come side by side.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.in_features = 2 * width

    def forward(self, made: Tensor) -> Tensor:
        """(..., 2 width) to (..., width)."""
        w_hat, m_hat = made.chunk(2, -1)
        return nac_weight(w_hat, m_hat)

    def penalty(self, inputs: Tensor) -> dict[str, Tensor]:
        """Returns ``sparsity``, the mean of min(|W|, |1 - |W||), of inputs, (N, 2 width)."""
        return {"sparsity": distance(self(inputs)).mean()}


@register_cell("nalu_lstm", label="NALU (LSTM)", citation="Trask et al. (2018), section 4.4")
class ConfiguredNALU(Cell):
    """A NALU with k registers, configured by an LSTM.

    Written out, with the symbols s_t and the numbers v_t of x_t = [s_t, v_t]::

        z = [v_t, y_{t-1}]
        h_t = LSTM([s_t, view(z)], h_{t-1})
        W_hat_t, M_hat_t, G_t = A h_t + b          each k rows, as wide as z
        y_t = NALU(z; W_hat_t, M_hat_t, G_t),      y_0 = 0

    Its weights are made anew for each step and example, so no figure of the parameters
    (``measure``) describes them. Their penalty ``sparsity``, of :class:`MadeNAC`, is over the steps
    and examples of a batch; steps after a sequence's end count, too.

    The output is y_t, the state h, c, y. Section 4.4 says of the LSTM's input only that the LSTM
    is to depend on the operations; ``view`` says what it sees of the numbers:

    * ``none``: nothing;
    * ``raw``: z;
    * ``log``: sign(z) log(1 + abs(z));
    * ``sign``: tanh(sharpness d) for each d in z and each difference of two of them: signs and
      comparisons with gradients, independent of the size of large numbers.

    The paper's gate is sigmoid(G z) as in any NALU (``gate="input"``), so that the numbers' signs
    and sizes decide with it between sum and product. ``gate="state"``, ours, leaves that to the
    LSTM alone: sigmoid(G_t), one number per register.

    Args:
        in_features: size of the input's last axis.
        hidden_features: size of the LSTM's h and c.
        values: number of the input's last features that are numbers; the rest are symbols.
        registers: k, size of the output.
        view: one of ``VIEWS``.
        sharpness: of the view ``sign``, in one over the numbers' unit.
        gate: one of ``GATES``.
        epsilon: of the NALU.
        init: initialisation of the rows of b for W_hat, a name in ``INITIALISERS`` or a constant.
            As h is small at first, the NALU starts near b.
        m_init: initialisation of the rows for M_hat; ``None`` means ``init``.
        gate_init: initialisation of the rows for G; a positive constant starts with sums of
            positive numbers.
        forget_init: bias of the LSTM's forget gate; above 0 it starts by remembering.
        noise: standard deviation of the uniform noise that each number of W_hat_t, M_hat_t and G_t
            gets in training. What must be exact in spite of it saturates: weights at -1, 0 and 1,
            gates at 0 and 1 (Salakhutdinov and Hinton, 2009, for binary codes).

    Raises:
        ValueError: if a size is below 1 or leaves no symbol, the view, the gate or an
            initialisation is unknown, sharpness or epsilon is not above 0, or noise is negative.
    """

    comparisons: Tensor

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        *,
        values: int = 1,
        registers: int = 4,
        view: str = "none",
        sharpness: float = 1.0,
        gate: str = "input",
        epsilon: float = 1e-7,
        init: Init = "uniform",
        m_init: Init | None = None,
        gate_init: Init = "uniform",
        forget_init: float = 0.0,
        noise: float = 0.0,
    ) -> None:
        super().__init__()
        check_count("values", values)
        check_count("registers", registers)
        check_count("in_features", in_features, least=values + 1)
        if view not in VIEWS:
            raise ValueError(f"view must be one of {', '.join(VIEWS)}, got {view!r}")
        if gate not in GATES:
            raise ValueError(f"gate must be one of {', '.join(GATES)}, got {gate!r}")
        check_positive("sharpness", sharpness)
        check_positive("epsilon", epsilon)
        check_not_negative("noise", noise)
        m_init = init if m_init is None else m_init
        check_init("init", init)
        check_init("m_init", m_init)
        check_init("gate_init", gate_init)
        self.in_features, self.out_features = in_features, registers
        self.values, self.symbols, self.view = values, in_features - values, view
        self.sharpness, self.gate, self.epsilon = sharpness, gate, epsilon
        self.init, self.m_init, self.gate_init = init, m_init, gate_init
        width = values + registers
        self.register_buffer("comparisons", _comparisons(width), persistent=False)
        view_width = {"none": 0, "sign": len(self.comparisons)}.get(view, width)
        self.lstm = Controller(self.symbols, view_width, hidden_features, forget_init=forget_init)
        # rows of h's maps for each register: W_hat's, M_hat's, G's
        self.widths = [width, width, width if gate == "input" else 1]
        self.nac = MadeNAC(width)
        rows = registers, sum(self.widths)
        self.weight = nn.Parameter(torch.empty(rows[0] * rows[1], hidden_features))
        self.bias = nn.Parameter(torch.empty(rows))
        self.width_of_noise = math.sqrt(12) * noise
        self.noise = Noise() if noise else None
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        self.lstm.reset_parameters(generator)
        initialise(self.weight, "linear", generator)
        parts = self.bias.split(self.widths, -1)
        for bias, init in zip(parts, (self.init, self.m_init, self.gate_init), strict=True):
            initialise(bias, init, generator)
        if self.noise is not None:
            self.noise.reset_parameters(generator)

    def initial(self, batch: int, like: Tensor) -> State:
        """Returns h, c and y, all 0."""
        return *self.lstm.initial(batch, like), like.new_zeros(batch, self.out_features)

    def _weights(self) -> Weights:
        return self.lstm.columns()

    def _project(self, x: Tensor, weights: Weights) -> Tensor:
        symbols, numbers = x.split([self.symbols, self.values], -1)
        return torch.cat([self.lstm.project(symbols, weights[0]), numbers], -1)

    def _step(self, projected: Tensor, state: State, weights: Weights) -> tuple[Tensor, State]:
        h, c, y = state
        gates, numbers = projected.tensor_split([-self.values], -1)
        numbers = torch.cat([numbers, y], -1)
        h, (_, c) = self.lstm.control(gates, self._see(numbers), (h, c), weights[1])
        y = self._compute(numbers, h)
        return y, (h, c, y)

    def _see(self, numbers: Tensor) -> Tensor | None:
        if self.view == "none":
            return None
        if self.view == "raw":
            return numbers
        if self.view == "log":
            return numbers.sign() * numbers.abs().log1p()
        return torch.tanh(self.sharpness * linear(numbers, self.comparisons))

    def _compute(self, numbers: Tensor, h: Tensor) -> Tensor:
        """The NALU that h configures, one per row of the batch, (batch, width) to (batch, k)."""
        configured = linear(h, self.weight).unflatten(-1, self.bias.shape) + self.bias
        if self.training and self.noise is not None:
            configured = configured + self.width_of_noise * (self.noise(configured) - 0.5)
        nac_weights, gate = configured.tensor_split([2 * self.widths[0]], -1)
        weight, numbers = self.nac(nac_weights), numbers[..., None, :]
        # products and sums, as many tiny matrix products cost more
        a = (weight * numbers).sum(-1)
        exponents = (weight * log_magnitude(numbers, self.epsilon)).sum(-1)
        gate = gate * numbers if self.gate == "input" else gate
        return nalu_output(a, gate.sum(-1), exponents, self.bias.dtype)

    def extra_repr(self) -> str:
        return (
            f"{super().extra_repr()}, values={self.values}, view={self.view!r}, "
            f"sharpness={self.sharpness}, gate={self.gate!r}, epsilon={self.epsilon}, "
            f"init={self.init!r}, m_init={self.m_init!r}, gate_init={self.gate_init!r}, "
            f"forget_init={self.lstm.forget_init}, noise={self.width_of_noise / math.sqrt(12):g}"
        )


def _comparisons(width: int) -> Tensor:
    """Rows that give each of ``width`` numbers, then each difference of two."""
    identity = torch.eye(width)
    first, second = torch.triu_indices(width, width, offset=1)
    return torch.cat([identity, identity[first] - identity[second]])
