"""Learns a x b exactly with two NALUs in plain PyTorch, and shows why the obvious loop does not.

python examples/multiply.py            # a minute
python examples/multiply.py --steps 50 # only shows that it runs

The obvious loop (Adam at 0.01, default start) stays near products in the range of training and is
far off at 20 x 30. Four changes make the weights exact; `recipe` has them, each with its reason.
"""

from __future__ import annotations

import argparse
import math

import torch
from torch import Tensor, nn

import nalu_ray as nr


def batch(low: float, high: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draws pairs, (128, 2), and their products, (128, 1)."""
    x = low + (high - low) * torch.rand(128, 2, generator=generator)
    return x, x.prod(dim=1, keepdim=True)


def obvious(steps: int, seed: int = 0) -> nn.Module:
    """Trains as one trains an MLP."""
    torch.manual_seed(seed)
    model = nn.Sequential(nr.NALU(2, 2), nr.NALU(2, 1))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        x, product = batch(0.0, 10.0, generator)
        loss = (model(x) - product).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model


def recipe(steps: int, seed: int = 0) -> nn.Module:
    """Trains with the recipe of the static task's NALU, at a larger learning rate."""
    torch.manual_seed(seed)
    # 1. Start at weights of nearly 0, with gates that lean to a sum below and to a product above:
    #    a large random start has chosen a wrong combination before it has seen any data.
    first = nr.NALU(2, 2, init="tiny", gate_init=0.2)
    model = nn.Sequential(first, nr.NALU(2, 1, init="tiny", gate_init=-0.2))
    # 2. A tiny epsilon: W = tanh(W_hat) sigmoid(M_hat) becomes 1 only for large W_hat, where its
    #    gradient vanishes. Adam divides that out, if its epsilon is smaller than the gradient.
    optimiser = torch.optim.Adam(model.parameters(), lr=0.5, betas=(0.9, 0.99), eps=1e-30)
    # 3. A short warm-up, then a cosine to 0, and gradients of at most norm 1.
    warmup = steps // 20
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser,
        lambda step: min(1.0, (step + 1) / warmup if warmup else 1.0)
        * (1 + math.cos(math.pi * step / steps)) / 2,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        x, product = batch(0.0, 10.0, generator)
        loss = (model(x) - product).square().mean()
        # 4. Late, a penalty moves the weights of the first unit to -1, 0 or 1.
        coefficient = 10 * min(1.0, max(0.0, step / steps - 0.4) / 0.3)
        loss = loss + coefficient * first.penalty()["sparsity"]
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    return model


def error(model: nn.Module, low: float, high: float) -> float:
    """Returns the mean squared error on U(low, high)."""
    x, product = batch(low, high, torch.Generator().manual_seed(1))
    with torch.no_grad():
        return float((model(x) - product).square().mean())


def main() -> None:
    """Trains both ways and compares them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=3000, help="training steps")
    steps = parser.parse_args().steps
    question = torch.tensor([[20.0, 30.0]])
    for name, train in (("obvious loop", obvious), ("recipe", recipe)):
        model = train(steps)
        answer = model(question).item()
        print(f"{name}: 20 x 30 = {answer:.4f}")
        print(f"  error on U(0, 10): {error(model, 0, 10):.3g}")
        print(f"  error on U(10, 50): {error(model, 10, 50):.3g}")


if __name__ == "__main__":
    main()
