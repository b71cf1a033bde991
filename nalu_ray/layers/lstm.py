"""Long short-term memory over rows in which episodes end: its state is reset inside.

Hochreiter and Schmidhuber, "Long Short-Term Memory" (1997), with the forget gate of Gers et al.
(2000): the equations of ``torch.nn.LSTM``, which has no resets and no rule under ``vmap``.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ._checks import check_count

State = tuple[Tensor, Tensor]


class LSTM(nn.Module):
    """One layer.

    Written out::

        i, f, o = sigmoid(W x + U h + b)   each their own rows
        c' = f c + i tanh(W x + U h + b)
        h' = o tanh(c')

    Args:
        in_features: size of the input's last axis.
        hidden_features: size of h and of c.

    Raises:
        ValueError: if a size is below 1.
    """

    def __init__(self, in_features: int, hidden_features: int) -> None:
        super().__init__()
        check_count("in_features", in_features)
        check_count("hidden_features", hidden_features)
        self.in_features, self.hidden_features = in_features, hidden_features
        self.weight_x = nn.Parameter(torch.empty(4 * hidden_features, in_features))
        self.weight_h = nn.Parameter(torch.empty(4 * hidden_features, hidden_features))
        self.bias = nn.Parameter(torch.empty(4 * hidden_features))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights from U(-r, r), r = 1 / sqrt(hidden), as torch does; biases are 0."""
        bound = 1 / math.sqrt(self.hidden_features)
        with torch.no_grad():
            self.weight_x.uniform_(-bound, bound, generator=generator)
            self.weight_h.uniform_(-bound, bound, generator=generator)
            self.bias.zero_()

    def forward(self, x: Tensor, state: State) -> State:
        """One step: (..., in_features) and the state to the next state ``h, c``."""
        h, c = state
        size = self.hidden_features
        gates = x @ self.weight_x.mT + h @ self.weight_h.mT + self.bias
        i, f, o = torch.sigmoid(gates[..., : 3 * size]).split(size, -1)
        c = f * c + i * torch.tanh(gates[..., 3 * size :])
        return o * torch.tanh(c), c

    def sequence(self, x: Tensor, keep: Tensor, state: State) -> tuple[Tensor, State]:
        """Many steps at once, equal to :meth:`forward` step by step, at half the time.

        Args:
            x: (steps, batch, in_features).
            keep: (steps, batch), 0 where the state is reset before that step, else 1.
            state: ``h, c`` before the first step, (batch, hidden_features) each.

        Returns:
            Every h, (steps, batch, hidden_features), and the last state.
        """
        projected = nn.functional.linear(x, self.weight_x, self.bias)
        h, c = lstm_steps(projected, keep, state, self.weight_h)
        return h, (h[-1], c)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, hidden_features={self.hidden_features}"


def lstm_steps(
    projected: Tensor, keep: Tensor, state: State, weight: Tensor
) -> tuple[Tensor, Tensor]:
    """The recurrence of an LSTM whose h may end in K units that are linear, without gates.

    A linear unit is its row of ``projected`` and ``weight``, no more: an accumulator beside the
    LSTM that both sees h and is seen by the gates.

    Args:
        projected: (steps, batch, 4 hidden + K), what the inputs add to gates and linear units.
        keep: (steps, batch), 0 where the state is reset before that step, else 1.
        state: h with the linear units, (batch, hidden + K), and c, (batch, hidden).
        weight: (4 hidden + K, hidden + K), what h and the linear units add.

    Returns:
        Every h with the linear units, (steps, batch, hidden + K), and the last c.
    """
    out, c = _Steps.apply(projected, keep[..., None], *state, weight)
    return out, c


class _Steps(torch.autograd.Function):
    """:func:`lstm_steps` with a backward pass by hand.

    A step's few tensors lie in one buffer for all steps, what does not depend on the next step is
    computed for all of them at once, and the weight's gradient is one product, not one a step.
    """

    @staticmethod
    def forward(  # noqa: PLR0917 (autograd passes them so)
        ctx: Any, projected: Tensor, keep: Tensor, h: Tensor, c: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor]:
        steps, batch, size, wide = len(projected), *c.shape, h.shape[1]
        gates = projected.clone()
        h_in, out = (projected.new_empty(steps, batch, wide) for _ in range(2))
        c_in, squashed = (projected.new_empty(steps, batch, size) for _ in range(2))
        for t in range(steps):
            torch.mul(h, keep[t], out=h_in[t])
            torch.mul(c, keep[t], out=c_in[t])
            gate = gates[t].addmm_(h_in[t], weight.mT)
            gate[:, : 3 * size].sigmoid_()
            gate[:, 3 * size : 4 * size].tanh_()
            i, f, o, u = gate[:, : 4 * size].split(size, 1)
            c = torch.addcmul(i * u, f, c_in[t])
            torch.tanh(c, out=squashed[t])
            h = out[t]
            torch.mul(o, squashed[t], out=h[:, :size])
            h[:, size:] = gate[:, 4 * size :]
        ctx.save_for_backward(gates, h_in, c_in, squashed, keep, weight)
        return out, c

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor, d_c: Tensor) -> tuple[Tensor | None, ...]:
        gates, h_in, c_in, squashed, keep, weight = ctx.saved_tensors
        steps, _, size = c_in.shape
        i, f, o, u = gates[..., : 4 * size].split(size, 2)
        by_c = torch.cat([u * i * (1 - i), c_in * f * (1 - f)], 2), i * (1 - u * u)
        by_h = squashed * o * (1 - o), o * (1 - squashed * squashed)
        d_gates = torch.empty_like(gates)
        d_h = torch.zeros_like(d_out[0])
        for t in range(steps - 1, -1, -1):
            d_h = d_h + d_out[t]
            d_gate, d_hidden = d_gates[t], d_h[:, :size]
            d_c = torch.addcmul(d_c, d_hidden, by_h[1][t])
            torch.mul(d_c.repeat(1, 2), by_c[0][t], out=d_gate[:, : 2 * size])
            torch.mul(d_hidden, by_h[0][t], out=d_gate[:, 2 * size : 3 * size])
            torch.mul(d_c, by_c[1][t], out=d_gate[:, 3 * size : 4 * size])
            d_gate[:, 4 * size :] = d_h[:, size:]
            d_h = (d_gate @ weight) * keep[t]
            d_c = d_c * f[t] * keep[t]
        d_weight = d_gates.flatten(0, 1).mT @ h_in.flatten(0, 1)
        return d_gates, None, d_h, d_c, d_weight
