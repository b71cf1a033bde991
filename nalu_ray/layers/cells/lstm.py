"""Long short-term memory, also over rows in which episodes end: its state is reset inside.

Hochreiter and Schmidhuber, "Long Short-Term Memory" (1997), with the forget gate of Gers et al.
(2000): the equations of ``torch.nn.LSTM``, which has no resets and no rule under ``vmap``.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .._checks import check_finite
from ..initialisers import Init, check_init, initialise
from .cell import AffineCell, State
from .unit_cell import register_cell


@register_cell("lstm", label="LSTM", citation="Hochreiter and Schmidhuber (1997)")
class LSTM(AffineCell):
    """One layer.

    Written out::

        i, f, o = sigmoid(W x + U h + b)   each their own rows
        c' = f c + i tanh(W x + U h + b)
        h' = o tanh(c')

    Args:
        in_features: size of the input's last axis.
        hidden_features: size of h and of c, the two tensors of the state.
        forget_init: initial bias of the forget gate; above 0 it starts by remembering
            (Jozefowicz et al., 2015), below 0 by forgetting.
        recurrent_init: initialisation of U, a name in ``INITIALISERS`` or a constant.

    Raises:
        ValueError: if a size is below 1, the bias not finite or the initialisation unknown.
    """

    rows: ClassVar[int] = 4

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        *,
        forget_init: float = 0.0,
        recurrent_init: Init = "linear",
    ) -> None:
        check_finite("forget_init", forget_init)
        check_init("recurrent_init", recurrent_init)
        self.forget_init, self.recurrent_init = float(forget_init), recurrent_init
        super().__init__(in_features, hidden_features)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        super().reset_parameters(generator)
        if self.recurrent_init != "linear":
            initialise(self.weight_h, self.recurrent_init, generator)
        with torch.no_grad():
            self.bias[self.out_features : 2 * self.out_features] = self.forget_init

    def initial(self, batch: int, like: Tensor) -> State:
        """Returns h = 0 and c = 0."""
        zeros = like.new_zeros(batch, self.out_features)
        return zeros, zeros

    def with_resets(self, x: Tensor, keep: Tensor, state: State) -> tuple[Tensor, State]:
        """Reads sequences in which the state is reset to 0.

        Args:
            x: (steps, batch, in_features).
            keep: (steps, batch), 0 where the state is reset before that step, else 1.
            state: ``h, c`` before the first step, (batch, hidden_features) each.

        Returns:
            Every h, (steps, batch, hidden_features), and the last state.
        """
        h, c = lstm_steps(self._project(x, ()), state, self.weight_h, keep=keep)
        return h, (h[-1], c)

    def _step(
        self, projected: Tensor, state: State, weights: tuple[Tensor, ...]
    ) -> tuple[Tensor, State]:
        h, c = state
        size = self.out_features
        gates = projected + h @ self.weight_h.mT
        i, f, o = torch.sigmoid(gates[..., : 3 * size]).split(size, -1)
        c = f * c + i * torch.tanh(gates[..., 3 * size :])
        h = o * torch.tanh(c)
        return h, (h, c)

    def _sequence(self, x: Tensor, state: State, active: Tensor | None) -> tuple[Tensor, State]:
        if not len(x):
            return x.new_zeros(0, x.shape[1], self.out_features), state
        h, c = lstm_steps(self._project(x, ()), state, self.weight_h, active=active)
        if active is None:
            return h, (h[-1], c)
        # a row without any step keeps its state and puts out nothing
        return h * active[0][:, None], (h[-1], c)


def lstm_steps(
    projected: Tensor,
    state: State,
    weight: Tensor,
    *,
    keep: Tensor | None = None,
    active: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The recurrence of an LSTM whose h may end in K units that are linear, without gates.

    A linear unit is its row of ``projected`` and ``weight``, no more: an accumulator beside the
    LSTM that both sees h and is seen by the gates.

    Args:
        projected: (steps, batch, 4 hidden + K), what the inputs add to gates and linear units; at
            least one step.
        state: h with the linear units, (batch, hidden + K), and c, (batch, hidden).
        weight: (4 hidden + K, hidden + K), what h and the linear units add.
        keep: (steps, batch), 0 where the state is reset before that step, else 1.
        active: (steps, batch), false where the state stays as it is.

    Returns:
        Every h with the linear units, (steps, batch, hidden + K), and the last c.
    """
    keep = None if keep is None else keep[..., None]
    active = None if active is None else active[..., None]
    out, c, *_ = _Steps.apply(projected, keep, active, *state, weight)
    return cast(Tensor, out), cast(Tensor, c)


class _Steps(torch.autograd.Function):
    """:func:`lstm_steps` with a backward pass by hand.

    A step's few tensors lie in one buffer for all steps, what does not depend on the next step is
    computed for all of them at once, and the weight's gradient is one product, not one a step.
    Under vmap, seeds are an axis before the batch, and a step is still one product.
    """

    @staticmethod
    def forward(  # noqa: PLR0917 (autograd passes them so)
        projected: Tensor,
        keep: Tensor | None,
        active: Tensor | None,
        h: Tensor,
        c: Tensor,
        weight: Tensor,
    ) -> tuple[Tensor, ...]:
        size, gates = c.shape[-1], projected.clone()
        h_in, out = (projected.new_empty(len(projected), *h.shape) for _ in range(2))
        c_in, squashed = (projected.new_empty(len(projected), *c.shape) for _ in range(2))
        for t, gate in enumerate(gates):
            if keep is None:
                h_in[t], c_in[t] = h, c
            else:
                torch.mul(h, keep[t], out=h_in[t])
                torch.mul(c, keep[t], out=c_in[t])
            _add_product(gate, h_in[t], weight.mT)
            gate[..., : 3 * size].sigmoid_()
            gate[..., 3 * size : 4 * size].tanh_()
            i, f, o, u = gate[..., : 4 * size].split(size, -1)
            c = torch.addcmul(i * u, f, c_in[t])
            torch.tanh(c, out=squashed[t])
            h = out[t]
            torch.mul(o, squashed[t], out=h[..., :size])
            h[..., size:] = gate[..., 4 * size :]
            if active is not None:
                c = torch.where(active[t], c, c_in[t])
                h.copy_(torch.where(active[t], h, h_in[t]))
        return out, c, gates, h_in, c_in, squashed

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        _, keep, active, _, _, weight = inputs
        ctx.mark_non_differentiable(*output[2:])
        ctx.save_for_backward(*output[2:], keep, active, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor, d_c: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        gates, h_in, c_in, squashed, keep, active, weight = ctx.saved_tensors
        steps, size = len(c_in), c_in.shape[-1]
        i, f, o, u = gates[..., : 4 * size].split(size, -1)
        by_c = torch.cat([u * i * (1 - i), c_in * f * (1 - f)], -1), i * (1 - u * u)
        by_h = squashed * o * (1 - o), o * (1 - squashed * squashed)
        d_gates = torch.empty_like(gates)
        d_h = torch.zeros_like(d_out[0])
        for t in range(steps - 1, -1, -1):
            d_h = d_h + d_out[t]
            if active is not None:
                kept_h, kept_c = (d.masked_fill(active[t], 0) for d in (d_h, d_c))
                d_h, d_c = d_h - kept_h, d_c - kept_c
            d_gate, d_hidden = d_gates[t], d_h[..., :size]
            d_c = torch.addcmul(d_c, d_hidden, by_h[1][t])
            torch.mul(torch.cat([d_c, d_c], -1), by_c[0][t], out=d_gate[..., : 2 * size])
            torch.mul(d_hidden, by_h[0][t], out=d_gate[..., 2 * size : 3 * size])
            torch.mul(d_c, by_c[1][t], out=d_gate[..., 3 * size : 4 * size])
            d_gate[..., 4 * size :] = d_h[..., size:]
            d_h, d_c = d_gate @ weight, d_c * f[t]
            if keep is not None:
                d_h, d_c = d_h * keep[t], d_c * keep[t]
            if active is not None:
                d_h, d_c = d_h + kept_h, d_c + kept_c
        rows = (d.movedim(0, -3).flatten(-3, -2) for d in (d_gates, h_in))
        d_gates_rows, h_rows = rows
        return d_gates, None, None, d_h, d_c, d_gates_rows.mT @ h_rows

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *args: Tensor | None) -> Any:
        """Moves the seeds to before the batch: axis 1 of what has steps, axis 0 of the rest."""
        moved: list[Tensor | None] = []
        for tensor, dim, place in zip(args, in_dims, (1, 1, 1, 0, 0, 0), strict=True):
            if tensor is None:
                moved.append(None)
            elif dim is not None:
                moved.append(tensor.movedim(dim, place))
            else:
                added = tensor.unsqueeze(place)
                sizes = [info.batch_size if axis == place else -1 for axis in range(added.dim())]
                moved.append(added.expand(sizes))
        return _Steps.apply(*moved), (1, 0, 1, 1, 1, 1)


def _add_product(total: Tensor, x: Tensor, weight: Tensor) -> None:
    if total.dim() == 2:
        total.addmm_(x, weight)
    elif total.dim() == 3:
        total.baddbmm_(x, weight)
    else:  # vmap within vmap
        total.add_(x @ weight)
