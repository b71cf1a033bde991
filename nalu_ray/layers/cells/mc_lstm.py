"""Mass-conserving LSTM: inputs are distributed over the cell, and nothing is lost or made.

Hoedt et al., "MC-LSTM: Mass-Conserving LSTM" (2021), https://arxiv.org/abs/2101.05186.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .._checks import check_count, check_positive
from ..functional import linear
from ..mcfc import CITATION, orthogonal_, shares_
from ..nalu import log_magnitude, max_exponent
from .base import Cell, State
from .unit_cell import register_cell

OUTPUT_BIAS = -3.0  # of the output gate at the start
IDENTITY_BIAS = 3.0  # of the junction's diagonal at the start, if it is square

Weights = tuple[Tensor, ...]


class MCLSTM(Cell):
    """Mass-conserving LSTM, in the form that the authors use for arithmetic.

    Hoedt et al. (2021), with mass x_t and auxiliary inputs a_t::

        J_t = softmax(A a_t + d)          (masses, hidden), each row over the cell
        R = softmax(r)                    (hidden, hidden), each row over the cell
        m_t = x_t J_t + c_{t-1} R
        o_t = sigmoid(B a_t + b)
        h_t = o_t * m_t,    c_t = (1 - o_t) * m_t,    c_0 = 0

    Mass is conserved: the sum of h_t and c_t is that of x_t and c_{t-1}. Without gates that read
    the state, all is linear in the mass, so what the cell has learned holds for any size of it.

    The two inputs share the last axis of our cells' x: its last ``auxiliary`` features are a_t,
    the others x_t. The authors' a_t is 1, and -1 at the last step, when the gate is to open. A
    cell cannot know which step is the last; a task that marks it passes the mark as an auxiliary
    input. With ``auxiliary=0`` a_t is 1 at all steps, and ``cumulative``, an option of the
    authors' code, does without the gate: h_t = c_t = m_t, so that each output is what an open gate
    would let out.

    A and B start orthogonal, d at 0 and b at -3 (closed), r at the identity. If there are as many
    masses as hidden units, d starts at 3 on the diagonal, near the identity.

    Args:
        in_features: size of the input's last axis, masses and auxiliary inputs.
        hidden_features: size of c and h.
        auxiliary: number of auxiliary inputs.
        cumulative: whether to do without the output gate.

    Raises:
        ValueError: if a size is below 1, or auxiliary leaves no mass.
    """

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        *,
        auxiliary: int = 0,
        cumulative: bool = True,
    ) -> None:
        super().__init__()
        check_count("auxiliary", auxiliary, least=0)
        check_count("in_features", in_features, least=auxiliary + 1)
        check_count("hidden_features", hidden_features)
        self.in_features, self.out_features = in_features, hidden_features
        self.auxiliary, self.cumulative = auxiliary, cumulative
        self.masses, self.hidden = in_features - auxiliary, hidden_features
        gate_inputs, gates = max(auxiliary, 1), 0 if cumulative else hidden_features
        self.A = nn.Parameter(torch.empty(self.masses * hidden_features, gate_inputs))
        self.d = nn.Parameter(torch.empty(self.masses, hidden_features))
        self.r = nn.Parameter(torch.empty(hidden_features, hidden_features))
        self.B = nn.Parameter(torch.empty(gates, gate_inputs)) if gates else None
        self.b = nn.Parameter(torch.empty(gates)) if gates else None
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        orthogonal_(self.A, generator)
        nn.init.zeros_(self.d)
        if self.masses == self.hidden:
            with torch.no_grad():
                self.d.fill_diagonal_(IDENTITY_BIAS)
        shares_(self.r, generator)
        if self.B is not None and self.b is not None:
            orthogonal_(self.B, generator)
            nn.init.constant_(self.b, OUTPUT_BIAS)

    def initial(self, batch: int, like: Tensor) -> State:
        """Returns c = 0."""
        return (like.new_zeros(batch, self.hidden),)

    def _weights(self) -> Weights:
        return (torch.softmax(self.r, -1),)

    def _project(self, x: Tensor, weights: Weights) -> Tensor:
        """Returns the mass that comes in, (..., hidden), and beside it the gates, if any."""
        mass, auxiliary = x.split([self.masses, self.auxiliary], -1)
        if not self.auxiliary:
            auxiliary = x.new_ones(*x.shape[:-1], 1)
        logits = linear(auxiliary, self.A).unflatten(-1, self.d.shape) + self.d
        # products and sums, as one small matrix product per row costs more
        coming: Tensor = (mass[..., None] * torch.softmax(logits, -1)).sum(-2)
        if self.B is None or self.b is None:
            return coming
        gates = torch.sigmoid(linear(auxiliary, self.B) + self.b)
        return torch.cat([coming, gates.to(coming.dtype)], -1)

    def _step(self, projected: Tensor, state: State, weights: Weights) -> tuple[Tensor, State]:
        mass = projected[..., : self.hidden] + linear(state[0], weights[0].mT)
        if self.B is None:
            return mass, (mass,)
        gate = projected[..., self.hidden :]
        return gate * mass, ((1 - gate) * mass,)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, auxiliary={self.auxiliary}, cumulative={self.cumulative}"


class MulMCLSTM(Cell):
    """Running products by a mass-conserving LSTM of logarithms.

    After Hoedt et al. (2021), with the masses v_t and auxiliary inputs a_t of :class:`MCLSTM`::

        y_t = exp(h_t + e),    h_t = MCLSTM([log(|v_t| + epsilon), a_t])

    The inner cell has one hidden unit more, whose output y leaves out: the place for unwanted mass.
    Signs are lost; the authors take the logarithm itself, NaN at negative inputs. Results end at
    exp(B), B = :func:`~nalu_ray.layers.max_exponent`, without a gradient beyond.

    The authors give the name MulMC-LSTM to an MC-LSTM whose last output a
    :class:`~nalu_ray.layers.MulMCFC` reads, a product of sums.

    e starts at 0, all else as in :class:`MCLSTM`.

    Args:
        in_features: size of the input's last axis, masses and auxiliary inputs.
        hidden_features: size of y.
        spare: hidden units that y leaves out.
        epsilon: keeps the logarithm away from 0.
        auxiliary: as in :class:`MCLSTM`.
        cumulative: as in :class:`MCLSTM`.

    Raises:
        ValueError: if a size is out of range, epsilon not above 0, or auxiliary leaves no mass.
    """

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        *,
        spare: int = 1,
        epsilon: float = 1e-7,
        auxiliary: int = 0,
        cumulative: bool = True,
    ) -> None:
        super().__init__()
        check_count("hidden_features", hidden_features)
        check_count("spare", spare, least=0)
        check_positive("epsilon", epsilon)
        self.in_features, self.out_features = in_features, hidden_features
        self.epsilon = epsilon
        self.sums = MCLSTM(
            in_features, hidden_features + spare, auxiliary=auxiliary, cumulative=cumulative
        )
        self.e = nn.Parameter(torch.zeros(hidden_features))

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        self.sums.reset_parameters(generator)
        nn.init.zeros_(self.e)

    def initial(self, batch: int, like: Tensor) -> State:
        """Returns c = 0, the logarithms of empty products."""
        return self.sums.initial(batch, like)

    def _weights(self) -> Weights:
        return self.sums._weights()

    def _project(self, x: Tensor, weights: Weights) -> Tensor:
        values, auxiliary = x.split([self.sums.masses, self.sums.auxiliary], -1)
        logs = log_magnitude(values, self.epsilon)
        return self.sums._project(torch.cat([logs, auxiliary.to(logs.dtype)], -1), weights)

    def _step(self, projected: Tensor, state: State, weights: Weights) -> tuple[Tensor, State]:
        h, state = self.sums._step(projected, state, weights)
        exponents = h[..., : self.out_features] + self.e
        return torch.exp(exponents.clamp(max=max_exponent(self.e.dtype))), state

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, epsilon={self.epsilon}"


register_cell("mc_lstm", label="MC-LSTM", citation=CITATION)(MCLSTM)
register_cell("mul_mc_lstm", label="MulMC-LSTM", citation=CITATION)(MulMCLSTM)
