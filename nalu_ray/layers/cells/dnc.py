"""Differentiable neural computer: an LSTM with a memory that it writes to and reads."""

from __future__ import annotations

import torch
from torch import Tensor

from .._checks import check_count, check_positive
from ..mlp import Linear
from ._controller import Controller
from ._memory import Memory, access, empty, read_request, request_size
from .base import Cell, State
from .unit_cell import register_cell

Weights = tuple[Tensor, ...]


@register_cell("dnc", label="DNC", citation="Graves et al. (2016)")
class DNC(Cell):
    """An LSTM controller, one write head and R read heads on N slots of W numbers.

    Graves et al., "Hybrid computing using a neural network with dynamic external memory" (2016).
    Written out; ``_memory.py`` has :func:`access`, the paper's equations of the memory::

        h_t = LSTM([x_t, r_{t-1}], h_{t-1})
        r_t, M_t = access(M_{t-1}, A h_t + a)
        y_t = B [h_t, r_t] + b

    The output is y_t; the state is h, c, r and the six tensors of M, all 0 at first. As in the
    authors' code, c and y stay within ``clip``; h, which is clipped there too, is within 1 anyway.

    Args:
        in_features: size of the input's last axis.
        hidden_features: size of h, of c and of the output.
        slots: N.
        width: W.
        reads: R.
        clip: largest magnitude of c and y.

    Raises:
        ValueError: if a size is below 1 or clip not above 0.
    """

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        *,
        slots: int = 16,
        width: int = 16,
        reads: int = 4,
        clip: float = 20.0,
    ) -> None:
        super().__init__()
        check_count("in_features", in_features)
        check_count("slots", slots)
        check_count("width", width)
        check_count("reads", reads)
        check_positive("clip", clip)
        self.in_features, self.out_features = in_features, hidden_features
        self.slots, self.width, self.reads, self.clip = slots, width, reads, clip
        self.lstm = Controller(in_features, reads * width, hidden_features)
        self.request = Linear(hidden_features, request_size(width, reads))
        self.read_out = Linear(hidden_features + reads * width, hidden_features)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        for part in self.lstm, self.request, self.read_out:
            part.reset_parameters(generator)

    def initial(self, batch: int, like: Tensor) -> State:
        """Returns h, c, r and an empty memory, all 0."""
        memory = empty(batch, self.slots, self.width, self.reads, like)
        reads = like.new_zeros(batch, self.reads * self.width)
        return *self.lstm.initial(batch, like), reads, *memory

    def _weights(self) -> Weights:
        return self.lstm.columns()

    def _project(self, x: Tensor, weights: Weights) -> Tensor:
        return self.lstm.project(x, weights[0])

    def _step(self, projected: Tensor, state: State, weights: Weights) -> tuple[Tensor, State]:
        h, c, read, *memory = state
        h, (_, c) = self.lstm.control(projected, read, (h, c), weights[1])
        request = read_request(self.request(h), self.width, self.reads)
        words, new_memory = access(Memory(*memory), request)
        read = words.flatten(-2)
        y = self.read_out(torch.cat([h, read], -1)).clamp(-self.clip, self.clip)
        return y, (h, c.clamp(-self.clip, self.clip), read, *new_memory)

    def extra_repr(self) -> str:
        return (
            f"{super().extra_repr()}, slots={self.slots}, width={self.width}, reads={self.reads}, "
            f"clip={self.clip}"
        )
