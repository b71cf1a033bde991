"""Trains a network of one's own on a task's data: five lines to an exact product.

python examples/train.py               # half a minute
python examples/train.py --steps 20    # only shows that it runs
"""

from __future__ import annotations

import argparse

from torch import nn

import nalu_ray as nr


def main() -> None:
    """Learns the product of two sums over hidden sections of 100 inputs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, help="training steps (default: the recipe's)")
    shorter = {name: value for name, value in vars(parser.parse_args()).items() if value}

    # two NALUs have the parameters of the task's own `layer=nalu`, so they get its recipe:
    # start, learning rate, schedule, Adam's epsilon and the late penalty
    first = nr.NALU(100, 2)
    model = nn.Sequential(first, nr.NALU(2, 1))
    trained = nr.train(model, task="static", op="mul", seeds=4, **shorter)
    print(f"interpolation {trained.interpolation:.2g}, extrapolation {trained.extrapolation:.2g}")
    print(f"{trained.solved} of {trained.of} seeds solved it; this is seed {trained.seed}")
    print(first.weight.round(decimals=2))  # the model has the trained weights


if __name__ == "__main__":
    main()
