"""The base of recurrent cells: one step, whole sequences, padding, the initial state."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from .._checks import check_count

State = tuple[Tensor, ...]
"""The state of a cell: tensors whose first axis is the batch."""


class Cell(nn.Module, ABC):
    """A recurrent network of one layer; a call reads whole sequences.

    A subclass defines the initial state (:meth:`initial`) and a step (:meth:`_step`). What does not
    depend on the state is computed for all steps at once (:meth:`_project`, :meth:`_weights`).

    Attributes:
        in_features: size of the input's last axis.
        out_features: size of the output's last axis.
    """

    in_features: int
    out_features: int

    def forward(
        self,
        x: Tensor,
        state: State | None = None,
        lengths: Tensor | None = None,
        *,
        batch_first: bool = True,
    ) -> tuple[Tensor, State]:
        """Reads sequences.

        Args:
            x: (batch, steps, in_features), or (steps, batch, in_features) without ``batch_first``.
                Zero steps are allowed and leave the state as it is.
            state: the state before the first step; :meth:`initial` by default.
            lengths: (batch,) integers, the number of steps before the padding on the right;
                negative means 0, and too large means all. On padding, state and output stay as they
                were, whatever x is; a row without any step has the output 0.

        Returns:
            The outputs of all steps, laid out as x, (batch, steps, out_features), and the state
            after the last.

        Raises:
            TypeError: if lengths is not a tensor.
            ValueError: if the shape of x or lengths is wrong.
        """
        # contiguous: the rounding of a product of transposed inputs depends on the number of seeds
        time_first = x.transpose(0, 1).contiguous() if batch_first and x.dim() == 3 else x
        self._check(x, time_first, lengths)
        state = self.initial(time_first.shape[1], x) if state is None else state
        active = None if lengths is None else _active(lengths, len(time_first))
        if active is not None:
            # padding may be NaN, and in a product it would make the gradient NaN
            time_first = time_first.masked_fill(~active[..., None], 0)
        outputs, state = self._sequence(time_first, state, active)
        return (outputs.transpose(0, 1) if batch_first else outputs), state

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """Reads one step, (batch, in_features), to its output, (batch, out_features), and state."""
        weights = self._weights()
        return self._step(self._project(x, weights), state, weights)

    def with_resets(self, x: Tensor, keep: Tensor, state: State) -> tuple[Tensor, State]:
        """Reads sequences in which the state is reset to its start.

        Args:
            x: (steps, batch, in_features), at least one step.
            keep: (steps, batch), 0 where the state is reset before that step, else 1.
            state: the state before the first step.

        Returns:
            The outputs of all steps, (steps, batch, out_features), and the last state.
        """
        weights, outputs, start = self._weights(), [], self.initial(1, x)
        for projected, step_keep in zip(self._project(x, weights), keep, strict=True):
            output, state = self._step(projected, reset(state, step_keep, start), weights)
            outputs.append(output)
        return torch.stack(outputs), state

    @abstractmethod
    def initial(self, batch: int, like: Tensor) -> State:
        """Returns the state before the first step, of the type and on the device of ``like``."""

    @abstractmethod
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Redraw the parameters from ``generator``, which must live on their device."""

    @abstractmethod
    def _step(
        self, projected: Tensor, state: State, weights: tuple[Tensor, ...]
    ) -> tuple[Tensor, State]:
        """Returns output and next state of one step, (batch, ...)."""

    def _weights(self) -> tuple[Tensor, ...]:
        """Returns the values that depend on the parameters alone, computed once per sequence."""
        return ()

    def _project(self, x: Tensor, weights: tuple[Tensor, ...]) -> Tensor:
        """Returns the contribution of the inputs of all steps, (..., in_features) to (..., P)."""
        return x

    def _sequence(self, x: Tensor, state: State, active: Tensor | None) -> tuple[Tensor, State]:
        """Reads x, (steps, batch, in_features); ``active``, (steps, batch), is false on padding."""
        weights = self._weights()
        output = x.new_zeros(x.shape[1], self.out_features)
        outputs = []
        for t, projected in enumerate(self._project(x, weights)):
            new_output, new_state = self._step(projected, state, weights)
            if active is not None:
                new_output = _where(active[t], new_output, output)
                new_state = tuple(
                    _where(active[t], new, old) for new, old in zip(new_state, state, strict=True)
                )
            output, state = new_output, new_state
            outputs.append(output)
        if not outputs:
            return x.new_zeros(0, x.shape[1], self.out_features), state
        return torch.stack(outputs), state

    def _check(self, x: Tensor, time_first: Tensor, lengths: Tensor | None) -> None:
        if x.dim() != 3 or x.shape[2] != self.in_features:
            raise ValueError(
                f"x must have three axes, the last of size {self.in_features}, got {tuple(x.shape)}"
            )
        batch = time_first.shape[1]
        if lengths is not None and not isinstance(lengths, Tensor):
            raise TypeError(f"lengths must be a tensor, got {type(lengths).__name__}")
        if lengths is not None and lengths.shape != (batch,):
            raise ValueError(f"lengths must be ({batch},), got {tuple(lengths.shape)}")

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}"


class AffineCell(Cell):
    """A cell whose steps start from W x + U h + b, with ``rows`` rows for each unit of h.

    Args:
        in_features: size of the input's last axis.
        hidden_features: size of h.

    Raises:
        ValueError: if a size is below 1.
    """

    rows: ClassVar[int] = 1

    def __init__(self, in_features: int, hidden_features: int) -> None:
        super().__init__()
        check_count("in_features", in_features)
        check_count("hidden_features", hidden_features)
        self.in_features, self.out_features = in_features, hidden_features
        rows = self.rows * hidden_features
        self.weight_x = nn.Parameter(torch.empty(rows, in_features))
        self.weight_h = nn.Parameter(torch.empty(rows, hidden_features))
        self.bias = nn.Parameter(torch.empty(rows))
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights from U(-r, r), r = 1 / sqrt(hidden), as torch does; biases are 0."""
        bound = 1 / math.sqrt(self.out_features)
        with torch.no_grad():
            self.weight_x.uniform_(-bound, bound, generator=generator)
            self.weight_h.uniform_(-bound, bound, generator=generator)
            self.bias.zero_()

    def initial(self, batch: int, like: Tensor) -> State:
        """Returns h = 0."""
        return (like.new_zeros(batch, self.out_features),)

    def _project(self, x: Tensor, weights: tuple[Tensor, ...]) -> Tensor:
        return nn.functional.linear(x, self.weight_x, self.bias)


def reset(state: State, keep: Tensor, start: State) -> State:
    """The state with that of ``start``, (1, ...), in the rows where keep, (batch,), is 0."""
    # not a product: an infinite state times 0 is NaN
    return tuple(_where(keep != 0, part, first) for part, first in zip(state, start, strict=True))


def last(outputs: Tensor) -> Tensor:
    """The output of the last step, (batch, steps, features) to (batch, features).

    Raises:
        ValueError: if there are no steps.
    """
    if not outputs.shape[1]:
        raise ValueError("a sequence without steps has no last output")
    return outputs[:, -1]


def _active(lengths: Tensor, steps: int) -> Tensor:
    return torch.arange(steps, device=lengths.device)[:, None] < lengths


def _where(active: Tensor, new: Tensor, old: Tensor) -> Tensor:
    return torch.where(active.reshape(-1, *[1] * (new.dim() - 1)), new, old)
