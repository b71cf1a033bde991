"""A unit in a training loop of your own: what `nalu_ray`'s loop does with its penalty and bounds.

python examples/own_loop.py
"""

from __future__ import annotations

import torch
from torch import Tensor

from nalu_ray.layers import NMU

INPUTS = 4


def batch(low: float, high: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draws x, (128, INPUTS), and the product of its first and third element, (128, 1)."""
    x = low + (high - low) * torch.rand(128, INPUTS, generator=generator)
    return x, x[:, :1] * x[:, 2:3]


def train(steps: int = 2000, seed: int = 0) -> NMU:
    """Trains on U(1, 2); the penalty rises over the second half of the steps."""
    generator = torch.Generator().manual_seed(seed)
    unit = NMU(INPUTS, 1)
    unit.reset_parameters(generator)
    optimiser = torch.optim.Adam(unit.parameters(), lr=0.01)
    for step in range(steps):
        x, target = batch(1.0, 2.0, generator)
        loss = (unit(x) - target).square().mean()
        coefficient = max(0.0, 2 * step / steps - 1)
        loss = loss + coefficient * unit.penalty()["sparsity"]
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        with torch.no_grad():
            for name, (low, high) in unit.bounds.items():
                getattr(unit, name).clamp_(low, high)
    return unit


def error(unit: NMU, seed: int = 1) -> float:
    """Returns the mean squared error on U(2, 6)."""
    x, target = batch(2.0, 6.0, torch.Generator().manual_seed(seed))
    with torch.no_grad():
        return float((unit(x) - target).square().mean())


if __name__ == "__main__":
    trained = train()
    print(f"weights: {trained.W.tolist()}")
    print(f"mean squared error on U(2, 6): {error(trained):.2g}")
    print(f"sparsity error: {trained.measure()['sparsity_error'].item():.2g}")
