"""Long short-term memory, also over rows in which episodes end: its state is reset inside.

Hochreiter and Schmidhuber, "Long Short-Term Memory" (1997), with the forget gate of Gers et al.
(2000): the equations of ``torch.nn.LSTM``, which has no resets and no rule under ``vmap``.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from .._checks import check_finite
from ..initialisers import Init, check_init, initialise
from .base import AffineCell, State
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
        h, c = lstm_steps(self._project(x, ()), state, self.weight_h, keep=keep)
        return h, (h[-1], c)

    def _step(
        self, projected: Tensor, state: State, weights: tuple[Tensor, ...]
    ) -> tuple[Tensor, State]:
        h, c = _step(projected, state[0], state[1], self.weight_h)
        return h, (h, c)

    def _sequence(self, x: Tensor, state: State, active: Tensor | None) -> tuple[Tensor, State]:
        if not len(x):
            return x.new_zeros(0, x.shape[1], self.out_features), state
        h, c = lstm_steps(self._project(x, ()), state, self.weight_h, active=active)
        if active is None:
            return h, (h[-1], c)
        # a row without any step keeps its state and has the output 0
        return h.masked_fill(~active[0][:, None], 0), (h[-1], c)


def lstm_steps(
    projected: Tensor,
    state: State,
    weight: Tensor,
    *,
    keep: Tensor | None = None,
    active: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The recurrence of an LSTM whose h may end in K linear units, without gates.

    A linear unit is just its row of ``projected`` and ``weight``: an accumulator beside the LSTM
    that sees h, and that the gates see.

    Args:
        projected: (steps, batch, 4 hidden + K), the inputs' contribution to gates and linear units;
            at least one step.
        state: h with the linear units, (batch, hidden + K), and c, (batch, hidden).
        weight: (4 hidden + K, hidden + K), the weights of h and the linear units.
        keep: (steps, batch), 0 where the state is reset before that step, else 1.
        active: (steps, batch), false where the state stays as it is.

    Returns:
        Every h with the linear units, (steps, batch, hidden + K), and the last c.
    """
    h, c = state
    reset = None if keep is None else keep[..., None] == 0
    outputs = []
    for t, added in enumerate(projected):
        if reset is not None:
            # not a product: an infinite state times 0 is NaN
            h, c = h.masked_fill(reset[t], 0), c.masked_fill(reset[t], 0)
        new_h, new_c = _step(added, h, c, weight)
        if active is not None:
            on = active[t][..., None]
            new_h, new_c = torch.where(on, new_h, h), torch.where(on, new_c, c)
        h, c = new_h, new_c
        outputs.append(h)
    return torch.stack(outputs), c


def _step(added: Tensor, h: Tensor, c: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """One step of :func:`lstm_steps`: the next h with the linear units, and the next c."""
    size = c.shape[-1]
    rows = added + h @ weight.mT
    sigmoids, update, linear = rows.split([3 * size, size, rows.shape[-1] - 4 * size], -1)
    i, f, o = torch.sigmoid(sigmoids).chunk(3, -1)
    c = torch.addcmul(i * torch.tanh(update), f, c)
    h = o * torch.tanh(c)
    return (torch.cat([h, linear], -1) if linear.shape[-1] else h), c
