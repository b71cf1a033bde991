"""Seed-steps per second of stacked recurrent cells, compared with a plain loop over seeds.

    python benchmarks/cells.py [--cells lstm nalu ...] [--seeds 1 10 50] [--seconds 2]

A seed-step is one training step of one seed: forward and backward through a batch of 64 sequences
of 10 steps and 10 features, squared error of the last output, and Adam. The data exists beforehand.

* stacked: :class:`nalu_ray.training.replicas.Replicas`, all seeds at once;
* plain: one seed after the other, as a script would train them: torch's module if there is one
  (``nn.LSTM``, ``nn.GRU``, ``nn.RNN``), otherwise the same equations in a loop over time.

One thread. Every figure is the median of repeated measurements.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable

import torch
from timing import median_seconds
from torch import Tensor, nn

from nalu_ray.layers import NAC, NALU, UnitCell, build_cell, cell_names
from nalu_ray.training.replicas import Replicas

BATCH, STEPS, INPUTS = 64, 10, 10
HIDDEN = {"nac": 2, "nalu": 2, "nac_nalu": 2}
GATED = 32
TORCH: dict[str, Callable[..., nn.Module]] = {
    "lstm": nn.LSTM,
    "gru": nn.GRU,
    "rnn_tanh": nn.RNN,
    "rnn_relu": lambda *sizes, **options: nn.RNN(*sizes, nonlinearity="relu", **options),
}
UNITS = {"nac": NAC, "nac_nalu": NAC, "nalu": NALU}


class Loop(nn.Module):
    """A cell that is called once per step; a NAC or NALU gets [x_t, h_{t-1}]."""

    def __init__(self, name: str) -> None:
        super().__init__()
        hidden = HIDDEN.get(name, GATED)
        unit = UNITS.get(name)
        self.cell = UnitCell(INPUTS, hidden, unit) if unit else build_cell(name, INPUTS, hidden)

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        state, outputs = self.cell.initial(len(x), x), []
        for seen in x.unbind(1):
            output, state = self.cell.step(seen, state)
            outputs.append(output)
        return torch.stack(outputs, 1), None


def make_plain(name: str) -> nn.Module:
    """Returns the module that a script would use."""
    if name in TORCH:
        return TORCH[name](INPUTS, HIDDEN.get(name, GATED), batch_first=True)
    return Loop(name)


def plain(name: str, seconds: float) -> float:
    """Returns the seed-steps per second of the plain loop."""
    model, x = make_plain(name), torch.rand(BATCH, STEPS, INPUTS)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> None:
        optimiser.zero_grad()
        outputs, _ = model(x)
        (outputs[:, -1] - 1).square().mean().backward()
        optimiser.step()

    return 1 / median_seconds(step, seconds)


def stacked(name: str, seeds: int, seconds: float) -> float:
    """Returns the seed-steps per second of a block."""
    hidden = HIDDEN.get(name, GATED)
    replicas = Replicas(lambda: build_cell(name, INPUTS, hidden), range(seeds))
    x = torch.rand(seeds, BATCH, STEPS, INPUTS)
    optimiser = torch.optim.Adam([replicas.flat], lr=1e-3, fused=True)

    def step() -> None:
        optimiser.zero_grad()
        outputs, _ = replicas(x)
        (outputs[:, :, -1] - 1).square().mean((1, 2)).sum().backward()
        optimiser.step()

    return seeds / median_seconds(step, seconds)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cells", nargs="+", choices=cell_names(), default=cell_names())
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 10, 50])
    parser.add_argument("--seconds", type=float, default=2.0, help="measuring time per figure")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"Python {platform.python_version()}, torch {torch.__version__}, one thread")
    print(f"{'cell':12}{'seeds':>6}{'seed-steps/s':>14}{'plain':>10}{'factor':>8}")
    for name in arguments.cells:
        alone = plain(name, arguments.seconds)
        for seeds in arguments.seeds:
            rate = stacked(name, seeds, arguments.seconds)
            print(f"{name:12}{seeds:6}{rate:14,.0f}{alone:10,.0f}{rate / alone:8.1f}", flush=True)


if __name__ == "__main__":
    main()
