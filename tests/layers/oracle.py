"""Units written out in NumPy and loops, and the check of a layer against such an oracle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Array = NDArray[np.float64]
Oracle = Callable[..., Array]
"""(x, **parameters) to y, for x of shape (rows, in_features)."""


def fill(layer: nn.Module, seed: int = 0, low: float = -0.9, high: float = 0.9) -> None:
    """Draws all parameters from U(low, high)."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, low, high, generator=generator)


def signed(rows: int = 7, features: int = 3, seed: int = 1) -> Tensor:
    """Inputs of both signs and of magnitude 0.3 to 2.3, away from every kink at 0."""
    generator = torch.Generator().manual_seed(seed)
    x = 4 * torch.rand(rows, features, generator=generator, dtype=torch.float64) - 2
    return x + 0.3 * x.sign()


def numbers(layer: nn.Module) -> dict[str, Array]:
    return {name: value.detach().double().numpy() for name, value in layer.named_parameters()}


def slopes(oracle: Oracle, x: Array, parameters: dict[str, Array], weight: Array) -> dict[str, Any]:
    """Gradients of sum(weight * y) by central differences of the oracle, for x and parameters."""
    given = {"x": x, **parameters}
    found = {}
    for name, value in given.items():
        slope = np.zeros_like(value)
        for index in np.ndindex(value.shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = value.copy()
                moved[index] += step
                ends.append((weight * oracle(**(given | {name: moved}))).sum())
            slope[index] = (ends[0] - ends[1]) / 2e-6
        found[name] = slope
    return found


def assert_follows(layer: nn.Module, oracle: Oracle, x: Tensor | None = None) -> None:
    """A float64 layer has the oracle's outputs, and the gradients of its central differences."""
    x = (signed() if x is None else x).clone().requires_grad_()
    parameters = numbers(layer)
    y = layer(x)
    wanted = oracle(x.detach().numpy(), **parameters)
    np.testing.assert_allclose(y.detach().numpy(), wanted, rtol=1e-11, atol=1e-12)
    weight = np.linspace(0.5, 1.5, wanted.size).reshape(wanted.shape)
    (y * torch.from_numpy(weight)).sum().backward()
    expected = slopes(oracle, x.detach().numpy(), parameters, weight)
    for name, value in {"x": x, **dict(layer.named_parameters())}.items():
        assert value.grad is not None, name
        np.testing.assert_allclose(
            value.grad.numpy(), expected[name], rtol=2e-6, atol=2e-7, err_msg=name
        )


def assert_finite_at_corners(layer: nn.Module) -> None:
    """Outputs and gradients are finite at 0 and at the smallest and large inputs of either sign."""
    dtype = next(layer.parameters()).dtype
    size = next(p.shape[-1] for p in layer.parameters() if p.dim() == 2)
    size = getattr(layer, "in_features", size)
    values = [0.0, -0.0, 1e-7, -1e-7, -(2.0**-23), 1.0, -1.0, 100.0, -100.0]
    x = torch.cartesian_prod(*[torch.tensor(values, dtype=dtype)] * size).requires_grad_()
    y = layer(x)
    assert y.isfinite().all()
    for slope in torch.autograd.grad(y.float().mean(), [x, *layer.parameters()]):
        assert slope.isfinite().all()
