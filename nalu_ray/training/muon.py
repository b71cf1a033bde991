"""Muon: steepest descent for matrices, of many seeds at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from nalu_ray.training.gradients import matrix_norms

MOMENTUM = 0.95
BETAS = 0.9, 0.999
EPSILON = 1e-8
ITERATIONS = 5
COEFFICIENTS = 3.4445, -4.7750, 2.0315  # of the quintic that draws singular values to about 1
ADAMS_SCALE = 0.2  # the root mean square of an update of Adam's


class Muon(Optimizer):
    """Moves each matrix along its momentum with equal singular values; other parameters as Adam.

    The direction that all outputs have in common has a gradient many times larger than those that
    tell them apart, and dominates a gradient step or Adam's; here all directions move equally fast.
    Jordan et al. (2024), kellerjordan.github.io/posts/muon; scaled as in Liu et al. (2025), arXiv
    2502.16982, so that learning rates of Adam fit.

    Args:
        flat: (R, P) parameters, one row per seed.
        shapes: shapes of the parameters in a row, by name and in order. A ``weight`` of two or more
            axes is a matrix of its first axis against the others. An arithmetic unit's ``W_hat`` is
            not treated as a matrix, as the unit's weight is not linear in it.
        lr: learning rate.
        weight_decay: of matrices, decoupled: a step shrinks them by its product with the rate.
    """

    def __init__(
        self, flat: Tensor, shapes: Mapping[str, torch.Size], lr: float, weight_decay: float = 0.0
    ) -> None:
        super().__init__([flat], {"lr": lr})
        self.flat, self.weight_decay = flat, weight_decay
        self.matrices: list[tuple[slice, int]] = []
        start = 0
        for name, shape in shapes.items():
            if name.split(".")[-1] == "weight" and len(shape) > 1:
                self.matrices.append((slice(start, start + shape.numel()), shape[0]))
            start += shape.numel()

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Takes a step along ``flat.grad``."""
        gradient, state = self.flat.grad, self.state[self.flat]
        if gradient is None:
            return
        if not state:
            state["step"] = torch.zeros(())
            for name in ("momentum", "mean", "square"):
                state[name] = torch.zeros_like(self.flat)
        state["step"] += 1
        update = _adam(state, gradient)
        state["momentum"].lerp_(gradient, 1 - MOMENTUM)
        ahead = gradient.lerp(state["momentum"], MOMENTUM)  # Nesterov's
        for columns, rows in self.matrices:
            matrix = ahead[:, columns].unflatten(1, (rows, -1))
            scale = ADAMS_SCALE * max(matrix.shape[1:]) ** 0.5
            decay = self.weight_decay * self.flat[:, columns]
            update[:, columns] = scale * orthogonal(matrix).flatten(1) + decay
        self.flat.sub_(update, alpha=self.param_groups[0]["lr"])


def orthogonal(matrices: Tensor) -> Tensor:
    """Returns (R, n, m) matrices with all singular values near 1, by Newton-Schulz iteration."""
    wide = matrices.shape[1] <= matrices.shape[2]
    x: Tensor = matrices if wide else matrices.mT
    x = (x / matrix_norms(x).clamp_min(1e-7)).to(x.dtype)
    a, b, c = COEFFICIENTS
    for _ in range(ITERATIONS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x if wide else x.mT


def _adam(state: dict[str, Any], gradient: Tensor) -> Tensor:
    first, second = BETAS
    state["mean"].lerp_(gradient, 1 - first)
    state["square"].lerp_(gradient.square(), 1 - second)
    mean: Tensor = state["mean"] / (1 - first ** state["step"])
    square: Tensor = state["square"] / (1 - second ** state["step"])
    return mean / (square.sqrt() + EPSILON)
